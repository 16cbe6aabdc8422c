"""RequestRow, HostPrint, Trial: what was observed.

All times are seconds on one monotonic clock, counted from the start of the load.
"""

from __future__ import annotations

from typing import Literal

from .base import Document
from .engine import EngineConfig
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


class RequestRow(Document, frozen=True):
    """One planned request. Every latency counts from `due_s`, the intended arrival."""

    due_s: float
    sent_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    prompt_tokens: int = 0  # by the server's usage
    output_tokens: int = 0  # by the server's usage
    status: RowStatus = "ok"
    error: str = ""

    @property
    def late_s(self) -> float:
        """How late the client sent it."""
        return 0.0 if self.sent_s is None else self.sent_s - self.due_s

    @property
    def ttft_s(self) -> float | None:
        """From the intended arrival to the first token."""
        return None if self.first_token_s is None else self.first_token_s - self.due_s

    @property
    def e2e_s(self) -> float | None:
        """From the intended arrival to the last token."""
        return None if self.last_token_s is None else self.last_token_s - self.due_s

    @property
    def tpot_s(self) -> float | None:
        """Per output token after the first; absent for answers of one token."""
        if self.first_token_s is None or self.last_token_s is None or self.output_tokens < 2:
            return None
        return (self.last_token_s - self.first_token_s) / (self.output_tokens - 1)


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


class EngineFacts(Document, frozen=True):
    """What really ran, read from the process, its log and its API. Null: it does not say."""

    version: str = ""
    pid: int = 0
    threads: int | None = None  # that compute one token
    context_tokens: int | None = None  # of one request
    num_parallel: int | None = None
    affinity: tuple[str, ...] = ()  # distinct CPU lists of its threads
    allocator: str = ""


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
    rows_sha256: str  # of the rows as JSON lines, "sha256:" + hex
    num_rows: int
    num_ok: int
    failures: dict[str, int]  # status -> requests
    ttft_s: Summary
    tpot_s: Summary
    e2e_s: Summary
    steady_from_s: float
    steady_until_s: float
    output_tokens_per_s: float | None  # over the steady window; null where there is none
    offered_rps: float | None
    served_rps: float | None
    client_late_max_s: float
    client_late_p99_s: float
    load_limited: bool  # served what was offered: its capacity is unknown
    verdict: Verdict
    reasons: tuple[str, ...]
