"""Which counters a cloud shows a guest, by instance type, before one is rented."""

from __future__ import annotations

import re
from typing import Any

from ..schema.base import Source
from ..schema.pmu import Exposure
from .files import bundled

_TYPE = re.compile(r"^[a-z]+?(\d+)([agi])[a-z0-9-]*\.(.+)$")
_SAYS = {
    "full": "all counters: level 1 can be counted",
    "basic": "a reduced PMU: IPC, stalled cycles and caches, no slots, so no level 1",
    "none": "no PMU at all",
}


def exposure(instance: str) -> Exposure | None:
    """Of an AWS instance type, "c8g.4xlarge"; null for one that nothing is published of."""
    match = _TYPE.match(instance.strip().lower())
    if match is None:
        return None
    data = bundled("pmu")
    key = match[1] + match[2]
    family = next((f for f in data["families"] if f["key"] == key), None)
    return None if family is None else _of(instance, match[3], family, data["sources"])


def full_sizes(instance: str) -> tuple[str, ...]:
    """Sizes of the same family that show everything, the smallest first."""
    match = _TYPE.match(instance.strip().lower())
    name = instance.partition(".")[0]
    key = match[1] + match[2] if match else ""
    family = next((f for f in bundled("pmu")["families"] if f["key"] == key), None)
    return tuple(f"{name}.{size}" for size in family["full"]) if family else ()


def _num_xlarge(size: str) -> int:
    """``"24xlarge"`` → 24; 0 for ``"xlarge"`` and what is smaller or no such size."""
    number = size.removesuffix("xlarge")
    return int(number) if number.isdigit() else 0


def _of(
    instance: str, size: str, family: dict[str, Any], sources: dict[str, dict[str, str]]
) -> Exposure:
    least = min(map(_num_xlarge, family["full"]))
    is_full = size.startswith("metal") or _num_xlarge(size) >= least
    level = "full" if is_full else family["smaller"]
    says = _SAYS[level]
    if level == "basic" and family.get("counters"):
        says += f" ({family['counters']})"
    source = sources[family["source"]]
    return Exposure.parse(
        {"instance": instance, "level": level, "says": says, "source": Source(**source)},
        "catalog/data/pmu.json",
    )
