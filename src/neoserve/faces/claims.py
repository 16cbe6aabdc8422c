"""`neoserve verify --claims FILE`: anybody's published table, recomputed."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable
from pathlib import Path

from ..catalog.cores import slots_of
from ..catalog.hardware import counted, find_machine, load_extra
from ..catalog.models import find_model
from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError
from ..evidence.claims import check_claims, read_claims
from ..predict.ceilings import ceiling_of
from ..predict.cost import hourly_usd, price_basis
from ..schema.claims import ClaimedPoint, ClaimFacts, ClaimReport
from ..schema.hardware import Machine
from .ask import scheme_model
from .tables import WIDTH

Say = Callable[[str], None]


def verify_claims(path: Path, catalog: str = "", online: bool = True) -> ClaimReport:
    """Reads the table, looks up what is known beside it, checks. Raises AskError."""
    claims, data = read_claims(path)
    extra = load_extra(Path(catalog)) if catalog else None
    facts: dict[str, ClaimFacts] = {}
    notes: list[str] = []
    for point in claims.points:
        facts[point.name] = facts_of(point, extra, online, notes.append)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    return check_claims(claims, facts, tuple(dict.fromkeys(notes)), digest)


def facts_of(
    point: ClaimedPoint, extra: dict[str, object] | None, online: bool, note: Say
) -> ClaimFacts:
    """What catalog and planner know of a point; names that are not known are noted."""
    facts = ClaimFacts(core=point.core, slots=slots_of(point.core))
    if not point.hardware:
        return facts
    try:
        machine = find_machine(point.hardware, extra)
    except AskError as error:
        note(f"{point.name}: neither list price nor ceilings are checked: {error}")
        return facts
    hardware, devices = machine.hardware, _devices(point, machine)
    if not point.core:
        facts = facts.replace(core=hardware.arch, slots=slots_of(hardware.arch))
    is_instance = machine.id != hardware.id
    if machine.price is not None and is_instance:
        facts = facts.replace(
            usd_per_hour=hourly_usd(machine.price, devices, machine.priced_devices),
            price_basis=price_basis(machine.price),
        )
    facts = facts.replace(memory_bytes=float(hardware.memory_bytes * devices) or None)
    if not point.model:
        return facts
    socket = find_machine(hardware.id, extra).hardware if is_instance else hardware
    try:
        model = scheme_model(find_model(point.model, online), point.weight_quant or "checkpoint")
    except AskError as error:
        note(f"{point.name}: no ceilings are checked: {error}")
        return facts
    return facts.replace(ceiling=ceiling_of(model, hardware, devices, socket))


def _devices(point: ClaimedPoint, machine: Machine) -> int:
    """As said; an instance has its own, a device that is named without a count is one."""
    if point.num_devices is not None:
        return point.num_devices
    if machine.id != machine.hardware.id or counted(point.hardware)[0] is not None:
        return machine.num_devices
    return 1


def exit_code(report: ClaimReport) -> int:
    """0: all hold; 1: some are wrong; 3: none is wrong, some are unproven."""
    if report.num_wrong:
        return EXIT_NOT_MET
    return EXIT_INCONCLUSIVE if report.num_unproven else EXIT_MET


def show_claims(report: ClaimReport) -> str:
    """Each claim with its arithmetic, then how many there are of each kind."""
    head = " ".join(part for part in (report.title, report.source and f"({report.source})") if part)
    lines = [*_wrapped(head, "")] if head else []
    for v in report.verdicts:
        lines += _wrapped(f"{v.verdict.ljust(8)}  {v.subject}: {v.claimed}", "          ")
        for text in (*v.arithmetic.split("; "), v.reason):
            lines += _wrapped(f"          {text}", "          ")
    lines += [line for note in report.notes for line in _wrapped(f"not checked: {note}", "  ")]
    total = len(report.verdicts)
    lines.append(
        f"{total} claim{'s' * (total != 1)}: {report.num_holds} hold, {report.num_wrong} wrong, "
        f"{report.num_unproven} unproven"
    )
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False)
