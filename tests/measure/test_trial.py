"""Whole trials on servers of known latencies."""

import math
import time

import pytest

from neoserve.errors import AskError
from neoserve.measure.engine.running import attach
from neoserve.measure.prompts import WORDS
from neoserve.measure.traces import Trace
from neoserve.measure.trial import TrialAsk, draw, prepare, readings, run_trial
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo, Workload

from .truth import Truth, serving

WORKLOAD = Workload(arrival="poisson", rate_rps=40.0, prompt_tokens=20, output_tokens=5, seed=2)


def measure(truth, slo="", num=80, on_row=lambda *_: None, on_look=lambda _: None, **ask):
    engine = attach(truth.url)
    fields = {"workload": WORKLOAD, "ends_early": False} | ask
    asked = TrialAsk(slo=Slo.parse_text(slo), num_requests=num, **fields)
    return run_trial(engine, prepare(engine, asked), on_row=on_row, on_look=on_look)


def test_a_trial_of_a_server_with_a_known_truth():
    looks = []
    with serving(Truth(ttft_s=0.1, itl_s=0.02)) as truth:
        fast = WORKLOAD.replace(rate_rps=80.0)
        found = measure(truth, "ttft:p95<10s", num=320, workload=fast, on_look=looks.append)
    trial = found.trial
    assert trial.verdict in ("PASS", "INCONCLUSIVE"), trial.reasons  # by how busy this host is
    assert "0 of 320 requests missed" in trial.reasons[0]
    assert 0.1 <= trial.ttft_s.p50.value < 0.2
    assert 0.018 <= trial.tpot_s.p50.value < 0.03
    assert trial.load_limited
    assert 0 < trial.late_p99_s <= trial.late_max_s
    assert 0 < trial.client.lag_p99_s < 0.1
    assert (trial.num_planned, trial.num_ok, trial.failures) == (320, 320, {})
    assert (trial.stop, trial.facts) == ("planned", None)
    assert len(trial.salt) >= 16
    assert [row.phase for row in found.rows[:33]] == ["warmup"] * 32 + ["measured"]
    assert looks[-1].num_planned == 320


def test_a_trial_ends_when_its_slo_is_decided():
    with serving(Truth(ttft_s=0.01)) as truth:
        passed = measure(truth, "ttft:p95<5s", num=1000, ends_early=True).trial
        truth.ttft_s = 1.2
        failed = measure(truth, "ttft:p95<1s", num=1000, ends_early=True).trial
    assert (passed.verdict, passed.stop) == ("PASS", "decided")
    assert (failed.verdict, failed.stop) == ("FAIL", "decided")
    assert failed.num_judged < passed.num_judged < 500


def test_a_saturated_server_ends_the_trial():
    """One request at a time, 50 ms each, 40 a second offered: the backlog grows by 20 a second."""
    with serving(Truth(ttft_s=0.04, itl_s=0.0025, slots=1)) as truth:
        trial = measure(truth, "ttft:p95<60s", num=1000, ends_early=True).trial
    assert (trial.stop, trial.saturated) == ("saturated", True)
    assert trial.backlog_growth_rps == pytest.approx(20, rel=0.4)
    assert trial.num_judged < 500
    assert trial.verdict != "PASS"


def test_a_late_client_voids_the_trial():
    """The client's own process is held up; nothing is wrong with the server."""
    with serving(Truth()) as truth:
        trial = measure(truth, "ttft:p95<300ms", on_row=lambda *_: time.sleep(0.02)).trial
    assert trial.verdict == "VOID"
    assert "the client sent" in trial.reasons[0]


def test_a_cache_that_another_load_warmed_voids_the_trial():
    with serving(Truth(cached_share=0.8)) as truth:
        trial = measure(truth, "ttft:p95<5s").trial
    assert trial.verdict == "VOID"
    assert "80% of prompt tokens came from a prefix cache" in trial.reasons[0]


def test_a_server_that_ends_answers_when_it_likes_is_said():
    with serving(Truth(knows_ignore_eos=False)) as truth:
        trial = measure(truth).trial
    assert "does not know ignore_eos" in trial.notes[0]


def test_prompts_are_unlike_those_of_the_trial_before():
    with serving(Truth()) as truth:
        for _ in range(2):
            measure(truth, num=5)
    prompts = [" ".join(body["prompt"].split()[:5]) for body in truth.asked]
    assert len(set(prompts)) == len(prompts)
    assert set(truth.asked[-1]["prompt"].split()) <= set(WORDS)


def test_closed_loads_warm_up_their_slots():
    workload = Workload(arrival="closed", concurrency=8, prompt_tokens=10, output_tokens=3)
    with serving(Truth()) as truth:
        found = measure(truth, num=20, workload=workload)
    assert sum(row.phase == "warmup" for row in found.rows) == 8
    assert found.trial.num_ok == 20
    assert not found.trial.load_limited


@pytest.mark.parametrize(("num", "warmup"), [(12, 0), (9, 3), (2, 5)])
def test_a_trace_warms_up_with_what_it_has_to_spare(num, warmup):
    times_s = tuple(float(i) for i in range(12))
    trace = Trace("t", times_s, (9,) * 12, (3,) * 12, ((),) * 12, ("",) * 12, 0)
    workload = Workload(arrival="trace", trace="t")
    schedule = draw(TrialAsk(workload=workload, num_requests=num, trace=trace))
    assert [p.phase for p in schedule] == ["warmup"] * warmup + ["measured"] * num


@pytest.mark.parametrize("workload", [WORKLOAD.replace(prompt_tokens=0),
                                      WORKLOAD.replace(output_tokens=0)])  # fmt: skip
def test_empty_requests_are_refused(workload):
    with serving(Truth()) as truth, pytest.raises(AskError, match="at least 1 token"):
        measure(truth, workload=workload)


def test_readings_of_what_is_still_out_are_lower_bounds():
    rows = [
        RequestRow(due_s=1.0, sent_s=1.0, first_token_s=1.5, last_token_s=2.0, output_tokens=3),
        RequestRow(due_s=2.0, sent_s=2.0, first_token_s=2.5, last_token_s=2.5, output_tokens=1),
        RequestRow(due_s=3.0, sent_s=3.0, status="http"),
        RequestRow(due_s=4.0, sent_s=4.0, status="cancelled"),  # its first bytes have come
        RequestRow(due_s=5.0, sent_s=5.0, status="cancelled"),
        RequestRow(due_s=9.0, status="unsent"),
    ]
    found = readings(rows, [False, False, False, True, False, False], now_s=7.0)
    assert found["ttft"] == [
        (0.5, True), (0.5, True), (math.inf, True), (0.0, False), (2.0, False), (0.0, False),
    ]  # fmt: skip
    assert found["e2e"] == [
        (1.0, True), (0.5, True), (math.inf, True), (3.0, False), (2.0, False), (0.0, False),
    ]  # fmt: skip
    # an answer of one token has no time per token
    assert found["tpot"] == [(0.25, True), (math.inf, True), *[(0.0, False)] * 3]
