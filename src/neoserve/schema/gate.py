"""Gate: what a continuous-integration gate checked, and what it says."""

from __future__ import annotations

from typing import Literal

from .base import Document

GateVerdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

Allowed = Literal[
    "host",         # another machine, kernel or CPU setting
    "engine",       # another engine, version, command line or environment
    "workload",     # other traffic than a mere other seed
    "definitions",  # another tool's meaning of a latency
    "basis",        # a prediction beside a measurement
]  # fmt: skip


class Side(Document, frozen=True, kw_only=True):
    """What was checked, or what it was held against."""

    source: str  # path or URL, as given
    basis: Literal["measured", "predicted"]
    what: str  # tool, model and load in a few words
    host: str = ""  # "": not known
    num_requests: int | None = None  # judged
    usd_per_mtok_output: float | None = None
    head: str = ""  # of its ledger; "" where it has none


class Check(Document, frozen=True, kw_only=True):
    """One thing that has to hold. Shares are of the baseline: 0.2 is 20 % more."""

    name: str  # "ttft:p95<3 s", "usd_per_mtok_output", "ttft:geomean", "failed"
    kind: Literal["slo", "cost", "regression"]
    verdict: GateVerdict
    reason: str  # a sentence
    unit: Literal["s", "usd", "share", ""] = ""
    value: float | None = None
    baseline: float | None = None
    limit: float | None = None  # in `unit`, or of the change
    change: float | None = None
    low: float | None = None  # of the change where there is one, else of the value; null: unbounded
    high: float | None = None
    paired: bool = False  # the same requests were sent to both


# Version history: 1, first.
class Gate(Document, frozen=True, kw_only=True):
    """FAIL if a check fails, else INCONCLUSIVE if one is, else PASS."""

    schema: str = "neoserve/gate/1"
    verdict: GateVerdict
    checks: tuple[Check, ...]
    subject: Side
    baseline: Side | None = None
    tolerance: float  # a certified change beyond it is a regression
    detect: float  # a slowdown that has to be excluded before "no regression" is said
    level: float  # chance of a false alarm by all comparisons together
    allowed: tuple[Allowed, ...] = ()
    notes: tuple[str, ...] = ()
