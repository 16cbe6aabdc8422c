"""Rows to figures: quantiles with intervals that mind dependence, and rates while load was on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import msgspec

from ..schema.trial import Quantile, RequestRow, Summary, TrialCost
from ..schema.workload import Slo, Target
from ..stats import (
    autocorrelation_time,
    block_bootstrap_interval,
    dependence,
    mean,
    quantile,
    quantile_interval,
)
from ..stats.change import few_blocks_factor
from .backlog import backlog

Measure = Callable[[RequestRow], float | None]

_NEVER_S = 1e300  # stands for a failed request's latency; interpolation with inf gives nan
_Z = 1.96  # two-sided 95 %
_SLICES = 30  # of the window, whose rates are compared with each other
_MIN_CLUSTERS = 10  # requests, below which the spread between them is not known


class Steady(msgspec.Struct, frozen=True):
    """What the engine did while the measured requests arrived. Null where there is no window."""

    from_s: float
    until_s: float
    output_tokens_per_s: float | None
    input_tokens_per_s: float | None
    offered_rps: float | None
    served_rps: float | None
    load_limited: bool


def ttft_s(row: RequestRow) -> float | None:
    """From the intended arrival to the first token."""
    return row.ttft_s


def tpot_s(row: RequestRow) -> float | None:
    """Per output token after the first."""
    return row.tpot_s


def e2e_s(row: RequestRow) -> float | None:
    """From the intended arrival to the last token."""
    return row.e2e_s


def queue_s(row: RequestRow) -> float | None:
    """From sending to the start of its prefill, where the server says."""
    return row.queue_s


MEASURES: dict[str, Measure] = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}  # by SLO metric


def measured(rows: Sequence[RequestRow]) -> list[RequestRow]:
    """The rows that a trial is judged by, in due order; no warm-up, no drain.

    Unsent ones are last: in a closed load they are due when an answer before them ends.
    """
    ours = (row for row in rows if row.phase == "measured")
    return sorted(ours, key=lambda row: (row.status == "unsent", row.due_s))


def judged(rows: Sequence[RequestRow]) -> list[RequestRow]:
    """Measured rows that were put to the server; those ended by us say nothing about it."""
    return [row for row in measured(rows) if row.status not in ("cancelled", "unsent")]


def latencies_s(rows: Sequence[RequestRow], measure: Measure) -> tuple[list[float], int]:
    """The served requests' latencies, and how many requests failed.

    A served answer of one token has no TPOT and counts in neither.
    """
    served = [measure(row) for row in rows if row.status == "ok"]
    num_failed = sum(row.status != "ok" for row in rows)
    return [value for value in served if value is not None], num_failed


def summarize(rows: Sequence[RequestRow], measure: Measure) -> Summary:
    """One latency over judged rows in due order, failed ones infinitely slow.

    Intervals are those of as many independent requests as these are worth.
    """
    values = series_s(rows, measure)
    served, num_failed = latencies_s(rows, measure)
    num_independent = len(values) / dependence(values)
    return Summary(
        num=len(values),
        num_failed=num_failed,
        mean=mean(served) if served else None,
        p50=_quantile(values, 0.50, num_independent),
        p95=_quantile(values, 0.95, num_independent),
        p99=_quantile(values, 0.99, num_independent),
    )


def series_s(rows: Sequence[RequestRow], measure: Measure) -> list[float]:
    """The latencies in the order of the rows; 1e300 for failed ones."""
    values = [measure(row) if row.status == "ok" else _NEVER_S for row in rows]
    return [value for value in values if value is not None]


def summarize_queue(rows: Sequence[RequestRow]) -> Summary:
    """Time in the server's queue, of the requests for which it is known."""
    return summarize([row for row in rows if row.queue_s is not None], queue_s)


def summarize_itl(rows: Sequence[RequestRow]) -> Summary:
    """All gaps between tokens of all served answers.

    Gaps of one answer are alike, so the intervals rest on the spread between answers
    (Woodruff 1952 with a clustered variance), widened by their dependence. Failed requests have
    no gaps to count.
    """
    clusters = [sorted(row.itl_s) for row in rows if row.status == "ok" and row.itl_s]
    gaps = sorted(gap for cluster in clusters for gap in cluster)
    return Summary(
        num=len(gaps),
        num_failed=sum(row.status != "ok" for row in rows),
        mean=mean(gaps) if gaps else None,
        p50=_clustered_quantile(clusters, gaps, 0.50),
        p95=_clustered_quantile(clusters, gaps, 0.95),
        p99=_clustered_quantile(clusters, gaps, 0.99),
    )


def _clustered_quantile(
    clusters: Sequence[Sequence[float]], gaps: Sequence[float], p: float
) -> Quantile:
    if not gaps:
        return Quantile(value=None, low=None, high=None)
    value, num = quantile(gaps, p), len(clusters)
    if num < _MIN_CLUSTERS:
        return Quantile(value=value, low=None, high=None)
    excess = [sum(gap <= value for gap in cluster) - p * len(cluster) for cluster in clusters]
    variance = math.fsum(e * e for e in excess) * num / (num - 1) / len(gaps) ** 2
    margin = _Z * math.sqrt(variance * autocorrelation_time(excess))
    return Quantile(
        value=value,
        low=quantile(gaps, p - margin) if p > margin else None,
        high=quantile(gaps, p + margin) if p + margin < 1 else None,
    )


def _quantile(values: list[float], p: float, num_independent: float) -> Quantile:
    if not values:
        return Quantile(value=None, low=None, high=None)
    low, high = quantile_interval(values, p, num_independent=num_independent)
    return Quantile(value=_finite(quantile(values, p)), low=_finite(low), high=_finite(high))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and abs(value) < _NEVER_S / 1e6 else None


def steady(rows: Sequence[RequestRow]) -> Steady:
    """Rates between the first and the last measured arrival, by requests of every phase."""
    due_s = [row.due_s for row in measured(rows) if row.status != "unsent"]
    from_s, until_s = (due_s[0], due_s[-1]) if due_s else (0.0, 0.0)
    length_s = until_s - from_s
    if length_s <= 0:
        return Steady(from_s, until_s, None, None, None, None, load_limited=False)
    num_due = sum(from_s < row.due_s <= until_s for row in rows)
    num_done = sum(
        row.status == "ok" and _within(row.last_token_s, from_s, until_s) for row in rows
    )
    prompts = (row for row in rows if _within(row.first_token_s, from_s, until_s))
    return Steady(
        from_s=from_s,
        until_s=until_s,
        output_tokens_per_s=sum(_tokens_within(row, from_s, until_s) for row in rows) / length_s,
        input_tokens_per_s=sum(row.prompt_tokens for row in prompts) / length_s,
        offered_rps=num_due / length_s,
        served_rps=num_done / length_s,
        load_limited=_keeps_up(rows, num_due, num_done, length_s),
    )


def output_rate_interval(
    rows: Sequence[RequestRow], window: Steady, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Of the output tokens a second: slices of the window are drawn again, in blocks."""
    length_s = (window.until_s - window.from_s) / _SLICES
    if length_s <= 0:
        return None
    edges = [window.from_s + i * length_s for i in range(_SLICES + 1)]
    rates = [sum(_tokens_within(row, a, b) for row in rows) / length_s for a, b in pairwise(edges)]
    low, high = block_bootstrap_interval(rates, mean, confidence=confidence)
    centre, wider = mean(rates), few_blocks_factor((1 - confidence) / 2, _SLICES - 1)
    return centre - wider * (centre - low), centre + wider * (high - centre)


def goodput_rps(rows: Sequence[RequestRow], slo: Slo, window: Steady) -> float | None:
    """Measured requests a second that kept every latency bound; null without a window or an SLO."""
    targets = [target for target in slo.targets if target.metric in MEASURES]
    length_s = window.until_s - window.from_s
    if length_s <= 0 or not targets:
        return None
    due = [row for row in judged(rows) if window.from_s < row.due_s <= window.until_s]
    return sum(keeps(row, targets) for row in due) / length_s


def keeps(row: RequestRow, targets: Sequence[Target]) -> bool:
    """Did this request keep each bound? What an answer of one token has no value for, it keeps."""
    values = [(MEASURES[target.metric](row), target.limit) for target in targets]
    return row.status == "ok" and all(value is None or value < limit for value, limit in values)


def cost_at(
    usd_per_hour: float,
    price_source: str,
    output_tokens_per_s: float | None,
    input_tokens_per_s: float | None,
) -> TrialCost | None:
    """USD per million tokens, each dividing the whole price; null where no tokens were served."""
    if not output_tokens_per_s or not input_tokens_per_s:
        return None

    def usd_per_mtok(tokens_per_s: float) -> float:
        return usd_per_hour / 3600 / tokens_per_s * 1e6

    return TrialCost(
        usd_per_hour=usd_per_hour,
        price_source=price_source,
        usd_per_mtok_output=usd_per_mtok(output_tokens_per_s),
        usd_per_mtok_input=usd_per_mtok(input_tokens_per_s),
        usd_per_mtok_total=usd_per_mtok(output_tokens_per_s + input_tokens_per_s),
    )


def _within(time_s: float | None, from_s: float, until_s: float) -> bool:
    return time_s is not None and from_s < time_s <= until_s


def _keeps_up(
    rows: Sequence[RequestRow], num_due: int, num_done: int, length_s: float
) -> bool:
    """No failures, and the number in flight grew by no more than chance would have it.

    Below saturation it wanders around a level; above, it grows with the share of excess load.
    """
    # Those in flight at either end are Poisson: their difference has twice the variance.
    e2e_values_s = [row.e2e_s for row in rows if row.status == "ok" and row.e2e_s is not None]
    in_flight = num_done / length_s * mean(e2e_values_s) if e2e_values_s else 0.0
    wander = min(num_due / 3, 2.5 * math.sqrt(2 * in_flight))
    # of a few requests most have to be through
    chance = max(min(3, num_due // 3), 0.05 * num_due, wander)
    all_ok = all(row.status == "ok" for row in measured(rows))
    return all_ok and num_due - num_done <= chance and not backlog(rows).is_saturated


def _tokens_within(row: RequestRow, from_s: float, until_s: float) -> float:
    """Output tokens in a window; those after the first are taken as evenly spaced."""
    if row.first_token_s is None or row.last_token_s is None:
        return 0.0
    first, last = row.first_token_s, row.last_token_s
    tokens = float(from_s < first <= until_s and row.output_tokens > 0)
    if last > first:
        overlap_s = max(0.0, min(last, until_s) - max(first, from_s))
        tokens += (row.output_tokens - 1) * overlap_s / (last - first)
    return tokens
