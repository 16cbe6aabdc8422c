"""From counts per cycle to figures. Pure.

Level 1 of Arm cores: Arm's telemetry-solution data (mirror 917257c, April 2026), which Linux's
tools/perf/pmu-events of 7.2 repeats but for V3. Intel: TopdownL1 of the same. AMD: PipelineL1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...schema.pmu import CoreType

Rates = Mapping[str, float]  # events a cycle

LEVEL1 = ("frontend_bound_share", "backend_bound_share", "retiring_share", "bad_speculation_share")
SMT = "smt_contention_share"
STALLS = ("frontend_stall_share", "backend_stall_share", "backend_memory_stall_share")

# Slots that a flush costs each kind, by branches that were predicted wrong: (front, back, wasted).
_PER_FLUSH = {
    "neoverse-v1": (4.0, 0.0, 4.0),
    "neoverse-v2": (1.0, 3.0, 4.0),
    "neoverse-n2": (1.0, 3.0, 4.0),
    "neoverse-n2-r0p0": (1.0, 3.0, 4.0),
}
_SOURCES = {
    "neoverse": "Arm, telemetry-solution",
    "zen": "AMD, PipelineL1",
    "icelake": "Intel, TopdownL1",
    "goldencove": "Intel, TopdownL1",
}


def source_of(core: CoreType) -> str:
    """Whose level 1 it is."""
    return next((text for key, text in _SOURCES.items() if core.family.startswith(key)), "")


def level1_shares(core: CoreType, rates: Rates) -> dict[str, float]:
    """Shares of slots; {} without a formula, or where an event is missing."""
    try:
        if core.family in _PER_FLUSH:
            return _arm(core, rates)
        if core.family in ("neoverse-v3", "neoverse-n3"):
            return _arm_by_flushes(core, rates)
        if core.family in ("icelake", "goldencove"):
            return _intel(core, rates)
        return _amd(core, rates) if core.family.startswith("zen") else {}
    except (KeyError, ZeroDivisionError):
        return {}


def _arm(core: CoreType, rates: Rates) -> dict[str, float]:
    slots = float(core.slots or 0)
    excess = 1.0 if core.family == "neoverse-n2-r0p0" else 0.0  # a cycle too many is counted
    front = (rates["stall_slot_frontend"] - excess) / slots
    busy = 1 - (rates["stall_slot"] - excess) / slots
    kept = rates["op_retired"] / rates["op_spec"]
    of_front, of_back, wasted = (n * rates["br_mis_pred"] for n in _PER_FLUSH[core.family])
    return _shares(
        front - of_front,
        rates["stall_slot_backend"] / slots - of_back,
        kept * busy,
        (1 - kept) * busy + wasted,
    )


def _arm_by_flushes(core: CoreType, rates: Rates) -> dict[str, float]:
    slots, flush = float(core.slots or 0), rates["stall_frontend_flush"]
    busy = 1 - rates["stall_slot"] / slots
    kept = rates["op_retired"] / rates["op_spec"]
    return _shares(
        rates["stall_slot_frontend"] / slots - flush,
        rates["stall_slot_backend"] / slots,
        kept * busy,
        (1 - kept) * busy + flush,
    )


def _intel(core: CoreType, rates: Rates) -> dict[str, float]:
    parts = ("fe_bound", "be_bound", "retiring", "bad_spec")
    front, back, retiring, bad = (rates[f"topdown_{part}"] for part in parts)
    total = front + back + retiring + bad
    front = front / total - rates.get("uop_dropping", 0.0) / rates["slots"]
    clears = rates.get("clears_count", 0.0) if core.family == "icelake" else 0.0
    back = back / total + 5 * clears / rates["slots"]
    retiring /= total
    return _shares(front, back, retiring, max(0.0, 1 - front - back - retiring))


def _amd(core: CoreType, rates: Rates) -> dict[str, float]:
    slots = float(core.slots or 0)
    shares = _shares(
        rates["no_ops_frontend"] / slots,
        rates["no_ops_backend"] / slots,
        rates["op_retired"] / slots,
        (rates["op_spec"] - rates["op_retired"]) / slots,
    )
    return shares | {SMT: rates["no_ops_smt"] / slots}


def _shares(front: float, back: float, retiring: float, bad: float) -> dict[str, float]:
    return dict(zip(LEVEL1, (front, back, retiring, bad), strict=True))


def _over(event: str, base: str, scale: float = 1.0) -> Callable[[Rates], float]:
    return lambda rates: scale * rates[event] / rates[base]


def _per_cycle(event: str) -> Callable[[Rates], float]:
    return lambda rates: rates[event]


_OTHERS: dict[str, Callable[[Rates], float]] = {
    "instructions_per_cycle": _per_cycle("instructions"),
    "frontend_stall_share": _per_cycle("stall_frontend"),
    "backend_stall_share": _per_cycle("stall_backend"),
    "backend_memory_stall_share": _per_cycle("stall_backend_mem"),
    "ops_per_instruction": _over("op_retired", "instructions"),
    "l1d_mpki": _over("l1d_cache_refill", "instructions", 1000),
    "l2_mpki": _over("l2d_cache_refill", "instructions", 1000),
    "llc_read_mpki": _over("ll_cache_miss_rd", "instructions", 1000),
    "llc_mpki": _over("ll_cache_miss", "instructions", 1000),
    "branch_mpki": _over("br_mis_pred_retired", "instructions", 1000),
    "simd_share": _over("ase_spec", "inst_spec"),
    "sve_share": _over("sve_inst_spec", "inst_spec"),
    "int8_share": _over("ase_sve_int8_spec", "inst_spec"),
    "fp_share": _over("vfp_spec", "inst_spec"),
    "load_share": _over("ld_spec", "inst_spec"),
    "store_share": _over("st_spec", "inst_spec"),
}


def figures(core: CoreType | None, rates: Rates) -> dict[str, float]:
    """All that these events allow: level 1 first, then the rest."""
    found = level1_shares(core, rates) if core else {}
    for name, formula in _OTHERS.items():
        try:
            found[name] = formula(rates)
        except (KeyError, ZeroDivisionError):
            continue
    return found
