"""Which events are asked for on which core, and how many are on the counters at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...schema.pmu import CoreType

CYCLES = "cycles"

# Arm: common events of the Arm ARM and the cores' TRMs; `perf list` has the same names.
_ARM = {
    CYCLES: 0x11, "instructions": 0x08, "inst_spec": 0x1B, "op_retired": 0x3A, "op_spec": 0x3B,
    "stall_slot": 0x3F, "stall_slot_frontend": 0x3E, "stall_slot_backend": 0x3D,
    "stall_frontend": 0x23, "stall_backend": 0x24, "stall_backend_mem": 0x4005,
    "stall_frontend_flush": 0x8162,
    "br_mis_pred": 0x10, "br_mis_pred_retired": 0x22,
    "l1d_cache_refill": 0x03, "l2d_cache_refill": 0x17, "ll_cache_miss_rd": 0x37,
    "ase_spec": 0x74, "vfp_spec": 0x75, "sve_inst_spec": 0x8006, "ase_sve_int8_spec": 0x80E3,
    "ld_spec": 0x70, "st_spec": 0x71,
}  # fmt: skip

_GENERIC = {
    CYCLES: "cycles", "instructions": "instructions",
    "stall_frontend": "stalled-cycles-frontend", "stall_backend": "stalled-cycles-backend",
    "ll_cache_miss": "cache-misses", "br_mis_pred_retired": "branch-misses",
}  # fmt: skip
_INTEL = _GENERIC | {
    "slots": "slots", "topdown_retiring": "topdown-retiring",
    "topdown_bad_spec": "topdown-bad-spec", "topdown_fe_bound": "topdown-fe-bound",
    "topdown_be_bound": "topdown-be-bound",
    "uop_dropping": "cpu/event=0xad,umask=0x10/",
    "clears_count": "cpu/event=0xad,umask=0x01,cmask=1,edge=1/",
    "l1d_cache_refill": "cpu/event=0xd1,umask=0x08/",
    "l2d_cache_refill": "cpu/event=0xd1,umask=0x10/",
    "ll_cache_miss_rd": "cpu/event=0xd1,umask=0x20/",
}  # fmt: skip
_AMD = _GENERIC | {
    CYCLES: "cpu/event=0x76/", "op_retired": "cpu/event=0xc1/",
    "op_spec": "cpu/event=0xaa,umask=0x07/",
    "no_ops_frontend": "cpu/event=0x1a0,umask=0x01/",
    "no_ops_backend": "cpu/event=0x1a0,umask=0x1e/",
    "no_ops_smt": "cpu/event=0x1a0,umask=0x60/",
}  # fmt: skip

_SLOTS = ("stall_slot", "stall_slot_frontend", "stall_slot_backend", "op_retired", "op_spec")
_LEVEL1: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("neoverse-v1", "neoverse-v2", "neoverse-n2", "neoverse-n2-r0p0"),
                    (*_SLOTS, "br_mis_pred")),
    **dict.fromkeys(("neoverse-v3", "neoverse-n3"), (*_SLOTS, "stall_frontend_flush")),
    "goldencove": ("slots", "topdown_retiring", "topdown_bad_spec", "topdown_fe_bound",
                   "topdown_be_bound", "uop_dropping"),
    "icelake": ("slots", "topdown_retiring", "topdown_bad_spec", "topdown_fe_bound",
                "topdown_be_bound", "uop_dropping", "clears_count"),
    **dict.fromkeys(("zen4", "zen5"),
                    ("op_retired", "op_spec", "no_ops_frontend", "no_ops_backend", "no_ops_smt")),
}  # fmt: skip
_MOST = 7  # events a group is tried with: six general counters and one of cycles
# A core that only spins counts these in any case.
_SPINNING = frozenset({CYCLES, "instructions", "inst_spec", "slots", *_SLOTS})
# Parts of a level-1 formula that may well be nought, without making the others wrong.
_MAY_BE_NOUGHT = frozenset({"uop_dropping", "clears_count", "no_ops_smt", "topdown_bad_spec"})


def level1(core: CoreType | None) -> tuple[str, ...]:
    """Events of the level-1 formula, without cycles; () where the core has none."""
    return _LEVEL1.get(core.family, ()) if core else ()


def events_of(core: CoreType | None) -> dict[str, str]:
    """Name -> perf's own word for it, in the order of their worth."""
    family = core.family if core else ""
    if (core and core.identity.startswith("0x")) or family.startswith("neoverse"):
        table = {name: f"r{code:x}" for name, code in _ARM.items()}
    else:
        intel = family in ("icelake", "goldencove")
        table = _INTEL if intel else _AMD if family.startswith("zen") else _GENERIC
    specific = {"stall_frontend_flush", "ase_sve_int8_spec", "sve_inst_spec", *_SLOTS}
    wanted = set(level1(core))
    if family in ("neoverse-v2", "neoverse-v3", "neoverse-n2", "neoverse-n2-r0p0", "neoverse-n3"):
        wanted |= {"ase_sve_int8_spec", "sve_inst_spec"}
    if family == "neoverse-v1":
        wanted.add("sve_inst_spec")
    first = [CYCLES, "instructions", *level1(core)]
    rest = [n for n in table if n not in first and (n not in specific or n in wanted)]
    return {name: table[name] for name in (*first, *rest)}


def counts_on_spin(name: str) -> bool:
    """Whether a core that only spins has to count it."""
    return name in _SPINNING


def may_be_nought(name: str) -> bool:
    """Whether none at all is believable under load. A hypervisor takes events that it does not
    count, without a word: they stay 0 (Graviton4 guests, LL_CACHE_MISS_RD)."""
    return name in _MAY_BE_NOUGHT


def groups(core: CoreType | None, names: Iterable[str], size: int) -> list[tuple[str, ...]]:
    """Events that are counted together: cycles in each, at most `size`, level 1 first.

    Intel's slots lead their group, and its parts are counted by one register, whatever `size`.
    """
    rest = [name for name in names if name != CYCLES]
    found: list[tuple[str, ...]] = []
    if "slots" in rest:
        parts = [name for name in level1(core) if name in rest]
        found.append((*parts, CYCLES))
        rest = [name for name in rest if name not in parts]
    step = max(1, size - 1)
    found += [(CYCLES, *rest[i : i + step]) for i in range(0, len(rest), step)]
    return found


def sizes(names: Sequence[str]) -> range:
    """Group sizes to try, the largest first; two is the least that says anything."""
    return range(min(_MOST, len(names)), 1, -1)
