"""The proof of a search's winner and of its baseline, on requests that chose nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..schema.campaign import Job
from .history import History, chosen, fails, long_enough, met

FIRST_VISIT = 10
_CERTIFY_STEPS = (4, 9, 16)  # tolerances below what looked like the limit
_REFUTE_STEPS = (3, 8, 16)  # tolerances above what looked like the limit
_NOT_WITHOUT_MISSES = 2.0  # times the requests that a proof without a miss takes
_MOST_TIMES = 8  # the requests that were asked for
_PROOF_SHARE = 0.1  # of a time budget, that one of its loads may take
PROOF_HORIZONS = 20  # a load lasts so many times the SLO's longest limit
_CERTIFY_SEED, _REFUTE_SEED = 10_000, 20_000


def certify(history: History) -> Iterator[Job]:
    """The proof of the winner and of the baseline, interleaved: A B, B A, A B."""
    winner = chosen(history)
    for number in range(history.plan.num_seeds):
        pair = (0, winner) if number % 2 == 0 else (winner, 0)
        if number and history.used_share() >= 1.0:
            return
        for candidate in dict.fromkeys(pair):
            jobs = list(_certify_one(history, candidate, number))
            if jobs:
                yield jobs[0]
                return


def _certify_one(history: History, candidate: int, number: int) -> Iterator[Job]:
    plan, visit = history.plan, FIRST_VISIT + number
    limit_rps = history.estimate_rps(candidate)
    if limit_rps is None or history.is_out(candidate):
        return
    level = plan.level / 2 / len(_CERTIFY_STEPS)  # each try may succeed by chance
    num = math.ceil(plan.num_certify / plan.num_seeds)
    rates = _certify_rates(history, candidate, limit_rps)
    step = _step(history, candidate, rates)
    if step < len(rates) and not _is_done(history, candidate, rates[step], visit):
        seed = plan.seed + _CERTIFY_SEED + 100 * number + step
        is_first = not any(t.job.rate_rps == rates[step] for t in history.of(candidate, "certify"))
        rate = rates[step]
        num = long_enough(plan, num, rate, PROOF_HORIZONS)
        most = _enough(history, candidate, rate, num, level) if is_first else num
        yield Job(candidate, "certify", rates[step], most, seed, level, visit)
    tries = [t for t in history.of(candidate, "refute") if t.seen.verdict != "VOID"]
    is_open = len(tries) < len(_REFUTE_STEPS) and not any(fails(t.seen) for t in tries)
    if is_open and (number == 0 or history.used_share() < 1.0):
        above = limit_rps * (1 + plan.tolerance) ** _REFUTE_STEPS[len(tries)]
        seed = plan.seed + _REFUTE_SEED + len(tries)
        num = long_enough(plan, num, above, PROOF_HORIZONS)
        yield Job(candidate, "refute", above, num, seed, level, visit)


def _enough(
    history: History, candidate: int, rate_rps: float, num: int, level: float
) -> int:
    """Requests that a proof may take, of which some may miss, if they depend on each other as they
    did: it ends sooner if it can."""
    held = [t.seen for t in history.of(candidate, "climb", "settle") if met(t.seen)]
    if not held or not held[-1].share:
        return num
    independent = _NOT_WITHOUT_MISSES * math.log(level) / math.log1p(-held[-1].share)
    dependence = max(seen.dependence for seen in held[-3:])
    most = _MOST_TIMES * num
    if history.plan.budget_s:
        most = min(most, int(_PROOF_SHARE * history.plan.budget_s * rate_rps))
    return max(num, min(most, math.ceil(independent * dependence)))


def _certify_rates(history: History, candidate: int, limit_rps: float) -> list[float]:
    """What passed in the search, if it is near the limit, and less: requests are fresh now."""
    passed = [
        t.job.rate_rps
        for t in history.of(candidate, "climb", "settle")
        if t.seen.verdict == "PASS" and t.job.rate_rps <= limit_rps
    ]
    step = 1 + history.plan.tolerance
    near, *lower = (limit_rps / step**down for down in _CERTIFY_STEPS)
    return [max([near, *passed]), *lower]


def _step(history: History, candidate: int, rates: Sequence[float]) -> int:
    """How many of the rates were given up."""
    for step, rate in enumerate(rates):
        seen = [t.seen for t in history.of(candidate, "certify")
                if t.job.rate_rps == rate and t.seen.verdict != "VOID"]  # fmt: skip
        if not seen or (seen[0].verdict == "PASS" and not any(map(fails, seen))):
            return step
    return len(rates)


def _is_done(history: History, candidate: int, rate_rps: float, visit: int) -> bool:
    return any(
        t.job.rate_rps == rate_rps and t.seen.verdict != "VOID"
        for t in history.of(candidate, "certify", visit=visit)
    )
