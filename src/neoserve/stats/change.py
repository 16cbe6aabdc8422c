"""Two loads of requests that depend on their neighbours: by which share a latency changed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from .order import quantile, quantile_interval
from .paired import Change, paired_bootstrap
from .series import autocorrelation_time, dependence
from .student import t_quantile

# Values from here on stand for never. Failed requests are 1e300, so that a quantile that is
# interpolated between one that was served and one that failed is beyond it, too.
NEVER = 1e200
MIN_BLOCKS = 10  # below which the spread between blocks is not known
_MAX_BLOCKS = 30  # more bring little, and their resamples take longer
_BLOCK_TIMES = 3.0  # autocorrelation times a block
_RESAMPLES = 1000


class Bounded(NamedTuple):
    """A positive figure with its interval; 0 and inf where it is not bounded."""

    value: float
    low: float
    high: float


def quantile_change(
    before: Sequence[float], after: Sequence[float], p: float, level: float
) -> Change:
    """Change of the p-quantile; each bound errs with at most `level`.

    Exact order-statistic intervals of as many independent values as each load is worth.
    """
    return ratio(_bounded_quantile(before, p, level), _bounded_quantile(after, p, level))


def geomean_change(
    before: Sequence[float], after: Sequence[float], level: float
) -> Change | None:
    """Change of the geometric mean of positive values, from two loads; None: too few blocks."""
    sides = [_bounded_geomean(values, level) for values in (before, after)]
    if sides[0] is None or sides[1] is None:
        return None
    return ratio(sides[0], sides[1])


def paired_geomean_change(
    before: Sequence[float], after: Sequence[float], level: float
) -> Change | None:
    """The same for the same requests sent twice: what a request has from its place drops out."""
    ratios = [math.log(b / a) for a, b in zip(before, after, strict=True)]
    return _block_mean(ratios, level)


def ratio(before: Bounded, after: Bounded) -> Change:
    """Change from one figure to another, from the interval of each.

    Method of variance estimates recovery on logarithms (Donner and Zou 2012): each side brings
    the distance to its own bound, squared.
    """
    if not 0 < before.value < math.inf or after.value <= 0:
        return Change(math.nan, -1.0, math.inf)
    logs = _Logs(before), _Logs(after)
    centre = logs[1].value - logs[0].value
    low = centre - math.hypot(logs[1].below, logs[0].above)
    high = centre + math.hypot(logs[1].above, logs[0].below)
    if after.value == math.inf:  # it never came: only its lower bound compares
        low = logs[1].low - logs[0].value - logs[0].above
    return Change(_expm1(centre), _expm1(low), _expm1(high))


class _Logs:
    """The logarithm of a figure, and the distances to its bounds."""

    def __init__(self, figure: Bounded) -> None:
        self.value = math.log(figure.value) if figure.value < math.inf else math.inf
        self.low = math.log(figure.low) if 0 < figure.low < math.inf else figure.low or -math.inf
        self.below = self.value - self.low if self.low < math.inf else 0.0
        self.above = math.log(figure.high) - self.value if figure.high < math.inf else math.inf


def _expm1(value: float) -> float:
    return math.inf if value > 700 else math.expm1(value)


def _bounded_quantile(values: Sequence[float], p: float, level: float) -> Bounded:
    independent = len(values) / dependence(values)
    low, high = quantile_interval(values, p, 1 - 2 * level, independent)
    return Bounded(_finite(quantile(values, p)), max(0.0, _finite(low)), _finite(high))


def _finite(value: float) -> float:
    """inf for what stands for never, such as a failed request."""
    return math.inf if value >= NEVER else value


def _bounded_geomean(values: Sequence[float], level: float) -> Bounded | None:
    found = _block_mean([math.log(value) for value in values], level)
    return None if found is None else Bounded(*(1 + bound for bound in found))


def _block_mean(logs: Sequence[float], level: float) -> Change | None:
    """e to the mean, less 1, by a bootstrap of whole blocks, widened as few of them ask for."""
    length = math.ceil(max(_BLOCK_TIMES * autocorrelation_time(logs), len(logs) / _MAX_BLOCKS))
    num = len(logs) // length
    if num < MIN_BLOCKS:
        return None
    edges = [len(logs) * i // num for i in range(num + 1)]
    sums = [math.fsum(logs[a:b]) for a, b in pairwise(edges)]
    sizes = [b - a for a, b in pairwise(edges)]
    found = paired_bootstrap(
        sums, [0.0] * num, sizes, level=1 - 2 * level, resamples=_RESAMPLES
    )
    centre, low, high = (math.log1p(bound) for bound in found)
    wider = few_blocks_factor(level, num - 1)
    return Change(
        math.expm1(centre),
        math.expm1(centre - wider * (centre - low)),
        math.expm1(centre + wider * (high - centre)),
    )


@functools.lru_cache(maxsize=64)
def few_blocks_factor(level: float, freedom: int) -> float:
    """What a bootstrap of few blocks lacks: Student's quantile, and the variance's n over n - 1."""
    from statistics import NormalDist  # slow to import

    normal = NormalDist().inv_cdf(1 - level)
    student = t_quantile(freedom, 1 - 2 * level)
    return student / normal * math.sqrt((freedom + 1) / freedom)
