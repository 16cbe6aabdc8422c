"""MaxRate: the highest rate that a server was proven to hold, and the lowest that it was not."""

from __future__ import annotations

from .base import Document
from .trial import Verdict


class Probe(Document, frozen=True):
    """One load at one rate, as the search saw it."""

    rate_rps: float
    seed: int
    verdict: Verdict
    saturated: bool
    num_misses: int  # of the target that is nearest to its limit, or furthest beyond
    num: int  # requests judged
    share: float  # of them that may miss; 0 where no target bounds a share
    dependence: float  # requests that are worth one independent one
    certifies: bool = False  # made on fresh requests, to prove what the search had found


# Version history: 1, first.
class MaxRate(Document, frozen=True, kw_only=True):
    """A bracket of the highest rate within the SLO. Null: no such rate was found."""

    schema: str = "neoserve/max-rate/1"
    basis: str = "measured"
    certified_rps: float | None  # proven by a load of its own, after the search
    not_met_rps: float | None  # the lowest rate that was disproven or saturated
    tolerance: float  # asked for, as a share of the rate
    level: float  # chance that the certified rate does not keep the SLO
    probes: tuple[Probe, ...]
    notes: tuple[str, ...]
