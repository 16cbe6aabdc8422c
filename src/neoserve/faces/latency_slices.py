"""Slices of a latency truth file that people ask for: by what runs, where, and how many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ..predict.latency_rows import Case
from ..schema.hardware import HardwareSpec

ALL: tuple[str, ...] = ()  # every metric

# Boards that desktops and workstations take; all other GPUs sit in data centres.
_DESKTOP = ("RTX-", "RX-", "R9700", "Arc-", "GB10", "Apple-", "Jetson-")
_SILICON = "silicon_sample"  # a series of one export: more rows than all others together


class Traits(NamedTuple):
    """What slices look at."""

    case: Case
    hardware: HardwareSpec
    device_class: str
    total_params: int
    model_family: str


class Slice(NamedTuple):
    """A named set of rows, and the metrics that it is about."""

    name: str
    holds: Callable[[Traits], bool]
    flags: tuple[str, ...] = ALL


def is_desktop(hardware: HardwareSpec) -> bool:
    """Consumer and workstation boards."""
    return hardware.id.startswith(_DESKTOP)


def _data_centre_gpu(t: Traits) -> bool:
    return t.hardware.kind == "gpu" and not is_desktop(t.hardware)


def _dense(t: Traits) -> bool:
    return t.case.arch == "dense"


SLICES = (
    Slice("dense single-user TPOT", _dense, ("single_tpot",)),
    Slice("dense batched TPOT", _dense, ("batched_tpot",)),
    Slice(
        "dense batched TPOT outside silicon_sample",
        lambda t: _dense(t) and _SILICON not in t.case.source,
        ("batched_tpot",),
    ),
    Slice("dense TTFT", _dense, ("ttft",)),
    Slice("MoE and MLA", lambda t: t.case.arch == "moe", ("single_tpot", "batched_tpot", "ttft")),
    Slice("hybrids", lambda t: t.case.arch == "hybrid"),
    Slice(
        "vLLM on data-centre GPUs, dense >= 3 B",
        lambda t: (
            t.case.engine == "vllm"
            and _data_centre_gpu(t)
            and _dense(t)
            and t.total_params >= 3_000_000_000
        ),
    ),
    Slice("Arm CPUs", lambda t: t.device_class == "arm-cpu"),
    Slice("x86 CPUs", lambda t: t.device_class == "x86-cpu"),
    Slice(
        "consumer and workstation GPUs",
        lambda t: t.device_class in ("nvidia-gddr", "amd-rdna") and is_desktop(t.hardware),
    ),
    Slice("AMD GPUs", lambda t: t.hardware.vendor == "amd" and t.hardware.kind != "cpu"),
    Slice(
        "output throughput at stated concurrency",
        lambda t: t.case.load_mode != "open_loop",
        ("throughput",),
    ),
)  # fmt: skip


def names_of(traits: Traits, flag: str) -> Iterator[str]:
    """The slices that a figure is in."""
    for s in SLICES:
        if (not s.flags or flag in s.flags) and s.holds(traits):
            yield s.name
    if flag == "tput256":
        yield f"about 256 users, {traits.model_family or 'family not stated'}"


def order(found: Iterable[str]) -> list[str]:
    """The slices' own order, then the families by name."""
    known = [s.name for s in SLICES]
    return sorted(found, key=lambda n: (known.index(n) if n in known else len(known), n))
