"""How long a search will take, if the planner is right: the search itself on what it predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ..schema.campaign import Job, Purpose, SearchPlan, Seen, Told
from .halving import next_job

_DECIDED = 100  # requests after which a load that is met is proven, as a rule
_REFUSED = 30  # and one that is not
_WARM_UP = 1.1
_QUALITY_S = 30.0
_MOST_JOBS = 2000


class Forecast(NamedTuple):
    """Of a whole campaign."""

    spent_s: float
    num_jobs: int
    by_purpose: Mapping[Purpose, int]


def forecast(plan: SearchPlan) -> Forecast:
    """Candidates hold what is predicted of them; those without a prediction a tenth less than the
    baseline, so that they cost a look."""
    told: list[Told] = []
    served: tuple[int, int] | None = None
    while len(told) < _MOST_JOBS and (job := next_job(plan, told)) is not None:
        start_s = 0.0 if served == (job.candidate, job.visit) else plan.start_s
        served = (job.candidate, job.visit)
        told.append(Told(job, _seen(plan, job, start_s)))
    return Forecast(
        spent_s=sum(t.seen.spent_s for t in told),
        num_jobs=len(told),
        by_purpose=Counter(t.job.purpose for t in told),
    )


def _seen(plan: SearchPlan, job: Job, start_s: float) -> Seen:
    if job.purpose == "quality":
        return Seen(spent_s=start_s + _QUALITY_S)
    is_met = job.rate_rps <= _capacity_rps(plan, job.candidate)
    num = min(job.num_requests, _DECIDED if is_met else _REFUSED)
    return Seen(
        verdict="PASS" if is_met else "FAIL",
        num=num,
        num_misses=0 if is_met else num,
        share=0.05,
        spent_s=start_s + _WARM_UP * num / job.rate_rps,
    )


def _capacity_rps(plan: SearchPlan, candidate: int) -> float:
    baseline = plan.candidates[0].predicted_rps or 2 * plan.start_rps
    if candidate == 0:
        return baseline
    return plan.candidates[candidate].predicted_rps or 0.9 * baseline
