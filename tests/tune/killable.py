"""A campaign on the scripted engine, in a process that may be killed: python -m tune.killable.

Arguments: the run folder, and how long each job sleeps, once before and once within its load.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripted_engine import QUALITY_BUDGET, SLO, SPACE, WORKLOAD, World, grid

from neoserve.evidence.run import Run
from neoserve.measure.figures import Observed
from neoserve.schema.campaign import Campaign, Job, SearchPlan, Told
from neoserve.schema.quality import QualityScore
from neoserve.schema.space import Candidate
from neoserve.tune.campaign import begin, carry_out, close_unfinished, recorded
from neoserve.tune.session import About

from .scripted import ScriptedExecutor

SEED = 3  # int8 spoils answers there, and does not run on all cores
POINTS: tuple[dict[str, str], ...] = (
    {},
    {"threads": "12"},
    {"slots": "8", "kv": "large"},  # out of memory
    {"threads": "12", "precision": "int8"},  # fast, and worse
    {"precision": "int8"},
    {"threads": "12", "slots": "6", "kv": "large"},
    {"threads": "12", "slots": "6", "kv": "large", "allocator": "tcmalloc"},
    {"threads": "8", "batched_tokens": "2048"},
    {"threads": "12", "slots": "6", "kv": "large", "batched_tokens": "2048"},
)  # fmt: skip


def plan() -> SearchPlan:
    known = {frozenset(c.knobs.items()): c for c in grid()}
    return SearchPlan(
        candidates=tuple(known[frozenset(point.items())] for point in POINTS),
        guarded=(0, 3, 4),
        start_rps=0.8,
        rungs=(20, 60, 120),
        num_certify=240,
        num_seeds=2,
        num_finalists=1,
        tolerance=0.1,
    )


def campaign() -> Campaign:
    return Campaign(
        space=SPACE, workload=WORKLOAD, slo=SLO, context_tokens=512,
        quality_budget_share=QUALITY_BUDGET,
    )  # fmt: skip


def begun(path: Path) -> Run:
    run = Run.create(path, "tune", seed=0, versions={}, argv=())
    begin(run, campaign(), plan())
    return run


def carried_on(path: Path, sleep_s: float = 0.0) -> list[Told]:
    """As `neoserve tune --resume` goes on."""
    run = Run.open(path)
    asked, searched, told = recorded(run)
    close_unfinished(run)
    carry_out(run, asked, searched, told, Sleepy(run, searched, told, sleep_s))
    return told


class Sleepy(ScriptedExecutor):
    """A scripted load is over at once: this one sleeps before it, and before it is kept."""

    def __init__(self, run: Run, searched: SearchPlan, told: Sequence[Told],
                 sleep_s: float) -> None:  # fmt: skip
        super().__init__(run, World(SEED), searched.candidates, told)
        self._sleep_s = sleep_s

    def load(self, candidate: Candidate, job: Job, about: About) -> Observed:
        """As `campaign.Executor`."""
        time.sleep(self._sleep_s)

        def slowly(observed: Observed) -> Mapping[str, Any]:
            time.sleep(self._sleep_s)
            return about(observed)

        return super().load(candidate, job, slowly)

    def score(self, candidate: Candidate) -> QualityScore:
        """As `campaign.Executor`."""
        time.sleep(self._sleep_s)
        return super().score(candidate)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    if not folder.exists():
        begun(folder)
    print("ready", flush=True)
    carried_on(folder, float(sys.argv[2]))
