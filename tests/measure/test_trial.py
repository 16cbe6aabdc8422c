import time

import pytest

from neoserve.errors import AskError
from neoserve.measure import load
from neoserve.measure.host import host_print
from neoserve.measure.trial import judge_rows, parse_rows, rows_jsonl
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import RequestRow, Trial
from neoserve.schema.workload import Slo, Workload

from .truth import Truth, serving

WORKLOAD = Workload(arrival="poisson", rate_rps=50.0, prompt_tokens=20, output_tokens=5, seed=2)
SLO = Slo.parse_text("ttft:p95<2s")
CONFIG = EngineConfig(engine="truth")
HOST = host_print()


def rows(num=100, late_s=0.0, **more):
    given = {"prompt_tokens": 20, "output_tokens": 5, "first": 0.1} | more
    first = given.pop("first")
    return [
        RequestRow(
            due_s=i / 50, sent_s=i / 50 + late_s, first_token_s=i / 50 + first,
            last_token_s=i / 50 + first + 0.1, **given,
        )
        for i in range(num)
    ]  # fmt: skip


def trial(some_rows, slo=SLO, **more):
    return judge_rows(some_rows, WORKLOAD, slo, CONFIG, HOST, **more)


def test_a_trial_of_a_server_with_a_known_truth():
    with serving(Truth(ttft_s=0.1)) as truth:
        seen = load.run(truth.url, WORKLOAD.replace(rate_rps=30.0), 80)
    result = trial(seen, Slo.parse_text("ttft:p95<10s"))
    assert result.verdict == "PASS", result.reasons
    assert 0.1 <= result.ttft_s.p50.value < 0.2
    assert result.load_limited
    assert 0 < result.client_late_p99_s <= result.client_late_max_s
    assert (result.num_rows, result.num_ok, result.failures) == (80, 80, {})
    assert Trial.parse_json(result.to_json(), "trial") == result


def test_a_late_client_voids_the_trial():
    """The client's own process is held up; nothing is wrong with the server."""
    with serving(Truth()) as truth:
        seen = load.run(truth.url, WORKLOAD, 60, on_progress=lambda *_: time.sleep(0.02))
    result = trial(seen, Slo.parse_text("ttft:p95<300ms"))
    assert result.verdict == "VOID"
    assert "client was" in result.reasons[0]


@pytest.mark.parametrize(
    ("some_rows", "slo", "reason"),
    [
        (rows(late_s=0.05), SLO, "late at p99"),
        (rows(late_s=0.006, first=0.02), Slo(), "late at p99"),
        (rows(prompt_tokens=21), SLO, "prompts held 21.0 tokens on average, not the 20"),
        (rows(output_tokens=4), SLO, "outputs held 4.0 tokens"),
        ([RequestRow(due_s=1.0, status="unsent")], SLO, "nothing was observed"),
        ([], SLO, "nothing was observed"),
    ],
)
def test_void(some_rows, slo, reason):
    result = trial(some_rows, slo)
    assert result.verdict == "VOID"
    assert reason in " ".join(result.reasons)


def test_faults_void_what_would_pass():
    assert trial(rows()).verdict == "PASS"
    assert trial(rows(late_s=0.004, first=0.02), Slo.parse_text("ttft:p95<50ms")).verdict == "PASS"
    result = trial(rows(), faults=["--threads asked for 1, but 2 runs"])
    assert (result.verdict, result.reasons) == ("VOID", ("--threads asked for 1, but 2 runs",))


def test_failures_are_counted_by_kind():
    bad = [RequestRow(due_s=3.0, sent_s=3.0, status="http", error="HTTP 500: no")] * 30
    result = trial(rows() + bad)
    assert (result.num_rows, result.num_ok, result.failures) == (130, 100, {"http": 30})
    assert result.verdict == "FAIL"
    assert not result.load_limited


def test_a_closed_load_says_nothing_of_what_was_offered():
    workload = WORKLOAD.replace(arrival="closed", concurrency=4)
    assert not judge_rows(rows(), workload, SLO, CONFIG, HOST).load_limited


def test_rows_survive_their_file():
    some_rows = [*rows(3), RequestRow(due_s=9.0, status="unsent", error="é")]
    data = rows_jsonl(some_rows)
    assert data.count(b"\n") == 4
    assert parse_rows(data) == some_rows
    with pytest.raises(AskError, match="row 2"):
        parse_rows(data.splitlines()[0] + b"\n{}")
