"""A campaign as it runs: what is tried, what was learned, who leads, how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..measure.trial import Look
from ..schema.campaign import Campaign, Job, SearchPlan, Told
from ..tune.halving import EXPLORE_SHARE
from ..tune.history import History
from ..units import show_duration, significant
from .progress import Live

PURPOSES = {
    "scout": "roughly, where is its limit?",
    "probe": "is it as good as the leader?",
    "climb": "looking for its limit",
    "settle": "its limit again, on other requests",
    "certify": "proof on fresh requests",
    "refute": "disproof just above",
    "quality": "does it change answers?",
}


class View:
    """Lines on stderr, and the load that runs on one of them."""

    def __init__(self, campaign: Campaign, plan: SearchPlan, note: Callable[[str], None]) -> None:
        self._plan, self._note = plan, note
        self._live = Live(campaign.slo)
        self._now: tuple[int, int] = (-1, -1)

    def say(self, text: str) -> None:
        """What an engine's start says, indented under its candidate."""
        self._live.say(self._note, f"    {text}")

    def look(self, look: Look) -> None:
        """A running load."""
        self._live.show(look)

    def job(self, job: Job, told: Sequence[Told]) -> None:
        """What begins."""
        if self._now != (job.candidate, job.visit):
            self._now = (job.candidate, job.visit)
            shown = self._plan.candidates[job.candidate]
            self._live.say(self._note, f"{self._place(job)} {shown.show()}  ({shown.origin})")
        load = f" {_rate(job.rate_rps)}, up to {job.num_requests} requests:" if job.rate_rps else ""
        left = _left(History(self._plan, told))
        self.say(f"{job.purpose}:{load} {PURPOSES[job.purpose]}{left}")

    def told(self, told: Sequence[Told]) -> None:
        """What it showed, and who leads."""
        history = History(self._plan, told)
        self.say(f"-> {outcome(told[-1])}{_leader(history)}")

    def close(self) -> None:
        """Leave the line."""
        self._live.close()

    def _place(self, job: Job) -> str:
        return f"[{job.candidate + 1}/{len(self._plan.candidates)}]"


def outcome(told: Told) -> str:
    """One line of a job's end."""
    seen = told.seen
    if seen.crash:
        return f"did not run: {seen.crash}"
    if seen.quality is not None:
        return f"quality {seen.quality.verdict}: {seen.quality.reason}"
    if seen.verdict == "VOID":
        return "void: this load says nothing about the server"
    missed = f"{seen.num_misses} of {seen.num} requests missed the SLO"
    growing = ", it did not keep up" if seen.saturated else ""
    return f"{seen.verdict}: {missed}{growing}"


def _leader(history: History) -> str:
    leader = history.leader()
    if leader is None:
        return "; nothing keeps the SLO yet"
    rate = history.estimate_rps(leader) or 0.0
    who = history.plan.candidates[leader].show()
    return f"; best so far {who}: about {_rate(rate)}"


def _left(history: History) -> str:
    """Time that the budget leaves, or what is yet to be tried."""
    plan = history.plan
    if plan.budget_s:
        left_s = max(0.0, plan.budget_s - history.spent_s())
        return f" ({show_duration(left_s)} of the budget left)"
    untried = len(plan.candidates) - len(history.begun())
    if untried and history.used_share() < EXPLORE_SHARE:
        return f" ({untried} still to try)"
    return ""


def _rate(rate_rps: float) -> str:
    return f"{significant(rate_rps, 3)}/s"
