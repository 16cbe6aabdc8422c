"""Watch: what a running server's own metrics say of one span of time."""

from __future__ import annotations

from typing import Literal

from .base import Document

TargetState = Literal["met", "missed", "unknown"]

Drift = Literal[
    "within",    # the SLO is not seen to be missed
    "drift",     # missed at a rate that it was certified, or predicted, to hold
    "overload",  # missed above that rate
    "unknown",   # there is nothing to hold it against, or too little was seen
]  # fmt: skip


class WatchedTarget(Document, frozen=True, kw_only=True):
    """One bound of the SLO. A histogram tells in which bucket a quantile lies, not where in it."""

    target: str
    state: TargetState
    reason: str
    series: str = ""  # that it was read from
    num: int = 0  # requests
    low_s: float | None = None  # bounds of the bucket that holds the quantile; alike for a mean
    high_s: float | None = None  # null: the last bucket has none
    miss_share_low: float | None = None  # requests above the limit for certain
    miss_share_high: float | None = None  # and at most, where the limit lies within a bucket


class Capacity(Document, frozen=True, kw_only=True):
    """What a server of this kind was certified, or predicted, to hold."""

    source: str
    basis: Literal["measured", "predicted"]
    rate_rps: float | None  # null: no rate was certified
    low_rps: float | None = None  # of a prediction's interval
    high_rps: float | None = None
    prompt_tokens: float | None = None  # of a request of that load
    output_tokens: float | None = None


# Version history: 1, first.
class Watch(Document, frozen=True, kw_only=True):
    """One look. Rates cover the window; null where the server does not say."""

    schema: str = "neoserve/watch/1"
    basis: str = "measured"
    url: str
    at: str  # UTC, ISO 8601
    window_s: float
    num_requests: float | None = None  # that ended
    request_rate_rps: float | None = None
    output_tokens_per_s: float | None = None
    input_tokens_per_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage_share: float | None = None
    targets: tuple[WatchedTarget, ...] = ()
    capacity: Capacity | None = None
    load_share: float | None = None  # of the capacity
    drift: Drift = "unknown"
    reason: str = ""
    notes: tuple[str, ...] = ()
