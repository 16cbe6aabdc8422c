"""Worlds whose capacities are known: misses follow a law of the rate alone, with noise.

A smaller stand-in than benchmarks/scripted_engine.py, for the decisions themselves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from neoserve.schema.campaign import Job, SearchPlan, Seen, Told
from neoserve.schema.quality import QualityCheck
from neoserve.schema.space import Candidate
from neoserve.tune.halving import next_job

MAY_MISS = 0.05
START_S = 20.0

Answer = Callable[[Job], Seen]


def plan_of(num: int, **changes: object) -> SearchPlan:
    """`num` candidates on three knobs; the first is the baseline."""
    candidates = [Candidate({}, "default")] + [
        Candidate({"a": str(i % 4), "b": str(i // 4 % 4), "c": str(i // 16)})
        for i in range(1, num)
    ]
    return SearchPlan(candidates=tuple(candidates), start_rps=2.0).replace(**changes)


class World:
    """Answers jobs. The same job in the same world is always answered alike."""

    def __init__(self, seed: int, capacities: list[float], noise: float = 0.015) -> None:
        self.seed, self.capacities, self.noise = seed, capacities, noise
        self.crashes: set[int] = set()
        self.breaches: set[int] = set()
        self.num_requests = 0

    @classmethod
    def drawn(cls, seed: int, num: int) -> World:
        """The best is about twice the baseline."""
        rng = random.Random(seed)
        shares = [1.0] + [min(2.0, rng.lognormvariate(0, 0.35)) for _ in range(num - 1)]
        return cls(seed, [5 * share for share in shares])

    def __call__(self, job: Job) -> Seen:
        if job.candidate in self.crashes:
            return Seen(verdict="VOID", crash="out of memory", spent_s=START_S)
        if job.purpose == "quality":
            return Seen(quality=_check(job.candidate in self.breaches), spent_s=5.0)
        started = random.Random(f"{self.seed} {job.candidate} {job.visit}")
        arrivals = random.Random(f"{job.seed}")  # all that are compared share them
        capacity = self.capacities[job.candidate] * math.exp(
            started.gauss(0, self.noise) + arrivals.gauss(0, 0.02)
        )
        load = job.rate_rps / capacity
        saturated = load > 1.1
        num = min(40, job.num_requests) if saturated else job.num_requests
        chance = min(1.0, MAY_MISS * math.exp(12 * (load - 1)))
        rng = random.Random(f"{self.seed} {job}")
        misses = sum(rng.random() < chance for _ in range(num))
        self.num_requests += num
        spread = math.sqrt(MAY_MISS * num)
        verdict = "INCONCLUSIVE"
        if saturated or misses > MAY_MISS * num + 2.5 * spread:
            verdict = "FAIL"
        elif num >= 75 and misses < MAY_MISS * num - 1.8 * spread:
            verdict = "PASS"
        return Seen(
            verdict=verdict, saturated=saturated, num=num, num_misses=misses, share=MAY_MISS,
            spent_s=num / job.rate_rps,
        )  # fmt: skip


def _check(is_worse: bool) -> QualityCheck:
    share = 0.2 if is_worse else 0.0
    return QualityCheck(
        baseline="a", candidate="b", change_share=share, low=share, high=share, level=0.95,
        budget_share=0.04, verdict="FAIL" if is_worse else "PASS", reason=f"{share:.0%} worse",
    )  # fmt: skip


def searched(plan: SearchPlan, answer: Answer, told: list[Told] | None = None) -> list[Told]:
    """All jobs until the search is over, after those of `told`."""
    told = list(told or [])
    while (job := next_job(plan, told)) is not None:
        assert len(told) < 5000, "the search does not end"
        told.append(Told(job, answer(job)))
    return told
