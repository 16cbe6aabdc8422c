"""Other tools' names of events and metrics, and ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ....schema.pmu import CoreType, Counted
from ....stats import mean, mean_interval
from ..events import CYCLES, events_of

# Arm's metric names in topdown-tool and Performix -> figure, and what it is divided by.
_ARM_METRICS = {
    "frontend bound": ("frontend_bound_share", 100.0),
    "backend bound": ("backend_bound_share", 100.0),
    "retiring": ("retiring_share", 100.0),
    "bad speculation": ("bad_speculation_share", 100.0),
    "frontend stalled cycles": ("frontend_stall_share", 100.0),
    "backend stalled cycles": ("backend_stall_share", 100.0),
    "instructions per cycle": ("instructions_per_cycle", 1.0),
    "ipc": ("instructions_per_cycle", 1.0),
    "l1d cache mpki": ("l1d_mpki", 1.0),
    "l2 cache mpki": ("l2_mpki", 1.0),
    "ll cache read mpki": ("llc_read_mpki", 1.0),
    "branch mpki": ("branch_mpki", 1.0),
    "load operations percentage": ("load_share", 100.0),
    "store operations percentage": ("store_share", 100.0),
    "advanced simd operations percentage": ("simd_share", 100.0),
    "floating point operations percentage": ("fp_share", 100.0),
    "sve operations load store inclusive percentage": ("sve_share", 100.0),
}
# APerf's (docs/PMU.md): a thousand cycles, a thousand instructions.
_APERF_METRICS = {
    "ipc": ("instructions_per_cycle", 1.0),
    "stall-frontend-pkc": ("frontend_stall_share", 1000.0),
    "stall-backend-pkc": ("backend_stall_share", 1000.0),
    "data-l1-mpki": ("l1d_mpki", 1.0),
    "l2-mpki": ("l2_mpki", 1.0),
    "l3-mpki": ("llc_read_mpki", 1.0),
    "branch-mpki": ("branch_mpki", 1.0),
}
_EVENTS = {
    "cpu-cycles": CYCLES, "cpu_cycles": CYCLES, "cycles": CYCLES, "instructions": "instructions",
    "inst_retired": "instructions", "inst_retired.any": "instructions",
    "cpu_clk_unhalted.thread": CYCLES, "ls_not_halted_cyc": CYCLES,
    "stalled-cycles-frontend": "stall_frontend", "stalled-cycles-backend": "stall_backend",
    "cache-misses": "ll_cache_miss", "branch-misses": "br_mis_pred_retired",
    "topdown.slots": "slots", "slots": "slots", "topdown-retiring": "topdown_retiring",
    "topdown-bad-spec": "topdown_bad_spec", "topdown-fe-bound": "topdown_fe_bound",
    "topdown-be-bound": "topdown_be_bound", "int_misc.uop_dropping": "uop_dropping",
    "int_misc.clears_count": "clears_count", "ex_ret_ops": "op_retired",
    "de_src_op_disp.all": "op_spec",
    "de_no_dispatch_per_slot.no_ops_from_frontend": "no_ops_frontend",
    "de_no_dispatch_per_slot.backend_stalls": "no_ops_backend",
    "de_no_dispatch_per_slot.smt_contention": "no_ops_smt",
}  # fmt: skip
_RAW_ARM = re.compile(r"^(?:r([0-9a-f]{1,4})|armv\d_[a-z0-9_]+/(?:config|event)=0x([0-9a-f]+)/)$")


def event_name(event: str, core: CoreType | None) -> str | None:
    """Our name of an event as another tool writes it; null for one that no figure needs."""
    word = event.strip().lower()
    known = events_of(core)
    if word in _EVENTS:
        return _EVENTS[word]
    plain = re.sub(r"^armv\d_[a-z0-9_]+/([a-z][a-z0-9_]*)/$", r"\1", word)
    if plain in known:
        return plain
    if match := _RAW_ARM.match(word):
        code = f"r{int(match[1] or match[2], 16):x}"
        return next((name for name, asked in known.items() if asked == code), None)
    return next((name for name, asked in known.items() if asked == word), None)


def arm_metric(name: str) -> tuple[str, float] | None:
    """Figure and divisor of a metric of topdown-tool or Performix, however it is spelt."""
    plain = " ".join(re.sub(r"[^a-z0-9]+", " ", name.lower()).split())
    return _ARM_METRICS.get(plain)


def aperf_metric(name: str) -> tuple[str, float] | None:
    """The same of APerf, whose older releases write underscores."""
    return _APERF_METRICS.get(name.strip().lower().replace("_", "-"))


def counted(series: Mapping[str, Iterable[float]]) -> dict[str, Counted]:
    """Mean and t interval of each figure's values."""
    found = {}
    for name, values in series.items():
        each = list(values)
        if len(each) < 2:
            found[name] = Counted(mean(each))
        else:
            found[name] = Counted(*mean_interval(each), len(each))
    return found
