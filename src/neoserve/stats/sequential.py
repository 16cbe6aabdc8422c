"""An exact sequential test of a share of misses that may be looked at after every trial.

Group-sequential by alpha spending (Lan and DeMets 1983) with one trial a group. The probability
of having crossed a bound is carried forward exactly (Armitage, McPherson and Rowe 1969), not
taken from a normal approximation, which is far off for a few misses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

_NEGLIGIBLE = 1e-17  # probability of a tail that no longer takes part

Spending = Callable[[float], float]  # share of the trials made -> share of the level spent


def early(progress: float) -> float:
    """Much of the level on the first trials: the fewest until a decision."""
    return math.sqrt(progress)


def late(progress: float) -> float:
    """Little on the first trials, when their dependence is not yet known."""
    return progress * progress


class SequentialShare:
    """Is the true share of misses at most `share`, or above? Two one-sided tests.

    Each errs with at most `level`, whenever it is stopped and whether or not the other is heeded.
    `planned` trials spread the level; more may be made.
    """

    def __init__(
        self,
        share: float,
        level: float,
        planned: int,
        spending: Spending = early,
    ) -> None:
        if not (0 < share < 1 and 0 < level < 1 and planned >= 1):
            raise ValueError(f"share {share}, level {level} in (0, 1) and planned {planned} >= 1")

        def allowed(n: int) -> float:
            return level * spending(min(1.0, n / planned))

        self._planned = planned
        self._pass = _Lazy(_pass_bounds(share, allowed), first=-1)
        self._fail = _Lazy(_fail_bounds(share, allowed), first=1)

    def pass_bound(self, n: int) -> int:
        """So many misses or fewer among the first n prove the share; -1: not even none."""
        return self._pass[n]

    def fail_bound(self, n: int) -> int:
        """So many misses or more among the first n disprove the share; n + 1 or more: none do."""
        return self._fail[n]

    def proves(self, misses: float, n: float) -> bool:
        """Are real counts, as of dependent trials, as good as a pass bound?

        Between two whole numbers of misses the trials that are needed are interpolated.
        """
        whole = math.floor(misses)
        bound = self.pass_bound(int(n))
        if whole != bound or misses == whole:
            return whole <= bound
        since = first = int(n)
        while self.pass_bound(since - 1) == bound:
            since -= 1
        while self.pass_bound(first) == bound:
            first += 1
            if first > self._planned:
                return False
        return n >= since + (misses - whole) * (first - since)

    def disproves(self, misses: float, n: float) -> bool:
        """Are real counts, rounded in favour of the share, as bad as a fail bound?"""
        return math.floor(misses) >= self.fail_bound(math.ceil(n))


class _Lazy:
    """Bounds as far as they were asked for."""

    def __init__(self, source: Iterator[int], first: int) -> None:
        self._source = source
        self._known = [first]

    def __getitem__(self, n: int) -> int:
        missing = n + 1 - len(self._known)
        if missing > 0:
            self._known.extend(itertools.islice(self._source, missing))
        return self._known[n]


def _pass_bounds(share: float, allowed: Callable[[int], float]) -> Iterator[int]:
    n, fewest, mass, spent = 0, 0, [1.0], 0.0  # mass[i]: undecided with fewest + i misses
    while True:
        n += 1
        mass = _after_one_more(mass, share)
        num_crossed = 0
        while spent + mass[num_crossed] <= allowed(n):  # all that is left is more than the level
            spent += mass[num_crossed]
            num_crossed += 1
        del mass[:num_crossed]
        fewest += num_crossed
        while mass[-1] < _NEGLIGIBLE:
            mass.pop()
        yield fewest - 1


def _fail_bounds(share: float, allowed: Callable[[int], float]) -> Iterator[int]:
    n, fewest, mass, spent = 0, 0, [1.0], 0.0
    while True:
        n += 1
        mass = _after_one_more(mass, share)
        # One count at most: a bound that falls would disprove by a trial that did not miss.
        if spent + mass[-1] <= allowed(n):
            spent += mass.pop()
        num_gone = next(i for i, part in enumerate(mass) if part >= _NEGLIGIBLE)
        del mass[:num_gone]
        fewest += num_gone
        yield fewest + len(mass)


def _after_one_more(mass: list[float], share: float) -> list[float]:
    kept = 1 - share
    inner = [a * kept + b * share for b, a in itertools.pairwise(mass)]
    return [mass[0] * kept, *inner, mass[-1] * share]
