"""HostFacts: what knobs and rules have to know of the host, looked up once."""

from __future__ import annotations

from typing import NamedTuple

from ..catalog.hardware import find_machine
from ..errors import AskError
from ..measure.allocators import bundled_with_vllm, installed
from ..measure.cores import host_cpus, machine_cores, physical_cores
from ..measure.engine.vllm_program import find_program
from ..measure.host import Gpu, gpus, host_print, usable_cores
from ..measure.machine import local_machine
from ..schema.hardware import Machine
from ..schema.trial import HostPrint


class HostFacts(NamedTuple):
    """One host, as an engine on it would find it."""

    host: HostPrint
    cores: tuple[tuple[int, ...], ...]  # CPUs that may be used, by physical core
    machine_cores: int = 0  # of the whole machine; 0: unknown
    allocators: dict[str, str] = {}  # name -> library
    bundled_allocator: str = ""  # that vLLM puts before any other
    gpus: tuple[Gpu, ...] = ()
    machine: Machine | None = None  # for the planner; None: it cannot say

    @property
    def num_cores(self) -> int:
        """Physical cores, or what a quota leaves of them."""
        return max(1, min(len(self.cores), int(usable_cores(self.host))))


def host_facts(engine: str, device: str = "cpu", *, python: str = "") -> HostFacts:
    """This host. About a second for a CPU: the memory's bandwidth is measured for the planner.

    `python` is one that has vLLM, as in `measure.engine.vllm.config`.
    """
    cpus = host_cpus()
    found = gpus() if device == "gpu" else ()
    return HostFacts(
        host=host_print(),
        cores=tuple(tuple(core) for core in physical_cores(cpus)),
        machine_cores=machine_cores(),
        allocators=installed() if engine == "vllm" and device == "cpu" else {},
        bundled_allocator=_bundled(python) if engine == "vllm" and device == "cpu" else "",
        gpus=found,
        machine=gpu_machine(found) if device == "gpu" else local_machine(),
    )


def _bundled(python: str) -> str:
    try:
        return bundled_with_vllm(find_program(python).argv[0])
    except AskError:  # it is said when the engine is to be started
        return ""


def gpu_machine(found: tuple[Gpu, ...]) -> Machine | None:
    """By the driver's name; the catalog knows a few more words to some of them."""
    if not found:
        return None
    try:
        return find_machine(f"{len(found)}x{found[0].name}" if len(found) > 1 else found[0].name)
    except AskError:
        return None
