"""Which microarchitecture this is: Arm by MIDR_EL1, x86 by CPUID as /proc/cpuinfo shows it."""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import AskError
from ...schema.pmu import CoreType

_ROOT = Path("/")
_ARM = 0x41  # implementer, bits 31-24 of MIDR_EL1

# Part number -> name, key, slots a cycle: Arm telemetry-solution data, and `slots` of perf's own
# metrics for N3 and V1. N1 has no slot events.
_ARM_CORES: dict[int, tuple[str, str, int | None]] = {
    0xD0C: ("Neoverse N1", "neoverse-n1", None),
    0xD40: ("Neoverse V1", "neoverse-v1", 8),
    0xD49: ("Neoverse N2", "neoverse-n2", 5),
    0xD4F: ("Neoverse V2", "neoverse-v2", 8),
    0xD84: ("Neoverse V3", "neoverse-v3", 10),
    0xD8E: ("Neoverse N3", "neoverse-n3", 5),
}
# N2 up to r0p2 counts a cycle too many in STALL_SLOT and STALL_SLOT_FRONTEND (erratum; Linux
# tools/perf/pmu-events/arch/arm64/arm/neoverse-n2-v2/metrics.json).
_N2_MENDED = (0, 3)

# CPUID family and models, as the kernel's mapfile.csv has them.
_INTEL_CORES: tuple[tuple[tuple[int, ...], str, str], ...] = (
    ((0x6A, 0x6C), "Ice Lake (Sunny Cove)", "icelake"),
    ((0x8F,), "Sapphire Rapids (Golden Cove)", "goldencove"),
    ((0xCF,), "Emerald Rapids (Raptor Cove)", "goldencove"),
    ((0xAD, 0xAE), "Granite Rapids (Redwood Cove)", "goldencove"),
)
_ZEN = {"zen4": ("Zen 4", 6), "zen5": ("Zen 5", 8)}


def core_type(root: Path = _ROOT) -> CoreType | None:
    """Of this host; null where neither source names one. Raises AskError on a mix of cores."""
    midrs = sorted({midr for path in sorted(root.glob(
        "sys/devices/system/cpu/cpu[0-9]*/regs/identification/midr_el1"
    )) if (midr := _hex(path)) is not None})  # fmt: skip
    cpuinfo = _read(root / "proc/cpuinfo")
    midrs = midrs or sorted(_midrs_of(cpuinfo))
    parts = {midr & ~0x00F0000F for midr in midrs}  # variant and revision may differ
    if len(parts) > 1:
        names = ", ".join(f"0x{midr:08x}" for midr in midrs)
        raise AskError(
            f"this host mixes core types (MIDR {names}), whose counts cannot be put together; "
            "give --cores of one type"
        )
    return arm_core(midrs[0]) if midrs else x86_core(cpuinfo)


def arm_core(midr: int) -> CoreType:
    """From MIDR_EL1: implementer 31-24, variant 23-20, part 15-4, revision 3-0."""
    variant, part, revision = midr >> 20 & 0xF, midr >> 4 & 0xFFF, midr & 0xF
    identity = f"0x{midr:08x}"
    known = _ARM_CORES.get(part) if midr >> 24 == _ARM else None
    if known is None:
        return CoreType(f"Arm core of MIDR {identity}", "", None, identity)
    name, family, slots = known
    if family == "neoverse-n2" and (variant, revision) < _N2_MENDED:
        family = "neoverse-n2-r0p0"
    return CoreType(f"{name} r{variant}p{revision}", family, slots, identity)


def x86_core(cpuinfo: str) -> CoreType | None:
    """From vendor, family, model and stepping; null where there are none."""
    found = {key: _field(cpuinfo, key) for key in ("vendor_id", "cpu family", "model", "stepping")}
    vendor = found["vendor_id"]
    if not vendor or not found["cpu family"].isdigit() or not found["model"].isdigit():
        return None
    family, model = int(found["cpu family"]), int(found["model"])
    identity = f"{vendor}-{family}-{model}-{found['stepping']}"
    if vendor == "GenuineIntel" and family == 6:
        for models, name, key in _INTEL_CORES:
            if model in models:
                return CoreType(name, key, None, identity)
    key = _zen(family, model) if vendor == "AuthenticAMD" else ""
    if key:
        name, slots = _ZEN[key]
        return CoreType(name, key, slots, identity)
    return CoreType(_field(cpuinfo, "model name") or identity, "", None, identity)


def named_core(name: str) -> CoreType:
    """``v2``, ``neoverse-n1``, ``zen4``: for figures from elsewhere. Raises AskError."""
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    for full, family, slots in _ARM_CORES.values():
        if key in (family, family.removeprefix("neoverse-")):
            return CoreType(full, family, slots)
    if key in ("n2-r0p0", "neoverse-n2-r0p0"):
        return CoreType("Neoverse N2 r0p0", "neoverse-n2-r0p0", 5)
    for _, full, family in _INTEL_CORES:
        if key in (family, full.split(" (")[0].lower().replace(" ", "-")):
            return CoreType(full, family)
    if key in _ZEN:
        return CoreType(_ZEN[key][0], key, _ZEN[key][1])
    known = [family.removeprefix("neoverse-") for _, family, _ in _ARM_CORES.values()]
    raise AskError(
        f"core {name!r} is not known; expected one of {', '.join(known)}, icelake, goldencove, "
        f"{', '.join(_ZEN)}"
    )


def _zen(family: int, model: int) -> str:
    """Family 19h is Zen 3 and Zen 4, told apart by the model; 1Ah is Zen 5 (mapfile.csv)."""
    if family == 0x1A:
        return "zen5"
    is_zen4 = 0x10 <= model <= 0x1F or 0x60 <= model <= 0xAF
    return "zen4" if family == 0x19 and is_zen4 else ""


def _midrs_of(cpuinfo: str) -> set[int]:
    """/proc/cpuinfo of a kernel that hides the registers: the same fields, one by one."""
    found = set()
    for block in re.split(r"\n\s*\n", cpuinfo):
        words = {key: _field(block, f"CPU {key}")
                 for key in ("implementer", "variant", "part", "revision")}  # fmt: skip
        if words["implementer"] and words["part"]:
            number = {key: int(word or "0", 0) for key, word in words.items()}
            found.add(number["implementer"] << 24 | number["variant"] << 20 | 0xF0000
                      | number["part"] << 4 | number["revision"])  # fmt: skip
    return found


def _field(text: str, key: str) -> str:
    match = re.search(rf"^{key}\s*:\s*(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


def _hex(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text, 16) & 0xFFFFFFFF if re.fullmatch(r"0x[0-9a-fA-F]+", text) else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
