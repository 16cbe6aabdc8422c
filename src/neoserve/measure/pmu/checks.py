"""Rules that figures have to keep to be believed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...schema.pmu import Check, CoreType, Window
from .events import CYCLES
from .formulas import LEVEL1, SMT

_SUM_SHARE = 0.03
_IDENTITY_SHARE = 0.05
# Micro-operations an instruction: fused pairs on one side, pairs and gathers on the other. Over
# whole programs Arm and x86 servers lie near 1.
_OPS_PER_INSTRUCTION = (0.7, 2.0)
_COVERAGE_SHARE = 0.1
_LEAST_CPU_S = 0.05
_TICKS_S = 0.02  # /proc counts hundredths of a second, user and system time apart
_CLOCK_HZ = (0.2e9, 6.5e9)


def sum_check(shares: Mapping[str, float]) -> Check | None:
    """Level 1 adds up to the whole; null where a share is missing."""
    if any(name not in shares for name in LEVEL1):
        return None
    total = sum(shares[name] for name in (*LEVEL1, SMT) if name in shares)
    least = min(shares[name] for name in LEVEL1)
    holds = abs(total - 1) <= _SUM_SHARE and least >= -_SUM_SHARE
    below = f", and one of them is {least:.1%}" if least < -_SUM_SHARE else ""
    return Check(
        "sum", holds, f"the shares of slots add up to {total:.1%}{below}; expected 100 % ± 3 points"
    )


def identity_check(
    shares: Mapping[str, float], rates: Mapping[str, float], core: CoreType
) -> Check | None:
    """Retiring = instructions a cycle x operations an instruction / slots a cycle.

    Where operations are counted they have to fit to 5 points; else the operations that retiring
    and IPC imply have to be believable.
    """
    slots = core.slots or rates.get("slots")
    retiring, ipc = shares.get("retiring_share"), rates.get("instructions")
    if retiring is None or not slots or not ipc:
        return None
    implied = retiring * slots / ipc
    if (counted := rates.get("op_retired")) is not None:
        direct = counted / slots
        holds = abs(retiring - direct) <= _IDENTITY_SHARE
        says = (
            f"retiring {retiring:.1%} against {direct:.1%} by IPC {ipc:.2f} x "
            f"{counted / ipc:.2f} operations an instruction / {slots:g} slots"
        )
        if not holds:
            return Check("identity", holds, says)
    else:
        says = f"retiring {retiring:.1%} at IPC {ipc:.2f} and {slots:.3g} slots"
    low, high = _OPS_PER_INSTRUCTION
    return Check(
        "identity", low <= implied <= high,
        f"{says}: {implied:.2f} operations an instruction, expected {low:g} to {high:g}",
    )  # fmt: skip


def coverage_share(windows: Sequence[Window]) -> float | None:
    """CPU time that was counted, over what the processes used by /proc."""
    pairs = [(w.clock_s, w.cpu_s) for w in windows if w.clock_s is not None and w.cpu_s is not None]
    used_s = sum(cpu_s for _, cpu_s in pairs)
    return sum(clock_s for clock_s, _ in pairs) / used_s if used_s > 0 else None


def window_checks(windows: Sequence[Window]) -> Iterator[Check]:
    """Were the engine's processes counted at all, and by counters of cycles?"""
    timed = [w for w in windows if w.cpu_s is not None and w.clock_s is not None]
    used_s = sum(w.cpu_s or 0.0 for w in timed)
    if timed and used_s < _LEAST_CPU_S:
        yield Check("coverage", False, f"the processes used {used_s:.2f} s of CPU: nothing ran")
    elif (share := coverage_share(timed)) is not None:
        counted_s = sum(w.clock_s or 0.0 for w in timed)
        allowed_s = _COVERAGE_SHARE * used_s + _TICKS_S * len(timed)
        yield Check(
            "coverage", abs(counted_s - used_s) <= allowed_s,
            f"{counted_s:.2f} s of CPU were counted, the processes used {used_s:.2f} s by /proc "
            f"({share:.0%}); expected 90 to 110 %",
        )  # fmt: skip
    clocked = [w for w in windows if w.clock_s and CYCLES in w.counts]
    if clocked:
        hz = sum(w.counts[CYCLES] for w in clocked) / sum(w.clock_s or 0.0 for w in clocked)
        low, high = _CLOCK_HZ
        yield Check(
            "clock", low <= hz <= high,
            f"{hz / 1e9:.2f} GHz by cycles over CPU time; expected {low / 1e9:g} to "
            f"{high / 1e9:g}",
        )  # fmt: skip
