"""Claims, ClaimFacts, ClaimReport: a published table, what is known beside it, what holds of it."""

from __future__ import annotations

from typing import Literal

from .base import Document

Printed = str | int  # a figure as it was printed: its last digit says how far it was rounded
Tokens = Literal["output", "input", "total"]
Word = Literal[
    "HOLDS",     # the printed figures agree
    "WRONG",     # no values within the printed roundings make it true
    "UNPROVEN",  # it may be true, but what is printed does not show it
]  # fmt: skip


class ClaimedPoint(Document, frozen=True, kw_only=True):
    """One row of a table: what was run, and every figure that is printed of it.

    Rates, prices, costs and counters are roundings; settings (offered rate, lengths, requests,
    volume) are exact.
    """

    name: str
    hardware: str = ""  # as `--on` takes it; "" leaves price list and ceilings out
    num_devices: int | None = None
    model: str = ""
    weight_quant: str = ""
    is_capacity: bool = True  # false: the throughput is said to be the load's, not the machine's
    usd_per_hour: Printed | None = None
    output_tokens_per_s: Printed | None = None
    input_tokens_per_s: Printed | None = None
    total_tokens_per_s: Printed | None = None
    usd_per_mtok: Printed | None = None
    tokens_per_usd: Printed | None = None
    tokens: Tokens | None = None  # which tokens the last two divide by; null: the table is silent
    usd_per_month: Printed | None = None
    tokens_per_month: Printed | None = None
    slo: str = ""  # that it is said to keep: "ttft:p95<3s; tpot:p95<200ms"
    arrival: str = ""  # by which law: poisson, constant, closed ...
    request_rate_rps: Printed | None = None  # offered
    served_rps: Printed | None = None
    concurrency: Printed | None = None
    prompt_tokens: Printed | None = None
    output_tokens: Printed | None = None
    num_requests: Printed | None = None
    percentiles: tuple[str, ...] = ()  # "p99": of how many requests is num_requests
    num_speculative_tokens: int = 0
    prefix_hit_share: Printed | None = None
    kv_cache: str = ""  # "40GiB"
    memory: str = ""  # of the machine; "": the catalog's
    core: str = ""  # "neoverse-v2"; "": the hardware's
    ipc: Printed | None = None
    retiring: Printed | None = None  # shares of the slots: "27.5%" or 0.275
    bad_speculation: Printed | None = None
    frontend_bound: Printed | None = None
    backend_bound: Printed | None = None


class ClaimedComparison(Document, frozen=True, kw_only=True):
    """What is said of one row against another."""

    of: str
    over: str
    quantity: str = "output_tokens_per_s"  # that `ratio` is of
    ratio: Printed | None = None  # "1.94x"
    saved_share: Printed | None = None  # of the cost of a token: "48.5%"
    saved_usd_per_month: Printed | None = None
    tokens_per_month: Printed | None = None


# Version history: 1, first.
class Claims(Document, frozen=True, kw_only=True):
    """A published table, with where it was read."""

    schema: str = "neoserve/claims/1"
    title: str = ""
    source: str = ""
    points: tuple[ClaimedPoint, ...]
    comparisons: tuple[ClaimedComparison, ...] = ()


class Ceiling(Document, frozen=True, kw_only=True):
    """What no server of this model exceeds on this hardware, all devices together."""

    weights_bytes: float
    step_bytes: float  # weights that a step of one request reads
    prompt_token_s: float  # least time of the products of one token
    output_token_s: float
    bandwidth_bytes_per_s: float  # of a slice of a CPU: its fair share
    most_bandwidth_bytes_per_s: float  # of a slice of a CPU: the whole socket's
    fits_cache: bool = False  # weights may come from the last cache, whose bandwidth is not known


class ClaimFacts(Document, frozen=True, kw_only=True):
    """What catalog and planner know of one point; null is not known."""

    ceiling: Ceiling | None = None
    memory_bytes: float | None = None
    usd_per_hour: float | None = None
    price_basis: str = ""
    core: str = ""
    slots: int | None = None  # operations that the core takes in a cycle


class ClaimVerdict(Document, frozen=True, kw_only=True):
    """One claim, and the arithmetic that decides it."""

    subject: str  # the point, or "A over B"
    what: str  # usd_per_mtok, ratio, capacity ...: docs/claims.md
    claimed: str  # as it was printed
    verdict: Word
    arithmetic: str
    reason: str  # a sentence


# Version history: 1, first.
class ClaimReport(Document, frozen=True, kw_only=True):
    """Every claim of a file that can be checked."""

    schema: str = "neoserve/claim-report/1"
    title: str
    source: str
    file: str  # sha256: of the file that was read
    num_holds: int
    num_wrong: int
    num_unproven: int
    verdicts: tuple[ClaimVerdict, ...]
    notes: tuple[str, ...] = ()  # what could not be checked, and why
