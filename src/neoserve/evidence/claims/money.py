"""Dollars: a million tokens of which kind, tokens for a dollar, a month, the list price."""

from __future__ import annotations

from fractions import Fraction

from ...schema.claims import ClaimedPoint, ClaimFacts, ClaimVerdict, Printed, Word
from ...units import significant
from .figures import Interval, exactly, positive, setting

_HOUR_S = exactly(3600)
_MTOK = exactly(10**6)
KINDS = ("output", "input", "total")


def rates(point: ClaimedPoint) -> dict[str, Interval]:
    """Tokens a second by kind, as far as the printed figures tell them."""
    found = {
        kind: positive(value, f"{point.name}: {kind}_tokens_per_s")
        for kind, value in zip(
            KINDS,
            (point.output_tokens_per_s, point.input_tokens_per_s, point.total_tokens_per_s),
            strict=True,
        )
        if value is not None
    }
    lengths = {
        "input": _setting(point, "prompt_tokens"), "output": _setting(point, "output_tokens"),
    }  # fmt: skip
    if point.served_rps is not None:
        served = positive(point.served_rps, f"{point.name}: served_rps")
        for kind, length in lengths.items():
            if length is not None:
                found.setdefault(kind, served * length)
    return _by_lengths(found, lengths["input"], lengths["output"])


def _by_lengths(
    found: dict[str, Interval], prompt: Interval | None, output: Interval | None
) -> dict[str, Interval]:
    """The kinds that are missing, from lengths or from the other two."""
    if prompt is not None and output is not None:
        if "output" in found:
            found.setdefault("input", found["output"] * prompt / output)
        elif "input" in found:
            found["output"] = found["input"] * output / prompt
        elif "total" in found:
            whole = prompt + output
            found["output"] = found["total"] * output / whole
            found["input"] = found["total"] * prompt / whole
    if "total" in found and found.keys() & {"output", "input"} and len(found) == 2:
        known, other = ("output", "input") if "output" in found else ("input", "output")
        rest = found["total"] - found[known]
        if rest.low > 0:
            found[other] = rest
    if "output" in found and "input" in found:
        found.setdefault("total", found["output"] + found["input"])
    return found


def served_rps(point: ClaimedPoint) -> Interval | None:
    """Requests a second that were served, printed or from the output tokens of each."""
    if point.served_rps is not None:
        return positive(point.served_rps, f"{point.name}: served_rps")
    length = _setting(point, "output_tokens")
    if point.output_tokens_per_s is None or length is None:
        return None
    return positive(point.output_tokens_per_s, f"{point.name}: output_tokens_per_s") / length


def usd_per_mtok(point: ClaimedPoint) -> Interval | None:
    """As printed, else of output tokens by price and throughput."""
    if point.usd_per_mtok is not None:
        return positive(point.usd_per_mtok, f"{point.name}: usd_per_mtok")
    return _readings(point).get(point.tokens or "output")


def kinds_of(point: ClaimedPoint) -> set[str]:
    """The tokens that a point's cost can be of; empty where nothing tells."""
    if point.tokens is not None:
        return {point.tokens}
    readings = _readings(point)
    if point.usd_per_mtok is None:
        return {"output"} & readings.keys()
    asked = positive(point.usd_per_mtok, f"{point.name}: usd_per_mtok")
    return {kind for kind, value in readings.items() if value.meets(asked)}


def check_money(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    """Every claim of one point that is about money."""
    found = [*_price(point, facts)]
    if point.usd_per_mtok is not None:
        found.append(_per_mtok(point, point.usd_per_mtok))
    if point.tokens_per_usd is not None:
        found.append(_per_usd(point, point.tokens_per_usd))
    if point.usd_per_month is not None and point.tokens_per_month is not None:
        found += _month(point, point.usd_per_month)
    return found


def _readings(point: ClaimedPoint) -> dict[str, Interval]:
    """$/1M tokens by kind, each the whole price divided by that kind alone."""
    if point.usd_per_hour is None:
        return {}
    price = positive(point.usd_per_hour, f"{point.name}: usd_per_hour")
    return {kind: price * _MTOK / (_HOUR_S * rate) for kind, rate in rates(point).items()}


def _per_mtok(point: ClaimedPoint, claimed: Printed) -> ClaimVerdict:
    """Which tokens fit, or none."""
    asked = positive(claimed, f"{point.name}: usd_per_mtok")
    readings = _readings(point)
    word, reason = _judged(point, asked, readings)
    if word == "WRONG":
        reason += _needed(point, asked, readings)
    known = rates(point)
    parts = [
        f"1e6 × {point.usd_per_hour} $/h ÷ (3600 s × {known[kind].show()} {kind} tokens/s) "
        f"= ${value.show()}"
        for kind, value in readings.items()
    ]
    said = f"${str(claimed).lstrip('$')}/1M"
    return _by_kind(point, "usd_per_mtok", said, word, parts, reason)


def _per_usd(point: ClaimedPoint, claimed: Printed) -> ClaimVerdict:
    asked = positive(claimed, f"{point.name}: tokens_per_usd")
    readings = {kind: _MTOK / value for kind, value in _readings(point).items()}
    word, reason = _judged(point, asked, readings)
    known = rates(point)
    parts = [
        f"{known[kind].show()} {kind} tokens/s × 3600 s ÷ {point.usd_per_hour} $/h = "
        f"{value.show()} a dollar"
        for kind, value in readings.items()
    ]
    said = f"{claimed} tokens a dollar"
    return _by_kind(point, "tokens_per_usd", said, word, parts, reason)


def _by_kind(
    point: ClaimedPoint, what: str, claimed: str, word: Word, parts: list[str], reason: str
) -> ClaimVerdict:
    return ClaimVerdict(
        subject=point.name, what=what, claimed=claimed, verdict=word, reason=reason,
        arithmetic="; ".join(parts) or "no price or no throughput is printed",
    )  # fmt: skip


def _judged(
    point: ClaimedPoint, asked: Interval, readings: dict[str, Interval]
) -> tuple[Word, str]:
    if point.usd_per_hour is None:
        return "UNPROVEN", "No price is printed: give usd_per_hour."
    fits = [kind for kind in KINDS if kind in readings and readings[kind].meets(asked)]
    said = point.tokens
    if said is not None and said in readings:
        if said in fits:
            return "HOLDS", f"It fits {said} tokens, as it says."
        other = f"; it would be of {' or '.join(fits)} tokens" if fits else ""
        return "WRONG", f"It says {said} tokens, whose figure is another{other}."
    if said is None and fits:
        return "HOLDS", f"It fits {' or '.join(fits)} tokens; the table does not say which."
    missing = [kind for kind in KINDS if kind not in readings]
    if missing:
        known = f" and it does not fit {' or '.join(readings)} tokens" if readings else ""
        return "UNPROVEN", (
            f"The rate of {said or ' and '.join(missing)} tokens is not printed{known}: give "
            "prompt_tokens and output_tokens, or the rate."
        )
    return "WRONG", "It fits neither output, input nor total tokens."


def _needed(point: ClaimedPoint, asked: Interval, readings: dict[str, Interval]) -> str:
    """The price or the throughput that would make it true, of the reading that is nearest."""
    nearest = min(readings, key=lambda k: abs(readings[k].middle / asked.middle - 1))
    kind: str = point.tokens or nearest
    rate = rates(point)[kind]
    factor = asked.middle / readings[kind].middle
    price = positive(point.usd_per_hour or 0, point.name).middle * factor
    return (
        f" Of {kind} tokens it would take ${significant(price, 4)}/h, or "
        f"{significant(rate.middle / factor, 4)} tokens/s."
    )


def _month(point: ClaimedPoint, claimed: Printed) -> list[ClaimVerdict]:
    """A volume at the cost of a token."""
    cost, volume = usd_per_mtok(point), _setting(point, "tokens_per_month")
    if volume is None:
        return []
    asked = positive(claimed, f"{point.name}: usd_per_month")
    word: Word = "UNPROVEN"
    arithmetic = "neither a cost of a token nor price and throughput are printed"
    reason = "The cost of a token is not known."
    if cost is not None:
        month = volume / _MTOK * cost
        arithmetic = f"{(volume / _MTOK).show()} Mtok × ${cost.show()} = ${month.show()}"
        word = "HOLDS" if month.meets(asked) else "WRONG"
        reason = "It is the volume at that cost." if word == "HOLDS" else "The product is another."
    return [
        ClaimVerdict(subject=point.name, what="usd_per_month", verdict=word, reason=reason,
                     claimed=f"${str(claimed).lstrip('$')} a month", arithmetic=arithmetic)
    ]  # fmt: skip


def _price(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    """The printed price against a list; another day, region or term has others."""
    if point.usd_per_hour is None or facts.usd_per_hour is None:
        return []
    asked = positive(point.usd_per_hour, f"{point.name}: usd_per_hour")
    listed = exactly(Fraction(str(facts.usd_per_hour)))
    fits = asked.meets(listed)
    reason = "As listed." if fits else "The list has another; region, term or day may differ."
    cost = _readings(point).get(point.tokens or "output")
    if not fits and cost is not None:
        dearer = cost.middle * facts.usd_per_hour / asked.middle
        reason += (
            f" With the list's, 1M {point.tokens or 'output'} tokens cost "
            f"${significant(dearer, 4)}."
        )
    return [
        ClaimVerdict(
            subject=point.name, what="usd_per_hour",
            claimed=f"price of ${str(point.usd_per_hour).lstrip('$')}/h",
            verdict="HOLDS" if fits else "UNPROVEN",
            arithmetic=f"${facts.usd_per_hour}/h ({facts.price_basis})", reason=reason,
        )
    ]  # fmt: skip


def _setting(point: ClaimedPoint, name: str) -> Interval | None:
    value = getattr(point, name)
    return None if value is None else setting(value, f"{point.name}: {name}")
