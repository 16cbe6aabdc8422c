"""The gain of one prediction over another: against closed forms, and against drawing errors."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import pytest

from neoserve.predict.gain import Rate, joint
from neoserve.predict.intervals import factor_below, share_below
from neoserve.schema.spread import MetricSpread, Spread

LAW = ((0.01, -2.0), (0.1, -0.8), (0.3, -0.3), (0.5, 0.0), (0.7, 0.2), (0.9, 0.6), (0.99, 1.5))
METRIC = MetricSpread(quantiles={}, law=LAW, scale=1.0, by_arch={}, by_mode={}, by_load={},
                      rows=1, sources=1)  # fmt: skip
DIFFER = {"0.5": 0.05, "0.8": 0.15, "0.9": 0.25, "0.95": 0.5, "pairs": 100.0, "sources": 4.0}
LARGE = {"0.5": 0.15, "0.8": 0.3, "0.9": 0.45, "0.95": 0.6, "pairs": 50.0, "sources": 3.0}


@cache
def quantile(share: float) -> float:
    """The law's own, by bisection of `share_below`."""
    low, high = math.exp(-2.0), math.exp(1.5)
    if share <= LAW[0][0]:
        return low
    if share >= LAW[-1][0]:
        return high
    for _ in range(60):
        middle = math.sqrt(low * high)
        below = share_below(METRIC, "dense", "open_loop", 1, middle) < share
        low, high = (middle, high) if below else (low, middle)
    return low


def rate(
    value: float, device: str = "a", device_class: str = "arm", limit: float = 0.0, sources: int = 5
) -> Rate:
    """Proportional to the factor, and 0 for a server that is slower than `limit` times."""
    spread = Spread(device_class, "vllm", "new", sources, {},
                    {"same_device": DIFFER, "other_device": LARGE})  # fmt: skip
    at: Callable[[float], float] = lambda f: value * f if f >= limit else 0.0  # noqa: E731
    return Rate(value, at, quantile, device, device_class, spread)


def drawn(one: Rate, other: Rate, differ: dict[str, float] | None) -> tuple[float, float]:
    """Bounds of the quotient by drawing many errors, in their own words."""
    rng, found = random.Random(1), []
    table = [quantile((i + 0.5) / 4000) for i in range(4000)]
    marks = [(0.0, 0.0), *((float(k), v) for k, v in (differ or {}).items() if k[0] == "0")]
    for _ in range(60_000):
        mine, theirs = rng.choice(table), rng.choice(table)
        if differ:
            theirs = mine
            u, size = rng.random(), marks[-1][1]
            for (p0, x0), (p1, x1) in pairwise(marks):
                if p0 <= u <= p1:
                    size = x0 + (x1 - x0) * (u - p0) / (p1 - p0)
            half = math.exp(rng.choice((-1, 1)) * size / 2)
            mine, theirs = mine * half, mine / half
        above, below = one.at(mine), other.at(theirs)
        if above or below:
            found.append(above / below if below else math.inf)
    found.sort()
    return found[int(0.05 * len(found))], found[int(0.95 * len(found))]


def test_a_factor_is_the_inverse_of_the_share_below() -> None:
    for share in (0.02, 0.1, 0.37, 0.5, 0.81, 0.98):
        factor = factor_below(METRIC, "dense", "open_loop", 1, share)
        assert share_below(METRIC, "dense", "open_loop", 1, factor) == pytest.approx(share)
    assert factor_below(METRIC, "dense", "open_loop", 1, 1e-9) == pytest.approx(math.exp(-2.0))
    assert factor_below(METRIC, "dense", "open_loop", 1, 1.0) == pytest.approx(math.exp(1.5))


def test_on_one_device_only_what_errors_differ_by_counts() -> None:
    """Rates in proportion to the common factor lose it: the 90 % mark of the difference is left."""
    found = joint(rate(3.0), rate(2.0))
    assert found.ratio == 1.5
    assert math.log(found.high / 1.5) == pytest.approx(0.25, abs=0.01)
    assert math.log(found.low / 1.5) == pytest.approx(-0.25, abs=0.01)
    assert "errors on one device go together" in found.how
    assert "4 benches, 100 pairs)" in found.how


def test_two_devices_of_a_class_differ_by_more() -> None:
    found = joint(rate(3.0), rate(2.0, device="b"))
    assert math.log(found.high / 1.5) == pytest.approx(0.45, abs=0.01)
    assert "two devices of one class" in found.how
    thin = joint(rate(3.0, sources=0), rate(2.0, device="b"))
    assert "none of this engine and class" in thin.how


@pytest.mark.parametrize(
    ("other", "differ"),
    [(rate(2.0, limit=0.6), DIFFER), (rate(2.0, "b", limit=0.4), LARGE),
     (rate(2.0, "g", "gpu"), None), (rate(2.0, "g", "gpu", limit=0.3), None)],
)  # fmt: skip
def test_bounds_are_those_of_drawn_errors(other: Rate, differ: dict[str, float] | None) -> None:
    one = rate(3.0, limit=0.5)
    found, (low, high) = joint(one, other), drawn(one, other, differ)
    assert found.low == pytest.approx(low, rel=0.04, abs=0.01)
    assert (found.high or math.inf) == pytest.approx(high, rel=0.04)


def test_a_rate_that_may_be_none_bounds_nothing() -> None:
    never = rate(2.0, limit=0.9)
    found = joint(rate(3.0), never)
    assert found.high is None, "the other holds no rate with two fifths of the errors"
    assert joint(never, rate(3.0)).low == 0.0
    both = joint(never, never)
    assert "neither keeps the SLO at any rate" in both.how
    assert both.ratio == 1.0
