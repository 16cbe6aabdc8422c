"""What the kernel accounts for processes without any counter: read at two moments only."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ...schema.pmu import KernelFigures
from ..host import cgroup_folders

_ROOT = Path("/")
_TICK_HZ = os.sysconf("SC_CLK_TCK")
_PRESSURES = ("cpu", "memory", "io")


class Thread(NamedTuple):
    """Totals of one thread since it began; null: the kernel does not say."""

    wait_s: float | None
    voluntary: int | None
    involuntary: int | None
    migrations: int | None


class Process(NamedTuple):
    """Totals of one process since it began, its threads that have ended included."""

    user_s: float
    system_s: float
    minor_faults: int
    major_faults: int


class Snapshot(NamedTuple):
    """Totals at one moment."""

    at_s: float  # monotonic clock
    processes: dict[int, Process]
    threads: dict[tuple[int, int], Thread]
    pressure_s: dict[str, float]  # some task waited, by resource
    numa_misses: int | None
    throttled_s: float | None

    @property
    def cpu_s(self) -> float:
        """User and system time of the processes."""
        return sum(p.user_s + p.system_s for p in self.processes.values())


def snapshot(pids: Iterable[int], root: Path = _ROOT) -> Snapshot:
    """Of these processes now; those that have ended are left out."""
    chosen = sorted(pids)
    at_s = time.monotonic()
    processes = {pid: found for pid in chosen if (found := _process(pid, root))}
    threads = {
        (pid, int(folder.name)): _thread(folder)
        for pid in processes
        for folder in (root / f"proc/{pid}/task").glob("[0-9]*")
    }
    nodes = (root / "sys/devices/system/node").glob("node[0-9]*/numastat")
    misses = [_count(_read(path), r"^numa_miss (\d+)") for path in nodes]
    pressure_s = {}
    for name in _PRESSURES:
        total_us = _count(_read(root / f"proc/pressure/{name}"), r"^some .*total=(\d+)")
        if total_us is not None:
            pressure_s[name] = total_us / 1e6
    known = [miss for miss in misses if miss is not None]
    return Snapshot(
        at_s, processes, threads, pressure_s, sum(known) if known else None,
        _throttled_s(chosen[0], root) if chosen else None,
    )  # fmt: skip


def cpu_s(pids: Iterable[int], root: Path = _ROOT) -> float:
    """User and system time of these processes so far: the quick part of a snapshot."""
    found = (_process(pid, root) for pid in pids)
    return sum(one.user_s + one.system_s for one in found if one)


def gained(before: Snapshot, after: Snapshot) -> KernelFigures:
    """From one moment to the next. A thread that began between counts from its start, and one
    that ended is lost, as is a process's time."""
    length_s = after.at_s - before.at_s
    sums = [0.0, 0.0, 0.0, 0.0]
    for pid, end in after.processes.items():
        start = before.processes.get(pid, Process(0.0, 0.0, 0, 0))
        sums = [sums[i] + end[i] - start[i] for i in range(4)]
    pairs = [(before.threads.get(key), end) for key, end in after.threads.items()]
    waited, voluntary, involuntary, moved = (_gain(pairs, i) for i in range(4))
    share = {
        name: min(1.0, (after.pressure_s[name] - start_s) / length_s)
        for name, start_s in before.pressure_s.items()
        if name in after.pressure_s and length_s > 0
    }
    return KernelFigures(
        length_s=length_s,
        user_s=sums[0],
        system_s=sums[1],
        minor_faults=int(sums[2]),
        major_faults=int(sums[3]),
        num_threads=len(after.threads),
        run_queue_wait_s=waited,
        voluntary_switches=_whole(voluntary),
        involuntary_switches=_whole(involuntary),
        migrations=_whole(moved),
        throttled_s=_less(before.throttled_s, after.throttled_s),
        pressure_cpu_share=share.get("cpu"),
        pressure_memory_share=share.get("memory"),
        pressure_io_share=share.get("io"),
        numa_misses=_whole(_less(before.numa_misses, after.numa_misses)),
    )


def _gain(pairs: list[tuple[Thread | None, Thread]], field: int) -> float | None:
    ends = [end[field] for _, end in pairs]
    if not ends or any(end is None for end in ends):
        return None
    starts = [(start[field] or 0) if start else 0 for start, _ in pairs]
    return float(sum(end or 0 for end in ends) - sum(starts))


def _less(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _process(pid: int, root: Path) -> Process | None:
    """proc(5), stat: 10 minflt, 12 majflt, 14 utime, 15 stime."""
    fields = _read(root / f"proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 15 or fields[0] in ("Z", "X"):
        return None
    return Process(
        int(fields[11]) / _TICK_HZ, int(fields[12]) / _TICK_HZ, int(fields[7]), int(fields[9])
    )


def _thread(folder: Path) -> Thread:
    """schedstat: time on CPU, time ready, in nanoseconds; the second is 0 where it is not kept."""
    status = _read(folder / "status")
    times = _read(folder / "schedstat").split()
    return Thread(
        int(times[1]) / 1e9 if len(times) == 3 else None,
        _count(status, r"^voluntary_ctxt_switches:\s*(\d+)"),
        _count(status, r"^nonvoluntary_ctxt_switches:\s*(\d+)"),
        _count(_read(folder / "sched"), r"^se\.nr_migrations\s*:\s*(\d+)"),
    )


def _throttled_s(pid: int, root: Path) -> float | None:
    """By the quota of the process's cgroup, or of the nearest one above that counts."""
    for folder in cgroup_folders("cpu", root, pid):
        text = _read(folder / "cpu.stat")
        if (found_us := _count(text, r"^throttled_usec (\d+)")) is not None:
            return found_us / 1e6
        if (found_ns := _count(text, r"^throttled_time (\d+)")) is not None:
            return found_ns / 1e9
    return None


def _count(text: str, pattern: str) -> int | None:
    match = re.search(pattern, text, re.MULTILINE)
    return int(match[1]) if match else None


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(errors="replace")
    return ""
