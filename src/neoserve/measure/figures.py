"""From rows to a trial: every figure that can be computed again from what was kept. Pure."""

from __future__ import annotations

import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..errors import AskError, EvidenceBroken
from ..schema.engine import EngineConfig
from ..schema.trial import ClientFacts, EngineFacts, HostPrint, PlannedRequest, RequestRow, Stop
from ..schema.trial import Summary, Trial
from ..schema.workload import Slo, Workload
from ..stats import mean, quantile
from ..units import show_duration
from .arrivals import check_sent
from .schedule import Schedule, parse, to_jsonl
from .summary import (
    backlog, cost_at, drift_note, e2e_s, goodput_rps, itl_s, queue_s, steady, summarize, tpot_s,
    ttft_s,
)  # fmt: skip
from .verdict import judge

_LATE_SHARE = 0.02  # of the TTFT limit; a later client bends what it measures
_LATE_FLOOR_S = 0.005  # timers and the scheduler alone cost this on a busy host
_LENGTH_TOLERANCE = 0.02
_CACHED_TOLERANCE = 0.05  # of prompt tokens, beyond the share that was asked


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What of a trial was observed as it is; the rest follows from rows and schedule."""

    workload: Workload
    slo: Slo
    engine: EngineConfig
    facts: EngineFacts | None
    host: HostPrint
    client: ClientFacts
    salt: str
    num_planned: int
    stop: Stop
    counters: dict[str, float]
    faults: tuple[str, ...]
    usd_per_hour: float | None
    price_source: str
    notes: tuple[str, ...]  # that are no figures


class Observed(NamedTuple):
    """A trial, and the rows and the schedule that it was computed from."""

    trial: Trial
    rows: list[RequestRow]
    schedule: Schedule


def digest(data: bytes) -> str:
    """The name of a blob: ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pack_rows(rows: Sequence[RequestRow]) -> bytes:
    """The raw rows as they are kept: JSON lines, gzip, the same bytes for the same rows."""
    return gzip.compress(msgspec.json.Encoder().encode_lines(rows), mtime=0)


def unpack_rows(data: bytes) -> list[RequestRow]:
    """Back from `pack_rows`. Raises EvidenceBroken."""
    try:
        return msgspec.json.Decoder(RequestRow).decode_lines(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceBroken(f"the rows cannot be read: {error}") from None
