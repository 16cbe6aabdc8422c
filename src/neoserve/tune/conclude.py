"""What a search found: the pick, where each candidate ended, and the gain that is proven. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..schema.campaign import EndedBy, Gain, SearchPlan, Standing, State, Told
from .halving import EXPLORE_SHARE
from .history import History, chosen, noise


class Findings(NamedTuple):
    """The decision, from the ledger alone."""

    pick: int
    standings: tuple[Standing, ...]
    gain: Gain
    noise_share: float | None  # null: nothing was settled twice
    ended_by: EndedBy


def conclude(plan: SearchPlan, told: Sequence[Told], *, is_over: bool = True) -> Findings:
    """The end of a search; of one that goes on, or may be resumed, what stands so far."""
    history = History(plan, told)
    pick = chosen(history)
    standings = tuple(_standing(history, i, pick, is_over) for i in range(len(plan.candidates)))
    repeated = any(history.spread(i) is not None for i in history.begun() if i)
    return Findings(
        pick=pick,
        standings=standings,
        gain=_gain(history, pick),
        noise_share=noise(history) if repeated else None,
        ended_by=_ended_by(history),
    )


def _standing(history: History, candidate: int, pick: int, is_over: bool) -> Standing:
    state, reason = _state(history, candidate, pick, is_over)
    checks = [t.seen.quality for t in history.of(candidate, "quality") if t.seen.quality]
    jobs = history.of(candidate)
    return Standing(
        candidate=history.plan.candidates[candidate],
        state=state,
        reason=reason,
        capacity=history.capacity(candidate),
        quality=checks[-1] if checks else None,
        num_jobs=len(jobs),
        spent_s=sum(t.seen.spent_s for t in jobs),
    )


def _state(history: History, candidate: int, pick: int, is_over: bool) -> tuple[State, str]:
    """Where it ended or stands, with a sentence."""
    estimate, best = history.score(candidate), history.score(pick)
    if crash := history.crash(candidate):
        return "crashed", crash
    if breach := history.breach(candidate):
        return "quality", breach
    if history.is_void(candidate):
        reasons = f"{len(history.of(candidate))} jobs could not be judged"
        return "void", reasons
    if not history.of(candidate):
        if is_over:
            return "untried", "the search ended before its turn"
        return "waits", "its turn has not come"
    if candidate == pick and (is_over or estimate is not None):
        rate = history.estimate_rps(candidate)
        holds = "no rate kept the SLO" if rate is None else f"holds about {rate:.3g}/s"
        return "pick" if is_over else "leads", holds
    if estimate is None or best is None:
        is_tried_now = not is_over and history.told[-1].job.candidate == candidate
        return "begun" if is_tried_now else "rejected", _last_load(history, candidate)
    share, beside = estimate / best - 1, "the pick" if is_over else "the leader"
    about = f"holds about {history.estimate_rps(candidate):.3g}/s, {share:+.1%} beside {beside}"
    if abs(share) <= noise(history):
        return "tie", f"{about}: within the noise floor"
    settled = history.of(candidate, "settle")
    return ("finalist", about) if settled else ("slower", about)


def _last_load(history: History, candidate: int) -> str:
    last = history.of(candidate, "scout", "probe", "climb")[-1]
    rate = f"{last.job.rate_rps:.3g}/s"
    if last.seen.saturated:
        return f"at {rate} it did not keep up"
    return f"at {rate} {last.seen.num_misses} of {last.seen.num} requests missed the SLO"


def _gain(history: History, pick: int) -> Gain:
    """Only where both are certified, for the same money."""
    mine, base = history.capacity(pick), history.capacity(0)
    if pick == 0:
        why = _no_gain(history)
    elif history.crash(0):
        why = f"the engine's defaults do not run here: {history.crash(0)}"
    elif mine.certified_rps is None:
        why = "no rate of the pick was certified, so no gain is quoted"
    elif base.certified_rps is None:
        why = "no rate of the engine's defaults was certified, so no gain is quoted"
    else:
        why = ""
    level = 2 * history.plan.level  # either bound may be wrong
    best, own = history.score(pick), history.score(0)
    if why or not best or not own:
        return Gain(ratio=None, low=None, high=None, level=level, reason=why)
    price = history.cost_share(0) / history.cost_share(pick)
    return Gain(
        ratio=best / own,
        low=over(mine.certified_rps, base.refuted_rps, price),
        high=over(mine.refuted_rps, base.certified_rps, price),
        level=level,
        reason="" if base.refuted_rps else "no rate above the defaults' was disproven",
    )


def over(mine_rps: float | None, base_rps: float | None, price: float) -> float | None:
    """A quotient of two bounds, for the same money; None where one of them is not known."""
    return None if mine_rps is None or base_rps is None else price * mine_rps / base_rps


def _no_gain(history: History) -> str:
    if history.score(0) is None:
        return "nothing that was tried keeps the SLO at any rate"
    leader = history.leader()
    if leader in (0, None):
        return "the engine's defaults are the best that was found"
    other = history.plan.candidates[leader or 0].show()
    return f"the engine's defaults and the best other ({other}) differ by less than repeats do"


def _ended_by(history: History) -> EndedBy:
    """What kept candidates from being tried."""
    plan = history.plan
    untried = any(not history.of(i) for i in range(len(plan.candidates)))
    if not untried or history.used_share() < EXPLORE_SHARE:
        return "done"
    used = history.used_shares()
    return max(used, key=lambda name: used[name])
