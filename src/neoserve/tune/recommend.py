"""From a campaign's ledger to its Recommendation."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AskError
from ..evidence.run import Run
from ..schema.campaign import (
    Campaign,
    Compared,
    EndedBy,
    Recommendation,
    SearchPlan,
    Standing,
    Told,
)
from ..schema.engine import EngineConfig
from ..schema.trial import Trial
from .conclude import conclude
from .explain import explain
from .history import History, met
from .learned import Measured, company, compared, trials_in
from .planner import Planner


def recommend(
    run: Run,
    campaign: Campaign,
    plan: SearchPlan,
    told: Sequence[Told],
    config: EngineConfig | None = None,
    ended_by: EndedBy | None = None,
    planner: Planner | None = None,
) -> Recommendation:
    """What the ledger holds says. `config` is the pick's process where no trial shows it.

    With a planner, what it says of the pick's load stands beside what was measured.

    Raises AskError where nothing was measured yet.
    """
    if not told:
        raise AskError(f"{run.path}: nothing was measured yet; resume it with --resume")
    found = conclude(plan, told)
    measured = trials_in(run.entries())
    trial, baseline = (_proof(measured, plan, told, i) for i in (found.pick, 0))
    ran = trial.engine if trial else config
    if ran is None:
        raise AskError(f"{run.path}: no trial of {plan.candidates[found.pick].show()} is left")
    pick = found.standings[found.pick]
    rate = pick.capacity.certified_rps or pick.capacity.low_rps or 0.0
    spent_s = History(plan, told).spent_s()
    hourly = campaign.usd_per_hour
    return Recommendation(
        workload=campaign.workload.replace(rate_rps=rate),
        slo=campaign.slo,
        pick=pick,
        baseline=found.standings[0],
        config=ran,
        trial=trial,
        baseline_trial=baseline,
        gain=found.gain,
        noise_share=found.noise_share,
        standings=found.standings,
        rejected=campaign.rejected,
        compared=(*_compared(pick),
                  *(compared(plan, found.pick, trial, planner) if trial and planner else ())),
        explained=_explained(measured, found.pick, (trial, baseline)),
        num_jobs=len(told),
        spent_s=spent_s,
        spent_usd=None if hourly is None else spent_s / 3600 * hourly,
        ended_by=ended_by or found.ended_by,
        usd_per_hour=hourly,
        price_source=campaign.price_source,
        notes=(*campaign.notes, *company(measured)),
    )  # fmt: skip


def _proof(
    measured: Sequence[Measured], plan: SearchPlan, told: Sequence[Told], candidate: int
) -> Trial | None:
    """The trial that certifies a candidate, or else its busiest one that kept the SLO."""
    certified = History(plan, told).certified_rps(candidate)

    def strength(one: Measured) -> tuple[bool, bool, bool, float]:
        job, seen = one.told.job, one.told.seen
        proves = job.purpose == "certify" and job.rate_rps == certified
        return proves, met(seen), seen.verdict == "PASS", job.rate_rps

    found = [one for one in measured if one.told.job.candidate == candidate]
    return max(found, key=strength).trial if found else None


def _explained(
    measured: Sequence[Measured], pick: int, shown: tuple[Trial | None, Trial | None]
) -> tuple[str, ...]:
    """The pick's gain by its certifying trials beside the baseline's; () where they are one."""
    if pick == 0 or all(trial is None or trial.pmu is None for trial in shown):
        return ()
    sides = []
    for candidate, trial in zip((pick, 0), shown, strict=True):
        repeats = [m.trial for m in measured if m.told.job.candidate == candidate
                   and m.told.job.purpose == "certify" and m.trial.verdict != "VOID"]  # fmt: skip
        sides.append(repeats or ([trial] if trial else []))
    return explain(*sides) if all(sides) else ()


def _compared(pick: Standing) -> list[Compared]:
    """What the planner had said before it was measured."""
    predicted = pick.candidate.predicted_rps
    capacity = pick.capacity
    seen = capacity.low_rps
    if predicted is None or seen is None:
        return []
    if capacity.high_rps is not None:
        seen = (seen * capacity.high_rps) ** 0.5
    return [Compared("highest rate within the SLO, requests/s", predicted, seen)]
