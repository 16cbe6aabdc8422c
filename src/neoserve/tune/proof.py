"""The proof of a search's winner and of its baseline, on requests that chose nothing. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ..schema.campaign import Job, SearchPlan
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
            if job := _next_proof(history, candidate, number):
                yield job
                return


def _next_proof(history: History, candidate: int, number: int) -> Job | None:
    """Of one visit: first a rate that holds, then one that does not."""
    limit_rps = history.estimate_rps(candidate)
    if limit_rps is None or history.is_out(candidate):
        return None
    found = _certificate(history, candidate, number, limit_rps)
    return found or _refutation(history, candidate, number, limit_rps)


def _certificate(history: History, candidate: int, number: int, limit_rps: float) -> Job | None:
    plan, visit = history.plan, FIRST_VISIT + number
    rates = _certify_rates(history, candidate, limit_rps)
    step = _step(history, candidate, rates)
    if step == len(rates) or _is_done(history, candidate, rates[step], visit):
        return None
    rate, level = rates[step], _level(plan)
    num = long_enough(plan, _num_asked(plan), rate, PROOF_HORIZONS)
    if not any(t.job.rate_rps == rate for t in history.of(candidate, "certify")):
        num = _enough(history, candidate, rate, num, level)
    if _is_too_long(plan, num, rate):
        return None
    seed = plan.seed + _CERTIFY_SEED + 100 * number + step
    return Job(candidate, "certify", rate, num, seed, level, visit)


def _refutation(history: History, candidate: int, number: int, limit_rps: float) -> Job | None:
    plan = history.plan
    tries = [t for t in history.of(candidate, "refute") if t.seen.verdict != "VOID"]
    is_over = len(tries) == len(_REFUTE_STEPS) or any(fails(t.seen) for t in tries)
    if is_over or (number and history.used_share() >= 1.0):
        return None
    above = limit_rps * (1 + plan.tolerance) ** _REFUTE_STEPS[len(tries)]
    num = long_enough(plan, _num_asked(plan), above, PROOF_HORIZONS)
    seed = plan.seed + _REFUTE_SEED + len(tries)
    return Job(candidate, "refute", above, num, seed, _level(plan), FIRST_VISIT + number)


def _is_too_long(plan: SearchPlan, num: int, rate_rps: float) -> bool:
    """Longer than the whole budget: rates that fall after each miss may come to hours a load."""
    return plan.budget_s is not None and num / rate_rps > plan.budget_s


def _level(plan: SearchPlan) -> float:
    """Of one try: half for the certificate, half for the refutation, and each may succeed by
    chance."""
    return plan.level / 2 / len(_CERTIFY_STEPS)


def _num_asked(plan: SearchPlan) -> int:
    return math.ceil(plan.num_certify / plan.num_seeds)


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
