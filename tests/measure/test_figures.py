"""From rows to a trial, with rows whose figures are known."""

import math

import pytest

from neoserve.errors import EvidenceBroken
from neoserve.measure.arrivals import arrival_times_s
from neoserve.measure.figures import (
    judge_rows,
    pack_rows,
    recompute,
    rows_after_crash,
    unpack_rows,
)
from neoserve.measure.schedule import to_jsonl
from neoserve.schema.trial import PlannedRequest, RequestRow, SpooledRow, Trial
from neoserve.schema.workload import Slo

from .judging import CLIENT, WORKLOAD, even_rows, planned, setting_for

SLO = Slo.parse_text("ttft:p95<2s")


def trial(rows, slo=SLO, schedule=None, **changes):
    return judge_rows(setting_for(rows, slo=slo, **changes), rows, schedule or planned(rows))


def test_latencies_and_rates_of_even_rows():
    found = trial(even_rows(200), usd_per_hour=3.6, price_source="me")
    assert found.ttft_s.mean == pytest.approx(0.1)
    assert found.tpot_s.p95.value == pytest.approx(0.025)
    assert found.itl_s.p50.value == pytest.approx(0.025)
    assert found.e2e_s.p99.value == pytest.approx(0.2)
    assert found.offered_rps == pytest.approx(50, rel=0.01)
    assert found.output_tokens_per_s == pytest.approx(250, rel=0.05)
    assert found.goodput_rps == pytest.approx(50, rel=0.02)
    assert (found.verdict, found.load_limited, found.saturated) == ("PASS", True, False)
    # a tenth of a cent a second buys so many tokens
    assert found.cost.usd_per_mtok_output == pytest.approx(1e3 / found.output_tokens_per_s)
    tokens_per_s = found.output_tokens_per_s + found.input_tokens_per_s
    assert found.cost.usd_per_mtok_total == pytest.approx(1e3 / tokens_per_s)
    assert Trial.parse_json(found.to_json(), "trial") == found


def test_warm_up_and_drain_are_not_judged():
    slow = [row.replace(phase="warmup", first_token_s=row.due_s + 9, last_token_s=row.due_s + 10)
            for row in even_rows(20)]  # fmt: skip
    late = [RequestRow(due_s=9.0, phase="drain", status="cancelled", sent_s=9.0)]
    rows = [*slow, *even_rows(100), *late]
    found = trial(rows)
    assert (found.num_planned, found.num_judged, found.num_ok) == (100, 100, 100)
    assert found.ttft_s.mean == pytest.approx(0.1)
    assert found.failures == {}


@pytest.mark.parametrize(
    ("rows", "slo", "reason"),
    [
        (even_rows(late_s=0.05), SLO, "sent 50.0 ms late at p99"),
        (even_rows(late_s=0.006, first_s=0.02), Slo(), "late at p99"),
        (even_rows(prompt_tokens=21), SLO, "prompts held 21.0 tokens on average, not the 20.0"),
        (even_rows(output_tokens=4), SLO, "answers held 4.0 tokens"),
        (even_rows(cached_tokens=10), SLO, "50% of prompt tokens came from a prefix cache"),
        ([RequestRow(due_s=1.0, status="unsent")], SLO, "nothing was observed"),
        ([], SLO, "nothing was observed"),
    ],
)  # fmt: skip
def test_void(rows, slo, reason):
    found = trial(rows, slo)
    assert found.verdict == "VOID"
    assert reason in " ".join(found.reasons)


def test_a_loop_that_lags_voids_a_trial():
    found = trial(even_rows(), client=CLIENT.replace(lag_p99_s=0.2))
    assert "looked at its sockets 200 ms late" in found.reasons[0]
    assert trial(even_rows(), client=CLIENT.replace(lag_p99_s=None)).verdict == "PASS"


def test_natural_ends_prefixes_and_later_turns_are_not_void():
    natural = WORKLOAD.replace(ignore_eos=False)
    assert trial(even_rows(output_tokens=3), workload=natural).verdict == "PASS"
    shared = WORKLOAD.replace(prefix_hit_share=0.5)
    assert trial(even_rows(cached_tokens=10), workload=shared).verdict == "PASS"
    turns = [row.replace(turn=i % 2, prompt_tokens=20 + 30 * (i % 2), cached_tokens=30 * (i % 2))
             for i, row in enumerate(even_rows())]  # fmt: skip
    assert trial(turns, workload=WORKLOAD.replace(turns=2)).verdict == "PASS"


def test_a_schedule_that_was_not_kept_is_void():
    """Requests that were due one by one left on quarters of a second, within their budget."""
    workload = WORKLOAD.replace(arrival="poisson", rate_rps=20.0)
    due_s = arrival_times_s(workload, 400)
    rows = [row.replace(due_s=due, sent_s=math.ceil(4 * due) / 4, first_token_s=due + 1,
                        last_token_s=due + 2)
            for row, due in zip(even_rows(400), due_s, strict=True)]  # fmt: skip
    found = trial(rows, Slo.parse_text("ttft:p95<20s"), workload=workload)
    assert found.verdict == "VOID"
    assert "poisson" in " ".join(found.reasons)
    kept = [row.replace(sent_s=row.due_s) for row in rows]
    assert trial(kept, Slo.parse_text("ttft:p95<20s"), workload=workload).verdict == "PASS"


def test_faults_void_what_would_pass():
    assert trial(even_rows()).verdict == "PASS"
    found = trial(even_rows(), faults=("--threads asked for 1, but 2 runs",))
    assert (found.verdict, found.reasons) == ("VOID", ("--threads asked for 1, but 2 runs",))


def test_failures_are_counted_by_kind_and_miss():
    bad = [RequestRow(due_s=3.0 + i / 50, sent_s=3.0 + i / 50, status="http", error="HTTP 500: no")
           for i in range(30)]  # fmt: skip
    found = trial(even_rows() + bad)
    assert (found.num_judged, found.num_ok, found.failures) == (130, 100, {"http": 30})
    assert found.verdict == "FAIL"
    assert not found.load_limited
    assert found.ttft_s.p95.value is None


def test_a_closed_load_says_nothing_of_what_was_offered():
    rows = even_rows()
    assert not trial(rows, workload=WORKLOAD.replace(arrival="closed")).load_limited
    assert trial(rows, workload=WORKLOAD.replace(arrival="closed")).backlog_growth_rps is None


def test_a_drain_that_ran_out_is_said():
    drain = even_rows(5, phase="drain")
    assert "less company" in " ".join(trial([*even_rows(), *drain]).notes)
    more = [*drain, RequestRow(due_s=9.0, phase="drain", status="unsent")]
    assert not trial([*even_rows(), *more]).notes


def test_rows_survive_their_file():
    rows = [*even_rows(3), RequestRow(due_s=9.0, status="unsent", error="é")]
    assert unpack_rows(pack_rows(rows)) == rows
    assert pack_rows(rows) == pack_rows(list(rows))
    for broken in (b"", b"x" * 40, pack_rows(rows)[:-9], pack_rows(rows)[:40] + b"x" * 40):
        with pytest.raises(EvidenceBroken, match="rows cannot be read"):
            unpack_rows(broken)


def test_every_figure_can_be_computed_again_and_none_changed():
    rows = even_rows(120)
    found = trial(rows, usd_per_hour=1.0, notes=("a note",))
    kept = pack_rows(rows), to_jsonl(planned(rows))
    assert list(recompute(found, *kept)) == []
    for changed in (
        {"goodput_rps": 51.0}, {"verdict": "FAIL"}, {"num_ok": 119}, {"dependence": 1.01},
        {"ttft_s": found.ttft_s.replace(mean=0.09)}, {"reasons": ()}, {"cost": None},
        {"cost": found.cost.replace(usd_per_mtok_output=0.1)},
    ):  # fmt: skip
        (name,) = changed
        sentences = list(recompute(found.replace(**changed), *kept))
        if name != "cost" or changed["cost"] is not None:  # without a price there is no cost
            assert any(sentence.startswith(name) for sentence in sentences), changed


def test_what_a_crash_left_is_judged_against_both_sides():
    schedule = tuple(PlannedRequest(i / 50, 20, 5) for i in range(1, 101))
    ended = [SpooledRow(i, row) for i, row in enumerate(even_rows(60)) if i != 30]
    rows = rows_after_crash(ended, schedule)
    assert len(rows) == 100
    assert rows[30].status == "cancelled"
    assert {row.status for row in rows[:60]} == {"ok", "cancelled"}
    # the last answer ended at 1.4 s; what was due by then was in flight
    assert [row.status for row in rows[60:]] == ["cancelled"] * 10 + ["unsent"] * 30
    found = judge_rows(setting_for(rows, slo=SLO, stop="crashed"), rows, schedule)
    assert found.verdict == "INCONCLUSIVE"  # 30 in a row prove nothing
    assert found.num_ok == 59
