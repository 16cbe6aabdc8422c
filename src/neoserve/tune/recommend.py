"""From a campaign's ledger to its Recommendation."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AskError
from ..evidence.run import Run
from ..evidence.verify import trial_of
from ..schema.campaign import (
    Campaign,
    Compared,
    Recommendation,
    SearchPlan,
    Standing,
    Told,
)
from ..schema.engine import EngineConfig
from ..schema.evidence import LedgerEntry
from ..schema.trial import Trial
from .conclude import EndedBy, conclude
from .history import History


def recommend(
    run: Run,
    campaign: Campaign,
    plan: SearchPlan,
    told: Sequence[Told],
    config: EngineConfig | None = None,
    ended_by: EndedBy | None = None,
) -> Recommendation:
    """What the ledger holds says. `config` is the pick's process where no trial shows it.

    Raises AskError where nothing was measured yet.
    """
    if not told:
        raise AskError(f"{run.path}: nothing was measured yet; resume it with --resume")
    found = conclude(plan, told)
    entries = run.entries()
    trial, baseline = (_proof(entries, plan, told, i) for i in (found.pick, 0))
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
        compared=tuple(_compared(pick)),
        num_jobs=len(told),
        spent_s=spent_s,
        spent_usd=None if hourly is None else spent_s / 3600 * hourly,
        ended_by=ended_by or found.ended_by,
        usd_per_hour=hourly,
        price_source=campaign.price_source,
        notes=campaign.notes,
    )


def _proof(
    entries: Sequence[LedgerEntry], plan: SearchPlan, told: Sequence[Told], candidate: int
) -> Trial | None:
    """The trial that certifies a candidate, or else its busiest one that kept the SLO."""
    certified = History(plan, told).certified_rps(candidate)
    found: list[tuple[tuple[bool, bool, float], Trial]] = []
    for entry in entries:
        if entry.kind != "trial" or "told" not in entry.body:
            continue
        job = Told.parse(entry.body["told"], "told").job
        if job.candidate != candidate:
            continue
        trial = trial_of(entry)
        proves = job.purpose == "certify" and job.rate_rps == certified
        found.append(((proves, trial.verdict == "PASS", job.rate_rps), trial))
    return max(found, key=lambda pair: pair[0])[1] if found else None


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
