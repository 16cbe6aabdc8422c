"""Bench: what `neoserve bench` found, and where its evidence is."""

from __future__ import annotations

from .base import Document
from .capacity import MaxRate
from .trial import NoiseFloor, Trial, Verdict


class Pooled(Document, frozen=True):
    """Repeats judged as one: their requests are pooled, percentiles are never averaged."""

    num_trials: int
    num_judged: int
    num_misses: int  # of the target nearest its limit
    verdict: Verdict
    reasons: tuple[str, ...]


# Version history: 1, first.
class Bench(Document, frozen=True, kw_only=True):
    """Trials of one engine, in the order in which they ran."""

    schema: str = "neoserve/bench/1"
    trials: tuple[Trial, ...]
    verdict: Verdict  # of the last trial, of all repeats, or of the certified rate
    pooled: Pooled | None = None
    noise: NoiseFloor | None = None
    max_rate: MaxRate | None = None
    run: str  # folder
    head: str  # of its ledger
