"""Counters as text: the rung first, then figures with intervals, then why it is not more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..schema.pmu import Counted, Counters, Exposure, KernelFigures
from ..units import show_count, show_duration, significant
from .tables import pairs, table, wrap

_RUNGS = {
    "topdown": "full level 1",
    "stalls": "stalled cycles; level 1 is not to be had",
    "ipc": "IPC and cache misses; neither slots nor stalls are to be had",
    "proc": "no hardware counters: what the kernel accounts for each process",
    "none": "nothing could be counted",
}
_NAMES = {
    "frontend_bound_share": "frontend bound", "backend_bound_share": "backend bound",
    "retiring_share": "retiring", "bad_speculation_share": "bad speculation",
    "smt_contention_share": "SMT contention",
    "frontend_stall_share": "frontend stalled, of cycles",
    "backend_stall_share": "backend stalled, of cycles",
    "backend_memory_stall_share": "backend stalled on memory, of cycles",
    "instructions_per_cycle": "instructions a cycle",
    "ops_per_instruction": "operations an instruction",
    "l1d_mpki": "L1 data misses per 1,000 instructions",
    "l2_mpki": "L2 misses per 1,000 instructions",
    "llc_read_mpki": "last-level read misses per 1,000 instructions",
    "llc_mpki": "last-level misses per 1,000 instructions",
    "branch_mpki": "wrong branches per 1,000 instructions",
    "simd_share": "SIMD (Advanced SIMD), of operations", "sve_share": "SVE, of operations",
    "int8_share": "8-bit integer SIMD, of operations", "fp_share": "scalar floating point",
    "load_share": "loads, of operations", "store_share": "stores, of operations",
}  # fmt: skip


def name_of(figure: str) -> str:
    """For people."""
    return _NAMES.get(figure, figure)


def show_counters(found: Counters) -> str:
    """All that `neoserve pmu` prints."""
    blocks = [_head(found)]
    if found.figures:
        rows = [[name_of(name), *value_and_interval(name, one), str(one.num_windows)]
                for name, one in found.figures.items()]  # fmt: skip
        header = ["counted", "value", "95 % interval", "windows"]
        blocks.append(table(header, rows, [False, True, True, True]))
    if found.kernel is not None:
        rows_of_kernel = list(kernel_rows(found.kernel))
        blocks.append(pairs("Accounted by the kernel, no counters:", rows_of_kernel))
    if found.reasons:
        blocks.append("\n".join(["Why not more", *(wrap(f"- {r}") for r in found.reasons)]))
    if found.checks:
        blocks.append("\n".join(["Checks", *(
            wrap(f"{'holds' if check.holds else 'BROKEN'}  {check.name}: {check.says}")
            for check in found.checks
        )]))  # fmt: skip
    if found.notes:
        blocks.append("\n".join(["Notes", *(wrap(f"- {note}") for note in found.notes)]))
    return "\n\n".join(blocks)


def show_counted(found: Counters) -> str:
    """The same in a few lines, beside a trial."""
    parts = [f"{name_of(name)} {value_and_interval(name, one)[0]}"
             for name, one in found.figures.items()]  # fmt: skip
    if not parts and found.kernel is not None:
        parts = [f"{name} {value}" for name, value in list(kernel_rows(found.kernel))[:5]]
    why = f". Not more, because {found.reasons[0]}" if found.reasons else ""
    return wrap(f"Counters, {found.rung} ({_RUNGS[found.rung]}): {'; '.join(parts)}{why}.", "")


def _head(found: Counters) -> str:
    core = f" on {found.core.name}" if found.core else ""
    formula = f", formula: {found.formula}" if found.formula else ""
    tool = f" by {found.tool}" if found.tool else ""
    length = f", {show_duration(found.length_s)}" if found.length_s else ""
    return wrap(
        f"{found.rung}: {_RUNGS[found.rung]} ({found.scope}{core}{tool}{length}{formula})", ""
    )


def value_and_interval(name: str, one: Counted) -> tuple[str, str]:
    """The figure, and the interval of its windows."""
    low, high = one.low, one.high
    interval = "" if low is None or high is None else f"{_value(name, low)} to {_value(name, high)}"
    return _value(name, one.value), interval


def _value(name: str, value: float) -> str:
    return f"{value:.1%}" if name.endswith("_share") else significant(value)


def kernel_rows(found: KernelFigures) -> Iterator[tuple[str, str]]:
    """Name and value of what the kernel says; what it does not say is left out."""
    length_s = found.length_s or 1.0
    yield "CPU", (
        f"{found.cpu_s / length_s:.2f} cores ({found.user_s / length_s:.2f} user, "
        f"{found.system_s / length_s:.2f} system), {found.num_threads} threads"
    )
    if found.run_queue_wait_s is not None:
        yield "ready, but no CPU free", (
            f"{show_duration(found.run_queue_wait_s)} in {show_duration(length_s)}, summed over "
            "threads"
        )
    for name, count in (
        ("went to sleep", found.voluntary_switches),
        ("made to wait", found.involuntary_switches),
        ("moved to another CPU", found.migrations),
        ("page faults", found.minor_faults),
        ("page faults from disk", found.major_faults),
    ):
        if count is not None:
            yield name, f"{show_count(count / length_s)} a second"
    if found.throttled_s:
        yield "held by the cgroup's quota", show_duration(found.throttled_s)
    for what, share in (("CPU", found.pressure_cpu_share), ("memory", found.pressure_memory_share),
                        ("I/O", found.pressure_io_share)):  # fmt: skip
        if share is not None:
            yield f"host waited for {what}", f"{share:.1%} of the time (PSI, some)"
    if found.numa_misses:
        yield "pages from another NUMA node", f"{show_count(found.numa_misses)} (host)"


def show_exposure(found: Exposure, full: Sequence[str]) -> str:
    """What a size shows, and which would show all."""
    source = f"{found.source.title}, {found.source.date}"
    text = f"{found.instance}: {found.says} ({source})."
    if found.level != "full" and full:
        text += f" Everything is shown by {', '.join(full)} and metal."
    return wrap(text, "")
