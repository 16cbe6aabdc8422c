"""What to do next: asynchronous successive halving over configurations. Pure.

A job is chosen from the plan and from what earlier jobs showed, so a ledger replays to the same
decisions. Candidates that are compared get the same requests at the same rate (common random
numbers); rungs grow in requests, and a load ends as soon as its verdict is proven.

1. The baseline's limit is searched: scouts of `rungs[0]` requests double or halve the rate until
   one is not met, loads of `rungs[1]` find the limit from there.
2. Each candidate is probed just below the leader's limit: `rungs[0]` requests can only reject,
   `rungs[1]` decide whether its own limit is worth searching.
3. The best are settled on other requests and fresh servers, `rungs[2]` a load; half go on.
4. Winner and baseline are certified, and refuted just above, on fresh requests, A B B A.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence

from ..schema.campaign import Job, SearchPlan, Told
from ..stats import clopper_pearson
from .history import History, distance, fails, long_enough, met, probes
from .max_rate import bracket
from .proof import FIRST_VISIT, PROOF_HORIZONS, certify

EXPLORE_SHARE, SETTLE_SHARE = 0.5, 0.7  # of the budget, after which no more are begun
_LOOK, _SETTLE = 1, 2  # first visits of the two
_FILLING = ("one-change", "space-filling")  # origins without advice
_HOPELESS = 3  # candidates of which not one ran, after which no more are started
_SETTLE_ROUNDS = 2
_BAND = 3  # tolerances below the best, within which a candidate may still be the best
_WIDE = 2.0  # of a scout's rate, to the next one
_CLIMB_HORIZONS = 10  # a load lasts so many times the SLO's longest limit
_MOST_CLIMBS = 12  # of one visit
_LOWEST_SHARE = 1 / 64  # of the starting rate
_SETTLE_SEED = 100


def next_job(plan: SearchPlan, told: Sequence[Told], running: Sequence[Job] = ()) -> Job | None:
    """The next job of a free host; null when there is none, or none before `running` ones end."""
    history = History(plan, told)
    busy = {job.candidate for job in running}
    for first_visit, stage in _STAGES:
        if any(job.visit < first_visit for job in running):
            return None  # a stage needs all that the one before it found
        is_over = True
        for job in stage(history):
            if job.candidate not in busy:
                return job
            is_over = False
        if not is_over:
            return None
    return None


def _baseline(history: History) -> Iterator[Job]:
    yield from _look(history, 0)


def _explore(history: History) -> Iterator[Job]:
    """Looks that have begun, and the next one."""
    begun = history.begun()
    if len(begun) >= _HOPELESS and all(history.crash(i) for i in begun):
        return  # it is not the settings
    for candidate in begun:
        yield from _look(history, candidate)
    if history.used_share() < EXPLORE_SHARE:
        for candidate in _waiting(history, begun):
            yield from _look(history, candidate)


def _waiting(history: History, begun: Sequence[int]) -> list[int]:
    """Advised ones as listed; then in turn one near the leader and the next of the list.

    Those that have what crashed, and nothing that ran had, come last.
    """
    plan, leader = history.plan, history.leader()
    rest = sorted(set(range(len(plan.candidates))) - set(begun))
    advised = [i for i in rest if plan.candidates[i].origin not in _FILLING]
    filling = [i for i in rest if plan.candidates[i].origin in _FILLING]
    num_filled = sum(plan.candidates[i].origin in _FILLING for i in begun)
    if filling and leader is not None and num_filled % 2 == 0:
        near = min(filling, key=lambda i: (distance(plan, i, leader), i))
        filling = [near, *(i for i in filling if i != near)]
    ran = {part for i in begun if not history.crash(i) for part in _parts(plan, i)}
    crashed = {part for i in begun if history.crash(i) for part in _parts(plan, i)} - ran
    order = [*advised, *filling]
    if not crashed:
        return order
    return sorted(order, key=lambda i: not crashed.isdisjoint(_parts(plan, i)))


def _parts(plan: SearchPlan, candidate: int) -> set[tuple[tuple[str, str], ...]]:
    """Its values, and its pairs of values: what may be to blame."""
    names = sorted({name for c in plan.candidates for name in c.knobs})
    knobs = plan.candidates[candidate].knobs
    values = [(name, knobs.get(name, "")) for name in names]
    return {(value,) for value in values} | set(itertools.combinations(values, 2))


def _look(history: History, candidate: int) -> Iterator[Job]:
    """The first visit: reject it soon, or find its limit."""
    if history.is_out(candidate):
        return
    plan = history.plan
    probed = history.of(candidate, "probe")
    goal = probed[0].job.rate_rps if probed else _goal_rps(history, candidate)
    make = functools.partial(Job, candidate=candidate, seed=plan.seed, level=plan.level,
                             visit=_LOOK)  # fmt: skip
    if goal is not None:
        if not any(t.seen.verdict != "VOID" for t in probed):
            num = long_enough(plan, plan.rungs[0], goal)
            yield make(purpose="probe", rate_rps=goal, num_requests=num)
            return
        if _is_rejected(probed[-1]):
            return
    climbs = history.of(candidate, "climb")
    if goal is not None and _needs_check(history, candidate):
        yield make(purpose="quality")
        return
    if goal is None and not climbs:  # it may be anywhere
        scouts = history.of(candidate, "scout")
        rate = _next_rate(scouts, plan.start_rps, _WIDE - 1, _WIDE - 1, goes_down=True)
        if rate is not None and rate >= plan.start_rps * _LOWEST_SHARE:
            num = long_enough(plan, plan.rungs[0], rate)
            yield make(purpose="scout", rate_rps=rate, num_requests=num)
            return
        goal = bracket(probes(scouts))[0]
        if goal is None:
            return
    step = 2 * plan.tolerance
    rate = _next_rate(climbs, goal or 0.0, step, step, goes_down=not probed)
    if rate is not None:
        num = long_enough(plan, plan.rungs[1], rate, _CLIMB_HORIZONS)
        yield make(purpose="climb", rate_rps=rate, num_requests=num)
    elif _needs_check(history, candidate):
        yield make(purpose="quality")


def _needs_check(history: History, candidate: int) -> bool:
    return candidate in history.plan.guarded and not history.of(candidate, "quality")


def _goal_rps(history: History, candidate: int) -> float | None:
    """Just below what the leader holds, for the same money; null where there is nothing to beat."""
    leader = history.leader()
    if candidate == 0 or leader is None or leader == candidate or history.of(candidate, "climb"):
        return None
    score = history.score(leader)
    if score is None:
        return None
    return score * history.cost_share(candidate) * (1 - history.plan.tolerance)


def _is_rejected(told: Told) -> bool:
    """Few requests can only reject: more missed than chance explains."""
    seen = told.seen
    if fails(seen):
        return True
    if not seen.num or not seen.share:
        return False
    low = _least_share(seen.num_misses / seen.dependence, seen.num / seen.dependence)
    return low > seen.share or seen.num_misses > 4 * seen.share * seen.num


@functools.lru_cache(maxsize=4096)
def _least_share(misses: float, num: float) -> float:
    return clopper_pearson(misses, num)[0]


def _next_rate(
    told: Sequence[Told], start_rps: float, tolerance: float, step: float, *, goes_down: bool
) -> float | None:
    """Where the next load of a visit says most; null when its limit is known.

    `step` is the first one away from the start, as a share of the rate.
    """
    if not told:
        return start_rps
    if told[-1].seen.verdict == "VOID":
        return told[-1].job.rate_rps
    low, high = bracket(probes(told))
    if len(told) >= _MOST_CLIMBS or (low is None and high is None):
        return None
    if low is None:
        return (high or 0.0) / _growth(told, step, False) if goes_down else None
    if high is None:
        return low * _growth(told, step, True)
    return None if high <= low * (1 + tolerance) else math.sqrt(low * high)


def _growth(told: Sequence[Told], step: float, is_up: bool) -> float:
    """Ever larger steps, until there is a rate on either side."""
    steps = sum(met(t.seen) == is_up for t in told)
    return float(min(_WIDE, 1 + step * 4 ** (steps - 1)))


def _settle(history: History) -> Iterator[Job]:
    """The best again, on other requests and fresh servers; half of them go on."""
    for number in range(_SETTLE_ROUNDS):
        visit = _SETTLE + number
        before = history.before(visit)
        jobs = [job for c in _contenders(before, number)
                for job in _settle_one(history, before, c, visit)]  # fmt: skip
        if jobs:
            yield from jobs
            return


def _contenders(history: History, number: int) -> list[int]:
    """Those that may be the best, and the baseline, which they are compared with."""
    plan, leader = history.plan, history.leader()
    best = history.score(leader) if leader is not None else None
    if best is None or not plan.num_finalists:
        return []
    near = [
        (score, -i)
        for i in history.begun()
        if not history.is_out(i)
        and (score := history.score(i)) is not None
        and score * (1 + plan.tolerance) ** _BAND >= best
    ]
    most = max(1, plan.num_finalists * 2 >> number)
    found = [-i for _, i in sorted(near, reverse=True)[:most]]
    if found == [0]:
        return []
    return list(dict.fromkeys([found[0], 0, *found]))


def _settle_one(
    history: History, before: History, candidate: int, visit: int
) -> Iterator[Job]:
    """The candidate's limit on this visit's requests."""
    plan, told = history.plan, history.of(candidate, "settle", visit=visit)
    start_rps = before.estimate_rps(candidate)
    if start_rps is None or history.is_out(candidate):
        return
    is_begun = any(t.job.visit == visit for t in history.told)
    if not told and history.used_share() >= SETTLE_SHARE and not (is_begun and candidate == 0):
        return
    rate = _next_rate(told, start_rps, plan.tolerance, plan.tolerance, goes_down=True)
    if rate is not None:
        seed = plan.seed + _SETTLE_SEED * (visit - _SETTLE + 1)
        num = long_enough(plan, plan.rungs[2], rate, PROOF_HORIZONS)
        yield Job(candidate, "settle", rate, num, seed, plan.level, visit)


_STAGES = ((0, _baseline), (0, _explore), (_SETTLE, _settle), (FIRST_VISIT, certify))
