"""Does the server keep up? Requests in flight while the load is on, and drift of its latency."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from ..schema.trial import RequestRow
from ..stats import autocorrelation_time, mean, quantile, ranks, slope
from ..units import show_duration

# Below these a stable queue wanders: M/M/1 at 70 % gets there in under 1 % of 300-request trials.
_LEAST_GROWTH = 19  # requests
_DIFFUSION_Z = 1.15  # of a queue at exactly its capacity, whose backlog spreads with sqrt(2 n)
_RECENT_SHARE = 0.05  # of the arrivals that say where the backlog is now
_DRIFT_Z = 3.0
_EARLY = 20  # requests that show how long answers take before a queue forms


class Backlog(NamedTuple):
    """Requests in flight over the measured arrivals."""

    growth_rps: float | None  # gained a second, by least squares; null below two arrivals
    is_saturated: bool  # grew by more than a stable queue does


def backlog(rows: Sequence[RequestRow], until_s: float = math.inf) -> Backlog:
    """From all rows of a trial, or from those that a running one has so far (`until_s`: now).

    A row is in flight from its due time to its last token; one that is "ok" without a last token,
    or was cancelled, still is.
    """
    full_s, planned_s = _full_s(rows), sorted(_due_s(rows, until_s))
    due_s = [time_s for time_s in planned_s if time_s >= full_s] or planned_s
    if len(due_s) < 2:
        return Backlog(None, is_saturated=False)
    in_flight = _in_flight(rows, due_s)
    warm_s = [row.due_s for row in rows if row.phase == "warmup" and row.due_s >= full_s]
    before = _in_flight(rows, warm_s)
    start = min(in_flight[0], mean(before or in_flight[:1]))
    recent = in_flight[-max(1, round(_RECENT_SHARE * len(in_flight))) :]
    chance = max(_LEAST_GROWTH, _DIFFUSION_Z * math.sqrt(2 * len(due_s))) * _burstiness(due_s)
    return Backlog(slope(due_s, in_flight), mean(recent) - start > chance)


def _full_s(rows: Sequence[RequestRow]) -> float:
    """When an idle server has filled up: as long after the first arrival as answers take then.

    Until then requests in flight grow at any load.
    """
    first_s = min((row.due_s for row in rows if row.status != "unsent"), default=0.0)
    ended = (row.e2e_s for row in rows if row.status == "ok")
    early_s = list(itertools.islice((e2e_s for e2e_s in ended if e2e_s is not None), _EARLY))
    return first_s + (quantile(early_s, 0.25) if early_s else 0.0)


def _due_s(rows: Sequence[RequestRow], until_s: float) -> list[float]:
    return [
        row.due_s
        for row in rows
        if row.phase == "measured" and row.status != "unsent" and row.due_s <= until_s
    ]


def _in_flight(rows: Sequence[RequestRow], at_s: Sequence[float]) -> list[int]:
    there = [row for row in rows if row.status != "unsent"]
    come_s, gone_s = sorted(row.due_s for row in there), sorted(map(_gone_s, there))
    return [bisect_right(come_s, time_s) - bisect_right(gone_s, time_s) for time_s in at_s]


def _gone_s(row: RequestRow) -> float:
    if row.status == "cancelled":
        return math.inf
    if row.status == "ok":
        return math.inf if row.last_token_s is None else row.last_token_s
    stamps = (row.last_token_s, row.first_token_s, row.sent_s, row.due_s)
    return next(time_s for time_s in stamps if time_s is not None)


def _burstiness(due_s: Sequence[float]) -> float:
    """How much more a queue wanders than under Poisson arrivals, by the variance of counts.

    Heavy-traffic queues scale with (ca² + cs²) / 2 (Kingman 1961); cs is taken as 1.
    """
    gaps = [later - earlier for earlier, later in itertools.pairwise(due_s)]
    centre = mean(gaps)
    if centre <= 0:
        return 1.0
    dispersion = mean([(gap / centre - 1) ** 2 for gap in gaps]) * autocorrelation_time(gaps)
    by_chance = 1 + 3 / math.sqrt(len(gaps))  # one sd of the variance of exponential gaps
    return max(1.0, (1 + dispersion / by_chance) / 2)


def drift(values_s: Sequence[float]) -> str | None:
    """A sentence where the second half of a latency series differs from the first beyond chance.

    Rank sums (Mann and Whitney), with the dependence inside each half minded.
    """
    half = len(values_s) // 2
    first, second = values_s[:half], values_s[half:]
    if half < 10:
        return None
    place = ranks(values_s)
    dependent = max(autocorrelation_time(first), autocorrelation_time(second))
    variance = (len(place) ** 2 - 1) / 12 * (1 / half + 1 / len(second)) * dependent
    z = (mean(place[half:]) - mean(place[:half])) / math.sqrt(variance)
    if abs(z) < _DRIFT_Z:
        return None
    before, after = show_duration(quantile(first, 0.5)), show_duration(quantile(second, 0.5))
    return f"not steady: the median went from {before} in the first half to {after} in the second"
