"""Order statistics with exact, distribution-free intervals. Pure; imports nothing of ours."""

from __future__ import annotations

import math
from collections.abc import Sequence


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
    values: Sequence[float], p: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Two-sided order-statistic interval of the p-quantile; ±inf where n is too small.

    The number of values at or below the true quantile is Binomial(n, p), whatever the
    distribution (David and Nagaraja, Order Statistics, 7.1), so the bounds are exact.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail = (1 - confidence) / 2
    if tail <= 0.0:  # nothing finite is certain; the sum below would only round to it
        return -math.inf, math.inf
    below = 0.0  # P(X <= k - 1) while k grows
    low, high = 0, n + 1  # ranks; 0 and n + 1 stand for -inf and +inf
    for k in range(n + 1):
        if below <= tail:
            low = k
        below += binomial_pmf(k, n, p)
        if below >= 1 - tail:
            high = k + 1
            break
    lower = ordered[low - 1] if low >= 1 else -math.inf
    upper = ordered[high - 1] if high <= n else math.inf
    return lower, upper


def binomial_pmf(k: int, n: int, p: float) -> float:
    """P(X = k) for X ~ Binomial(n, p), stable for large n through log-gamma."""
    if p in (0.0, 1.0):
        return 1.0 if k == n * p else 0.0
    log_choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    return min(1.0, math.fsum(binomial_pmf(i, n, p) for i in range(k + 1)))
