"""Time of many steps at once.

While a batch stays the same, its context grows by one token a step. The step time is affine in
it as a rule: two evaluations then say everything. Where it is not (eager launches, a filled
window beside full attention), the sum over a run is a quadrature whose nodes are those of the
uniform measure on the run's own integers, so that polynomials of degree 5 are summed exactly.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

AFFINE = 1e-12  # relative distance from the chord up to which a step time counts as affine
CLOSE = 1e-10  # relative error of a quadrature; halves are summed apart where it is larger
DIRECT = 9  # steps that are as quickly added up one by one


class StepTime(Protocol):
    """What the simulation needs of a step model: seconds of one iteration."""

    @property
    def bends(self) -> tuple[float, ...]:
        """Contexts at which the time is not smooth."""

    def step_s(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> float: ...


def total(f: Callable[[float], float], start: float, steps: int) -> float:
    """f(start) + f(start + 1) + ... over `steps` terms, for a smooth f."""
    if steps <= DIRECT:
        return math.fsum(f(start + i) for i in range(steps))
    return _halved(f, start, steps, _three(f, start, steps))


def _three(f: Callable[[float], float], start: float, steps: int) -> float:
    """Gauss quadrature of the uniform measure on `steps` integers (Gram polynomials)."""
    squares = float(steps * steps)
    middle = start + (steps - 1) / 2
    node = math.sqrt((3.0 * squares - 7.0) / 20.0)
    weight = steps * (squares - 1.0) / 24.0 / (node * node)
    ends = f(middle - node) + f(middle + node)
    return weight * ends + (steps - 2.0 * weight) * f(middle)


def _halved(f: Callable[[float], float], start: float, steps: int, whole: float) -> float:
    half = steps // 2
    left, right = _three(f, start, half), _three(f, start + half, steps - half)
    if abs(left + right - whole) <= CLOSE * abs(whole):
        return left + right
    if steps <= 2 * DIRECT:
        return math.fsum(f(start + i) for i in range(steps))
    return _halved(f, start, half, left) + _halved(f, start + half, steps - half, right)


class DecodeTime:
    """Seconds of runs of decode steps, remembered by batch size and stretch of the context."""

    def __init__(self, step: StepTime) -> None:
        self._step_s = step.step_s
        # Stretches end where a window is full, and at powers of two: a fit over more is coarse.
        self.ends = sorted({*step.bends, *(2.0**k for k in range(64))})
        self._lines: dict[tuple[int, int], tuple[float, float] | None] = {}

    def line(self, num_decode: int, stretch: int) -> tuple[float, float] | None:
        """(seconds at context 0, seconds a token) over the stretch that ends at `ends[stretch]`;
        None where the step time is not affine."""
        key = num_decode, stretch
        try:
            return self._lines[key]
        except KeyError:
            line = self._fit(num_decode, self.ends[stretch - 1], self.ends[stretch])
            self._lines[key] = line
            return line

    def _fit(self, num_decode: int, low: float, high: float) -> tuple[float, float] | None:
        f = self._step_s
        at_low, at_high = f(0.0, 0.0, num_decode, low), f(0.0, 0.0, num_decode, high)
        for share in (0.381966, 0.618034):  # off the middle, where a symmetric bend would hide
            chord = at_low + share * (at_high - at_low)
            value = f(0.0, 0.0, num_decode, low + share * (high - low))
            if abs(value - chord) > AFFINE * chord:
                return None
        slope = (at_high - at_low) / (high - low)
        return at_low - slope * low, slope

    def run_s(self, num_decode: int, context: float, steps: int) -> float:
        """Seconds of `steps` steps, the first at mean context `context` (at least 1)."""
        seconds = 0.0
        while True:
            stretch = bisect_right(self.ends, context)
            end = self.ends[stretch]
            here = steps if context + steps <= end else min(steps, math.ceil(end - context))
            seconds += self._within_s(num_decode, stretch, context, here)
            if here == steps:
                return seconds
            context += here
            steps -= here

    def _within_s(self, num_decode: int, stretch: int, context: float, steps: int) -> float:
        line = self.line(num_decode, stretch)
        if line is not None:
            return steps * (line[0] + line[1] * (context + 0.5 * (steps - 1)))
        step_s = self._step_s
        return total(lambda c: step_s(0.0, 0.0, num_decode, c), context, steps)

    def steps_in(
        self, num_decode: int, context: float, most: int, within_s: float
    ) -> tuple[int, float]:
        """(k, seconds of k steps): the fewest steps that last `within_s`, at most `most`."""
        stretch = bisect_right(self.ends, context)
        if context + most <= self.ends[stretch]:  # nearly always: one stretch, and affine
            line = self._lines.get((num_decode, stretch)) or self.line(num_decode, stretch)
            if line is not None:
                slope = 0.5 * line[1]
                at = line[0] + line[1] * context - slope
                most_s = most * (at + slope * most)
                if most_s < within_s:
                    return most, most_s
                if slope >= 0.0:
                    # at k + slope k^2 = within_s
                    root = math.sqrt(at * at + 4.0 * slope * within_s)
                    k = math.ceil(2.0 * within_s / (at + root))
                    seconds, fewer_s = k * (at + slope * k), (k - 1) * (at + slope * (k - 1))
                    if fewer_s < within_s <= seconds and k <= most:
                        return k, seconds
        done, spent_s = 0, 0.0
        while True:
            stretch = bisect_right(self.ends, context)
            end, here = self.ends[stretch], most - done
            if context + here > end:
                here = min(here, math.ceil(end - context))
            here_s = self._within_s(num_decode, stretch, context, here)
            if spent_s + here_s >= within_s:
                steps, seconds = self._reach(
                    num_decode, stretch, context, here, here_s, within_s - spent_s
                )
                return done + steps, spent_s + seconds
            done, spent_s, context = done + here, spent_s + here_s, context + here
            if done == most:
                return done, spent_s

    def _reach(
        self, num_decode: int, stretch: int, context: float, most: int, most_s: float,
        within_s: float,
    ) -> tuple[int, float]:  # fmt: skip
        """The fewest steps of one stretch that last `within_s`; `most` of them do."""
        line, low, low_s, high, high_s = self.line(num_decode, stretch), 0, 0.0, most, most_s
        guess = within_s / most_s * most
        if line is not None:
            at, slope = line[0] + line[1] * (context - 0.5), 0.5 * line[1]
            # at k + slope k^2 = within_s
            guess = 2.0 * within_s / (at + math.sqrt(max(at * at + 4.0 * slope * within_s, 0.0)))
        while high - low > 1:
            k = min(max(math.ceil(guess), low + 1), high - 1)
            seconds = low_s + self._within_s(num_decode, stretch, context + low, k - low)
            if seconds >= within_s:
                high, high_s = k, seconds
            else:
                low, low_s = k, seconds
            # Steps last nearly alike: the chord is off by a step or two.
            guess = low + (within_s - low_s) / (high_s - low_s) * (high - low)
        return high, high_s
