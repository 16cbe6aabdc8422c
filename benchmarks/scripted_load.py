"""A job on the scripted engine: its load, ended as early as a real one, and what it showed.

The same job of the same candidate at the same point of a campaign gives the same rows, whether or
not the campaign was interrupted in between: chance is drawn from the world, the candidate and the
job, and the host's drift follows the engine time that the jobs before took.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

from scripted_engine import QUALITY_S, SLO, WORKLOAD, World
from scripted_queue import Engine, Noise

from neoserve.errors import AskError
from neoserve.measure.backlog import backlog
from neoserve.measure.schedule import Schedule, plan
from neoserve.measure.summary import Steady, goodput_rps
from neoserve.measure.verdict import Judgement, Reading, Watch, judge
from neoserve.schema.campaign import Job, Seen, Told
from neoserve.schema.space import Candidate
from neoserve.schema.trial import RequestRow, Stop
from neoserve.schema.workload import Slo

_LOOK_EVERY = 10  # requests that end between looks; a real load is looked at twice a second
_BACKLOG_EVERY = 15  # as measure/trial.py
_LEAST_GROWTH = 19  # requests: below it, measure/backlog.py sees no growth
_CRASH_SHARE = 0.5  # of a start, after which it fails


class Load(NamedTuple):
    """A load that is over."""

    rows: list[RequestRow]
    schedule: Schedule
    stop: Stop
    length_s: float
    judgement: Judgement
    saturated: bool


def load(
    world: World,
    candidate: Candidate,
    job: Job,
    now_s: float,
    slo: Slo = SLO,
    *,
    ends_early: bool = True,
) -> Load:
    """The schedule of the job's seed at its rate, on a running server; `now_s` is engine time."""
    unit = unit_schedule(job.seed, job.num_requests)
    schedule = tuple(planned.replace(due_s=planned.due_s / job.rate_rps) for planned in unit)
    noise = Noise(
        f"{world.seed} {candidate.id} {job.visit} {job.purpose} {job.seed} {job.num_requests} "
        f"{job.rate_rps!r}",
        slow=world.speed(candidate, job.visit) * world.drift(now_s),
    )
    engine = Engine(
        world.law(candidate.id),
        [planned.due_s for planned in schedule],
        [planned.prompt_tokens for planned in schedule],
        [planned.output_tokens for planned in schedule],
        noise,
    )
    watcher = Watcher(engine, schedule, slo, job.level, ends_early=ends_early)
    stop: Stop | None = None
    for time_s in engine.run(_LOOK_EVERY):
        stop = watcher.look(time_s)
        if stop:
            break
    rows = rows_at(engine, schedule, time_s)
    return Load(rows, schedule, stop or "planned", time_s, *watcher.judged(rows))


@functools.lru_cache(maxsize=128)
def unit_schedule(seed: int, num: int) -> Schedule:
    """All requests of a trial at 1 a second: at other rates only the clock differs."""
    workload = WORKLOAD.replace(seed=seed)
    warmup, drain = max(5, min(50, round(0.1 * num))), 10 + num // 4
    while True:
        try:
            return plan(workload, num, num_warmup=warmup, num_drain=drain)
        except AskError:  # one good schedule in a thousand fails the tests of its law
            workload = workload.replace(seed=workload.seed + 1_000_003)


def rows_at(engine: Engine, schedule: Schedule, now_s: float) -> list[RequestRow]:
    """Every planned request as it stands."""
    rows = []
    stamps = zip(schedule, engine.first_s, engine.last_s, strict=True)
    for planned, first_s, last_s in stamps:
        due_s = planned.due_s
        if due_s > now_s:
            row = RequestRow(due_s, status="unsent", phase=planned.phase, session=planned.session)
        elif last_s is None:
            row = RequestRow(due_s, due_s, first_s, status="cancelled", phase=planned.phase,
                             session=planned.session)  # fmt: skip
        else:
            row = RequestRow(due_s, due_s, first_s, last_s, planned.prompt_tokens,
                             planned.output_tokens, phase=planned.phase, session=planned.session)
        rows.append(row)
    return rows


class Watcher:
    """Looks at a running load as measure/trial.py does, but reads each request once."""

    def __init__(self, engine: Engine, schedule: Schedule, slo: Slo, level: float,
                 *, ends_early: bool = True) -> None:  # fmt: skip
        self._engine, self._schedule, self._slo = engine, schedule, slo
        self._level = level
        self._ends_early = ends_early
        self._ours = [i for i, planned in enumerate(schedule) if planned.phase == "measured"]
        self._watch = Watch(slo, len(self._ours), level)
        self._read: dict[str, list[Reading]] = {"ttft": [], "tpot": [], "e2e": []}
        self._num_ended = 0
        self._num_ttft = 0  # from the first on, that are known or miss by now
        self._next_backlog = _BACKLOG_EVERY

    def look(self, now_s: float) -> Stop | None:
        """Why the load has to end now; null: it goes on."""
        begin = self._num_ended
        last_s = self._engine.last_s
        while self._num_ended < len(self._ours):
            if last_s[self._ours[self._num_ended]] is None:
                break
            self._num_ended += 1
        self._take(begin, now_s)
        if self._num_ended == len(self._ours):
            return "planned"
        if not self._ends_early:
            return None
        if self._watch.verdict(self._read) is not None:
            return "decided"
        return "saturated" if self._is_saturated(now_s) else None

    def _take(self, begin: int, now_s: float) -> None:
        engine, schedule = self._engine, self._schedule
        for i in self._ours[begin : self._num_ended]:
            first_s, last_s = engine.first_s[i] or 0.0, engine.last_s[i] or 0.0
            due_s, tokens = schedule[i].due_s, schedule[i].output_tokens
            self._read["e2e"].append((round(last_s - due_s, 9), True))
            if tokens > 1:
                tpot_s = round(last_s - first_s, 9) / (tokens - 1)
                self._read["tpot"].append((tpot_s, True))
        limit_s = min((t.limit for t in self._slo.targets if t.metric == "ttft"), default=math.inf)
        for i in self._ours[self._num_ttft :]:
            first_s, due_s = engine.first_s[i], schedule[i].due_s
            if engine.last_s[i] is not None and first_s is not None:
                self._read["ttft"].append((round(first_s - due_s, 9), True))
            elif first_s is None and now_s - due_s >= limit_s:
                self._read["ttft"].append((now_s - due_s, False))
            else:
                break
            self._num_ttft += 1

    def _is_saturated(self, now_s: float) -> bool:
        """The full look costs as much as the load: it is left out where few are in flight."""
        if self._num_ended < self._next_backlog:
            return False
        self._next_backlog = self._num_ended + max(_BACKLOG_EVERY, self._num_ended // 20)
        arrived = [i for i in self._ours if self._schedule[i].due_s <= now_s]
        if len(arrived) - self._num_ended <= _LEAST_GROWTH // 2:
            return False
        return backlog(rows_at(self._engine, self._schedule, now_s), now_s).is_saturated

    def judged(self, rows: Sequence[RequestRow]) -> tuple[Judgement, bool]:
        """The verdict of a load that is over, and whether it was saturated: those of `judge`.

        Where all have ended, the watch has only the last of them to read.
        """
        saturated = backlog(rows).is_saturated
        if self._num_ended < len(self._ours):
            return judge(rows, self._slo, len(self._ours), self._level), saturated
        self._watch.read(self._read)
        return self._watch.judgement(saturated), saturated


def play(world: World, candidates: Sequence[Candidate], told: Sequence[Told], job: Job,
         slo: Slo = SLO) -> Seen:  # fmt: skip
    """What a job shows after those that are told."""
    candidate, now_s = candidates[job.candidate], math.fsum(t.seen.spent_s for t in told)
    start_s = 0.0 if runs_already(told, job) else world.start_s(candidate, job.visit)
    if start_s and (crash := world.crash(candidate, job.visit, num_crashes(told, job))):
        return Seen(verdict="VOID", crash=crash, spent_s=_CRASH_SHARE * start_s)
    if job.purpose == "quality":
        known = {candidates[t.job.candidate].knobs.get("precision") for t in told
                 if t.job.purpose == "quality"}  # fmt: skip
        score_s = 0.0 if candidate.knobs.get("precision") in known else QUALITY_S
        return Seen(quality=world.quality(candidate), spent_s=start_s + score_s)
    return seen(load(world, candidate, job, now_s + start_s, slo), slo, start_s)


def runs_already(told: Sequence[Told], job: Job) -> bool:
    """Is the server that the job wants the one that the last job left?"""
    if not told or told[-1].seen.crash:
        return False
    before = told[-1].job
    return (before.candidate, before.visit) == (job.candidate, job.visit)


def num_crashes(told: Sequence[Told], job: Job) -> int:
    """Of the server that the job wants, so far."""
    wanted = (job.candidate, job.visit)
    return sum(bool(t.seen.crash) and (t.job.candidate, t.job.visit) == wanted for t in told)


def seen(found: Load, slo: Slo, start_s: float) -> Seen:
    """A load as the search is told of it."""
    judgement = found.judgement
    due_s = [row.due_s for row in found.rows if row.phase == "measured" and row.status != "unsent"]
    from_s, until_s = (due_s[0], due_s[-1]) if due_s else (0.0, 0.0)
    window = Steady(from_s, until_s, None, None, None, None, load_limited=False)
    return Seen(
        verdict=judgement.verdict,
        saturated=found.saturated,
        num=judgement.num,
        num_misses=judgement.num_misses,
        share=judgement.share,
        dependence=judgement.dependence,
        goodput_rps=goodput_rps(found.rows, slo, window),
        spent_s=start_s + found.length_s,
    )
