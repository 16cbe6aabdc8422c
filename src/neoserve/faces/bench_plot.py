"""A trial as SVG: how latencies are distributed, and how they went over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..measure.figures import Observed
from ..schema.trial import RequestRow
from ..units import show_duration
from .plot import save

WIDTH, PANEL, LEFT, RIGHT = 760, 190, 64, 24
_BINS = 40
_TOP = 56  # title, and the first panel's own
_INK, _BAR, _DOT, _BAD, _LINE = "#222", "#8bb8e8", "#2b6cb0", "#c53030", "#dd8800"


def write(observed: Observed, path: Path) -> None:
    """Write FILE.svg. Raises AskError for another kind of file."""
    save(path, svg(observed))


def svg(observed: Observed) -> str:
    """Histograms of TTFT and TPOT, then TTFT and requests in flight over the load."""
    rows = [row for row in observed.rows if row.phase == "measured" and row.status == "ok"]
    limits = {t.metric: t.limit for t in observed.trial.slo.targets if t.metric != "quality"}
    ttft_s = [row.ttft_s for row in rows if row.ttft_s is not None]
    tpot_s = [row.tpot_s for row in rows if row.tpot_s is not None]
    panels = [
        _histogram("TTFT", ttft_s, limits.get("ttft")),
        _histogram("TPOT", tpot_s, limits.get("tpot")),
        _timeline(observed.rows, limits.get("ttft")),
    ]
    height = _TOP + len(panels) * (PANEL + 40)
    trial = observed.trial
    served = f"{trial.num_ok} of {trial.num_judged} requests served"
    title = escape(f"{trial.engine.engine}: {served}, {trial.verdict}")
    body = "".join(
        f'<g transform="translate(0 {_TOP + i * (PANEL + 40)})">{panel}</g>'
        for i, panel in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="{title}">'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{LEFT}" y="24" font-size="14">{title}</text>{body}</svg>\n'
    )


def _histogram(name: str, values: Sequence[float], limit: float | None) -> str:
    if not values:
        return f'<text x="{LEFT}" y="20" fill="{_INK}">{name}: no value</text>'
    marks = [*values, *([limit] if limit else [])]
    low, high = min(marks), max(marks)
    step = (high - low) / _BINS or max(high, 1e-6) / _BINS
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int((value - low) / step))] += 1
    top = max(counts)
    bars = "".join(
        f'<rect x="{_x(i / _BINS):.1f}" y="{_y(n / top):.1f}" width="{_span() / _BINS - 1:.1f}" '
        f'height="{_y(0) - _y(n / top):.1f}" fill="{_BAR}"><title>{n} requests from '
        f"{show_duration(low + i * step)}</title></rect>"
        for i, n in enumerate(counts)
        if n
    )
    along = _marks(low, low + _BINS * step)
    return _axes(f"{name}, requests", [(0, "0"), (1, str(top))], along) + bars + _limit(
        limit, low, low + _BINS * step
    )


def _timeline(rows: Sequence[RequestRow], limit: float | None) -> str:
    sent = [row for row in rows if row.sent_s is not None]
    ends = [row.last_token_s or row.due_s for row in sent]
    if not sent:
        return f'<text x="{LEFT}" y="20">nothing was sent</text>'
    until_s = max(*ends, 1e-3)
    top_s = max([row.ttft_s or 0.0 for row in sent] + [limit or 0.0]) or 1.0
    dots = "".join(
        f'<circle cx="{_x(row.due_s / until_s):.1f}" cy="{_y((row.ttft_s or top_s) / top_s):.1f}" '
        f'r="2.2" fill="{_DOT if row.status == "ok" else _BAD}" '
        f'opacity="{1 if row.phase == "measured" else 0.3}"/>'
        for row in sent
    )
    events = sorted(
        [(row.due_s, 1) for row in sent] + [(row.last_token_s or until_s, -1) for row in sent]
    )
    level, line, peak = 0, [], 1
    for at_s, change in events:
        line.append((at_s, level))
        level += change
        peak = max(peak, level)
        line.append((at_s, level))
    points = " ".join(f"{_x(at / until_s):.1f},{_y(n / peak):.1f}" for at, n in line)
    flight = f'<polyline points="{points}" fill="none" stroke="{_LINE}" opacity="0.7"/>'
    legend = (
        f'<text x="{WIDTH - RIGHT}" y="-4" text-anchor="end" fill="{_LINE}">'
        f"requests in flight, at most {peak}</text>"
    )
    ticks = [(f, show_duration(f * top_s)) for f in (0.0, 0.5, 1.0)]
    rule = "" if not limit else (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(limit / top_s):.1f}" '
        f'y2="{_y(limit / top_s):.1f}" stroke="{_BAD}" stroke-dasharray="4 3"/>')  # fmt: skip
    axes = _axes("TTFT of each request by its intended arrival", ticks, _marks(0.0, until_s))
    return axes + flight + dots + rule + legend


def _axes(title: str, ticks: list[tuple[float, str]], marks: list[tuple[float, str]]) -> str:
    frame = (
        f'<text x="{LEFT}" y="-4" fill="{_INK}">{escape(title)}</text>'
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(0)}" y2="{_y(0)}" stroke="{_INK}"/>'
    )
    left = "".join(
        f'<text x="{LEFT - 6}" y="{_y(f) + 4:.1f}" text-anchor="end">{escape(text)}</text>'
        for f, text in ticks
    )
    below = "".join(
        f'<text x="{_x(f):.1f}" y="{PANEL - 6}" text-anchor="middle">{escape(text)}</text>'
        for f, text in marks
    )
    return frame + left + below


def _limit(limit: float | None, low: float, high: float) -> str:
    if not limit or not low <= limit <= high:
        return ""
    x = _x((limit - low) / (high - low))
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(1)}" y2="{_y(0)}" stroke="{_BAD}" '
        f'stroke-dasharray="4 3"/><text x="{x - 4:.1f}" y="{_y(1) + 10}" text-anchor="end" '
        f'fill="{_BAD}">limit {show_duration(limit)}</text>'
    )


def _marks(low: float, high: float) -> list[tuple[float, str]]:
    """Round values along an axis of seconds, as (share of the axis, text)."""
    unit = 60 if high > 120 else 1  # as they are printed
    step = unit * 10 ** math.floor(math.log10((high - low) / unit / 2 or 1e-6))
    step *= next(m for m in (1, 2, 5, 10) if (high - low) / (step * m) <= 8)
    first = math.ceil(low / step)
    values = [k * step for k in range(first, math.floor(high / step) + 1)]
    return [((v - low) / (high - low), show_duration(v)) for v in values]


def _span() -> float:
    return WIDTH - LEFT - RIGHT


def _x(share: float) -> float:
    return LEFT + share * _span()


def _y(share: float) -> float:
    return (PANEL - 24) * (1 - share) + 4
