"""RequestRow, HostPrint, Trial: what was observed.

All times are seconds on one monotonic clock, counted from the start of the load.
"""

from __future__ import annotations

from typing import Literal

from .base import Document
from .engine import EngineConfig
from .pmu import Counters
from .workload import Slo, Workload

RowStatus = Literal[
    "ok",
    "http",        # the server answered with an error status
    "server",      # the stream carried an error
    "truncated",   # the stream ended before the answer, or could not be read
    "connection",  # refused, reset or broken
    "timeout",
    "cancelled",   # in flight when the trial was interrupted
    "unsent",      # not yet due when the trial was interrupted
]  # fmt: skip

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE", "VOID"]


Phase = Literal[
    "warmup",    # sent first, not judged
    "measured",
    "drain",     # keeps the load up until the last measured request has ended, not judged
]  # fmt: skip

# What ended the load.
Stop = Literal["planned", "decided", "saturated", "interrupted", "engine", "crashed"]


class PlannedRequest(Document, frozen=True, omit_defaults=True):
    """One request of a schedule, drawn before the load starts."""

    due_s: float  # 0 for closed loads and for turns after the first
    prompt_tokens: int  # of its own message, history not counted; 0 for a user's own text
    output_tokens: int
    phase: Phase = "measured"
    session: int = 0  # requests of one conversation share it
    turn: int = 0
    prefix: tuple[int, ...] = ()  # ids of shared prefix blocks, as Mooncake traces name them
    prompt: str = ""  # the user's own text, where it is not made up


class RequestRow(Document, frozen=True, omit_defaults=True):
    """One planned request. Every latency counts from `due_s`, the intended arrival."""

    due_s: float
    sent_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    prompt_tokens: int = 0  # by the server's usage
    output_tokens: int = 0  # by the server's usage
    status: RowStatus = "ok"
    error: str = ""
    phase: Phase = "measured"
    session: int = 0
    turn: int = 0
    cached_tokens: int = 0  # of the prompt, found in a prefix cache, by the server's usage
    queue_s: float | None = None  # from sending to the start of its prefill, where the server says
    itl_s: tuple[float, ...] = ()  # gaps between the chunks that carried tokens

    @property
    def late_s(self) -> float:
        """How late the client sent it."""
        return 0.0 if self.sent_s is None else _span_s(self.due_s, self.sent_s)

    @property
    def ttft_s(self) -> float | None:
        """From the intended arrival to the first token."""
        return None if self.first_token_s is None else _span_s(self.due_s, self.first_token_s)

    @property
    def e2e_s(self) -> float | None:
        """From the intended arrival to the last token."""
        return None if self.last_token_s is None else _span_s(self.due_s, self.last_token_s)

    @property
    def tpot_s(self) -> float | None:
        """Per output token after the first; absent for answers of one token."""
        if self.first_token_s is None or self.last_token_s is None or self.output_tokens < 2:
            return None
        return _span_s(self.first_token_s, self.last_token_s) / (self.output_tokens - 1)


def _span_s(start_s: float, end_s: float) -> float:
    """Whole nanoseconds: equal latencies are equal, whenever they were observed."""
    return round(end_s - start_s, 9)


class HostPrint(Document, frozen=True):
    """The host as this process may use it. "" or null: the host does not say."""

    cpu_model: str
    isa: tuple[str, ...]  # flags that inference kernels choose by
    physical_cores: int  # behind `logical_cpus`
    logical_cpus: int  # this process may run on
    cpuset: str  # "0-3,8"
    quota_cores: float | None  # cgroup CPU quota
    memory_bytes: int  # the host's, or the cgroup's limit where that is lower
    numa_nodes: int
    kernel: str
    governor: str
    smt: str
    thp: str
    load_average_1min: float
    clock_hz: float  # 0 where unknown
    versions: dict[str, str]

    @property
    def identity(self) -> tuple[object, ...]:
        """What has to be alike for two trials to be put together."""
        return (self.cpu_model, self.isa, self.logical_cpus, self.quota_cores, self.memory_bytes,
                self.kernel, self.governor, self.smt, self.thp)  # fmt: skip


class SpooledRow(Document, frozen=True):
    """A request that has ended, as it is kept while its load still runs."""

    index: int  # in the schedule
    row: RequestRow


class ProcessFacts(Document, frozen=True):
    """One process of an engine, from /proc."""

    pid: int
    name: str
    threads: int
    affinity: dict[str, int]  # CPU list -> threads that may run there
    allocator: str  # the one that malloc resolves to


class EngineFacts(Document, frozen=True):
    """What really ran, read from the process, its log and its API. Null: it does not say."""

    version: str = ""
    pid: int = 0
    threads: int | None = None  # that compute one token
    context_tokens: int | None = None  # of one request
    num_parallel: int | None = None
    affinity: tuple[str, ...] = ()  # distinct CPU lists of its threads
    allocator: str = ""
    processes: tuple[ProcessFacts, ...] = ()
    dtype: str = ""
    kv_tokens: int | None = None
    max_concurrency: float | None = None  # requests of full length that the KV cache holds
    block_size_tokens: int | None = None
    log: dict[str, str] = {}  # further lines of the log that say what was done, by topic


class ClientFacts(Document, frozen=True):
    """How far this host's client can be trusted in this trial."""

    loop: str  # uvloop or asyncio
    workers: int  # processes
    cpus: str  # that the client may run on
    shares_cores: bool  # with the engine
    lag_p99_s: float | None  # of its event loop, sampled all through the load; null after a crash
    cpu_s: float | None
    engine_cpu_s: float | None  # null for a server that is not ours to watch
    others_cores: float | None  # CPU that other programs of this host used, in cores


class Quantile(Document, frozen=True):
    """An order statistic with its exact interval; null where it is not finite."""

    value: float | None
    low: float | None  # null: too few values to bound it from below
    high: float | None  # null: too few values, or it lies among failed requests


class Summary(Document, frozen=True):
    """One latency over the judged requests. Failed requests count as infinitely slow."""

    num: int  # failed ones included
    num_failed: int
    mean: float | None  # of the served
    p50: Quantile
    p95: Quantile
    p99: Quantile
    level: float = 0.95  # of every interval


class TrialCost(Document, frozen=True):
    """What tokens cost at the rate that was served. Each divides the whole hourly price."""

    usd_per_hour: float
    price_source: str
    usd_per_mtok_output: float
    usd_per_mtok_input: float
    usd_per_mtok_total: float


# Version history: 1, first.
class Trial(Document, frozen=True, kw_only=True):
    """One load on one engine, judged. Figures in seconds and tokens or requests per second."""

    schema: str = "neoserve/trial/1"
    basis: str = "measured"
    workload: Workload
    slo: Slo
    engine: EngineConfig
    facts: EngineFacts | None  # null for a server that was already running
    host: HostPrint
    client: ClientFacts
    salt: str  # makes the prompts of this trial unlike those of any other
    schedule: str  # digest of the planned requests, JSON lines
    rows: str  # digest of the observed requests, JSON lines, gzip
    faults: tuple[str, ...]  # what was seen to be not as asked: each makes it VOID
    level: float  # chance of a wrong PASS, and of a wrong FAIL
    num_planned: int  # measured requests that were planned; the tests' horizon
    num_judged: int
    num_ok: int
    failures: dict[str, int]  # status -> judged requests
    stop: Stop
    ttft_s: Summary
    tpot_s: Summary
    itl_s: Summary
    e2e_s: Summary
    queue_s: Summary
    late_p99_s: float  # the client's sending, after the intended arrival
    late_max_s: float
    dependence: float  # judged requests that say as much as one independent one, 1 or more
    steady_from_s: float
    steady_until_s: float
    output_tokens_per_s: float | None  # over the steady window; null where there is none
    input_tokens_per_s: float | None
    offered_rps: float | None
    served_rps: float | None
    goodput_rps: float | None  # requests that kept every target of the SLO
    backlog_growth_rps: float | None  # requests in flight gained each second
    saturated: bool  # the backlog grows beyond chance
    load_limited: bool  # served what was offered: its capacity is unknown
    counters: dict[str, float]  # of the server's /metrics, gained while the load ran
    pmu: Counters | None = None  # of the CPU or the kernel, over the steady window
    cost: TrialCost | None
    verdict: Verdict
    reasons: tuple[str, ...]
    notes: tuple[str, ...]  # what a reader has to know beside the figures

    def _repr_html_(self) -> str:
        from .trial_view import trial_html

        return trial_html(self)


class Spread(Document, frozen=True):
    """How far one figure differs between repeats of the same load on the same engine."""

    mean: float
    range_share: float  # largest less smallest, over the mean
    sd_share: float  # sample standard deviation, over the mean


# Version history: 1, first.
class NoiseFloor(Document, frozen=True, kw_only=True):
    """What A/A repeats differ by: a difference below it is none."""

    schema: str = "neoserve/noise-floor/1"
    basis: str = "measured"
    num_trials: int
    spreads: dict[str, Spread]  # by figure; one that a trial lacks is left out
