"""Order statistics with exact, distribution-free intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .binomial import binomial_pmf


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def quantile(values: Sequence[float], p: float) -> float:
    """The p-quantile by linear interpolation (Hyndman-Fan type 7, numpy's default)."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    position = (len(ordered) - 1) * p
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    # This form is monotone in p under rounding; a*(1-t) + b*t is not.
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def quantile_interval(
    values: Sequence[float], p: float, confidence: float = 0.95, num_independent: float = math.inf
) -> tuple[float, float]:
    """Two-sided order-statistic interval of the p-quantile; ±inf where n is too small.

    The number of values at or below the true quantile is Binomial(n, p), whatever the
    distribution (David and Nagaraja, Order Statistics, 7.1), so the bounds are exact. Values that
    depend on each other say as much as `num_independent` others: the ranks are those of that many,
    spread over all and rounded outwards.
    """
    n = max(0, math.floor(min(num_independent, len(values))))
    low, high = _interval_ranks(n, p, (1 - confidence) / 2)
    ordered = sorted(values)
    lower, upper = -math.inf, math.inf
    if low >= 1:
        lower = ordered[(low - 1) * len(ordered) // n]
    if high <= n:
        upper = ordered[len(ordered) - 1 - (n - high) * len(ordered) // n]
    return lower, upper


def _interval_ranks(n: int, p: float, tail: float) -> tuple[int, int]:
    """Ranks of the bounds among n independent values; 0 and n + 1 stand for none."""
    low, high = 0, n + 1
    if tail <= 0.0:  # nothing finite is certain; the sum below would only round to it
        return low, high
    below = 0.0  # P(X <= k - 1) while k grows
    for k in range(n + 1):
        if below <= tail:
            low = k
        below += binomial_pmf(k, n, p)
        if below >= 1 - tail:
            return low, k + 1
    return low, high
