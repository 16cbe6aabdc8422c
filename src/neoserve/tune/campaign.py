"""A campaign: ask the search what to do, do it, keep it, until there is nothing left to do.

The ledger is the only memory: what it holds is never done again, and a campaign that is resumed
decides as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..errors import AskError, EngineFailed, Error, EvidenceBroken
from ..evidence.run import Run
from ..evidence.verify import repair
from ..measure.figures import Observed
from ..schema.campaign import Campaign, Job, SearchPlan, Seen, Told
from ..schema.evidence import LedgerEntry
from ..schema.quality import QualityScore
from ..schema.space import Candidate
from .guard import check, unmeasurable
from .halving import next_job
from .session import About, Interrupted


class Executor(Protocol):
    """Where jobs run: a host's engine, or a scripted one."""

    def load(self, candidate: Candidate, job: Job, about: About) -> Observed:
        """Start or reuse the candidate's server, load it, keep the trial with what `about` says.

        Raises EngineFailed where it does not start, Interrupted where a person ended it.
        """

    def score(self, candidate: Candidate) -> QualityScore:
        """What it does to answers. Raises Error where that cannot be measured."""

    def spent_s(self) -> float:
        """Engine time since this was last asked."""

    def settings(self, candidate: Candidate) -> dict[str, str]:
        """Those that can change answers: equal ones are scored once."""

    def close(self) -> None:
        """Stop what runs."""


OnJob = Callable[[Job], None]
OnTold = Callable[[Told], None]


def begin(run: Run, campaign: Campaign, plan: SearchPlan) -> None:
    """Record what is to be done; from here on the folder can be resumed."""
    run.record("campaign", {"campaign": campaign.to_data(), "plan": plan.to_data()})


def recorded(run: Run) -> tuple[Campaign, SearchPlan, list[Told]]:
    """What a folder's campaign was asked, and its jobs so far. Raises AskError, EvidenceBroken.

    A last line that a kill tore is cut off first, as the next append would.
    """
    repair(run.path)
    entries = run.entries()
    begun = next((entry for entry in entries if entry.kind == "campaign"), None)
    if begun is None:
        raise AskError(f"{run.path} holds no campaign; expected a folder that `neoserve tune` made")
    return (
        Campaign.parse(begun.body.get("campaign"), f"{run.path}, campaign"),
        SearchPlan.parse(begun.body.get("plan"), f"{run.path}, plan"),
        told_in(entries),
    )


def told_in(entries: list[LedgerEntry]) -> list[Told]:
    """The jobs that are over, in their order. Raises EvidenceBroken."""
    return [told_of(entry) for entry in entries if "told" in entry.body]


def told_of(entry: LedgerEntry) -> Told:
    """The job that an entry tells. Raises EvidenceBroken."""
    try:
        return Told.parse(entry.body["told"], "told")
    except AskError as error:
        raise EvidenceBroken(f"a job in the ledger cannot be read: {error}") from None


def close_unfinished(run: Run) -> int:
    """Close loads that a crash or a kill ended, whose jobs are done again; how many there were."""
    found = run.unfinished()
    for left in found:
        run.close_unfinished(
            left.started.seq, left.rows, "the campaign was stopped while it ran"
        )
    run.sweep()
    return len(found)


def carry_out(
    run: Run,
    campaign: Campaign,
    plan: SearchPlan,
    told: list[Told],
    executor: Executor,
    *,
    on_job: OnJob = lambda _: None,
    on_told: OnTold = lambda _: None,
) -> None:
    """Do jobs until the search is over; `told` grows. Raises Interrupted."""
    scores = Scores(run)
    while (job := next_job(plan, told)) is not None:
        on_job(job)
        if job.purpose == "quality":
            done = _checked(run, campaign, plan, job, executor, scores)
        else:
            done = _loaded(run, plan, job, executor)
        told.append(done)
        on_told(done)


def _loaded(run: Run, plan: SearchPlan, job: Job, executor: Executor) -> Told:
    seen = Seen()

    def about(observed: Observed) -> dict[str, Any]:
        nonlocal seen
        if observed.trial.stop == "interrupted":
            return {}  # it is not over: a resumed campaign does it again
        seen = seen_of(observed, executor.spent_s())
        return {"told": Told(job, seen).to_data()}

    candidate = plan.candidates[job.candidate]
    try:
        observed = executor.load(candidate, job, about)
    except EngineFailed as error:
        return _failed(run, job, executor.spent_s(), str(error))
    if observed.trial.stop == "interrupted":
        raise Interrupted
    return Told(job, seen)


def _failed(run: Run, job: Job, spent_s: float, reason: str) -> Told:
    told = Told(job, Seen(verdict="VOID", spent_s=spent_s, crash=reason))
    run.record("crash", {"told": told.to_data()})
    return told


def seen_of(observed: Observed, spent_s: float) -> Seen:
    """What the search reads of a trial."""
    trial = observed.trial
    judgement = observed.judgement()
    return Seen(
        verdict=trial.verdict,
        saturated=trial.saturated,
        num=judgement.num,
        num_misses=judgement.num_misses,
        share=judgement.share,
        dependence=judgement.dependence,
        goodput_rps=trial.goodput_rps,
        spent_s=spent_s,
        crash="; ".join(trial.faults) if trial.stop == "engine" else "",
    )


def _checked(
    run: Run, campaign: Campaign, plan: SearchPlan, job: Job, executor: Executor, scores: Scores
) -> Told:
    """Answers against the baseline's."""
    candidate = plan.candidates[job.candidate]
    try:
        baseline = scores.of(plan.candidates[0], executor)
        quality = check(
            baseline, scores.of(candidate, executor), campaign.quality_budget_share
        )
    except EngineFailed as error:
        return _failed(run, job, scores.spent_s() + executor.spent_s(), str(error))
    except Error as error:
        quality = unmeasurable(str(error), budget_share=campaign.quality_budget_share)
    seen = Seen(spent_s=scores.spent_s() + executor.spent_s(), quality=quality)
    told = Told(job, seen)
    run.record("quality", {"told": told.to_data()})
    return told


class Scores:
    """What was scored: the same weights and settings once, and kept in the ledger.

    A check that was stopped between its scores costs as much as one that was not: their engine
    time waits here for the job that they are for.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: list[tuple[dict[str, str], QualityScore]] = []
        self._spent_s = 0.0
        for entry in run.entries():
            if entry.kind == "score":
                score = QualityScore.parse(entry.body.get("score"), "score")
                self._add(entry.body.get("settings", {}), score, entry.body.get("spent_s", 0.0))
            elif "told" in entry.body:
                self._spent_s = 0.0

    def of(self, candidate: Candidate, executor: Executor) -> QualityScore:
        """As it is known, or else measured. Raises Error."""
        settings = executor.settings(candidate)
        for known, score in self._known:
            if known == settings:
                return score
        score, spent_s = executor.score(candidate), executor.spent_s()
        body = {"settings": settings, "score": score.to_data(), "spent_s": spent_s}
        self._run.record("score", body)
        self._add(settings, score, spent_s)
        return score

    def spent_s(self) -> float:
        """Engine time of scores since this was last asked, or since a job was told."""
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    def _add(self, settings: dict[str, str], score: QualityScore, spent_s: float) -> None:
        self._known.append((settings, score))
        self._spent_s += spent_s
