"""Which sides of a comparison stand under the same terms, and what one gains over another. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from ..predict.gain import Joint
from ..schema.campaign import Gain
from ..schema.comparison import ComparedSide, Terms
from ..schema.workload import Slo
from ..stats.change import Bounded, ratio
from ..units import significant
from .conclude import over as quotient

LENGTHS_ALIKE = 0.05  # by which mean lengths may differ: tools draw or pad them
_SCHEME = re.compile(
    r"[-_.](gguf|i?q\d\w*|b?f16|fp\d+(-dynamic)?|int\d|w\d+a\d+[-\w]*|awq|gptq|nvfp4|mxfp4)$"
)


class Gains(NamedTuple):
    """In output tokens a second, for the same money, and how both intervals were got."""

    of_rate: Gain
    per_usd: Gain
    basis: str


def slo_text(slo: Slo) -> str:
    """The times of an SLO, in one order; quality is another matter."""
    timed = [t for t in slo.targets if t.metric != "quality"]
    return "; ".join(sorted(target.show() for target in timed))


def unlike(side: Terms, asked: Terms) -> str:
    """Why a side cannot be held against what was asked, as a sentence; "" if it can."""
    return next(_differences(side, asked), "")


def _differences(side: Terms, asked: Terms) -> Iterator[str]:
    if side.model is None or model_key(side.model) != model_key(asked.model or ""):
        others = asked.model or "another that is not named"
        yield f"It is of {side.model or 'an unnamed model'}, the others are of {others}."
    if side.load is None:
        yield f"It does not say at which load it was measured; the others' is {_load(asked)}."
    elif (told := _load(side)) != (wanted := _load(asked)):
        yield f"Its load is {told}, the others' {wanted}."
    if side.slo is None:
        yield f"It does not say which SLO it keeps; the others keep {asked.slo or 'none'}."
    elif side.slo != asked.slo:
        yield f"It keeps the SLO {side.slo or 'none'}, the others {asked.slo or 'none'}."
    for name in ("prompt_tokens", "output_tokens"):
        mine, theirs = getattr(side, name), getattr(asked, name)
        words = name.replace("_", " ")
        if mine is None or theirs is None:
            yield f"How many {words} its requests have is not said."
        elif abs(mine - theirs) > LENGTHS_ALIKE * theirs:
            yield f"Its requests have {mine:g} {words}, the others' {theirs:g}."
    if side.shape != asked.shape:
        told = "unknown" if side.shape is None else side.shape or "plain"
        yield f"Its requests are {told}, the others' {asked.shape or 'plain'}."
    for target in Slo.parse_text(asked.slo or "").targets:
        mine, theirs = (terms.definitions.get(target.metric) for terms in (side, asked))
        if mine != theirs:
            yield (
                f"Its {target.metric.upper()} counts {mine or 'by an unknown rule'}, the others' "
                f"{theirs or 'by an unknown rule'}."
            )


def model_key(name: str) -> str:
    """Of a model, whatever its weights are stored in: the last part of a path or an id."""
    key = name.rstrip("/").rsplit("/", 1)[-1].lower()
    while (shorter := _SCHEME.sub("", key)) != key:
        key = shorter
    return key


def _load(terms: Terms) -> str:
    if terms.load == "closed":
        return f"closed with {terms.concurrency or 'an unknown number of'} requests in flight"
    return f"open, {terms.load}"


def gains(of: ComparedSide, over: ComparedSide, joint: Joint | None) -> Gains:
    """Of one side over the baseline: only between two capacities that are known the same way.

    `joint`: of two predictions.
    """
    if (why := _refusal(of, over, joint)):
        none = Gain(ratio=None, low=None, high=None, level=0.0, reason=why)
        return Gains(none, none, "")
    found, basis = _gain(of, over, joint)
    if of.usd_per_hour is None or over.usd_per_hour is None:
        why = f"no price of {(of if of.usd_per_hour is None else over).name} is known"
        return Gains(found, Gain(ratio=None, low=None, high=None, level=0.0, reason=why), basis)
    price = over.usd_per_hour / of.usd_per_hour
    scaled = {name: _times(getattr(found, name), price) for name in ("ratio", "low", "high")}
    return Gains(found, found.replace(**scaled), basis)


def _refusal(of: ComparedSide, over: ComparedSide, joint: Joint | None) -> str:
    for side in (of, over):
        if side.standing != "capacity":
            known = {
                "at least": "is load-limited: it may do more",
                "unknown": "is not shown to be a capacity",
            }
            return f"{side.name} {known.get(side.standing, 'has no figure')}"
    if of.basis != over.basis:
        return (
            f"{of.name} is {of.basis} and {over.name} {over.basis}: their quotient would be the "
            "error of one of them as much as a gain"
        )
    if of.basis == "predicted" and joint is None:
        return "no intervals of both predictions are known"
    return ""


def _gain(of: ComparedSide, over: ComparedSide, joint: Joint | None) -> tuple[Gain, str]:
    mine, theirs = of.output_tokens_per_s, over.output_tokens_per_s
    assert mine is not None
    assert theirs is not None
    if of.head and of.head == over.head:
        return Gain(ratio=1.0, low=1.0, high=1.0, level=0.0), "the same evidence: no change"
    if joint is not None:
        return (
            Gain(ratio=joint.ratio, low=joint.low, high=joint.high, level=1 - joint.level),
            joint.how,
        )
    level = sum(1 - f.level for f in (mine, theirs) if f.level is not None)
    if of.terms.load == "closed" and of.basis == "measured":
        change = ratio(*(Bounded(f.value, f.low or 0.0, math.inf if f.high is None else f.high)
                         for f in (theirs, mine)))  # fmt: skip
        high = 1 + change.high if math.isfinite(change.high) else None
        return Gain(ratio=1 + change.share, low=1 + change.low, high=high, level=level / 2), (
            "both intervals, as of two independent loads"
        )
    found = Gain(
        ratio=mine.value / theirs.value,
        low=quotient(mine.low, theirs.high, 1.0),
        high=quotient(mine.high, theirs.low, 1.0),
        level=level,
    )
    if of.basis == "published":
        return found, "the roundings of both figures; how they scatter is not published"
    return found, "certified over refuted to refuted over certified"


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def show_gain(found: Gain | None) -> str:
    """``1.94x (0.90 to 3.10)``; "-" where none is printed."""
    if found is None or found.ratio is None:
        return "-"
    if found.low == found.ratio == found.high:
        return f"{significant(found.ratio)}x"
    low = "?" if found.low is None else significant(found.low, 2)
    high = "unbounded" if found.high is None else significant(found.high, 2)
    return f"{significant(found.ratio)}x ({low} to {high})"
