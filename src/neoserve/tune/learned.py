"""What a campaign teaches the planner: a DeviceProfile, and predicted beside measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..errors import AskError
from ..evidence.verify import trial_of
from ..schema.campaign import Compared, SearchPlan, Told
from ..schema.evidence import LedgerEntry
from ..schema.profile import DeviceProfile
from ..schema.trial import Trial
from .campaign import told_of
from .planner import Planner
from .profile import profile_from

_BUSY_CORES = 0.2  # of other programs, from which they may bend a limit


class Measured(NamedTuple):
    """A trial of a campaign, and what it was for."""

    told: Told
    trial: Trial


def trials_in(entries: Sequence[LedgerEntry]) -> list[Measured]:
    """Every load of a search, in order. Raises EvidenceBroken."""
    return [
        Measured(told_of(entry), trial_of(entry))
        for entry in entries
        if entry.kind == "trial" and "told" in entry.body
    ]


def profile_of(
    plan: SearchPlan, measured: Sequence[Measured], planner: Planner
) -> DeviceProfile | None:
    """For `predict --profile`; null where no load was light enough to tell."""
    trials = [m.trial for m in measured]
    predictions = [
        planner.prediction(plan.candidates[m.told.job.candidate], m.trial.workload)
        for m in measured
    ]
    try:
        return profile_from(trials, predictions, known=planner.coefficients)
    except AskError:
        return None


def compared(plan: SearchPlan, pick: int, trial: Trial, planner: Planner) -> Iterator[Compared]:
    """The planner's means under the load of a trial, beside that trial's."""
    said = planner.prediction(plan.candidates[pick], trial.workload)
    if said is None or said.latency is None:
        return
    load = f"{trial.workload.rate_rps:.3g} requests/s"
    for what, guess, seen in (
        ("TTFT", said.latency.ttft_s.mean, trial.ttft_s.mean),
        ("TPOT", said.latency.tpot_s.mean, trial.tpot_s.mean),
    ):
        if guess is not None and seen is not None:
            yield Compared(f"mean {what} at {load}, s", guess, seen)


def company(measured: Sequence[Measured]) -> Iterator[str]:
    """A sentence where other programs were busy beside the engine."""
    cores = [m.trial.client.others_cores or 0.0 for m in measured]
    busy = [used for used in cores if used > _BUSY_CORES]
    if busy:
        yield (
            f"other programs used up to {max(busy):.1f} cores during {len(busy)} of {len(cores)} "
            "loads: limits may be higher without them"
        )
