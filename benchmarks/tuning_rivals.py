"""What else one may do on the scripted engine: the full grid, and its cheaper judgements.

Each point's limit is bisected, on one server, from where its neighbour's was found. How a load is
judged is what they differ in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean
from typing import NamedTuple

from scripted_engine import QUALITY_S, SLO, World, grid
from scripted_load import load, rows_at, unit_schedule
from scripted_queue import Engine, Noise

from neoserve.schema.campaign import Job
from neoserve.schema.space import Candidate
from neoserve.schema.trial import RequestRow

START_RPS, TOLERANCE = 1.5, 0.03
FULL = 400  # requests of a full-length trial
CERTIFY = 1500  # of a certificate: TPOTs of a batch depend, ten are worth one
_GROWTH = 1.4
_CERTIFY_STEPS = (4, 9, 16)  # tolerances below what was found, as the search takes them
_CERTIFY_SEED = 10_000


class Look(NamedTuple):
    """One load: was the SLO met, was that proven, and what it took."""

    met: bool
    proven: bool
    length_s: float


class Point(NamedTuple):
    """One point of the grid, evaluated: 0 where no rate was met or it cannot be picked."""

    found_rps: float
    spent_s: float


Judge = Callable[[World, Candidate, Job, float], Look]


def by_verdict(world: World, candidate: Candidate, job: Job, now_s: float) -> Look:
    """As a trial is judged."""
    found = load(world, candidate, job, now_s)
    j = found.judgement
    fails = j.verdict == "FAIL" or found.saturated
    met = not fails and (j.verdict == "PASS" or j.num_misses <= j.share * j.num)
    return Look(met, j.verdict == "PASS" and not found.saturated, found.length_s)


def by_mean(world: World, candidate: Candidate, job: Job, now_s: float) -> Look:
    """The means of all requests against the limits that the 95 % quantiles have."""
    rows, length_s = whole(world, candidate, job, now_s)
    met = all(
        fmean(_values(rows, target.metric)) < target.limit for target in SLO.targets
    )
    return Look(met, met, length_s)


def by_quantile(world: World, candidate: Candidate, job: Job, now_s: float) -> Look:
    """The quantiles as they come out, chance or not."""
    rows, length_s = whole(world, candidate, job, now_s)
    met = all(
        sum(value >= target.limit for value in values) <= 0.05 * len(values)
        for target in SLO.targets
        for values in (_values(rows, target.metric),)
    )
    return Look(met, met, length_s)


def whole(world: World, candidate: Candidate, job: Job, now_s: float
          ) -> tuple[list[RequestRow], float]:  # fmt: skip
    """The measured rows of a load that nobody ends early, and how long it took."""
    unit = unit_schedule(job.seed, job.num_requests)
    schedule = tuple(planned.replace(due_s=planned.due_s / job.rate_rps) for planned in unit)
    schedule = tuple(planned for planned in schedule if planned.phase != "drain")
    noise = Noise(f"{world.seed} {candidate.id} {job.visit} whole {job.seed} {job.rate_rps!r}",
                  slow=world.speed(candidate, job.visit) * world.drift(now_s))  # fmt: skip
    engine = Engine(world.law(candidate.id), [p.due_s for p in schedule],
                    [p.prompt_tokens for p in schedule], [p.output_tokens for p in schedule],
                    noise)  # fmt: skip
    *_, length_s = engine.run()
    rows = rows_at(engine, schedule, length_s)
    return [row for row in rows if row.phase == "measured"], length_s


def _values(rows: list[RequestRow], metric: str) -> list[float]:
    values = [row.ttft_s if metric == "ttft" else row.tpot_s for row in rows]
    return [value for value in values if value is not None]


def evaluate_grid(world: World, judge: Judge, num: int) -> list[Point]:
    """Every point in the grid's order, on one engine after another."""
    points: list[Point] = []
    now_s, near_rps = 2 * QUALITY_S, START_RPS  # both precisions are scored once
    scores_s = now_s
    for candidate in grid():
        point = _evaluate(world, candidate, judge, num, now_s, near_rps)
        now_s += point.spent_s
        near_rps = point.found_rps or near_rps
        points.append(point)
    points[0] = points[0]._replace(spent_s=points[0].spent_s + scores_s)
    return points


def _evaluate(
    world: World, candidate: Candidate, judge: Judge, num: int, now_s: float, near_rps: float
) -> Point:  # fmt: skip
    spent_s = world.start_s(candidate, 1)
    if world.crash(candidate):
        return Point(0.0, spent_s / 2)
    if world.crash(candidate, 1):
        spent_s *= 1.5  # and once more

    def look(rate_rps: float) -> Look:
        nonlocal spent_s
        job = Job(0, "climb", rate_rps, num, visit=1)
        found = judge(world, candidate, job, now_s + spent_s)
        spent_s += found.length_s
        return found

    if not world.keeps_quality(candidate):
        return Point(0.0, spent_s)
    return Point(_bisect(look, near_rps), spent_s)


def certified_rps(world: World, candidate: Candidate, found_rps: float, now_s: float
                  ) -> tuple[float | None, float]:  # fmt: skip
    """What is proven on fresh requests and a fresh server, and what that took."""
    spent_s = world.start_s(candidate, 2)
    for step, down in enumerate(_CERTIFY_STEPS):
        rate = found_rps / (1 + TOLERANCE) ** down
        job = Job(0, "certify", rate, CERTIFY, _CERTIFY_SEED + step,
                  0.05 / len(_CERTIFY_STEPS), 2)  # fmt: skip
        found = by_verdict(world, candidate, job, now_s + spent_s)
        spent_s += found.length_s
        if found.proven:
            return rate, spent_s
    return None, spent_s


def _bisect(look: Callable[[float], Look], near_rps: float) -> float:
    """The highest rate that was met, to the tolerance; 0 where none was."""
    low, high = 0.0, math.inf
    rate = near_rps
    while high == math.inf or not low:
        if look(rate).met:
            low, rate = rate, rate * _GROWTH
        else:
            high, rate = rate, rate / _GROWTH
        if rate < START_RPS / 64:
            return 0.0
    while high / low > 1 + TOLERANCE:
        middle = math.sqrt(low * high)
        if look(middle).met:
            low = middle
        else:
            high = middle
    return low
