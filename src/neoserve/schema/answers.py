"""What lookups, cost and comparison answer: HardwareList, ModelList, CostProjection ..."""

from __future__ import annotations

from typing import Literal

from .base import Document
from .engine import Deployment
from .prediction import Cost, Fleet, Interval, Latency, Throughput
from .workload import Workload

Basis = Literal["measured", "predicted", "published"]


class HardwareFacts(Document, frozen=True, kw_only=True):
    """One device, or one CPU socket. 0, "" or null: no public figure is known."""

    id: str
    name: str
    vendor: str
    kind: str
    memory_bytes: int
    bandwidth_bytes_per_s: float
    peak_flops_per_s: dict[str, float]  # dense, by dtype
    cores: int
    year: int
    isa: tuple[str, ...]
    usd_per_hour: float | None  # of the cheapest listed machine with it
    price_basis: str  # whose price, where and when
    priced_devices: int  # that this price rents
    instances: tuple[str, ...]
    sources: dict[str, str]  # fact -> where it was published, and when


# Version history: 1, first.
class HardwareList(Document, frozen=True, kw_only=True):
    """Bundled hardware, each fact with its source."""

    schema: str = "neoserve/hardware-list/1"
    basis: Basis = "published"
    hardware: tuple[HardwareFacts, ...]
    num_matching: int  # of which these are the first
    ids: tuple[str, ...]  # of all that match


class ModelFacts(Document, frozen=True, kw_only=True):
    """One bundled model."""

    id: str
    family: str
    kind: Literal["dense", "moe", "hybrid"]  # hybrid: some layers keep a state, not tokens
    num_params: int
    num_active_params: int  # that one token reads
    max_position_tokens: int
    weights: str  # dtype, or the checkpoint's quantization


# Version history: 1, first.
class ModelList(Document, frozen=True, kw_only=True):
    """Models that are known without the network."""

    schema: str = "neoserve/model-list/1"
    basis: Basis = "published"
    models: tuple[ModelFacts, ...]
    num_matching: int


class MonthlyChoice(Document, frozen=True, kw_only=True):
    """One way to serve a volume. Null: not known, and `reason` says why."""

    hardware: str
    basis: Basis
    deployment: Deployment | None = None  # null for a measured one: `settings` of `run`
    settings: str = ""
    run: str = ""
    replicas: int | None = None
    idle_share: float | None = None
    usd_per_hour: float | None = None  # of all replicas
    price_basis: str = ""
    usd_per_month: float | None = None
    usd_per_mtok_output: float | None = None  # of the volume, idle hours included
    capacity_output_tokens_per_month: float | None = None  # of one replica
    usd_per_month_of_one: float | None = None
    meets_slo: bool | None = None  # at the load that was asked about
    break_even_output_tokens_per_month: float | None = None
    reason: str = ""


# Version history: 1, first.
class CostProjection(Document, frozen=True, kw_only=True):
    """A month of 730 hours at a volume of output tokens."""

    schema: str = "neoserve/cost-projection/1"
    basis: Basis
    model: str
    workload: Workload
    slo: str
    output_tokens_per_month: float
    utilization_share: float
    choices: tuple[MonthlyChoice, ...]
    best: int | None  # the cheapest that keeps the SLO
    against_usd_per_mtok: float | None = None  # dollars a million output tokens, elsewhere
    notes: tuple[str, ...] = ()
    summary: str


class Side(Document, frozen=True, kw_only=True):
    """The best that was found on one machine; null with a reason."""

    hardware: str
    kind: str
    memory_bytes: int  # of one device
    bandwidth_bytes_per_s: float
    usd_per_hour: float | None
    price_basis: str
    deployment: Deployment | None = None
    latency: Latency | None = None
    throughput: Throughput | None = None
    cost: Cost | None = None
    fleet: Fleet | None = None
    interval: dict[str, Interval] = {}
    bound: str = ""
    meets_slo: bool | None = None
    slo_share: float | None = None
    command: str = ""
    reason: str = ""


# Version history: 1, first.
class HardwareComparison(Document, frozen=True, kw_only=True):
    """One model and load on several machines, each at its best."""

    schema: str = "neoserve/hardware-comparison/1"
    basis: Basis = "predicted"
    model: str
    workload: Workload
    slo: str
    sides: tuple[Side, ...]  # in the order asked
    best: int | None  # the cheapest that keeps the SLO; without prices the fastest
    summary: str


# Version history: 1, first.
class Listening(Document, frozen=True, kw_only=True):
    """A server that can be reached now."""

    schema: str = "neoserve/listening/1"
    url: str  # to open, or to ask at
    token: str  # ""; nobody needs one


class PublishedPoint(Document, frozen=True, kw_only=True):
    """What somebody published of a load. Null: the source does not say."""

    id: str
    model: str
    hardware: str  # as the source calls it, or the catalog's id
    num_devices: int
    engine: str
    engine_version: str
    year: str  # as published: "2026", "2023-2024"
    prompt_tokens: int
    output_tokens: int
    concurrency: float | None
    rate_rps: float | None
    ttft_s: float | None
    ttft_stat: str
    tpot_s: float | None
    tpot_stat: str
    output_tokens_per_s: float | None
    source: str
    licence: str
    source_ref: str


# Version history: 1, first.
class PublishedList(Document, frozen=True, kw_only=True):
    """Public measurements, and how many there are."""

    schema: str = "neoserve/published-list/1"
    basis: Basis = "published"
    points: tuple[PublishedPoint, ...]
    num_matching: int
    reason: str = ""  # why there are none
