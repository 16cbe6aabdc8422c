"""What decides one target: an exact sequential test of a share, or a bootstrapped mean."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from ..schema.trial import Verdict
from ..schema.workload import Target
from ..stats import (
    SequentialShare,
    block_bootstrap_interval,
    clopper_pearson,
    dependence,
    early,
    late,
    mean,
)

Reading = tuple[float, bool]  # seconds, and whether that is final or a lower bound so far

_FIRST_LOOK = 10  # requests; dependence cannot be told from fewer
_LOOK_GROWTH = 0.1  # of the requests, after which dependence is told anew
_STEPS_PER_OCTAVE = 16  # of dependence, rounded up, so that few tests have to be computed
_LEAST_BY_FAR = 50  # requests
_SPENT = 1.3  # requests that a look after each costs beside one at the end (docs/verdicts.md)
_MIN_FOR_MEAN = 30  # independent requests; below, resampling does not show the spread of a mean


class Rule:
    """One target that requests cannot decide."""

    verdict: Verdict = "INCONCLUSIVE"
    dependence = 1.0
    share = 0.0  # of requests that may miss; 0 where the target bounds none
    num = num_misses = 0

    def __init__(self, target: Target) -> None:
        self.target = target

    def read(self, readings: Sequence[Reading]) -> None:
        """Take the readings that are new."""

    def finding(self, saturated: bool) -> tuple[Verdict, str]:  # noqa: ARG002
        """The verdict and why."""
        return self.verdict, f"{self.target.show()}: quality was not measured"


def rule_for(target: Target, level: float, fail_level: float, num_planned: int) -> Rule:
    """The test that its metric and statistic ask for."""
    if target.metric == "quality":
        return Rule(target)
    if target.statistic == "mean":
        return _MeanRule(target, level, fail_level)
    return _ShareRule(target, level, fail_level, num_planned)


class _ShareRule(Rule):
    """A percentile: the share of requests at or above the limit."""

    def __init__(self, target: Target, level: float, fail_level: float, num_planned: int) -> None:
        super().__init__(target)
        self.share = 1 - float(target.statistic.removeprefix("p")) / 100
        self._level, self._fail_level = level, fail_level
        self._num_planned = num_planned
        self._values: list[float] = []  # those above the limit are the limit: how far is no matter
        self._misses: list[bool] = []
        self._num_failed = 0
        self._next_look = self._first_look = min(_FIRST_LOOK, num_planned)
        self._passed_at = self._failed_at = 0  # requests; 0: not yet

    def read(self, readings: Sequence[Reading]) -> None:
        for value, is_final in readings[len(self._values) :]:
            if not is_final and value < self.target.limit:
                break
            self._add(value)
        self.verdict = self._standing()

    def _add(self, value: float) -> None:
        missed = value >= self.target.limit
        self._values.append(min(value, self.target.limit))
        self._misses.append(missed)
        self.num_misses += missed
        self.num += 1
        self._num_failed += value == math.inf
        if len(self._values) == self._next_look:
            told = max(dependence(self._values), dependence(self._misses))
            steps = math.ceil(math.log2(told) * _STEPS_PER_OCTAVE)
            self.dependence = float(2 ** (steps / _STEPS_PER_OCTAVE))
            self._next_look += max(5, int(self._next_look * _LOOK_GROWTH))
        if len(self._values) >= self._first_look:
            self._look()

    def _look(self) -> None:
        """Has a bound been crossed?"""
        num = len(self._values)
        n, misses = num / self.dependence, self.num_misses / self.dependence
        planned = math.ceil(self._num_planned / self.dependence)
        if not self._passed_at:
            test = _test(self.share, self._level, planned, late)
            self._passed_at = num * test.proves(misses, n)
        if not self._failed_at:
            test = _test(self.share, self._fail_level, planned, early)
            # A request that failed did so by itself: that many in a row is no chance cluster.
            alone = _test(self.share, self._fail_level, self._num_planned, early)
            is_failed = alone.disproves(self._num_failed, num) or self._misses_by_far()
            self._failed_at = num * (test.disproves(misses, n) or is_failed)

    def _misses_by_far(self) -> bool:
        """Does each half of the whole trial miss three times as often as may?

        Long busy spells make a trial worth so few independent requests that no count would
        disprove anything; but spells that fill both halves of a trial are the server's way. In
        simulated queues at their limit that is so in under 5 % of trials (docs/verdicts.md).
        """
        num = len(self._misses)
        if num < _LEAST_BY_FAR or num != self._num_planned:
            return False
        halves = self._misses[: num // 2], self._misses[num // 2 :]
        many = min(3 * self.share, (1 + self.share) / 2)
        return all(sum(half) >= many * len(half) for half in halves)

    def _standing(self) -> Verdict:
        """A bound once crossed counts, unless the requests since then say the opposite."""
        if self.num_misses > self.share * len(self._values):
            return "FAIL" if self._failed_at else "INCONCLUSIVE"
        return "PASS" if self._passed_at else "INCONCLUSIVE"

    def finding(self, saturated: bool) -> tuple[Verdict, str]:
        n, misses = len(self._values), self.num_misses
        verdict = self.verdict
        if saturated:
            verdict = "FAIL" if misses > self.share * n else "INCONCLUSIVE"
        worth = f" (1 independent in {self.dependence:.2g})" if self.dependence >= 1.05 else ""
        counted = f"{self.target.show()}: {misses} of {n} requests missed{worth}"
        advice = "" if saturated else self._advice()
        return verdict, f"{counted}, {self._claim(verdict, saturated)}: {verdict}{advice}"

    def _advice(self) -> str:
        """How many requests would do, where none has missed yet."""
        if self.verdict != "INCONCLUSIVE" or self.num_misses:
            return ""
        needed = math.log(self._level) / math.log1p(-self.share) * _SPENT * self.dependence
        return f"; about {math.ceil(needed / 50) * 50} requests without a miss would prove it"

    def _claim(self, verdict: Verdict, saturated: bool) -> str:
        if verdict != "INCONCLUSIVE" and not saturated:
            bound = "at most" if verdict == "PASS" else "more than"  # of all, not of these
            by = self._passed_at if verdict == "PASS" else self._failed_at
            sure = _percent(1 - self._level)
            return f"{bound} {_percent(self.share)} at {sure} confidence by the first {by}"
        low, high = clopper_pearson(
            self.num_misses / self.dependence, len(self._values) / self.dependence
        )
        return f"{_percent(low)} to {_percent(high)} where {_percent(self.share)} may"


def _percent(share: float) -> str:
    return f"{round(100 * share, 2):g} %"


@functools.lru_cache(maxsize=256)
def _test(
    share: float, level: float, planned: int, spending: Callable[[float], float]
) -> SequentialShare:
    return SequentialShare(share, level, planned, spending)


class _MeanRule(Rule):
    """A mean, judged when all is over: blocks of requests are drawn again."""

    def __init__(self, target: Target, level: float, fail_level: float) -> None:
        super().__init__(target)
        self._level, self._fail_level = level, fail_level
        self._readings: Sequence[Reading] = ()

    def read(self, readings: Sequence[Reading]) -> None:
        self._readings = readings

    def finding(self, saturated: bool) -> tuple[Verdict, str]:
        values = [value for value, is_final in self._readings if is_final and value < math.inf]
        name, num_missing = self.target.show(), len(self._readings) - len(values)
        self.dependence = dependence(values)
        if saturated and values and mean(values) >= self.target.limit:
            return "FAIL", f"{name}: mean {mean(values):.4g} s and growing: FAIL"
        if num_missing:
            return "INCONCLUSIVE", f"{name}: {num_missing} requests gave no value to average"
        if len(values) < _MIN_FOR_MEAN * self.dependence:
            return "INCONCLUSIVE", f"{name}: {len(values)} requests are too few for a mean"
        low, high = self._bounds(values)
        verdict: Verdict = "INCONCLUSIVE"
        if high < self.target.limit and not saturated:
            verdict = "PASS"
        elif low >= self.target.limit:
            verdict = "FAIL"
        return verdict, f"{name}: mean {mean(values):.4g} s, {low:.4g} to {high:.4g} s: {verdict}"

    def _bounds(self, values: Sequence[float]) -> tuple[float, float]:
        """One-sided bounds, each at the level of the claim that it is for."""
        low, _ = block_bootstrap_interval(values, mean, confidence=1 - 2 * self._fail_level)
        _, high = block_bootstrap_interval(values, mean, confidence=1 - 2 * self._level)
        return low, high
