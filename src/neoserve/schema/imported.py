"""Imported: what another tool measured, with what it meant by each figure."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Document


class ImportedRow(Document, frozen=True, omit_defaults=True):
    """One request of a file that holds them one by one. Null: the file does not say."""

    sent_s: float | None = None  # from the first one that was sent
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    error: str = ""


# Version history: 1, first.
class Imported(Document, frozen=True, kw_only=True):
    """One load that another tool made. Seconds, tokens and requests per second.

    Figures cover the served requests alone, as every one of these tools has it; a Trial counts
    failed requests as infinitely slow.
    """

    schema: str = "neoserve/imported/1"
    basis: str = "measured"
    tool: str
    tool_version: str = ""  # "": the file does not say
    source: str  # digest of the file
    model: str = ""
    open_loop: bool | None  # requests leave when they are due, whatever the server does
    arrival: str = ""  # poisson, constant, gamma, ramp, trace, closed or at once
    request_rate_rps: float | None = None
    max_concurrency: int | None = None
    num_requests: int | None = None
    num_failed: int | None = None
    duration_s: float | None = None
    warm_up: str  # what was left out of the figures
    cache_state: str = "unknown"  # of the server's prefix cache when the load began
    metrics: dict[str, dict[str, float]]  # ttft_s, tpot_s, itl_s, e2e_s -> mean, p50, p95, ...
    definitions: dict[str, str]  # of each of `metrics`
    recomputed: tuple[str, ...] = ()  # metrics computed from the file's per-request data
    throughput: dict[str, float] = {}  # output_tokens_per_s, served_rps, goodput_rps, ...
    faults: tuple[str, ...] = ()  # what is known to be wrong with such figures
    rows: tuple[ImportedRow, ...] = ()

    def unlike(self, other: Imported) -> Iterator[tuple[str, str]]:
        """Metrics of both that do not mean the same, with their two meanings in words."""
        for metric in sorted(self.definitions.keys() & other.definitions.keys()):
            mine, theirs = self.definitions[metric], other.definitions[metric]
            if mine != theirs:
                yield metric, f"{self.tool} measures it {mine}, {other.tool} {theirs}"
