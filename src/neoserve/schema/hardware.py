"""HardwareSpec and prices: what a data sheet and a price list say."""

from __future__ import annotations

from typing import Literal

from .base import Document


class Link(Document, frozen=True):
    """What connects devices of one host. Bandwidth is per device, one direction."""

    kind: str  # nvlink4, xgmi3, pcie5 ...
    bandwidth_bytes_per_s: float
    max_devices: int = 8


class HardwareSpec(Document, frozen=True):
    """One device (a GPU, or one CPU socket); every fact's source is named in `sources`."""

    id: str
    name: str
    vendor: str
    kind: Literal["gpu", "cpu", "igpu", "tpu", "npu"]
    bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]  # dense; dtypes that the hardware multiplies natively
    memory_bytes: int = 0  # nominal capacity; 0 for a CPU socket, whose machine decides it
    arch: str = ""
    compute_capability: str = ""  # NVIDIA: "9.0"
    year: int = 0
    reported_memory_bytes: int = 0  # what the driver says is there; 0 where unknown
    num_sms: int = 0
    tdp_w: float = 0.0
    link: Link | None = None
    pcie_bandwidth_bytes_per_s: float = 0.0  # one direction
    cores: int = 0
    smt: int = 1
    numa_nodes_per_socket: int = 1
    clock_hz: float = 0.0
    isa: tuple[str, ...] = ()
    memory_channels: int = 0
    memory_type: str = ""
    l2_bytes_per_core: int = 0
    l3_bytes: int = 0
    sources: dict[str, str] = {}  # fact -> key of the catalog's sources
    notes: tuple[str, ...] = ()


class Price(Document, frozen=True):
    """One published price."""

    usd_per_hour: float
    kind: str = "on-demand"
    region: str = ""
    date: str = ""
    source: str = ""


class Instance(Document, frozen=True):
    """A rentable machine: so many devices (or a slice of one CPU socket) for a price."""

    id: str
    cloud: str
    hardware: str  # id of a HardwareSpec
    num_devices: int = 1
    vcpus: int = 0
    cores: int = 0  # physical
    memory_bytes: int = 0  # of the host
    prices: tuple[Price, ...] = ()


class Machine(Document, frozen=True):
    """What a HW argument resolves to: a device, how many there are, and what they cost.

    A CPU instance carries the slice of the socket that it rents: `hardware` is already
    scaled to the instance's cores and memory.
    """

    id: str
    hardware: HardwareSpec
    num_devices: int  # most that one host of this kind holds
    price: Price | None = None  # for `priced_devices` devices
    priced_devices: int = 1
    notes: tuple[str, ...] = ()
