"""The search on a simulated server whose miss share is known at every rate."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.verdict import Watch
from neoserve.schema.capacity import Probe
from neoserve.schema.workload import Slo
from neoserve.tune.max_rate import bracket, find_max_rate

P95 = Slo.parse_text("ttft:p95<1s")
PLANNED = 300


def miss_share(rate_rps, capacity_rps):
    """Exactly 5 % at the capacity, and steeply more above, as a queue has it."""
    return min(1.0, 0.05 * (rate_rps / capacity_rps) ** 12)


class Simulated:
    """Independent requests, judged by the real sequential test."""

    def __init__(self, capacity_rps, seed=0):
        self.capacity_rps = capacity_rps
        self.rng = random.Random(seed)
        self.asked = []

    def __call__(self, ask):
        self.asked.append(ask)
        share = miss_share(ask.rate_rps, self.capacity_rps)
        readings = [(self.rng.random() + (self.rng.random() < share), True) for _ in range(PLANNED)]
        watch, num = Watch(P95, PLANNED, ask.level), 0
        verdict = None
        while verdict is None and num < PLANNED:
            num += 20
            verdict = watch.verdict({"ttft": readings[:num]})
        rule = watch.rules[0]
        return Probe(
            rate_rps=ask.rate_rps, seed=ask.seed, verdict=verdict or "INCONCLUSIVE",
            saturated=ask.rate_rps > 1.3 * self.capacity_rps, num_misses=rule.num_misses,
            num=rule.num, share=rule.share, dependence=rule.dependence, certifies=ask.certifies,
        )  # fmt: skip


def test_what_is_certified_holds_and_is_near_the_capacity():
    above = near = 0
    for seed in range(50):
        capacity = 0.3 * 1.37 ** (seed % 20)
        found = find_max_rate(Simulated(capacity, seed), 1.0, seed=seed)
        certified = found.certified_rps or 0.0
        above += certified > capacity
        # 300 requests prove a rate at which about 1 % miss, (1 / 5) ** (1 / 12) = 0.87 of the
        # capacity; the last of three steps below what was found is 5 tolerances down, 0.78 of it
        near += certified >= 0.70 * capacity
        assert certified < (found.not_met_rps or math.inf)
        assert len({probe.seed for probe in found.probes}) == len(found.probes)
        assert found.probes[-1].certifies
    assert above <= 2  # 5 % of 50
    assert near >= 45


def probe_of(ask, verdict, misses=0, num=100, saturated=False):
    return Probe(
        rate_rps=ask.rate_rps, seed=ask.seed, verdict=verdict, saturated=saturated,
        num_misses=misses, num=num, share=0.05, dependence=1.0, certifies=ask.certifies,
    )  # fmt: skip


def by_threshold(capacity_rps):
    """A server without chance in it."""
    return lambda ask: probe_of(
        ask, *(("PASS", 0) if ask.rate_rps <= capacity_rps else ("FAIL", 50))
    )


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 300), st.floats(0.01, 0.3))
def test_without_chance_the_bracket_is_as_narrow_as_asked(capacity, tolerance):
    found = find_max_rate(by_threshold(capacity), 1.0, tolerance=tolerance)
    assert found.certified_rps <= capacity < found.not_met_rps
    assert found.not_met_rps <= found.certified_rps * (1 + tolerance) * (1 + 1e-9)
    assert found.notes == ()


def test_a_server_that_meets_every_rate_has_an_unknown_capacity():
    found = find_max_rate(by_threshold(1e9), 1.0, high_limit_rps=12.0)
    assert found.certified_rps == 12.0
    assert found.not_met_rps is None
    assert "capacity is unknown" in found.notes[0]


def test_a_server_that_meets_none():
    found = find_max_rate(by_threshold(1e-9), 1.0, low_limit_rps=0.1)
    assert found.certified_rps is None
    assert found.not_met_rps == 0.1
    assert min(probe.rate_rps for probe in found.probes) == 0.1


def test_saturation_is_not_met_whatever_the_misses():
    server = by_threshold(3.0)
    found = find_max_rate(
        lambda ask: probe_of(ask, "INCONCLUSIVE", saturated=True)
        if ask.rate_rps > 2.0 else server(ask), 1.0
    )  # fmt: skip
    assert 1.9 < found.certified_rps <= 2.0


def test_an_unclear_rate_is_repeated_with_new_seeds_but_not_for_ever():
    asked = []

    def probe(ask):
        asked.append(ask)
        return probe_of(ask, "INCONCLUSIVE", misses=5)

    found = find_max_rate(probe, 1.0, high_limit_rps=1.0)
    search = [ask for ask in asked if not ask.certifies]
    assert [ask.rate_rps for ask in search] == [1.0] * 3
    assert [ask.level for ask in asked if ask.certifies] == [pytest.approx(0.05 / 3)] * 3
    assert found.certified_rps is None
    assert "no rate was proven" in found.notes[-1]


def test_contradictions_are_pooled():
    ask = find_max_rate(by_threshold(3.0), 1.0).probes[0]
    slow = probe_of(ask, "FAIL", 8).replace(rate_rps=2.0)  # unlucky
    quick = [probe_of(ask, "PASS", 0, 400).replace(rate_rps=3.0)]
    assert bracket([slow, *quick]) == (3.0, None)
    assert bracket([slow.replace(num_misses=60), *quick]) == (None, 2.0)
    clean = slow.replace(verdict="PASS", num_misses=0)
    assert bracket([slow, clean]) == bracket([clean, slow]) == (2.0, None)


def test_means_have_no_misses_to_count():
    found = find_max_rate(lambda ask: by_threshold(3.0)(ask).replace(num=0, share=0.0), 1.0)
    assert 2.8 < found.certified_rps <= 3.0
    unclear = find_max_rate(
        lambda ask: probe_of(ask, "INCONCLUSIVE", num=0).replace(share=0.0, saturated=True), 1.0
    )
    assert unclear.certified_rps is None


def test_where_nothing_can_be_measured_the_search_ends():
    found = find_max_rate(lambda ask: probe_of(ask, "VOID"), 1.0)
    assert len(found.probes) == 3
    assert "void" in found.notes[0]
    assert (found.certified_rps, found.not_met_rps) == (None, None)


def test_a_search_that_runs_out_of_probes_says_so():
    found = find_max_rate(by_threshold(3.0), 1.0, max_probes=3)
    assert "after 3 probes" in found.notes[0]
    assert found.certified_rps == 2.0


@pytest.mark.parametrize(("start", "tolerance", "probes"), [(0, 0.1, 5), (1, 0, 5), (1, 0.1, 0)])
def test_bad_asks(start, tolerance, probes):
    with pytest.raises(AskError, match="give a rate above 0"):
        find_max_rate(by_threshold(1.0), start, tolerance=tolerance, max_probes=probes)
