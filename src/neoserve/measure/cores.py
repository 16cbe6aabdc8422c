"""Which CPUs the engine gets, and which are kept for the client that loads it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..units import parse_cpus as parse_cpus
from ..units import show_cpus as show_cpus

_ROOT = Path("/")
_STARTED_WITH = tuple(sorted(os.sched_getaffinity(0)))


class CorePlan(NamedTuple):
    """CPU lists as the kernel writes them, "0-3,8"."""

    engine_cpus: str
    client_cpus: str
    shares: bool  # the client runs where the engine computes
    note: str  # what a reader has to know; "" when all is well


def split(
    host_cpus: Sequence[int],
    engine_threads: int | None,
    client_workers: int = 1,
    *,
    quota_cores: float | None = None,
    root: Path = _ROOT,
) -> CorePlan:
    """Whole physical cores for the client, if the engine's own threads leave any.

    `engine_threads` are those that compute, one a physical core; None: as many as it is given.
    The last cores go to the client: interrupts and the rest of the host favour the first.
    """
    cores = physical_cores(host_cpus, root)
    everything = show_cpus(sorted(host_cpus))
    wanted = 1 if engine_threads is None else engine_threads
    spare = len(cores) - wanted
    if spare < 1:
        threads = "1 thread" if wanted == 1 else f"{wanted} threads"
        have = "1 core" if len(cores) == 1 else f"{len(cores)} cores"
        return CorePlan(
            everything, everything, True,
            f"the client shares cores with the engine: {threads} on {have} leave none free",
        )  # fmt: skip
    taken: list[int] = []
    num_taken = 0
    while num_taken < spare and len(taken) < max(1, client_workers):
        num_taken += 1
        taken += cores[-num_taken]
    engine = [cpu for core in cores[: len(cores) - num_taken] for cpu in core]
    note = ""
    if len(taken) < client_workers:
        cpus = "1 CPU" if len(taken) == 1 else f"{len(taken)} CPUs"
        note = f"{client_workers} client processes share {cpus}: the rest is the engine's"
    if quota_cores is not None and quota_cores < len(engine) + len(taken):
        note = (
            f"a CPU quota of {quota_cores:g} cores is less than {len(engine) + len(taken)} CPUs: "
            "client and engine take from it together, so neither has cores of its own"
        )
    return CorePlan(show_cpus(sorted(engine)), show_cpus(sorted(taken)), False, note)


def host_cpus() -> tuple[int, ...]:
    """CPUs that NeoServe was started with; a client that pins itself later narrows them for none.

    A container's cpuset shows in them, a quota does not.
    """
    return _STARTED_WITH


def physical_cores(cpus: Iterable[int], root: Path = _ROOT) -> list[list[int]]:
    """`cpus` grouped by the core that they are threads of, each group and all in order."""
    groups: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        groups.setdefault(_siblings(cpu, root), []).append(cpu)
    return sorted(groups.values())


def _siblings(cpu: int, root: Path) -> str:
    """The kernel's list of the threads of this CPU's core; the CPU alone where it has none."""
    folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    for name in ("core_cpus_list", "thread_siblings_list"):  # the second before Linux 5.3
        try:
            return (folder / name).read_text().strip() or str(cpu)
        except OSError:
            continue
    return str(cpu)
