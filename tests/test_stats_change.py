"""Changes between two loads, against closed forms and scipy."""

from __future__ import annotations

import math
import random

import pytest
import scipy.stats

from neoserve.stats.change import (
    MIN_BLOCKS,
    Bounded,
    geomean_change,
    paired_geomean_change,
    quantile_change,
    ratio,
)

LEVEL = 0.025


def lognormal(seed: int, num: int, scale: float = 1.0) -> list[float]:
    rng = random.Random(seed)
    return [scale * rng.lognormvariate(0.0, 0.5) for _ in range(num)]


def test_a_ratio_of_two_figures_with_known_intervals() -> None:
    """Donner and Zou: on logarithms each side's own distance counts, squared."""
    side = Bounded(1.0, 1 / 1.1, 1.1)
    change = ratio(side, Bounded(2.0, 2.0 / 1.1, 2.2))
    factor = math.exp(math.sqrt(2) * math.log(1.1))
    assert change == pytest.approx((1.0, 2 / factor - 1, 2 * factor - 1))
    exact = Bounded(1.0, 1.0, 1.0)
    assert ratio(exact, side) == pytest.approx((0.0, 1 / 1.1 - 1, 0.1))


def test_what_is_not_bounded_stays_so() -> None:
    side = Bounded(1.0, 0.9, 1.1)
    assert ratio(side, Bounded(1.0, 0.0, math.inf))[1:] == (-1.0, math.inf)
    never = ratio(side, Bounded(math.inf, 2.2, math.inf))
    assert never == pytest.approx((math.inf, 1.0, math.inf))  # 2.2 over 1.1
    assert ratio(side, Bounded(math.inf, math.inf, math.inf)).low == math.inf
    assert math.isnan(ratio(Bounded(math.inf, 1.0, math.inf), side).share)


def test_a_quantile_next_to_a_failed_request_is_never() -> None:
    """20 of 400 failed: the p95 lies a twentieth of the way from one that was served."""
    change = quantile_change([0.1] * 400, [0.1] * 380 + [1e300] * 20, 0.95, LEVEL)
    assert (change.share, change.high) == (math.inf, math.inf)


def test_independent_values_give_welchs_interval() -> None:
    before, after = lognormal(1, 600), lognormal(2, 600, 1.2)
    logs = [[math.log(v) for v in values] for values in (after, before)]
    welch = scipy.stats.ttest_ind(*logs, equal_var=False).confidence_interval(1 - 2 * LEVEL)
    change = geomean_change(before, after, LEVEL)
    assert change is not None
    width = math.log1p(change.high) - math.log1p(change.low)
    assert width == pytest.approx(welch.high - welch.low, rel=0.35)  # blocks know less
    assert change.low < math.expm1((welch.low + welch.high) / 2) < change.high


def test_pairs_are_the_ratios_of_each() -> None:
    before = lognormal(3, 400)
    change = paired_geomean_change(before, [1.1 * v for v in before], LEVEL)
    assert change == pytest.approx((0.1, 0.1, 0.1))


def test_fewer_blocks_than_tell_a_spread_give_nothing() -> None:
    assert geomean_change([1.0, 2.0] * (MIN_BLOCKS // 2 - 1), [1.0] * 8, LEVEL) is None
    trend = [1.0 + i for i in range(300)]  # one long spell
    assert paired_geomean_change([1.0] * 300, trend, LEVEL) is None


def test_a_quantiles_interval_holds_the_truth_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(200):
        change = quantile_change(lognormal(seed, 300), lognormal(seed + 999, 300, 1.2), 0.5, LEVEL)
        inside += change.low <= 0.2 <= change.high
    assert inside >= 190
