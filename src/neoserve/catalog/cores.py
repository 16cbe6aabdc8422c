"""How many operations a core takes in a cycle: the slots that top-down shares divide by.

Neoverse: Arm's telemetry solution (data/pmu/cpu/neoverse-*.json, 2026-04; N1 has no slot events).
Intel: TMA metrics of perfmon (5 a cycle on Ice Lake, 6 from Golden Cove on). AMD: Linux
tools/perf/pmu-events/arch/x86/amdzen4 and amdzen5, pipeline.json.
"""

from __future__ import annotations

SLOTS = {
    "neoverse-v1": 8, "neoverse-n2": 5, "neoverse-v2": 8, "neoverse-n3": 5, "neoverse-v3": 10,
    "ice-lake": 5, "sapphire-rapids": 6, "emerald-rapids": 6, "granite-rapids": 6,
    "zen4": 6, "zen5": 8,
}  # fmt: skip


def slots_of(core: str) -> int | None:
    """By a hardware's ``arch``, whatever its case and separators; None where none is published."""
    return SLOTS.get(core.strip().lower().replace("_", "-").replace(" ", "-"))
