"""Values that follow each other in time: how much they depend, and intervals that mind it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from operator import mul

from .order import quantile

_RESAMPLES = 1000


def ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value from 1; equal ones share their mean rank. inf ranks last."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranked = [0.0] * len(values)
    start, num = 0, len(values)
    while start < num:  # groupby would take three times as long, and every look at a trial ranks
        value, end = values[order[start]], start + 1
        while end < num and values[order[end]] == value:
            end += 1
        shared = (start + 1 + end) / 2
        for index in order[start:end]:
            ranked[index] = shared
        start = end
    return ranked


def autocorrelation_time(values: Sequence[float]) -> float:
    """How many values in a row say as much as one independent one; at least 1.

    1 + twice the sum of the autocorrelations, of ranks, so that the unit and a few extreme values
    are nothing to it. The sum ends by the initial monotone positive sequence (Geyer 1992).
    """
    ranked = ranks(values)
    centre = (len(values) + 1) / 2
    moves = [rank - centre for rank in ranked]
    power = math.fsum(map(mul, moves, moves))
    if power == 0.0:  # none or all alike: nothing is seen of a dependence
        return 1.0
    total, ceiling = -1.0, math.inf
    for lag in range(0, len(moves) - 1, 2):
        pair = math.fsum((_lagged(moves, lag), _lagged(moves, lag + 1))) / power
        if pair <= 0:
            break
        ceiling = min(ceiling, pair)
        total += 2 * ceiling
    return max(1.0, total)


def dependence(values: Sequence[float]) -> float:
    """By how much a claim on a rare share of these values has to be discounted; at least 1.

    Twice the excess of the autocorrelation time: in queues the largest values cluster 1.5 to 2
    times as much as ranks do, which see all alike. And what n values cannot show, an
    autocorrelation of one standard error 1/sqrt(n), is taken to be there. Both by simulation of
    queues whose true share is known: docs/verdicts.md.
    """
    if not values:
        return 1.0
    return (1 + 2 * (autocorrelation_time(values) - 1)) * (1 + 2 / math.sqrt(len(values)))


def _lagged(moves: Sequence[float], lag: int) -> float:
    return math.fsum(map(mul, moves, itertools.islice(moves, lag, None)))


def block_bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    *,
    block: int | None = None,
    resamples: int = _RESAMPLES,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Two-sided percentile interval of a statistic of values that depend on their neighbours.

    Blocks of `block` values, by default by the autocorrelation time, are drawn from the values
    closed to a circle (Politis and Romano 1992), so that each is drawn as often.
    """
    import random  # a planner never bootstraps, and the module is slow to import

    rng = random.Random(seed)
    n = len(values)
    length = block or _default_block(values)
    circle = [*values, *values[: length - 1]]
    drawn = []
    for _ in range(resamples):
        starts = (int(rng.random() * n) for _ in range(-(-n // length)))
        resample = [value for start in starts for value in circle[start : start + length]]
        drawn.append(statistic(resample[:n]))
    tail = (1 - confidence) / 2
    return quantile(drawn, tail), quantile(drawn, 1 - tail)


def _default_block(values: Sequence[float]) -> int:
    """Values a block: twice the dependence, and at least n^(1/3) (Hall, Horowitz, Jing 1995)."""
    least: float = max(2 * autocorrelation_time(values), len(values) ** (1 / 3))
    return min(len(values), math.ceil(least))


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing fit of least weighted squares, by pooling neighbours that fall."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for value, weight in zip(values, weights, strict=True):
        mean, size = value, 1
        while pools and pools[-1][0] >= mean:
            before, its_weight, its_size = pools.pop()
            mean = (before * its_weight + mean * weight) / (its_weight + weight)
            weight, size = its_weight + weight, its_size + size
        pools.append((mean, weight, size))
    return [mean for mean, _, size in pools for _ in range(size)]


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Least-squares slope of values over times; 0 where all times are one."""
    n = len(times)
    middle = math.fsum(times) / n
    spread = math.fsum((time - middle) ** 2 for time in times)
    lean = math.fsum((time - middle) * value for time, value in zip(times, values, strict=True))
    return lean / spread if spread > 0 else 0.0
