"""Tables of docs/space.md: the knobs of each engine, and the settings known to be good."""

from __future__ import annotations

from neoserve.catalog.hardware import find_machine
from neoserve.measure.host import Gpu
from neoserve.schema.space import Knob
from neoserve.schema.trial import HostPrint
from neoserve.tune.host import HostFacts
from neoserve.tune.space import known_good, space_for
from neoserve.units import GIB

VLLM = "vllm 0.32.0"


def space_tables() -> str:
    """One table for each engine and device, on a host that has all of its knobs."""
    checkpoints = {"q8_0": "…", "q4_0": "…"}, {"bf16": "…", "w8a8": "…", "w4a8-channel": "…"}
    arm, gpus = cpu_host(), gpu_host()
    spaces = (
        ("llama.cpp, 16 cores", space_for("llama.cpp", "m", arm, checkpoints=checkpoints[0]), arm),
        ("vLLM 0.32 on CPUs, 16 cores and 2 NUMA nodes",
         space_for("vllm", "m", arm, version=VLLM, checkpoints=checkpoints[1]), arm),
        ("vLLM 0.32 on 4 x H100",
         space_for("vllm", "m", gpus, device="gpu", version=VLLM), gpus),
    )  # fmt: skip
    text = ""
    for title, space, facts in spaces:
        text += f"### {title}\n\n| knob | sets | values | by itself | |\n|---|---|---|---|---|\n"
        text += "".join(row(knob) for knob in space.knobs)
        text += "\n| known to be good | why | source |\n|---|---|---|\n"
        for setting in known_good(space, facts):
            chosen = " ".join(f"{k}={v}" for k, v in setting.knobs.items())
            text += f"| `{chosen}` | {setting.why} | {setting.source} |\n"
        text += "\n"
    return text


def row(knob: Knob) -> str:
    """One knob."""
    sets = knob.env or knob.flag.split(" ")[0]
    changes = " **May change answers.**" if knob.changes_output else ""
    values = ", ".join(knob.values)
    return f"| {knob.name} | `{sets}` | {values} | {knob.default} | {knob.meaning}{changes} |\n"


def cpu_host() -> HostFacts:
    """Sixteen Arm cores in two NUMA nodes, with every allocator installed."""
    host = HostPrint(
        cpu_model="Neoverse-V2", isa=("asimd", "i8mm", "bf16", "sve2"), physical_cores=16,
        logical_cpus=16, cpuset="0-15", quota_cores=None, memory_bytes=64 * GIB, numa_nodes=2,
        kernel="", governor="", smt="notsupported", thp="madvise", load_average_1min=0.0,
        clock_hz=2.8e9, versions={},
    )  # fmt: skip
    libraries = {name: f"lib{name}.so" for name in ("tcmalloc", "mimalloc", "jemalloc")}
    return HostFacts(
        host, tuple((cpu,) for cpu in range(16)), 16, libraries, machine=find_machine("m8g.4xlarge")
    )


def gpu_host() -> HostFacts:
    """Four H100 beside it."""
    gpus = (Gpu("NVIDIA H100 80GB HBM3", 80 * GIB),) * 4
    return cpu_host()._replace(gpus=gpus, machine=find_machine("4xH100-SXM"))
