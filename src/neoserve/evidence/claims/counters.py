"""Top-down shares: they add up, and retiring goes with instructions a cycle.

Retiring share = IPC × operations an instruction ÷ slots, whatever the core: both count what
retired, one in operations a slot, the other in instructions a cycle.
"""

from __future__ import annotations

from fractions import Fraction

from ...schema.claims import ClaimedPoint, ClaimFacts, ClaimVerdict
from ...units import significant
from .figures import Interval, exactly, positive, share

SHARES = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
_WHOLE = Interval(Fraction(97, 100), Fraction(103, 100))
# Operations an instruction over a whole program. Most instructions are one operation, some two or
# three, and pairs may be fused into one. The bounds are this project's own, wide on purpose.
_OPERATIONS = Interval(Fraction(3, 4), Fraction(2))


def check_counters(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    """Whichever of the two that the printed shares allow."""
    return [*_sum(point), *_identity(point, facts)]


def _sum(point: ClaimedPoint) -> list[ClaimVerdict]:
    values = [getattr(point, name) for name in SHARES]
    if any(value is None for value in values):
        return []
    parts = [share(v, f"{point.name}: {n}") for n, v in zip(SHARES, values, strict=True)]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    holds = total.meets(_WHOLE)
    return [
        ClaimVerdict(
            subject=point.name, what="top_down_sum", verdict="HOLDS" if holds else "WRONG",
            claimed=" + ".join(str(value) for value in values),
            arithmetic=f"retiring + bad speculation + frontend + backend = {total.middle:.1%}",
            reason="They are shares of one whole." if holds
            else "Shares of all slots add up to 100 %, within 3.",
        )
    ]  # fmt: skip


def _identity(point: ClaimedPoint, facts: ClaimFacts) -> list[ClaimVerdict]:
    if point.retiring is None or point.ipc is None:
        return []
    retiring = share(point.retiring, f"{point.name}: retiring")
    ipc = positive(point.ipc, f"{point.name}: ipc")
    claimed = f"retiring {point.retiring} with IPC {point.ipc}"
    if facts.slots is None:
        return [
            ClaimVerdict(
                subject=point.name, what="retiring_ipc", claimed=claimed, verdict="UNPROVEN",
                arithmetic="retiring × slots ÷ IPC",
                reason=f"The slots of {facts.core or 'the core'} are not known: name the core.",
            )
        ]  # fmt: skip
    operations = retiring * exactly(facts.slots) / ipc
    holds = operations.meets(_OPERATIONS)
    low, high = significant(float(_OPERATIONS.low), 2), significant(float(_OPERATIONS.high), 2)
    return [
        ClaimVerdict(
            subject=point.name, what="retiring_ipc", claimed=claimed,
            verdict="HOLDS" if holds else "WRONG",
            arithmetic=f"{point.retiring} × {facts.slots} slots ({facts.core}) ÷ {point.ipc} = "
                       f"{operations.show()} operations an instruction",
            reason=f"Programs have {low} to {high}." if holds
            else f"Programs have {low} to {high}: the two cannot be of one run on this core.",
        )
    ]  # fmt: skip
