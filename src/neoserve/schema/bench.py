"""Bench: what `neoserve bench` found, and where its evidence is."""

from __future__ import annotations

from .base import Document
from .trial import Trial


# Version history: 1, first.
class Bench(Document, frozen=True, kw_only=True):
    """Trials of one engine, in the order in which they ran."""

    schema: str = "neoserve/bench/1"
    trials: tuple[Trial, ...]
    run: str  # folder
    head: str  # of its ledger
