import os

import pytest

from measure.trees import write
from neoserve.measure import host, machine
from neoserve.schema.trial import HostPrint

X86 = "model name\t: AMD EPYC\nflags\t\t: fpu avx avx2 fma vaes\ncpu MHz\t\t: 2445.432\n"
ARM = "Features\t: fp asimd asimdhp asimddp i8mm bf16 sve sve2\nCPU part\t: 0xd4f\n"


def test_this_host():
    seen = host.host_print({"engine": "1.0"})
    assert seen.logical_cpus == len(os.sched_getaffinity(0))
    assert 1 <= seen.physical_cores <= seen.logical_cpus
    assert seen.memory_bytes > 2**28
    assert seen.cpu_model
    assert seen.versions["engine"] == "1.0"


def test_x86_and_arm_cpuinfo(tmp_path):
    write(tmp_path, {"proc/cpuinfo": X86})
    x86 = host.host_print(root=tmp_path)
    assert (x86.cpu_model, x86.isa) == ("AMD EPYC", ("avx", "avx2", "fma"))
    assert x86.clock_hz == pytest.approx(2.445432e9)
    write(tmp_path, {"proc/cpuinfo": ARM})
    arm = host.host_print(root=tmp_path)
    assert arm.cpu_model == "Neoverse-V2"
    assert arm.isa == ("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2")
    assert arm.clock_hz == 0
    write(tmp_path, {"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "2800000\n"})
    assert host.clock_hz(tmp_path) == 2.8e9


def test_cgroup_v2_takes_the_tightest_ancestor(tmp_path):
    write(tmp_path, {
        "proc/self/cgroup": "0::/a/b\n",
        "proc/meminfo": "MemTotal: 16777216 kB\n",
        "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "sys/fs/cgroup/a/memory.max": "max\n",
        "sys/fs/cgroup/a/b/memory.max": "1073741824\n",
    })  # fmt: skip
    assert host.quota_cores(tmp_path) == 1.5
    assert host.memory_bytes(tmp_path) == 2**30


def test_cgroup_v1_in_a_container_sees_only_its_mount(tmp_path):
    write(tmp_path, {
        "proc/self/cgroup": "4:memory:/docker/x\n2:cpu,cpuacct:/docker/x\n0::/\n",
        "proc/meminfo": "MemTotal: 16777216 kB\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "765000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    })  # fmt: skip
    assert host.quota_cores(tmp_path) == 7.65
    assert host.memory_bytes(tmp_path) == 16 * 2**30


def test_no_quota_is_none(tmp_path):
    write(tmp_path, {
        "proc/self/cgroup": "2:cpu:/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    })  # fmt: skip
    assert host.quota_cores(tmp_path) is None
    assert host.memory_bytes(tmp_path) == 0


def test_governors_of_the_cpus_in_use(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    governor = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
    write(tmp_path, {governor.format(cpu): "performance\n" for cpu in cpus}
          | {governor.format(4095): "powersave\n"})  # fmt: skip
    assert host.host_print(root=tmp_path).governor == "performance"


def test_siblings_are_one_core(tmp_path):
    cpus = sorted(os.sched_getaffinity(0))
    folder = "sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    write(tmp_path, {folder.format(cpu): "0-999" for cpu in cpus})
    assert host.host_print(root=tmp_path).physical_cores == 1


def test_gpus():
    listing = "NVIDIA H200, 143771\nNVIDIA GB10, [N/A]\nTesla T4, 15360\n"
    assert host.parse_gpus(listing) == (
        host.Gpu("NVIDIA H200", 143771 * 2**20),
        host.Gpu("Tesla T4", 15360 * 2**20),
    )
    assert host.parse_gpus("") == ()


def test_nvidia_smi_is_asked_where_it_is(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA L4, 23034'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert host.gpus() == (host.Gpu("NVIDIA L4", 23034 * 2**20),)
    program.write_text("#!/bin/sh\nexit 9\n")
    assert host.gpus() == ()
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert host.gpus() == ()


def print_of(**more):
    known = {
        "cpu_model": "X", "isa": ("avx", "avx2", "fma"), "physical_cores": 4, "logical_cpus": 8,
        "cpuset": "0-7", "quota_cores": None, "memory_bytes": 2**34, "numa_nodes": 1,
        "kernel": "6", "governor": "", "smt": "on",
        "thp": "madvise", "load_average_1min": 0.0, "clock_hz": 3e9, "versions": {},
    }  # fmt: skip
    return HostPrint(**(known | more))


def test_peak_is_cores_times_clock_times_simd():
    spec = machine.describe(print_of(), 20e9, "2026-01-01")
    assert spec.peak_flops_per_s == {"fp32": 4 * 3e9 * 32}
    assert (spec.cores, spec.smt, spec.bandwidth_bytes_per_s) == (4, 2, 20e9)
    half = machine.describe(print_of(quota_cores=2.0), 20e9, "2026-01-01")
    assert half.peak_flops_per_s == {"fp32": 2 * 3e9 * 32}


@pytest.mark.parametrize(
    ("isa", "dtypes"),
    [
        (("avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"),
         {"fp32": 64, "bf16": 1024, "int8": 2048}),
        (("asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve", "sve2"),
         {"fp32": 32, "fp16": 64, "bf16": 128, "int8": 256}),
        (("asimd", "asimdhp", "asimddp"), {"fp32": 16, "fp16": 32, "int8": 64}),
        ((), {"fp32": 2}),
    ],
)  # fmt: skip
def test_dtypes_are_those_the_cpu_multiplies(isa, dtypes):
    assert machine.peak_flops_per_s(isa, 1.0) == dtypes


def test_an_unknown_clock_is_said():
    spec = machine.describe(print_of(clock_hz=0.0), 20e9, "2026-01-01")
    assert any("2.5 GHz is assumed" in note for note in spec.notes)


def test_local_machine_measures_a_plausible_bandwidth():
    local = machine.local_machine()
    assert local.id == "local"
    assert 1e8 < local.hardware.bandwidth_bytes_per_s < 2e12
