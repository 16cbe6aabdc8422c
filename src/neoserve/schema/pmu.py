"""Counters: what the CPU, or at least the kernel, counted while an engine worked."""

from __future__ import annotations

from typing import Literal

from .base import Document, Source

# How far up the ladder a host lets us: each rung holds what the ones after it hold.
Rung = Literal[
    "topdown",  # level 1: where the pipeline's slots went
    "stalls",   # cycles in which the front end or the back end stood still
    "ipc",      # instructions and cache misses a cycle
    "proc",     # no counters: what the kernel accounts for each process
    "none",
]  # fmt: skip


class CoreType(Document, frozen=True):
    """The microarchitecture that events and formulas belong to. From MIDR or CPUID."""

    name: str  # "Neoverse V2 r0p1"
    family: str  # key of the formulas: "neoverse-v2", "zen4"; "" for one that we have none for
    slots: int | None = None  # a cycle; null: an event counts them, or no formula needs them
    identity: str = ""  # "0x410fd4f1", "AuthenticAMD-25-17-1"


class Counted(Document, frozen=True):
    """One figure over all windows, with the interval of its windows' mean."""

    value: float
    low: float | None = None  # null: one window alone says nothing of its spread
    high: float | None = None
    num_windows: int = 1


class Window(Document, frozen=True):
    """Counts of one group of events that were on the counters together, all of the time."""

    counts: dict[str, float]  # by event, as `measure.pmu.events` names them
    length_s: float = 0.0
    clock_s: float | None = None  # CPU time that perf's task-clock saw
    cpu_s: float | None = None  # CPU time of the same processes by /proc


class Check(Document, frozen=True):
    """A rule that the figures have to keep; one that fails takes them away."""

    name: Literal["sum", "identity", "coverage", "clock"]
    holds: bool
    says: str  # with the numbers


class KernelFigures(Document, frozen=True, kw_only=True):
    """What the kernel accounts, gained over one window. Null: it does not say."""

    length_s: float
    user_s: float  # of the processes
    system_s: float
    num_threads: int
    voluntary_switches: int | None  # a thread went to sleep
    involuntary_switches: int | None  # a thread was made to wait
    migrations: int | None  # to another CPU
    minor_faults: int
    major_faults: int
    run_queue_wait_s: float | None  # summed over threads: ready, and no CPU free
    throttled_s: float | None  # by the cgroup's quota
    pressure_cpu_share: float | None  # of the window in which some task of the host waited
    pressure_memory_share: float | None
    pressure_io_share: float | None
    numa_misses: int | None  # of the host: pages that came from another node than wanted

    @property
    def cpu_s(self) -> float:
        """User and system time of the processes."""
        return self.user_s + self.system_s


# Version history: 1, first.
class Counters(Document, frozen=True, kw_only=True):
    """Hardware counters of an engine over its steady window, or what stands in for them.

    Figures: ``*_share`` lie in 0..1, ``*_mpki`` are misses per 1,000 instructions.
    """

    schema: str = "neoserve/pmu/1"
    basis: str = "measured"
    tool: str  # "perf 6.1.187", "/proc"; of imported figures, whose they are
    rung: Rung
    core: CoreType | None
    scope: str  # "processes 4711, 4712", "CPUs 0-3"
    formula: str = ""  # whose level 1
    length_s: float = 0.0  # of all windows together
    coverage_share: float | None = None  # counted CPU time over what the processes used
    figures: dict[str, Counted] = {}
    checks: tuple[Check, ...] = ()
    windows: tuple[Window, ...] = ()  # that the figures are computed from
    kernel: KernelFigures | None = None
    reasons: tuple[str, ...] = ()  # why it is not a higher rung
    notes: tuple[str, ...] = ()


class Exposure(Document, frozen=True):
    """What a cloud lets a guest of one size count, as published."""

    instance: str
    level: Literal["full", "basic", "none"]
    says: str
    source: Source
