"""By how much one predicted rate exceeds another, with the errors of both taken together. Pure.

Rates of one engine on one class of device are wrong together: they share a factor, and differ by
what the errors of two rates of one public bench differ by. Those of unlike classes or engines are
taken to be wrong independently of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..schema.prediction import Prediction
from ..schema.spread import Spread
from .intervals import LEVEL, Bands, arch_of, rate_at, thin_note
from .memo import Memo
from .predictor import Ask, outcome

_NUM_ERRORS = 4001  # equally likely pairs
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples fill the unit square evenly beside equal steps
_STEP = 0.01  # of a factor's logarithm, within which a server's limit is computed once


class Rate(NamedTuple):
    """A predicted rate under the errors that it may have."""

    value: float
    at: Callable[[float], float]  # the rate, if the server is faster by a factor
    factor_below: Callable[[float], float]  # the error below which a share of measurements lies
    device: str
    device_class: str
    spread: Spread


class Joint(NamedTuple):
    """A quotient of two rates with its interval; high null: the other may hold no rate at all."""

    ratio: float
    low: float
    high: float | None
    level: float
    how: str  # a sentence


def rate_of(ask: Ask, told: Prediction) -> Rate | None:
    """Of a prediction: the highest rate of an open load, the output of a closed one. None without
    a rate or without intervals."""
    run, throughput = outcome(ask, Memo()).run, told.throughput
    if run is None or throughput is None or ask.spread is None:
        return None
    bands = Bands(ask.spread, ask.workload, arch_of(ask.model), told.deployment.replicas)
    if bands.of("rate") is None:
        return None
    at: Callable[[float], float] | None
    if ask.workload.arrival == "closed":
        value = throughput.output_tokens_per_s
        at = value.__mul__
    else:
        value = throughput.max_rate_rps or 0.0
        at = rate_at(run.server, run.workload, ask.slo, value)
    if at is None:
        return None
    return Rate(
        value, _remembered(at), lambda share: bands.factor_below("rate", share) or 1.0,
        ask.machine.hardware.id, ask.coefficients.device_class, ask.spread,
    )  # fmt: skip


def joint(of: Rate, over: Rate, level: float = LEVEL) -> Joint:
    """The quotient of two rates; where neither holds any rate there is none, and it does not
    count."""
    errors, how = _errors(of, over)
    found, neither = [], 0
    for mine, theirs in errors:
        above, below = of.at(mine), over.at(theirs)
        if above or below:
            found.append(above / below if below else math.inf)
        else:
            neither += 1
    if not found:
        return Joint(of.value / over.value, 0.0, None, level, how)
    found.sort()
    tail = (1 - level) / 2
    low = found[math.floor(tail * (len(found) - 1))]
    high = found[math.ceil((1 - tail) * (len(found) - 1))]
    if neither:
        share = neither / (neither + len(found))
        how = f"{how}; with {share:.0%} neither keeps the SLO at any rate"
    return Joint(of.value / over.value, low, high if math.isfinite(high) else None, level, how)


def _errors(of: Rate, over: Rate) -> tuple[Iterator[tuple[float, float]], str]:
    """Equally likely pairs of errors, and in words why these."""
    alike = (of.device_class, of.spread.engine) == (over.device_class, over.spread.engine)
    relation = "same_device" if of.device == over.device else "other_device"
    differ = of.spread.ratios.get(relation, {}) if alike else {}
    square = [((i + 0.5) / _NUM_ERRORS, i * _GOLDEN % 1) for i in range(_NUM_ERRORS)]
    if not differ:
        pairs = ((of.factor_below(a), over.factor_below(b)) for a, b in square)
        return pairs, "errors of unlike devices or engines are taken to be independent"
    what = "one device" if relation == "same_device" else "two devices of one class"
    thin = ", none of this engine and class" if thin_note(of.spread).startswith("no ") else ""
    how = (
        f"errors on {what} go together, but for what two rates of one bench differ by "
        f"({differ['sources']:.0f} benches, {differ['pairs']:,.0f} pairs{thin})"
    )
    apart = ((of.factor_below(a), math.exp(_difference(differ, b) / 2)) for a, b in square)
    return ((factor * half, factor / half) for factor, half in apart), how


def _difference(differ: dict[str, float], share: float) -> float:
    """The logarithm by which one error exceeds the other, below which this share lies: its size
    by level is known, and either may be the larger."""
    marks = sorted((float(name), size) for name, size in differ.items() if name[0] == "0")
    level, before = abs(2 * share - 1), (0.0, 0.0)
    size = marks[-1][1]
    for mark in marks:
        if level <= mark[0]:
            size = before[1] + (mark[1] - before[1]) * (level - before[0]) / (mark[0] - before[0])
            break
        before = mark
    return math.copysign(size, share - 0.5)


def _remembered(at: Callable[[float], float]) -> Callable[[float], float]:
    """The same with what the limits do to a rate computed once for like factors; proportional in
    between."""
    known: dict[int, float] = {}

    def found(factor: float) -> float:
        step = round(math.log(factor) / _STEP)
        if step not in known:
            near = math.exp(step * _STEP)
            known[step] = at(near) / near
        return factor * known[step]

    return found
