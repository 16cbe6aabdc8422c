"""Repeats of one load judged as one, on rows whose outcome is known."""

import pytest

from neoserve.errors import AskError
from neoserve.measure.figures import Observed, judge_rows, pool
from neoserve.measure.noise import noise_floor
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo

from .judging import even_rows, planned, setting_for

SLO = Slo.parse_text("ttft:p95<2s")


def observed(rows, **changes):
    schedule = planned(rows)
    found = judge_rows(setting_for(rows, slo=SLO, **changes), rows, schedule)
    return Observed(found, rows, schedule)


def slow(rows, *indices):
    """The same, but these took three seconds to their first token."""
    return [
        row.replace(first_token_s=row.due_s + 3, last_token_s=row.due_s + 3.1) if i in indices
        else row
        for i, row in enumerate(rows)
    ]


def test_what_no_trial_proves_alone_all_prove_together():
    """90 requests without a miss certify a p95 (tests of the verdict); 50 do not."""
    trials = [observed(even_rows(50)) for _ in range(2)]
    assert [t.trial.verdict for t in trials] == ["INCONCLUSIVE"] * 2
    found = pool(trials)
    assert (found.num_trials, found.num_judged, found.num_misses) == (2, 100, 0)
    assert found.verdict == "PASS"
    assert pool(trials[:1]).verdict == "INCONCLUSIVE"


def test_misses_of_all_trials_add_up():
    trials = [observed(slow(even_rows(50), 10, 30)), observed(slow(even_rows(50), 20)),
              observed(even_rows(50))]  # fmt: skip
    found = pool(trials)
    assert (found.num_judged, found.num_misses) == (150, 3)
    bad = pool([observed(slow(even_rows(50), *range(0, 50, 5))) for _ in range(3)])
    assert (bad.num_misses, bad.verdict) == (30, "FAIL")


def test_what_was_cut_off_in_one_trial_does_not_hide_the_next():
    """Alone, a request in flight at the end leaves its trial open; the next trial still counts."""
    cut = [*even_rows(50), RequestRow(due_s=1.02, sent_s=1.02, status="cancelled"),
           *[RequestRow(due_s=2.0 + i, status="unsent") for i in range(20)]]  # fmt: skip
    found = pool([observed(cut, stop="decided"), observed(even_rows(50))])
    assert (found.num_judged, found.verdict) == (100, "PASS")


def test_one_void_trial_voids_the_pool_with_its_reasons():
    good, bad = observed(even_rows(100)), observed(even_rows(100), faults=("the engine slept",))
    assert pool([good, good]).verdict == "PASS"
    found = pool([good, bad])
    assert (found.verdict, found.reasons) == ("VOID", ("the engine slept",))


def test_trials_of_another_engine_or_host_are_not_pooled():
    mine = observed(even_rows(10))
    other_engine = observed(even_rows(10), engine=EngineConfig(engine="other"))
    host = mine.trial.host.replace(cpu_model="another CPU")
    other_host = observed(even_rows(10), host=host)
    for other in (other_engine, other_host):
        with pytest.raises(AskError, match="unlike hosts or engines"):
            pool([mine, other])


def test_pooled_trials_do_not_look_like_a_backlog():
    """Each starts at zero seconds; laid over each other they would be two loads at once."""
    found = pool([observed(even_rows(60, first_s=1.5)) for _ in range(4)])
    assert found.verdict == "PASS"
    assert not any("in flight grew" in reason for reason in found.reasons)


def test_noise_of_the_pooled_trials():
    trials = [observed(even_rows(50, first_s=s)).trial for s in (0.09, 0.10, 0.11)]
    found = noise_floor(trials)
    assert found.num_trials == 3
    assert found.spreads["ttft_p50"].range_share == pytest.approx(0.2)
    assert found.spreads["ttft_p50"].sd_share == pytest.approx(0.1)
