"""Comparison: runs, imported loads, predictions and published rows side by side, like with like."""

from __future__ import annotations

from typing import Literal

from .answers import Basis
from .base import Document
from .campaign import Gain

Standing = Literal[
    "capacity",  # what the server can do under these terms
    "at least",  # the load set it: the server can do this or more
    "unknown",   # the source does not show which of both it is
    "none",      # nothing keeps these terms, or nothing is known; `reason` says which
]  # fmt: skip


class Terms(Document, frozen=True, kw_only=True):
    """What a figure was got under. Null: the source does not say."""

    model: str | None
    load: str | None  # poisson, closed, constant ...
    concurrency: int | None = None  # of a closed load
    prompt_tokens: float | None  # of a request, on average
    output_tokens: float | None
    shape: str | None = ""  # what else its requests have; "": nothing
    slo: str | None = ""  # times alone; "": none, the rate is the highest that is served at all
    definitions: dict[str, str] = {}  # ttft, tpot, e2e -> what they mean where they are limited


class Figure(Document, frozen=True):
    """A value with its interval; null: not bounded, or none is known."""

    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None  # null: the roundings of what is printed


class ComparedSide(Document, frozen=True, kw_only=True):
    """One column: what it is, under which terms, how fast and how dear, and whose word it is."""

    name: str
    basis: Basis
    source: str  # of its figures
    date: str = ""  # YYYY-MM-DD; "": the source has none
    what: str = ""  # machine, engine and settings in a few words
    head: str = ""  # of a run's ledger
    terms: Terms
    standing: Standing = "none"
    rate_rps: Figure | None = None  # requests a second within the SLO; null of a closed load
    output_tokens_per_s: Figure | None = None
    usd_per_hour: float | None = None
    price_basis: str = ""
    usd_per_mtok_output: Figure | None = None
    output_tokens_per_usd: Figure | None = None
    gain: Gain | None = None  # in output tokens a second, over the baseline's
    gain_per_usd: Gain | None = None  # the same for the same money
    gain_basis: str = ""  # how its interval was got
    reason: str = ""  # why it stands apart, or has no figure


# Version history: 1, first.
class Comparison(Document, frozen=True, kw_only=True):
    """Sides of the same terms, and apart those that cannot be held against them."""

    schema: str = "neoserve/comparison/1"
    terms: Terms
    baseline: str  # name of the side that gains are over
    sides: tuple[ComparedSide, ...]
    apart: tuple[ComparedSide, ...]  # each with its reason
    notes: tuple[str, ...] = ()
    summary: str
