"""LedgerEntry, Manifest, Verified: what a run folder holds."""

from __future__ import annotations

from typing import Any

from .base import Document
from .trial import HostPrint


# Version history: 1, first.
class LedgerEntry(Document, frozen=True, kw_only=True):
    """One line of a ledger. `prev` is the SHA-256 of the previous line's bytes."""

    v: int = 1
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
