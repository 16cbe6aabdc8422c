"""Latency histograms of servers, and what their buckets allow to be said.

Names as in `metrics`. Server-side latencies count from the request's arrival at the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from .metrics import parse

# Each: the first that is there. vLLM's request_time_per_output_token is a mean of each request, as
# an SLO's TPOT is; the others are single gaps.
NAMES: Mapping[str, tuple[str, ...]] = {
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "tpot": (
        "vllm:request_time_per_output_token_seconds", "vllm:inter_token_latency_seconds",
        "vllm:time_per_output_token_seconds", "sglang:inter_token_latency_seconds",
        "sglang:time_per_output_token_seconds",
    ),
    "e2e": ("vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"),
}  # fmt: skip


class Histogram(NamedTuple):
    """Values counted by buckets. `counts` are cumulative; the last bound is inf."""

    name: str
    bounds_s: tuple[float, ...]
    counts: tuple[float, ...]
    sum_s: float

    @property
    def num(self) -> float:
        """All values."""
        return self.counts[-1] if self.counts else 0.0

    def since(self, before: Histogram) -> Histogram | None:
        """What came after an earlier look; None after a restart, which counts anew."""
        if before.bounds_s != self.bounds_s:
            return None
        counts = tuple(now - was for now, was in zip(self.counts, before.counts, strict=True))
        if any(count < 0 for count in counts):
            return None
        return self._replace(counts=counts, sum_s=self.sum_s - before.sum_s)

    def quantile_bounds_s(self, p: float) -> tuple[float, float]:
        """Of the bucket that holds the p-quantile: it is above the first, at most the second."""
        rank, below = max(1.0, math.ceil(p * self.num)), 0.0
        for bound, count in zip(self.bounds_s, self.counts, strict=True):
            if count >= rank:
                return below, bound
            below = bound
        return below, math.inf

    def misses(self, limit_s: float) -> tuple[float, float]:
        """Fewest and most values above a limit; they differ where it lies within a bucket."""
        pairs = list(zip(self.bounds_s, self.counts, strict=True))
        surely_within = max((count for bound, count in pairs if bound <= limit_s), default=0.0)
        at_most_within = min((count for bound, count in pairs if bound >= limit_s),
                             default=self.num)  # fmt: skip
        return self.num - at_most_within, self.num - surely_within


def histograms(text: str) -> dict[str, Histogram]:
    """By the metric of an SLO; those of all engines and models of the server are summed."""
    wanted = {name: metric for metric, names in NAMES.items() for name in names}
    buckets: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    for series in parse(text):
        name, _, part = series.name.rpartition("_")
        if name not in wanted:
            continue
        if part == "bucket" and "le" in series.labels:
            found = buckets.setdefault(name, {})
            bound = float(series.labels["le"])
            found[bound] = found.get(bound, 0.0) + series.value
        elif part == "sum":
            sums[name] = sums.get(name, 0.0) + series.value
    made = {}
    for metric, names in NAMES.items():
        present = [name for name in names if buckets.get(name)]
        for name in present[:1]:
            bounds, counts = zip(*sorted(buckets[name].items()), strict=True)
            made[metric] = Histogram(name, bounds, counts, sums.get(name, 0.0))
    return made
