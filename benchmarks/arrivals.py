"""How often the tests of an arrival law reject at level 5 %. `python benchmarks/arrivals.py`

ours        must be rejected as often as the level says, 5 %, by each test
constant    evenly spaced, passed off as Poisson
GuideLLM    re-made from its behaviour (0.8.1, 10 workers): every worker draws the same gaps onto
            one shared clock, so each gap comes ten times
inference-perf  re-made from its behaviour (0.7.0): a Poisson count for each second, whose arrivals
            are stretched until the last lands on the full second
rate +20 %  Poisson at the wrong rate
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from neoserve.measure.arrivals import draw, law_tests
from neoserve.schema.workload import Workload

RATES_RPS = (0.5, 5.0, 50.0)
LEVEL = 0.05
Times = tuple[float, ...]


def ours(workload: Workload, num: int) -> Times:
    """Not yet tested, so that nothing is kept back."""
    return draw(workload, num)


def constant(workload: Workload, num: int) -> Times:
    """The same gap all through."""
    return draw(workload.replace(arrival="constant"), num)


def wrong_rate(workload: Workload, num: int) -> Times:
    """A fifth more than was asked for."""
    return draw(workload.replace(rate_rps=1.2 * workload.rate_rps), num)


def guidellm(workload: Workload, num: int, num_workers: int = 10) -> Times:
    """Each gap once per worker."""
    rng = random.Random(workload.seed)
    gaps = (rng.expovariate(workload.rate_rps) for _ in itertools.count())
    repeated = (gap for gap in gaps for _ in range(num_workers))
    return tuple(itertools.accumulate(itertools.islice(repeated, num)))


def inference_perf(workload: Workload, num: int) -> Times:
    """Counts for each second, gaps normalised to it."""
    return tuple(itertools.islice(_by_the_second(workload), num))


def _by_the_second(workload: Workload) -> Iterator[float]:
    rng = random.Random(workload.seed)
    for second in itertools.count():
        gaps = list(itertools.takewhile(lambda gap: gap < 1, _sums(rng, workload.rate_rps)))
        drawn = [rng.expovariate(1.0) for _ in gaps]
        yield from (second + until / sum(drawn) for until in itertools.accumulate(drawn))


def _sums(rng: random.Random, rate_rps: float) -> Iterator[float]:
    return itertools.accumulate(rng.expovariate(rate_rps) for _ in itertools.count())


GENERATORS: dict[str, Callable[[Workload, int], Times]] = {
    "ours": ours,
    "constant": constant,
    "GuideLLM": guidellm,
    "inference-perf": inference_perf,
    "rate +20 %": wrong_rate,
}


def rejection_shares(
    make: Callable[[Workload, int], Times], workload: Workload, num_requests: int, num_seeds: int
) -> tuple[float, ...]:
    """The share of seeds that each test rejects, and that all reject jointly (Bonferroni)."""
    rejected = [0, 0, 0, 0, 0]
    for seed in range(num_seeds):
        seeded = workload.replace(seed=seed)
        p_values = law_tests(seeded, make(seeded, num_requests))
        for i, p_value in enumerate((*p_values, 4 * min(p_values))):
            rejected[i] += p_value < LEVEL
    return tuple(count / num_seeds for count in rejected)


def main(num_requests: int = 300, num_seeds: int = 400) -> None:
    """Print the table."""
    print(f"{num_requests} requests, {num_seeds} seeds, level {LEVEL:.0%}\n")
    print("| arrivals | req/s | KS | dispersion | lag-1 | full seconds | jointly |")
    print("|---|" + "--:|" * 6)
    for (name, make), rate_rps in itertools.product(GENERATORS.items(), RATES_RPS):
        workload = Workload(arrival="poisson", rate_rps=rate_rps)
        shares = rejection_shares(make, workload, num_requests, num_seeds)
        _row(f"poisson, {name}", rate_rps, shares)
    for more in (
        {"arrival": "gamma", "burstiness": 0.3},
        {"arrival": "gamma", "burstiness": 4.0},
        {"arrival": "mmpp"},
        {"arrival": "ramp"},
    ):
        for rate_rps in RATES_RPS:
            workload = Workload(rate_rps=rate_rps, **more)
            name = " ".join(str(value) for value in more.values())
            _row(name, rate_rps, rejection_shares(ours, workload, num_requests, num_seeds))


def _row(name: str, rate_rps: float, shares: tuple[float, ...]) -> None:
    print(f"| {name} | {rate_rps:g} | " + " | ".join(f"{s:.1%}" for s in shares) + " |")


if __name__ == "__main__":
    main()
