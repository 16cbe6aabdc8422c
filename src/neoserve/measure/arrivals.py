"""When requests are due: drawn before the run from one seed, and tested against its own law."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

from ..errors import AskError
from ..schema.workload import Workload

KS_LEVEL = 1e-3


def arrival_times_s(workload: Workload, num_requests: int) -> tuple[float, ...]:
    """Exactly `num_requests` due times of an open workload. Raises AskError.

    A schedule whose gaps do not follow the asked law is refused, so one good seed in a
    thousand is too.
    """
    _check(workload, num_requests)
    rng = random.Random(workload.seed)
    gaps_s = [_gap_s(workload, rng) for _ in range(num_requests)]
    check_gaps(gaps_s, workload)
    return tuple(itertools.accumulate(gaps_s))


def num_requests_for(workload: Workload, duration_s: float) -> int:
    """How many requests a duration is expected to see, at least one."""
    return max(1, round(workload.rate_rps * duration_s))


def check_gaps(gaps_s: Sequence[float], workload: Workload) -> None:
    """Kolmogorov-Smirnov test of the gaps at level 1e-3. Raises AskError when it rejects."""
    if workload.arrival == "constant":
        p_value = float(all(math.isclose(g, 1 / workload.rate_rps) for g in gaps_s))
    else:
        p_value = ks_p_value(gaps_s, _law(workload))
    if p_value < KS_LEVEL:
        raise AskError(
            f"the schedule is not {workload.arrival} at {workload.rate_rps:g} requests/s "
            f"(KS p-value {p_value:.1e} < {KS_LEVEL:g}); take another seed than {workload.seed}"
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


def _check(workload: Workload, num_requests: int) -> None:
    if workload.arrival == "closed":
        raise AskError("a closed workload has no schedule: requests follow each other")
    if not (workload.rate_rps > 0 and math.isfinite(workload.rate_rps)):
        raise AskError(f"rate is {workload.rate_rps:g} requests/s; give one above 0")
    if workload.burstiness <= 0:
        raise AskError(f"burstiness is {workload.burstiness:g}; give one above 0, 1 is Poisson")
    if num_requests < 1:
        raise AskError(f"{num_requests} requests cannot be sent; give at least 1")


def _gap_s(workload: Workload, rng: random.Random) -> float:
    if workload.arrival == "constant":
        return 1 / workload.rate_rps
    if workload.arrival == "gamma":
        return rng.gammavariate(workload.burstiness, _gamma_scale_s(workload))
    return rng.expovariate(workload.rate_rps)


def _law(workload: Workload) -> Callable[[float], float]:
    if workload.arrival == "gamma":
        shape, scale_s = workload.burstiness, _gamma_scale_s(workload)
        return lambda gap_s: gamma_cdf(gap_s, shape, scale_s)
    return lambda gap_s: -math.expm1(-workload.rate_rps * gap_s)


def _gamma_scale_s(workload: Workload) -> float:
    # mean gap = shape * scale = 1 / rate, as in vllm bench serve
    return 1 / (workload.rate_rps * workload.burstiness)
