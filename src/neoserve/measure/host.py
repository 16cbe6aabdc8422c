"""The host as this process may use it: cgroup quota and cpuset, not what the hardware has."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..schema.trial import HostPrint
from ..units import MIB
from .cores import host_cpus, physical_cores, show_cpus

# Flags that inference kernels choose by.
_ISA = (
    "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8",
    "asimd", "asimdhp", "asimddp", "fphp", "bf16", "i8mm", "sve", "sve2", "sme",
)  # fmt: skip

# CPUs whose /proc/cpuinfo gives only a part number: Arm "CPU part", TRM of each core.
_ARM_PARTS = {
    "0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2",
    "0xd8e": "Neoverse-N3", "0xd84": "Neoverse-V3",
}  # fmt: skip

_ROOT = Path("/")
_UNLIMITED_BYTES = 1 << 60  # cgroup v1 writes about 2^63 for "no limit"


class Gpu(NamedTuple):
    """What nvidia-smi says of one GPU."""

    name: str
    memory_bytes: int


def host_print(versions: dict[str, str] | None = None, root: Path = _ROOT) -> HostPrint:
    """This host now; `versions` of engines are added to Python's."""
    cpus = list(host_cpus())
    cpuinfo = _read(root / "proc/cpuinfo")
    return HostPrint(
        cpu_model=_cpu_model(cpuinfo),
        isa=isa(cpuinfo),
        physical_cores=len(physical_cores(cpus, root)),
        logical_cpus=len(cpus),
        cpuset=show_cpus(cpus),
        quota_cores=quota_cores(root),
        memory_bytes=memory_bytes(root),
        numa_nodes=max(1, len(list((root / "sys/devices/system/node").glob("node[0-9]*")))),
        kernel=platform.release(),
        governor=_governor(cpus, root),
        smt=_read(root / "sys/devices/system/cpu/smt/control"),
        thp=_chosen(_read(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        load_average_1min=os.getloadavg()[0],
        clock_hz=clock_hz(root),
        versions={"python": platform.python_version()} | (versions or {}),
    )


def instance_type(root: Path = _ROOT) -> str:
    """The AWS instance type of this machine, by its firmware's tables; "" elsewhere."""
    tables = root / "sys/devices/virtual/dmi/id"
    is_aws = _read(tables / "sys_vendor").startswith("Amazon EC2")
    return _read(tables / "product_name") if is_aws else ""


def usable_cores(host: HostPrint) -> float:
    """Physical cores, or the cgroup quota where that is less."""
    return min(host.physical_cores, host.quota_cores or host.physical_cores)


def isa(cpuinfo: str) -> tuple[str, ...]:
    """The flags of interest in /proc/cpuinfo, x86 or Arm."""
    match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    flags = set(match[1].split()) if match else set()
    return tuple(flag for flag in _ISA if flag in flags)


def quota_cores(root: Path = _ROOT) -> float | None:
    """The tightest CPU quota of this process's cgroups, in cores; null without one."""
    return min(_quotas(root), default=None)


def memory_bytes(root: Path = _ROOT) -> int:
    """Memory of the host, or the tightest cgroup limit where that is lower."""
    match = re.search(r"^MemTotal:\s*(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    total = int(match[1]) * 1024 if match else 0
    limits = [limit for limit in _memory_limits(root) if limit < _UNLIMITED_BYTES]
    return min([total, *limits]) if total else min(limits, default=0)


def clock_hz(root: Path = _ROOT) -> float:
    """The highest clock that the kernel tells of; 0 where it tells none (most Arm guests)."""
    khz = _read(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if khz.isdigit():
        return int(khz) * 1e3
    mhz = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return max(map(float, mhz), default=0.0) * 1e6


def gpus() -> tuple[Gpu, ...]:
    """NVIDIA GPUs that nvidia-smi lists; their speeds are the catalog's to say."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_gpus(answer.stdout)


def parse_gpus(csv: str) -> tuple[Gpu, ...]:
    """``"NVIDIA H200, 143771"`` a line; memory is in MiB."""
    found = []
    for line in csv.splitlines():
        name, _, mib = line.rpartition(",")
        with contextlib.suppress(ValueError):  # "[N/A]" on GPUs that share the host's memory
            found.append(Gpu(name.strip(), int(mib) * MIB))
    return tuple(found)


def _governor(cpus: list[int], root: Path) -> str:
    """Of the CPUs that we may use; they may differ."""
    folder = root / "sys/devices/system/cpu"
    return ", ".join(
        sorted({_read(folder / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {""})
    )


def _cpu_model(cpuinfo: str) -> str:
    if match := re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
        return match[1].strip()
    if match := re.search(r"^CPU part\s*:\s*(\S+)", cpuinfo, re.MULTILINE):
        return _ARM_PARTS.get(match[1], f"Arm CPU part {match[1]}")
    return platform.processor() or platform.machine()


def cgroup_folders(
    controller: str, root: Path = _ROOT, process: int | str = "self"
) -> Iterator[Path]:
    """A process's cgroup and its ancestors, by version 2 or version 1 of `controller`."""
    for line in _read(root / f"proc/{process}/cgroup").splitlines():
        hierarchy, names, path = line.split(":", 2)
        base = root / "sys/fs/cgroup"
        if hierarchy != "0" and controller in names.split(","):
            base /= controller
        elif hierarchy != "0":
            continue
        # Inside a container the path is the host's, and only the mount's root is ours.
        relative = Path(path.lstrip("/"))
        yield from (base / parent for parent in (relative, *relative.parents))


def _quotas(root: Path) -> Iterator[float]:
    for folder in cgroup_folders("cpu", root):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:
            quota = _read(folder / "cpu.cfs_quota_us")
            period = _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):  # "max" and -1 are no quota
            yield int(quota) / int(period)


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in cgroup_folders("memory", root):
        limit = _read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")
        if limit.isdigit():
            yield int(limit)


def _chosen(text: str) -> str:
    """``"always [madvise] never"`` → ``"madvise"``."""
    match = re.search(r"\[(\S+)\]", text)
    return match[1] if match else text


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
