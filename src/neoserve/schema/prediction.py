"""Prediction: what a deployment will do, and why. The field names are a public contract."""

from __future__ import annotations

from .base import Document
from .engine import Deployment


class Memory(Document, frozen=True):
    """Per device (rank), bytes."""

    total_bytes: int  # what the driver reports
    usable_bytes: int  # total x utilization
    weights_bytes: int
    activation_bytes: int
    graph_bytes: int
    non_torch_bytes: int
    available_kv_bytes: int


class Group(Document, frozen=True):
    """One KV cache group: layers that share a block table."""

    kind: str
    num_layers: int
    block_size_tokens: int
    page_bytes: int  # of one layer, padding included
    padding_bytes: int  # of `page_bytes`, never used
    blocks_per_request: int


class KvCapacity(Document, frozen=True):
    """What the engine's own allocator makes of the available bytes, per rank."""

    bytes_per_token: float  # one request's marginal cost, all layers of the rank
    state_bytes_per_request: int
    block_size_tokens: int
    num_blocks: int
    kv_tokens: int  # as this engine version logs it
    max_concurrency: float
    bytes_per_block: int
    bytes_per_request: int  # one request of max_model_len
    max_model_len: int
    longest_request_tokens: int  # that fits alone
    groups: tuple[Group, ...] = ()


class Percentiles(Document, frozen=True):
    """Percentiles are null where the load was not simulated."""

    mean: float | None  # null: it grows without bound, the load is more than the capacity
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Latency(Document, frozen=True):
    """Seconds."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles


class Throughput(Document, frozen=True):
    """Of one deployment, all its replicas."""

    output_tokens_per_s: float
    total_tokens_per_s: float
    goodput_rps: float | None  # null without an SLO
    max_rate_rps: float | None  # highest arrival rate within the SLO, or at saturation


class Cost(Document, frozen=True):
    """Null where there is no price. Always says which tokens it divides by."""

    usd_per_hour: float
    price_basis: str  # "published, AWS us-east-1 on-demand, 2026-07-20" or "given"
    utilization_share: float
    usd_per_mtok_output: float
    usd_per_mtok_input: float
    usd_per_mtok_total: float
    usd_per_month: float


class Fleet(Document, frozen=True):
    """Copies of a deployment, as rented, that carry a rate within the SLO."""

    replicas: int
    rate_rps: float
    capacity_rps: float
    idle_share: float  # of the capacity
    usd_per_hour: float | None  # null without a price
    usd_per_month: float | None


class Interval(Document, frozen=True):
    """Where the truth lies with probability `level`."""

    low: float
    high: float
    level: float


class Part(Document, frozen=True):
    """One term of a step's time."""

    name: str
    seconds: float


class Prediction(Document, frozen=True, kw_only=True):
    """The answer for one deployment under one workload."""

    schema: str = "neoserve/prediction/1"
    basis: str = "predicted"
    model: str
    deployment: Deployment
    memory: Memory | None = None
    kv: KvCapacity | None = None
    latency: Latency | None = None
    throughput: Throughput | None = None
    cost: Cost | None = None
    fleet: Fleet | None = None  # for an arrival rate, or a monthly volume
    bound: str = ""  # memory | compute | kv | queue | comm | overhead
    next_bound: str = ""
    decode_parts: tuple[Part, ...] = ()
    interval: dict[str, Interval] = {}
    meets_slo: bool | None = None  # in expectation
    slo_share: float | None = None  # how sure: share of benches like this that hold all times
    slo_note: str = ""  # where an interval reaches over a limit
    starts: bool = True
    refusal: str = ""  # the engine's start-up check that fails, in our words
    assumptions: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    command: str = ""

    def _repr_html_(self) -> str:
        from .view import prediction_html

        return prediction_html(self)


class Rejection(Document, frozen=True):
    """A candidate that would not start, or cannot be."""

    deployment: Deployment
    reason: str


class Plan(Document, frozen=True, kw_only=True):
    """Ranked choices."""

    schema: str = "neoserve/plan/1"
    model: str
    num_candidates: int
    best: Prediction | None
    candidates: tuple[Prediction, ...]
    pareto: tuple[int, ...]  # indexes into candidates: cost against latency
    ties: tuple[int, ...] = ()  # indexes of those whose cost cannot be told from the best's
    sensitivity: tuple[str, ...] = ()  # which input or coefficient would change the choice
    rejected: tuple[Rejection, ...]
    summary: str

    def _repr_html_(self) -> str:
        from .view import plan_html

        return plan_html(self)
