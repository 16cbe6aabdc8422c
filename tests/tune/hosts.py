"""Hosts that a space may be made for."""

from neoserve.catalog.hardware import find_machine
from neoserve.measure.host import Gpu
from neoserve.measure.machine import describe
from neoserve.schema.hardware import Machine
from neoserve.schema.trial import HostPrint
from neoserve.tune.host import HostFacts
from neoserve.units import GIB

ARM = ("asimd", "asimdhp", "asimddp", "fphp", "bf16", "i8mm", "sve", "sve2")


def host(cores=2, smt=1, memory_gib=8, nodes=1, isa=("avx", "avx2", "fma"), quota=None):
    return HostPrint(
        cpu_model="a CPU", isa=isa, physical_cores=cores, logical_cpus=cores * smt,
        cpuset=f"0-{cores * smt - 1}", quota_cores=quota, memory_bytes=memory_gib * GIB,
        numa_nodes=nodes, kernel="6.1", governor="", smt="on" if smt > 1 else "notsupported",
        thp="madvise", load_average_1min=0.1, clock_hz=2.5e9, versions={},
    )  # fmt: skip


def facts(machine=None, allocators=None, bundled="", gpus=(), **shape):
    """A thread's sibling is as many CPUs further on as there are cores, as Linux counts."""
    this = host(**shape)
    num, smt = this.physical_cores, this.logical_cpus // this.physical_cores
    return HostFacts(
        host=this,
        cores=tuple(tuple(core + num * t for t in range(smt)) for core in range(num)),
        machine_cores=num,
        allocators=allocators or {},
        bundled_allocator=bundled,
        gpus=tuple(gpus),
        machine=machine or Machine("local", describe(this, 2e10, "2026-11-30"), 1),
    )


def graviton(**more):
    """c8g.4xlarge."""
    machine = find_machine("c8g.4xlarge")
    return facts(machine, cores=16, memory_gib=32, isa=ARM, **more)


def h100s(num=2):
    names = [Gpu("NVIDIA H100 80GB HBM3", 81559 * 1024**2)] * num
    return facts(find_machine(f"{num}xH100-SXM"), gpus=names, cores=26, memory_gib=200)
