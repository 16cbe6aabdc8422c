"""``local``: this host as a machine to predict for; what is not on a data sheet is measured."""

from __future__ import annotations

import ctypes
import datetime
import threading
import time

from ..schema.hardware import HardwareSpec, Machine
from ..schema.trial import HostPrint
from ..units import MIB
from .host import gpus, host_print, usable_cores

# Floating-point operations a core and cycle: pipes x lanes x 2 (multiply and add), from the
# vendors' optimization guides. The first set of flags that the CPU has wins.
_FP32_PER_CYCLE = (
    ({"avx512f"}, 64),  # 2 pipes x 16 lanes; Zen 4 has half
    ({"avx2", "fma"}, 32),  # 2 x 8
    ({"avx"}, 16),  # 8 lanes, separate multiply and add
    ({"sve2", "bf16"}, 32),  # Neoverse V2: 4 x 4; N2 has half
    ({"sve"}, 32),  # Neoverse V1: 2 x 8
    ({"asimd"}, 16),  # 2 x 4
)
_FP16_PER_CYCLE = (
    ({"avx512_fp16"}, 128),
    ({"asimdhp", "sve"}, 64),
    ({"asimdhp"}, 32),
)
_BF16_PER_CYCLE = (
    ({"amx_bf16"}, 1024),  # TDPBF16PS: 16 x 16 x 32 x 2 in 16 cycles
    ({"avx512_bf16"}, 128),
    ({"bf16", "sve2"}, 128),  # 4 x BFMMLA of 2 x 2 x 4 x 2
    ({"bf16", "sve"}, 128),
)
_INT8_PER_CYCLE = (
    ({"amx_int8"}, 2048),
    ({"avx512_vnni"}, 256),
    ({"avx_vnni"}, 128),
    ({"i8mm"}, 256),
    ({"asimddp"}, 64),  # 2 x SDOT of 16
)

_UNKNOWN_CLOCK_HZ = 2.5e9
_PROBE_S = 0.25
_ROUNDS = 3
_ABSENT_BYTE = 7


def local_machine() -> Machine:
    """This host's CPU. About one second: it measures the memory's read bandwidth."""
    host = host_print()
    bandwidth_bytes_per_s = read_bandwidth_bytes_per_s(max(1, round(usable_cores(host))))
    spec = describe(host, bandwidth_bytes_per_s, datetime.date.today().isoformat())
    cores, gb_per_s = usable_cores(host), bandwidth_bytes_per_s / 1e9
    notes = [f"local: {cores:.3g} cores that read {gb_per_s:.3g} GB/s together, measured now"]
    if (load := host.load_average_1min) > 1.5 * cores:
        notes.append(f"other programs run here (load {load:.3g}): they slow its memory down")
    notes += [f"{gpu.name} is here, too: name it as hardware" for gpu in dict.fromkeys(gpus())]
    return Machine(id="local", hardware=spec, num_devices=1, notes=tuple(notes))


def describe(host: HostPrint, bandwidth_bytes_per_s: float, date: str) -> HardwareSpec:
    """The host as hardware. Peak = cores x clock x operations a cycle of its widest SIMD."""
    cores = usable_cores(host)
    clock_hz = host.clock_hz or _UNKNOWN_CLOCK_HZ
    return HardwareSpec(
        id="local",
        name=host.cpu_model,
        vendor="",
        kind="cpu",
        memory_bytes=host.memory_bytes,
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
        peak_flops_per_s=peak_flops_per_s(host.isa, cores * clock_hz),
        cores=max(1, round(cores)),
        smt=max(1, host.logical_cpus // host.physical_cores),
        numa_nodes_per_socket=host.numa_nodes,
        clock_hz=clock_hz,
        isa=host.isa,
        sources={
            "bandwidth_bytes_per_s": f"measured, {date}",
            "peak_flops_per_s": "cores x clock x SIMD operations a cycle, from /proc/cpuinfo",
            "memory_bytes": "/proc/meminfo and cgroup limit",
        },
        notes=_notes(host),
    )


def peak_flops_per_s(isa: tuple[str, ...], cycles_per_s: float) -> dict[str, float]:
    """By dtype that the CPU multiplies natively; `cycles_per_s` counts all cores."""
    tables = {
        "fp32": _FP32_PER_CYCLE,
        "fp16": _FP16_PER_CYCLE,
        "bf16": _BF16_PER_CYCLE,
        "int8": _INT8_PER_CYCLE,
    }
    peaks = {}
    for dtype, table in tables.items():
        rate = next((rate for flags, rate in table if flags <= set(isa)), 0)
        if rate:
            peaks[dtype] = rate * cycles_per_s
    return peaks or {"fp32": 2 * cycles_per_s}


def read_bandwidth_bytes_per_s(num_threads: int) -> float:
    """Best of a few rounds of one memchr a thread, each over memory larger than its cache.

    Per second that the threads ran: what waited for a core says nothing of the memory.
    """
    size = _buffer_bytes(num_threads)
    buffers = [(ctypes.c_char * size)() for _ in range(num_threads)]
    for buffer in buffers:
        ctypes.memset(buffer, 1, size)  # untouched pages are all one page of zeros
    return max(_one_round(buffers, size) for _ in range(_ROUNDS))


def _one_round(buffers: list[ctypes.Array[ctypes.c_char]], size: int) -> float:
    rates = [0.0] * len(buffers)
    until_s = time.perf_counter() + _PROBE_S
    threads = [
        threading.Thread(target=_scan, args=(buffer, size, until_s, rates, index))
        for index, buffer in enumerate(buffers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _scan(
    buffer: ctypes.Array[ctypes.c_char], size: int, until_s: float, rates: list[float], index: int
) -> None:
    memchr = ctypes.CDLL(None).memchr  # ctypes releases the GIL around it
    memchr.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    passes, start_s = 0, time.thread_time()
    while passes == 0 or time.perf_counter() < until_s:
        memchr(ctypes.addressof(buffer), _ABSENT_BYTE, size)
        passes += 1
    rates[index] = passes * size / max(time.thread_time() - start_s, 1e-9)


def _buffer_bytes(num_threads: int) -> int:
    """Well beyond the last cache, two gigabytes in all at most."""
    return max(16 * MIB, min(128 * MIB, 2048 * MIB // num_threads))


def _notes(host: HostPrint) -> tuple[str, ...]:
    notes = [
        "bandwidth: best of three rounds of memchr over large buffers, one thread a core; "
        "reads only, per second that the threads ran",
        "peaks assume full SIMD pipes at the reported clock; a microarchitecture may have half",
    ]
    if not host.clock_hz:
        notes.append(f"the kernel tells no clock: {_UNKNOWN_CLOCK_HZ / 1e9:g} GHz is assumed")
    return tuple(notes)
