"""How sure a choice is: what cannot be told from the best, and what would change it.

Two choices on one device with one engine are wrong together, so what counts is by how much the
errors of two rates of one bench differ, not how large each is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..units import show_usd
from .intervals import LEVEL, arch_of

if TYPE_CHECKING:
    from ..schema.coefficients import Coefficients
    from ..schema.prediction import Prediction
    from ..schema.spread import Spread
    from .plan import Candidate
    from .predictor import Ask

    Again = Callable[[Ask], Candidate | None]

MAX_RIVALS = 3
MOST_PRICE = 1.0  # a rival that needs more than twice the price is none
NEAR = 2.0  # times the best's cost, beyond which no coefficient's spread reaches
LEAST_SHARE = 0.1  # of benches that hold the SLO, for a cheaper choice to be worth a line
MAX_LINES = 6
_UNUSED = {  # coefficients that an architecture has no use for, by how they begin
    "dense": ("expert_", "state_", "scan_"), "moe": (), "hybrid": ("expert_",),
}  # fmt: skip
_INPUTS = (
    ("prompt_tokens", "prompts"), ("output_tokens", "answers"),
    ("concurrency", "requests in flight"), ("rate_rps", "requests/s"),
)  # fmt: skip


def ties(ranked: Sequence[Candidate], rate_rps: float, level: float = LEVEL) -> tuple[int, ...]:
    """Indexes of candidates whose cost cannot be told from the first's at a level."""
    if not ranked or ranked[0].meets_slo is False:
        return ()
    best = ranked[0]
    found = []
    for index, other in enumerate(ranked[1:], 1):
        if (other.meets_slo, other.priced) != (best.meets_slo, best.priced):
            continue
        half = ratio_spread(best, other, level) / 2
        if money_at(other, rate_rps, half) <= money_at(best, rate_rps, -half):
            found.append(index)
    return tuple(found)


def ratio_spread(a: Candidate, b: Candidate, level: float = LEVEL) -> float:
    """Log by which the errors of two rates differ at most, with probability `level`."""
    spread = a.ask.spread
    if spread is None:
        return 0.0
    same = a.ask.machine.hardware.id == b.ask.machine.hardware.id
    relation = spread.ratios.get("same_device" if same else "other_device", {})
    return relation.get(f"{level:g}", 0.0)


def money_at(candidate: Candidate, rate_rps: float, log_gain: float) -> float:
    """Its cost if it were faster by exp(log_gain): of a whole number of machines for a rate."""
    c = candidate
    if rate_rps:
        if not c.capacity_rps:
            return math.inf
        # a hair of rounding must not rent a machine
        machines = max(1, math.ceil(rate_rps / (c.capacity_rps * math.exp(log_gain)) - 1e-9))
        return c.money * machines / c.machines
    return c.money if c.ask.workload.arrival != "closed" else c.money * math.exp(-log_gain)


def sensitivity(
    ranked: Sequence[Candidate], answers: Sequence[Prediction], again: Again
) -> tuple[str, ...]:
    """Which price, input or coefficient would change the first choice, among its few rivals."""
    if not ranked or ranked[0].meets_slo is False:
        return ()
    rivals = rivals_of(ranked)
    lines = [*_cheaper_misses(ranked, answers), *_by_price(ranked[0], rivals)]
    if rivals:
        lines += _by_input(ranked[0], rivals, again)
        lines += _by_coefficient(ranked[0], rivals, again)
    return tuple(lines[:MAX_LINES])


def rivals_of(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The first choice of each other machine, then of each other weight scheme on its own."""
    best = ranked[0]

    def kind(c: Candidate) -> tuple[str, str]:
        own = c.ask.machine.id == best.ask.machine.id
        return c.ask.machine.id, c.ask.deployment.weight_quant if own else ""

    seen = {kind(best)}
    found: list[Candidate] = []
    for c in sorted(ranked[1:], key=lambda c: c.ask.machine.id == best.ask.machine.id):
        same = (c.meets_slo, c.priced) == (best.meets_slo, best.priced)
        if same and kind(c) not in seen and len(found) < MAX_RIVALS:
            seen.add(kind(c))
            found.append(c)
    return found


def name_of(candidate: Candidate) -> str:
    """ "L40S TP 2 fp8"."""
    d = candidate.ask.deployment
    ranks = f" TP {d.tensor_parallel}" if d.tensor_parallel > 1 else ""
    scheme = "" if d.weight_quant == "checkpoint" else f" {d.weight_quant}"
    return f"{candidate.ask.machine.id}{ranks}{scheme}"


def _cheaper_misses(ranked: Sequence[Candidate], answers: Sequence[Prediction]) -> Iterator[str]:
    best = ranked[0]
    for candidate, answer in zip(ranked, answers, strict=True):
        share = answer.slo_share or 0.0
        cheaper = candidate.priced == best.priced and candidate.money < best.money
        if answer.meets_slo is False and cheaper and share >= LEAST_SHARE:
            price = f" for {show_usd(candidate.money)} per million tokens" * candidate.priced
            yield f"{name_of(candidate)} is expected to miss the SLO, and meets it{price} with " \
                  f"{share:.0%}"  # fmt: skip
            return


def _by_price(best: Candidate, rivals: Sequence[Candidate]) -> Iterator[str]:
    for rival in rivals:
        more = rival.money / best.money - 1 if best.money else math.inf
        machines = best.ask.machine.id, rival.ask.machine.id
        if best.priced and machines[0] != machines[1] and more <= MOST_PRICE:
            yield (
                f"{name_of(rival)} is cheaper if {machines[0]} costs {more:.0%} more an hour, or "
                f"{machines[1]} {more / (1 + more):.0%} less"
            )


def _by_input(best: Candidate, rivals: Sequence[Candidate], again: Again) -> Iterator[str]:
    workload = best.ask.workload
    closed = workload.arrival == "closed"
    for field, name in _INPUTS:
        if (field == "rate_rps" and closed) or (field == "concurrency" and not closed):
            continue
        for factor, word in ((2, "twice"), (0.5, "half")):
            value = getattr(workload, field) * factor
            if field != "rate_rps":
                value = max(1, round(value))
            moved = [
                again(replace(c.ask, workload=c.ask.workload.replace(**{field: value})))
                for c in (best, *rivals)
            ]
            if (index := _winner(moved)) > 0:
                long = f"{name} {word} as long" if "tokens" in field else f"{word} the {name}"
                yield f"with {long} {name_of(rivals[index - 1])} is the choice"


def _by_coefficient(best: Candidate, rivals: Sequence[Candidate], again: Again) -> Iterator[str]:
    """A coefficient belongs to a device class: all choices on that class move together.

    A step up is computed, and a step down taken as its inverse; what that turns is computed too.
    """
    choices = [best, *(c for c in rivals if c.money <= NEAR * best.money)]
    unused = _UNUSED[arch_of(best.ask.model)]
    classes: dict[str, tuple[Coefficients, Spread | None]] = {}
    for c in choices if len(choices) > 1 else ():
        classes.setdefault(c.ask.coefficients.device_class, (c.ask.coefficients, c.ask.spread))
    for class_name, (coefficients, spread) in classes.items():
        for field, size in spread.coefficients.items() if spread else ():
            value = getattr(coefficients, field, None)
            if not isinstance(value, float) or not value or field.startswith(unused):
                continue
            up = _stepped(choices, coefficients, field, size, again)
            down = [_mirrored(c, m) for c, m in zip(choices, up, strict=True)]
            if _winner(down):
                down = _stepped(choices, coefficients, field, -size, again)
            for step, found in ((size, up), (-size, down)):
                if index := _winner(found):
                    word = "higher" if step > 0 else "lower"
                    yield (
                        f"{name_of(choices[index])} is the choice if {field} of {class_name} is "
                        f"{abs(math.expm1(step)):.0%} {word}, which its spread allows"
                    )


def _stepped(
    choices: Sequence[Candidate], known: Coefficients, field: str, step: float, again: Again
) -> list[Candidate | None]:
    """The choices, those of its class with a coefficient times exp(step)."""
    changed = known.replace(**{field: getattr(known, field) * math.exp(step)})
    return [
        again(replace(c.ask, coefficients=changed))
        if c.ask.coefficients.device_class == known.device_class
        else c
        for c in choices
    ]


def _mirrored(before: Candidate, after: Candidate | None) -> Candidate | None:
    """What the opposite step does, to first order."""
    if after is None or not 0 < after.money < math.inf:
        return before
    return replace(before, money=before.money**2 / after.money)


def _winner(choices: Sequence[Candidate | None]) -> int:
    """Index of the one that ranks first; 0 where nothing starts."""
    order = [
        (c.meets_slo is False, not c.priced, c.money, index)
        for index, c in enumerate(choices)
        if c is not None
    ]
    return min(order)[-1] if order else 0
