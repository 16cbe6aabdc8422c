"""Rows to figures: quantiles with exact intervals, and rates over the steady window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from ..schema.trial import Quantile, RequestRow, Summary
from ..stats import mean, quantile, quantile_interval

Measure = Callable[[RequestRow], float | None]

_NEVER_S = 1e300  # stands for a failed request's latency; interpolation with inf gives nan
_WARM_UP_SHARE = 0.1  # of the requests, trimmed from the steady window


class Steady(msgspec.Struct, frozen=True):
    """What the engine did while load was on. Rates are null where the window is empty."""

    from_s: float
    until_s: float
    output_tokens_per_s: float | None
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


def judged(rows: Sequence[RequestRow]) -> list[RequestRow]:
    """All that were put to the server; those ended by us say nothing about it."""
    return [row for row in rows if row.status not in ("cancelled", "unsent")]


def latencies_s(rows: Sequence[RequestRow], measure: Measure) -> tuple[list[float], int]:
    """The served requests' latencies, and how many requests failed.

    A served answer of one token has no TPOT and counts in neither.
    """
    served = [measure(row) for row in rows if row.status == "ok"]
    num_failed = sum(row.status != "ok" for row in rows)
    return [value for value in served if value is not None], num_failed


def summarize(rows: Sequence[RequestRow], measure: Measure) -> Summary:
    """One latency over judged rows, failed ones infinitely slow."""
    served, num_failed = latencies_s(rows, measure)
    values = served + [_NEVER_S] * num_failed
    return Summary(
        num=len(values),
        num_failed=num_failed,
        mean=mean(served) if served else None,
        p50=_quantile(values, 0.50),
        p95=_quantile(values, 0.95),
        p99=_quantile(values, 0.99),
    )


def _quantile(values: list[float], p: float) -> Quantile:
    if not values:
        return Quantile(value=None, low=None, high=None)
    low, high = quantile_interval(values, p)
    return Quantile(value=_finite(quantile(values, p)), low=_finite(low), high=_finite(high))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) and abs(value) < _NEVER_S / 1e6 else None


def steady(rows: Sequence[RequestRow]) -> Steady:
    """Rates between the first tenth of the arrivals and the last one: no warm-up, no drain."""
    due_s = sorted(row.due_s for row in rows)
    if not due_s:
        return Steady(0.0, 0.0, None, None, None, load_limited=False)
    from_s, until_s = due_s[int(len(due_s) * _WARM_UP_SHARE)], due_s[-1]
    length_s = until_s - from_s
    if length_s <= 0:
        return Steady(from_s, until_s, None, None, None, load_limited=False)
    tokens = sum(_tokens_within(row, from_s, until_s) for row in rows)
    num_due = sum(from_s < due <= until_s for due in due_s)
    num_done = sum(
        from_s < row.last_token_s <= until_s
        for row in rows
        if row.status == "ok" and row.last_token_s is not None
    )
    return Steady(
        from_s=from_s,
        until_s=until_s,
        output_tokens_per_s=tokens / length_s,
        offered_rps=num_due / length_s,
        served_rps=num_done / length_s,
        load_limited=_keeps_up(rows, num_due, num_done),
    )


def _keeps_up(rows: Sequence[RequestRow], num_due: int, num_done: int) -> bool:
    """No failures, and the number in flight grew by no more than chance would have it.

    Below saturation it wanders around a level; above, it grows with the share of excess load.
    """
    chance = max(min(3, num_due // 3), 0.05 * num_due)  # of a few requests most have to be through
    return all(row.status == "ok" for row in rows) and num_due - num_done <= chance


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
