"""CPU time between two moments: of the engine, of the client, and of everybody else."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from .cores import host_cpus
from .engine.proc import descendants

_ROOT = Path("/")
_TICK_HZ = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """Seconds since some start; only differences mean something."""

    at_s: float  # monotonic clock
    host_s: float | None  # busy time of the CPUs in question; null where unreadable
    engine_s: float | None  # null for a server that is not ours
    client_s: float  # this process and its children, less the engine

    def until(self, later: Usage) -> Spent:
        """What was used from here to `later`."""
        engine_s = None
        if self.engine_s is not None and later.engine_s is not None:
            engine_s = later.engine_s - self.engine_s
        client_s = later.client_s - self.client_s
        wall_s = later.at_s - self.at_s
        others = None
        if self.host_s is not None and later.host_s is not None and wall_s > 0:
            # Both clocks tick 100 times a second, not at the same moment: noise below zero.
            others = max(0.0, later.host_s - self.host_s - client_s - (engine_s or 0.0)) / wall_s
        return Spent(wall_s, engine_s, client_s, others)


class Spent(NamedTuple):
    """CPU seconds in a span of time."""

    wall_s: float
    engine_s: float | None
    client_s: float
    others_cores: float | None  # mean number of cores that other programs kept busy


def snapshot(
    engine_pid: int = 0, cpus: Collection[int] | None = None, root: Path = _ROOT
) -> Usage:
    """Now; `engine_pid` is the group of an engine that this process started, 0 for none.

    `cpus` are those of engine and client together; None: all that NeoServe was started with.
    """
    engine_s = tree_cpu_s(engine_pid, root) if engine_pid else None
    own_s = tree_cpu_s(os.getpid(), root)
    return Usage(
        at_s=time.monotonic(),
        host_s=host_cpu_s(host_cpus() if cpus is None else cpus, root),
        engine_s=engine_s,
        client_s=own_s - (engine_s or 0.0),
    )


def tree_cpu_s(pid: int, root: Path = _ROOT) -> float:
    """User and system time of a process and all below it, those that have ended included.

    A parent carries the time of the children that it has waited for (proc(5), stat 14 to 17).
    """
    return sum(_cpu_s(each, root) for each in (pid, *descendants(pid, root)))


def host_cpu_s(cpus: Collection[int], root: Path = _ROOT) -> float | None:
    """Busy time of these CPUs together, whoever used them; null where the kernel says nothing.

    user, nice, system, irq and softirq of /proc/stat; time stolen by the hypervisor is not ours.
    """
    total, is_found = 0, False
    for line in _read(root / "proc/stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            user, nice, system, _idle, _wait, irq, softirq = map(int, ticks[:7])
            total += user + nice + system + irq + softirq
            is_found = True
    return total / _TICK_HZ if is_found else None


def _cpu_s(pid: int, root: Path) -> float:
    fields = _read(root / f"proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK_HZ if len(fields) > 14 else 0.0


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
