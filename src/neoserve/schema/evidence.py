"""LedgerEntry, Manifest, Verified: what a run folder holds."""

from __future__ import annotations

from typing import Any

from .base import Document
from .trial import HostPrint


# Version history: 1, first, as Python writes JSON; 2, RFC 8785.
class LedgerEntry(Document, frozen=True, kw_only=True):
    """One line of a ledger. `prev` is the SHA-256 of the previous line's bytes.

    A string ``sha256:`` + 64 hex digits anywhere in `body` names a blob of the run folder.
    """

    v: int = 2
    seq: int  # from 0
    prev: str  # 64 hex digits; zeros for line 0
    kind: str
    at: str  # UTC, ISO 8601
    body: dict[str, Any]


# Version history: 1, first.
class Manifest(Document, frozen=True, kw_only=True):
    """What a run was started with."""

    schema: str = "neoserve/manifest/1"
    campaign: str
    at: str  # UTC, ISO 8601
    argv: tuple[str, ...]
    seed: int
    versions: dict[str, str]
    host: HostPrint | None = None


class Verified(Document, frozen=True, kw_only=True):
    """A run folder that holds together."""

    schema: str = "neoserve/verified/1"
    head: str  # SHA-256 of the ledger's last line
    num_entries: int
    num_blobs: int  # digests mentioned, each found and equal
    num_trials: int
    num_recomputed: int  # trials whose every figure was computed again from the raw rows
    num_unfinished: int  # loads that a crash ended; their rows wait in spool/
