"""A gate's verdict as text: a row a check, a sentence a check, where both sides are from."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.gate import Check, Gate, Side
from ..tune.gate import show
from ..units import significant
from .tables import table, wrap

_WIDTH = 41  # of the chart's axis, odd: no change is in the middle


def show_gate(found: Gate) -> str:
    """All that `neoserve gate` prints."""
    header, rows = ["check", "now", "before", "change", "limit", "verdict"], check_rows(found)
    blocks = [table(header, rows, [False, True, True, True, True, False])]
    if lines := chart(found.checks):
        blocks.append("\n".join(lines))
    blocks.append("\n".join(wrap(f"{check.name}: {check.reason}", "") for check in found.checks))
    if found.notes:
        blocks.append("\n".join(["Notes", *(wrap(note) for note in found.notes)]))
    blocks.append("\n".join(wrap(line, "") for line in sides(found)))
    blocks.append(conclusion(found))
    return "\n\n".join(blocks)


def check_rows(found: Gate) -> list[list[str]]:
    """Name, figure now and before, change, limit, verdict."""
    return [
        [check.name, show(check, check.value), show(check, check.baseline), _change(check),
         _limit(check), check.verdict]
        for check in found.checks
    ]  # fmt: skip


def _change(check: Check) -> str:
    if check.change is None:
        return ""
    bounds = [f"{bound:+.1%}" if bound is not None else "unbounded"
              for bound in (check.low, check.high)]  # fmt: skip
    if check.low is None and check.high is None:
        return f"{check.change:+.1%}"
    return f"{check.change:+.1%} ({bounds[0]} to {bounds[1]})"


def _limit(check: Check) -> str:
    if check.limit is None:
        return ""
    if check.kind == "regression":
        return f"{check.limit:+.1%}"
    return show(check, check.limit)


def chart(checks: Sequence[Check]) -> list[str]:
    """Each change on one axis of shares: o the change, = its interval, | none, ! the limit."""
    drawn = [c for c in checks if c.change is not None and c.low is not None]
    if not drawn:
        return []
    ends = [abs(v) for c in drawn for v in (c.change, c.low, c.high) if v is not None]
    reach = min(2.0, max(0.1, *ends))
    width = max(len(check.name) for check in drawn)
    lines = [f"{check.name.ljust(width)}  {_bar(check, reach)}" for check in drawn]
    scale = f"-{significant(100 * reach)} %".ljust(_WIDTH // 2) + "0"
    lines.append(" " * (width + 2) + scale + f"+{significant(100 * reach)} %".rjust(_WIDTH // 2))
    return lines


def _bar(check: Check, reach: float) -> str:
    def place(share: float | None) -> int:
        held = reach if share is None else max(-reach, min(reach, share))
        return round((held / reach + 1) / 2 * (_WIDTH - 1))

    cells = ["."] * _WIDTH
    for at in range(place(check.low), place(check.high) + 1):
        cells[at] = "="
    cells[_WIDTH // 2] = "|"
    if check.limit is not None:
        cells[place(check.limit)] = "!"
    cells[place(check.change)] = "o"
    return "".join(cells)


def sides(found: Gate) -> list[str]:
    """Where the figures are from."""
    lines = [f"now: {_side(found.subject)}"]
    if found.baseline is not None:
        lines.append(f"before: {_side(found.baseline)}")
    if found.allowed:
        lines.append(f"allowed to differ: {', '.join(found.allowed)}")
    return lines


def _side(side: Side) -> str:
    parts = [
        f"{side.source} ({side.basis})", side.what, side.host,
        f"{side.num_requests} requests" if side.num_requests is not None else "",
        f"ledger head {side.head}" if side.head else "",
    ]  # fmt: skip
    return ", ".join(part for part in parts if part)


def conclusion(found: Gate) -> str:
    """The verdict, and what it rests on."""
    counted = {verdict: sum(c.verdict == verdict for c in found.checks)
               for verdict in ("FAIL", "INCONCLUSIVE", "PASS")}  # fmt: skip
    told = ", ".join(f"{num} {verdict}" for verdict, num in counted.items() if num)
    return f"{found.verdict}: {told}"
