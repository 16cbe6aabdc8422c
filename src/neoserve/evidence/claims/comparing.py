"""Speed-ups and savings of one row against another."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import AskError
from ...schema.claims import ClaimedComparison, ClaimedPoint, ClaimVerdict, Printed, Word
from .counters import SHARES
from .figures import Interval, exactly, positive, printed, setting, share
from .loads import state_of
from .money import kinds_of, rates, served_rps, usd_per_mtok

_ONE = exactly(1)
_RATES = {f"{kind}_tokens_per_s": kind for kind in ("output", "input", "total")}
_LOADED = (*_RATES, "served_rps", "usd_per_mtok")  # what the offered load can set


def check_comparison(
    comparison: ClaimedComparison, points: Mapping[str, ClaimedPoint]
) -> list[ClaimVerdict]:
    """Ratio, share saved, dollars saved: whichever is printed."""
    of, over = points[comparison.of], points[comparison.over]
    found = []
    if comparison.ratio is not None:
        found.append(_ratio(comparison, comparison.ratio, of, over))
    if comparison.saved_share is not None:
        found.append(_saved_share(comparison.saved_share, of, over))
    if comparison.saved_usd_per_month is not None:
        found.append(_saved_usd(comparison, comparison.saved_usd_per_month, of, over))
    return found


def quantity_of(point: ClaimedPoint, name: str) -> Interval | None:
    """One figure of a row, printed or computed. Raises AskError for what rows do not have."""
    if name in _RATES:
        return rates(point).get(_RATES[name])
    if name == "served_rps":
        return served_rps(point)
    if name == "usd_per_mtok":
        return usd_per_mtok(point)
    where = f"{point.name}: {name}"
    if name in SHARES or name in ("ipc", "usd_per_hour", "tokens_per_usd"):
        value = getattr(point, name)
        read = share if name in SHARES else positive
        return None if value is None else read(value, where)
    known = ", ".join((*_LOADED, "tokens_per_usd", "usd_per_hour", "ipc", *SHARES))
    raise AskError(f"a comparison is of {name!r}, which is no figure of a row; known: {known}")


def _ratio(
    comparison: ClaimedComparison, claimed: Printed, of: ClaimedPoint, over: ClaimedPoint
) -> ClaimVerdict:
    asked = positive(claimed, f"{of.name} over {over.name}: ratio")
    name = comparison.quantity
    above, below = quantity_of(of, name), quantity_of(over, name)
    if above is None or below is None or below.low <= 0:
        return _missing(of, over, "ratio", f"{claimed} in {name}", name)
    ratio = above / below
    arithmetic = f"{above.show()} ÷ {below.show()} = {ratio.show()}"
    word: Word = "HOLDS" if ratio.meets(asked) else "WRONG"
    reason = "It is the quotient." if word == "HOLDS" else "The quotient is another."
    if word == "HOLDS" and name == "usd_per_mtok" and (unlike := _unlike(of, over)):
        word, reason = "UNPROVEN", unlike
    elif word == "HOLDS" and (name in _LOADED or name == "tokens_per_usd"):
        word, reason = _under_load(of, over, reason, name == "usd_per_mtok")
    return _verdict(of, over, "ratio", f"{claimed} in {name}", word, arithmetic, reason)


def _under_load(
    of: ClaimedPoint, over: ClaimedPoint, plain: str, is_cost: bool
) -> tuple[Word, str]:
    """What a quotient says of two machines whose load may have set it."""
    states = state_of(of), state_of(over)
    if states == ("load-limited", "load-limited"):
        return "UNPROVEN", (
            "Both points served what they were offered: the quotient is that of the offered "
            f"loads, {_offered(of, over)}, and says nothing of capacities."
        )
    if states[0] == "load-limited":
        side = "at most" if is_cost else "at least"
        return "HOLDS", f"{plain[:-1]}; {of.name} was load-limited, so it is {side} this."
    if states[1] == "load-limited":
        return "UNPROVEN", f"{over.name} served what it was offered: its capacity may be higher."
    return "HOLDS", plain


def _unlike(of: ClaimedPoint, over: ClaimedPoint) -> str:
    """Why two costs cannot be compared: they are known to divide by different tokens."""
    one, other = kinds_of(of), kinds_of(over)
    if not one or not other or one & other:
        return ""
    kinds = [" or ".join(sorted(found)) for found in (one, other)]
    return f"The costs are of unlike tokens: {kinds[0]} and {kinds[1]}."


def _offered(of: ClaimedPoint, over: ClaimedPoint) -> str:
    ends = [setting(p.request_rate_rps or 0, f"{p.name}: request_rate_rps") for p in (of, over)]
    return f"{ends[0].show()} ÷ {ends[1].show()} = {(ends[0] / ends[1]).show()}"


def _saved_share(claimed: Printed, of: ClaimedPoint, over: ClaimedPoint) -> ClaimVerdict:
    asked = share(claimed, f"{of.name} over {over.name}: saved_share")
    cost, base = usd_per_mtok(of), usd_per_mtok(over)
    if cost is None or base is None:
        return _missing(of, over, "saved_share", f"{claimed} saved", "usd_per_mtok")
    saved = _ONE - cost / base
    arithmetic = f"1 − ${cost.show()} ÷ ${base.show()} = {_percent(saved)}"
    return _saving(of, over, "saved_share", f"{claimed} saved", saved.meets(asked), arithmetic)


def _saved_usd(
    comparison: ClaimedComparison, claimed: Printed, of: ClaimedPoint, over: ClaimedPoint
) -> ClaimVerdict:
    where = f"{of.name} over {over.name}"
    asked = printed(claimed, f"{where}: saved_usd_per_month")
    text = f"${str(claimed).lstrip('$')} a month saved"
    cost, base = usd_per_mtok(of), usd_per_mtok(over)
    if cost is None or base is None:
        return _missing(of, over, "saved_usd_per_month", text, "usd_per_mtok")
    if comparison.tokens_per_month is None:
        return _missing(of, over, "saved_usd_per_month", text, "tokens_per_month")
    volume = setting(comparison.tokens_per_month, f"{where}: tokens_per_month") / exactly(10**6)
    saved = volume * (base - cost)
    arithmetic = f"{volume.show()} Mtok × (${base.show()} − ${cost.show()}) = ${saved.show()}"
    return _saving(of, over, "saved_usd_per_month", text, saved.meets(asked), arithmetic)


def _saving(
    of: ClaimedPoint, over: ClaimedPoint, what: str, claimed: str, holds: bool, arithmetic: str
) -> ClaimVerdict:
    word: Word = "HOLDS" if holds else "WRONG"
    reason = f"The costs of a token {'say so' if holds else 'give another'}."
    if holds and (unlike := _unlike(of, over)):
        word, reason = "UNPROVEN", unlike
    elif holds:
        word, reason = _under_load(of, over, reason, is_cost=False)
    return _verdict(of, over, what, claimed, word, arithmetic, reason)


def _missing(
    of: ClaimedPoint, over: ClaimedPoint, what: str, claimed: str, name: str
) -> ClaimVerdict:
    return _verdict(
        of, over, what, claimed, "UNPROVEN", f"{name} is not printed",
        f"It cannot be computed without {name} of both.",
    )  # fmt: skip


def _verdict(
    of: ClaimedPoint, over: ClaimedPoint, what: str, claimed: str, word: Word, arithmetic: str,
    reason: str,
) -> ClaimVerdict:  # fmt: skip
    return ClaimVerdict(
        subject=f"{of.name} over {over.name}", what=what, claimed=claimed, verdict=word,
        arithmetic=arithmetic, reason=reason,
    )  # fmt: skip


def _percent(value: Interval) -> str:
    return f"{value.middle:.2%} ({float(value.low):.2%} to {float(value.high):.2%})"
