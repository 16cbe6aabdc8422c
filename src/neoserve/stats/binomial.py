"""The binomial law and exact intervals of a share, for real-valued counts, too."""

from __future__ import annotations

import math

_TINY = 1e-300  # keeps Lentz's quotients from dividing by zero
_MAX_TERMS = 10_000  # it takes about sqrt(max(a, b))
_HALVINGS = 100  # of the unit interval, until two floats are left


def binomial_pmf(k: int, n: int, p: float) -> float:
    """P(X = k) for X ~ Binomial(n, p), stable for large n through log-gamma."""
    if p in (0.0, 1.0):
        return 1.0 if k == n * p else 0.0
    log_choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p))


def binomial_cdf(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(1 - p, n - k, k + 1)


def beta_cdf(x: float, a: float, b: float) -> float:
    """P(X <= x) for X ~ Beta(a, b): the regularized incomplete beta function; a, b above 0."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    # The fraction converges fast below the mean; above it, by symmetry (DLMF 8.17.4).
    if x < (a + 1) / (a + b + 2):
        return min(1.0, math.exp(log_front) / a * _beta_fraction(x, a, b))
    return max(0.0, 1 - math.exp(log_front) / b * _beta_fraction(1 - x, b, a))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction DLMF 8.17.22 by Lentz's method (Numerical Recipes 6.4)."""
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    total = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            total *= c * d
        if abs(c * d - 1) < 1e-15:
            return total
    raise ArithmeticError(f"Beta({a}, {b}) at {x} does not converge")


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def beta_quantile(p: float, a: float, b: float) -> float:
    """The x with P(X <= x) = p for X ~ Beta(a, b), by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def clopper_pearson(num_misses: float, num: float, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact interval of a share, tails alike (Clopper and Pearson 1934).

    Counts may be real: those of a sample with dependence are divided by its effect before
    (Korn and Graubard 1998). No trials bound nothing: (0, 1).
    """
    tail = (1 - confidence) / 2
    low = beta_quantile(tail, num_misses, num - num_misses + 1) if num_misses > 0 else 0.0
    hits = num - num_misses
    high = beta_quantile(1 - tail, num_misses + 1, hits) if hits > 0 else 1.0
    return low, high
