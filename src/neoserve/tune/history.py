"""What the jobs so far say of each candidate. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..schema.campaign import Capacity, EndedBy, Purpose, SearchPlan, Seen, Told
from ..schema.capacity import Probe
from ..stats import mean
from .max_rate import bracket

BRACKETED: tuple[Purpose, ...] = ("climb", "settle")
_LONGEST = 4  # times the requests that a rung asks for
VOIDS = 3  # of one candidate in a row, after which it cannot be measured here


class History:
    """A plan, and every job that is over. What it derives is derived once."""

    def __init__(self, plan: SearchPlan, told: Sequence[Told]) -> None:
        self.plan, self.told = plan, told
        self._by_candidate: dict[int, list[Told]] = defaultdict(list)
        for t in told:
            self._by_candidate[t.job.candidate].append(t)
        self._estimates: dict[int, float | None] = {}
        self._outs: dict[int, bool] = {}
        self._limits: dict[int, dict[int, tuple[int, float]]] = {}

    def begun(self) -> list[int]:
        """Candidates with a job that is over, in the order of their first."""
        return list(self._by_candidate)

    def of(self, candidate: int, *purposes: Purpose, visit: int | None = None) -> list[Told]:
        """Jobs of one candidate, in the order in which they ended."""
        return [
            told
            for told in self._by_candidate.get(candidate, ())
            if (not purposes or told.job.purpose in purposes)
            and (visit is None or told.job.visit == visit)
        ]

    def crash(self, candidate: int) -> str:
        """Why its server does not run: it crashed and never ran, or crashed twice; else ""."""
        told = self.of(candidate)
        crashes = [t.seen.crash for t in told if t.seen.crash]
        return crashes[-1] if crashes and (len(crashes) > 1 or len(told) == 1) else ""

    def is_void(self, candidate: int) -> bool:
        """Nothing that was measured of it could be judged, time and again."""
        last = [t for t in self.of(candidate) if t.job.purpose != "quality"][-VOIDS:]
        return len(last) == VOIDS and all(_is_void(t.seen) for t in last)

    def breach(self, candidate: int) -> str:
        """Why its answers are not good enough, "" if they are or were not looked at."""
        checks = [t.seen.quality for t in self.of(candidate, "quality") if t.seen.quality]
        return next((check.reason for check in checks if check.verdict != "PASS"), "")

    def is_out(self, candidate: int) -> bool:
        """It can no longer be picked."""
        if candidate not in self._outs:
            self._outs[candidate] = bool(
                self.crash(candidate) or self.breach(candidate) or self.is_void(candidate)
            )
        return self._outs[candidate]

    def cost_share(self, candidate: int) -> float:
        """Of the host's price."""
        shares = self.plan.cost_shares
        return shares[candidate] if shares else 1.0

    def estimate_rps(self, candidate: int) -> float | None:
        """Its capacity by all visits, each weighed by its requests; null where no rate was met."""
        if candidate not in self._estimates:
            self._estimates[candidate] = self._estimate_rps(candidate)
        return self._estimates[candidate]

    def _estimate_rps(self, candidate: int) -> float | None:
        found, base = self._visits(candidate), self._visits(0)
        if not found or candidate == 0 or not found.keys() <= base.keys():
            return _mean_rate(found.values())
        # What a visit's requests and hour did to both is left out by comparing visit by visit.
        ratio = _mean_rate((num, rate / base[visit][1]) for visit, (num, rate) in found.items())
        whole = _mean_rate(base.values())
        return ratio * whole if ratio and whole else None

    def _visits(self, candidate: int) -> dict[int, tuple[int, float]]:
        """Requests a load, and the limit, by visit: of the settling ones, where there are any.

        The look that a candidate was chosen by flatters it.
        """
        if candidate not in self._limits:
            visits = {t.job.visit: t.job.num_requests for t in self.of(candidate, *BRACKETED)}
            settling = {t.job.visit for t in self.of(candidate, "settle")}
            limits = {
                visit: (num, rate)
                for visit, num in visits.items()
                if (rate := middle(*self.bracket(candidate, visit))) is not None
            }
            self._limits[candidate] = {v: x for v, x in limits.items() if v in settling} or limits
        return self._limits[candidate]

    def bracket(self, candidate: int, visit: int) -> tuple[float | None, float | None]:
        """The highest rate that looks met in a visit, and the lowest that does not."""
        return bracket(probes(self.of(candidate, *BRACKETED, visit=visit)))

    def spread(self, candidate: int) -> float | None:
        """By what share its limit over the baseline's differs between visits; null of fewer
        than two."""
        found, base = self._visits(candidate), self._visits(0)
        ratios = [found[v][1] / base[v][1] for v in found.keys() & base.keys()]
        return max(ratios) / min(ratios) - 1 if len(ratios) > 1 else None

    def score(self, candidate: int) -> float | None:
        """Requests a second for the whole host's price."""
        rate = self.estimate_rps(candidate)
        return None if rate is None else rate / self.cost_share(candidate)

    def leader(self) -> int | None:
        """Best so far of those that may be picked; null before anything met the SLO.

        Once some are settled, the best of those that were settled most often, or the baseline.
        """
        scores = {i: score for i in self.begun()
                  if not self.is_out(i) and (score := self.score(i)) is not None}  # fmt: skip
        times = {i: len({t.job.visit for t in self.of(i, "settle")}) for i in scores}
        most = max((times[i] for i in scores if i), default=0)
        last = [i for i in scores if i == 0 or times[i] == most]
        return max(last, key=lambda i: (scores[i], -i)) if last else None

    def capacity(self, candidate: int) -> Capacity:
        """Both brackets: what it looks like, and what is proven."""
        told = self.of(candidate, *BRACKETED) or self.of(candidate, "scout", "probe")
        low, high = bracket(probes(told))
        certified = self.certified_rps(candidate)
        refuted = [t.job.rate_rps for t in self.of(candidate, "refute", "certify") if fails(t.seen)]
        above = [rate for rate in refuted if certified is None or rate > certified]
        return Capacity(
            low_rps=low,
            high_rps=high,
            certified_rps=certified,
            refuted_rps=min(above, default=None),
        )

    def certified_rps(self, candidate: int) -> float | None:
        """The rate of its last certificates, if one passed, none failed and few missed."""
        tries = self.of(candidate, "certify")
        if not tries:
            return None
        rate = tries[-1].job.rate_rps
        seen = [t.seen for t in tries if t.job.rate_rps == rate and not _is_void(t.seen)]
        return rate if proves(seen) else None

    def spent_s(self) -> float:
        """Engine time."""
        return math.fsum(t.seen.spent_s for t in self.told)

    def spent_usd(self) -> float:
        """Of the host's price; 0 where it is not known."""
        return self.spent_s() / 3600 * (self.plan.usd_per_hour or 0.0)

    def num_trials(self) -> int:
        """Loads."""
        return sum(t.job.purpose != "quality" for t in self.told)

    def used_share(self) -> float:
        """Of the budget that is nearest its end; 0 without one."""
        return max(self.used_shares().values())

    def used_shares(self) -> dict[EndedBy, float]:
        """Of each budget; 0 where there is none."""
        plan = self.plan
        return {
            "time": self.spent_s() / plan.budget_s if plan.budget_s else 0.0,
            "trials": self.num_trials() / plan.budget_trials if plan.budget_trials else 0.0,
            "money": self.spent_usd() / plan.budget_usd if plan.budget_usd else 0.0,
        }

    def before(self, visit: int) -> History:
        """As it stood before the visits from this one on."""
        return History(self.plan, [t for t in self.told if t.job.visit < visit])


def chosen(history: History) -> int:
    """The best by all that was seen; the baseline where they cannot be told apart."""
    leader = history.leader()
    if leader is None:
        return 0
    best, baseline = history.score(leader), history.score(0)
    if best and baseline and not history.is_out(0) and best <= baseline * (1 + noise(history)):
        return 0
    return leader


def noise(history: History) -> float:
    """The least difference that is one: that of two configurations differs by as much between
    visits."""
    found = [s for i in history.begun() if i and (s := history.spread(i)) is not None]
    return max(history.plan.tolerance, mean(found) if found else 0.0)


def fails(seen: Seen) -> bool:
    """Disproven."""
    return seen.verdict == "FAIL" or (seen.saturated and seen.verdict != "VOID")


def met(seen: Seen) -> bool:
    """Did as many requests keep the SLO as have to, proven or not?"""
    if fails(seen) or _is_void(seen):
        return False
    return seen.verdict == "PASS" or not seen.num or seen.num_misses <= seen.share * seen.num


def proves(seen: Sequence[Seen]) -> bool:
    """One load passed, none failed, and of all requests together no more missed than may."""
    num, misses = sum(s.num for s in seen), sum(s.num_misses for s in seen)
    share = max((s.share for s in seen), default=0.0)
    return (
        any(s.verdict == "PASS" for s in seen)
        and not any(fails(s) for s in seen)
        and (not share or misses <= share * num)
    )


def probes(told: Sequence[Told]) -> list[Probe]:
    """As the search for a maximum rate reads them."""
    return [
        Probe(
            rate_rps=t.job.rate_rps,
            seed=t.job.seed,
            verdict=t.seen.verdict,
            saturated=t.seen.saturated,
            num_misses=t.seen.num_misses,
            num=t.seen.num,
            share=t.seen.share,
            dependence=t.seen.dependence,
        )
        for t in told
        if not t.seen.crash
    ]


def middle(low: float | None, high: float | None) -> float | None:
    """One rate for a bracket; null where no rate was met."""
    if low is None or high is None:
        return low
    return math.sqrt(low * high)


def _mean_rate(weighed: Iterable[tuple[int, float]]) -> float | None:
    """Geometric mean of rates, each with its weight; null of none."""
    pairs = list(weighed)
    if not pairs:
        return None
    logs = math.fsum(num * math.log(rate) for num, rate in pairs)
    return math.exp(logs / sum(num for num, _ in pairs))


def distance(plan: SearchPlan, one: int, other: int) -> int:
    """Knobs that differ."""
    a, b = plan.candidates[one].knobs, plan.candidates[other].knobs
    return sum(a.get(name) != b.get(name) for name in a.keys() | b.keys())


def _is_void(seen: Seen) -> bool:
    return seen.verdict == "VOID"


def long_enough(plan: SearchPlan, num: int, rate_rps: float, horizons: float = 1) -> int:
    """Requests of a load that lasts so many times the SLO's longest limit, at most 4 `num`.

    At a few percent above its capacity a server's queue takes that long to break the limit. Fewer
    than arrive within one limit are a burst: they are served in time at whatever rate they come.
    """
    within_limit = plan.horizon_s * rate_rps
    asked = min(_LONGEST * num, math.ceil(horizons * within_limit))
    return max(num, math.ceil(within_limit), asked)
