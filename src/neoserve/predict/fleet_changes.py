"""What would change a mix: the demand, or the price of a kind; each is solved again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..units import show_usd
from .cost import HOURS_PER_MONTH
from .fleet import Mix, Offer, Rules, cheapest

DEMAND = (0.8, 1.2)
DEARER = (1.1, 1.25, 1.5, 2.0)  # of all prices of a kind
CHEAPER = (0.9, 0.75, 0.5)
GAP_SHARE = 0.01  # of these answers, which move in steps of 10 % and more


def changes(
    offers: Sequence[Offer], demand: Sequence[float], rules: Rules, mix: Mix
) -> tuple[str, ...]:
    """One sentence a change. `demand` is what `mix` was solved for."""
    rules = rules._replace(gap_share=max(rules.gap_share, GAP_SHARE) if rules.gap_share else 0.0)
    lines = [_with_demand(offers, demand, rules, mix, factor) for factor in DEMAND]
    used = {line.offer.name for line in mix.lines}
    for offer in offers:
        name = offer.name
        if name not in used:
            at = _first(CHEAPER, lambda f, n=name: n in _names(offers, demand, rules, n, f))  # type: ignore[misc]
            if at is not None:
                lines.append(f"{name} comes into the mix at a price {1 - at:.0%} lower")
        elif len(offers) > 1:
            at = _first(DEARER, lambda f, n=name: n not in _names(offers, demand, rules, n, f))  # type: ignore[misc]
            if at is None:
                lines.append(f"{name} stays in the mix at twice its price")
            else:
                lines.append(f"{name} leaves the mix at a price {at - 1:.0%} higher")
    return tuple(lines)


def _with_demand(
    offers: Sequence[Offer], demand: Sequence[float], rules: Rules, mix: Mix, factor: float
) -> str:
    found = cheapest(offers, [rate * factor for rate in demand], rules)
    monthly = found.usd * HOURS_PER_MONTH / len(demand)
    change = found.usd / mix.usd - 1 if mix.usd else 0.0
    before, after = _ways(mix), _ways(found)
    other = ""
    if before != after:
        other = f"; the mix is then {', '.join(sorted(after))}"
    return f"demand {factor - 1:+.0%}: {show_usd(monthly)} a month ({change:+.0%}){other}"


def _ways(mix: Mix) -> set[str]:
    return {f"{line.offer.name} {line.purchase}" for line in mix.lines}


def _names(
    offers: Sequence[Offer], demand: Sequence[float], rules: Rules, name: str, factor: float
) -> set[str]:
    """The kinds in the mix with one of them at another price."""
    priced = [_at(offer, factor) if offer.name == name else offer for offer in offers]
    return {line.offer.name for line in cheapest(priced, demand, rules).lines}


def _at(offer: Offer, factor: float) -> Offer:
    def times(usd: float | None) -> float | None:
        return None if usd is None else usd * factor

    return offer._replace(
        usd=times(offer.usd), reserved_usd=times(offer.reserved_usd),
        spot_usd=times(offer.spot_usd),
    )  # fmt: skip


def _first(factors: Sequence[float], holds: Callable[[float], bool]) -> float | None:
    """The first factor that holds; once one does, all after it do: the dearer a kind, the less of
    it a cheapest mix has."""
    low, high = 0, len(factors)
    while low < high:
        middle = (low + high) // 2
        if holds(factors[middle]):
            high = middle
        else:
            low = middle + 1
    return factors[low] if low < len(factors) else None
