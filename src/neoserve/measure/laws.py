"""Do arrivals follow their law: three tests of gaps made unit exponentials, one of the clock.

Each sees what the others miss: the law and the rate of single gaps (KS), clumps and evenness of
many (dispersion), whether a gap tells of the next (lag-1 autocorrelation), and arrivals that were
set onto full seconds, which hardly changes their gaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..stats import binomial_cdf

JOINT_LEVEL = 1e-3  # of all tests: one good schedule in a thousand is refused
TICK_S = 1e-3  # arrivals this near to a full second count as set onto it


class LawTests(NamedTuple):
    """P-values that the gaps are what they were asked to be."""

    ks_p: float
    dispersion_p: float
    autocorrelation_p: float
    full_seconds_p: float

    def failed(self) -> str:
        """The test that rejects most clearly, with its p-value; "" where none does."""
        name, p_value = min(zip(_NAMES, self, strict=True), key=lambda pair: pair[1])
        return f"{name} p-value {p_value:.1e}" if p_value < JOINT_LEVEL / len(self) else ""


_NAMES = ("KS", "dispersion", "lag-1 autocorrelation", "full seconds")


def law_tests(gaps: Sequence[float], times_s: Sequence[float]) -> LawTests:
    """P-values that `gaps` are independent exponentials of mean 1, and `times_s` no clock's."""
    return LawTests(
        ks_p=ks_p_value(gaps, lambda gap: -math.expm1(-gap)),
        dispersion_p=dispersion_p_value(gaps),
        autocorrelation_p=autocorrelation_p_value(gaps),
        full_seconds_p=full_seconds_p_value(times_s),
    )


def ks_p_value(values: Sequence[float], cdf: Callable[[float], float]) -> float:
    """P-value that `values` are drawn from `cdf`, by Kolmogorov's limit law."""
    n = len(values)
    distance = max(max((i + 1) / n - cdf(x), cdf(x) - i / n) for i, x in enumerate(sorted(values)))
    # Stephens 1970: makes the limit law accurate from n = 4 on.
    scaled = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    if scaled < 0.2:
        return 1.0  # the series below converges slowly there, and its sum is 1 to 12 digits
    terms = ((-1) ** (k - 1) * math.exp(-2 * (k * scaled) ** 2) for k in range(1, 101))
    return min(1.0, max(0.0, 2 * math.fsum(terms)))


def dispersion_p_value(gaps: Sequence[float]) -> float:
    """Two-sided p-value of the spread of the times that blocks of m arrivals take.

    The dual of counting arrivals in bins: blocks of a Poisson process last Gamma(m) each, which
    is continuous, so the law holds for few arrivals and in the lower tail, where counts in bins
    take a handful of values. Bartlett 1937 with his correction, as Epstein 1960 uses it for
    exponential gaps. Blocks of sqrt(n)/2 see clumps of a few arrivals and of many.
    """
    m = max(1, round(math.sqrt(len(gaps)) / 2))
    k = len(gaps) // m
    if k < 2:
        return 1.0
    blocks = [math.fsum(gaps[i * m : (i + 1) * m]) for i in range(k)]
    if min(blocks) <= 0:
        return 0.0  # m arrivals at once
    log_mean = math.log(math.fsum(blocks) / k)
    spread = 2 * m * (k * log_mean - math.fsum(map(math.log, blocks)))
    below = gamma_cdf(spread / (1 + (k + 1) / (6 * m * k)), (k - 1) / 2, 2.0)
    return 2 * min(below, 1 - below)


def autocorrelation_p_value(gaps: Sequence[float]) -> float:
    """Two-sided p-value of the lag-1 correlation of the gaps' ranks.

    Mean and variance are those over all orders of these ranks (Wald and Wolfowitz 1943), so the
    law of the gaps does not matter and few gaps are enough.
    """
    n = len(gaps)
    ranks = _centred_ranks(gaps)
    s2 = math.fsum(r**2 for r in ranks)
    s4 = math.fsum(r**4 for r in ranks)
    if n < 4 or s2 == 0:
        return 1.0  # nothing to see in the order
    product = math.fsum(a * b for a, b in itertools.pairwise(ranks))
    # E[product²] over neighbours that are the same pair, share one gap, and share none
    second = (s2**2 - s4) / n
    second += 2 * (2 * s4 - s2**2) / (n * (n - 1))
    second += 3 * (s2**2 - 2 * s4) / (n * (n - 1))
    deviation = math.sqrt(second - (s2 / n) ** 2)
    return math.erfc(abs(product + s2 / n) / (deviation * math.sqrt(2)))


def full_seconds_p_value(times_s: Sequence[float]) -> float:
    """P-value of so many arrivals within half a millisecond of a full second.

    Whatever the rate does, a thousandth of them is expected there. Arrivals that follow another
    within a millisecond do not count: a cluster has one place on the clock.
    """
    apart = [b for a, b in itertools.pairwise((-1.0, *times_s)) if b - a > TICK_S]
    num_on = sum(abs(time_s - round(time_s)) <= TICK_S / 2 for time_s in apart)
    return 1 - binomial_cdf(num_on - 1, len(apart), TICK_S)


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Ranks around 0; equal values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for _, group in itertools.groupby(order, key=values.__getitem__):
        tied = list(group)
        for index in tied:
            ranks[index] = start + (len(tied) - len(values)) / 2
        start += len(tied)
    return ranks


def gamma_cdf(x: float, shape: float, scale: float) -> float:
    """P(X <= x) for X ~ Gamma(shape, scale), by the series of the lower incomplete gamma."""
    z = x / scale
    if z <= 0:
        return 0.0
    if z > shape + 40 * math.sqrt(shape) + 100:
        return 1.0
    term = total = 1 / shape
    for k in itertools.count(1):
        term *= z / (shape + k)
        total += term
        if term < total * 1e-15:
            break
    return min(1.0, total * math.exp(shape * math.log(z) - z - math.lgamma(shape)))
