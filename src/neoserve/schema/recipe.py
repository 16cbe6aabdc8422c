"""CostCard, Written: what a recipe says of money, and which files it is made of."""

from __future__ import annotations

from .base import Document
from .quality import QualityCheck


class Monthly(Document, frozen=True, kw_only=True):
    """A month of 730 hours."""

    replicas: int
    usd: float
    output_tokens: float  # asked for, or at the certified rate


class Savings(Document, frozen=True):
    """Share of a token's cost that the pick saves over the baseline; null with a reason."""

    share: float | None
    low: float | None
    high: float | None
    level: float  # chance that the truth lies outside
    reason: str = ""


# Version history: 1, first.
class CostCard(Document, frozen=True, kw_only=True):
    """What tokens cost as configured and certified. Null: not known, and `notes` says why."""

    schema: str = "neoserve/cost-card/1"
    basis: str = "measured"
    model: str
    engine: str
    settings: str  # what differs from the engine's defaults
    slo: str
    load: str
    certified_rps: float | None
    output_tokens_per_s: float | None  # at that rate
    usd_per_hour: float | None
    price_source: str
    price_date: str  # "": the source names none
    # Each divides the whole hourly price; they are not to be added up.
    usd_per_mtok_output: float | None
    usd_per_mtok_input: float | None
    usd_per_mtok_total: float | None
    output_tokens_per_usd: float | None
    input_tokens_per_usd: float | None
    total_tokens_per_usd: float | None
    month_at_certified_rate: Monthly | None
    month_at_volume: Monthly | None
    savings: Savings
    quality: QualityCheck | None
    ledger_head: str
    trials: tuple[str, ...]  # digests of the raw rows of the pick's trial and the baseline's
    notes: tuple[str, ...]


# Version history: 1, first; `texts` came later, where one kind is asked for.
class Written(Document, frozen=True, kw_only=True):
    """Files of a recipe."""

    schema: str = "neoserve/recipe/1"
    run: str
    head: str
    files: dict[str, str]  # name -> SHA-256 of its bytes
    left_out: dict[str, str]  # name -> why
    texts: dict[str, str] = {}  # name -> the file, of a kind that was asked for by name
