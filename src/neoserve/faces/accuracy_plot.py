"""Predicted against measured as SVG: one square a metric, logarithmic, with the interval's band."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from ..schema.spread import Spread
from .latency import Answer
from .plot import Scale

SIDE, GAP, HEAD = 330, 74, 58  # pixels: a square, between two, above
CELL = 12  # cells a decade: rows in one cell are one dot
COLOURS = {"dense": "#0b6", "moe": "#b50", "hybrid": "#36c"}
OTHER = "#777"


class Panel(NamedTuple):
    """One square: its title and unit, the metrics in it, what a value is multiplied by."""

    title: str
    unit: str
    flags: tuple[str, ...]
    factor: float = 1e3


PANELS = (
    Panel("TPOT, one user", "ms", ("single_tpot",)),
    Panel("TPOT, batched", "ms", ("batched_tpot",)),
    Panel("TTFT", "ms", ("ttft",)),
    Panel("rate at a stated concurrency", "tokens/s", ("throughput",), 1.0),
)


def accuracy_svg(found: Sequence[Answer], spread: Spread, title: str) -> str:
    """The squares, two a line. The dashed band is the metric's mean interval for a new bench."""
    width, rows = 2 * (SIDE + GAP) + 20, (len(PANELS) + 1) // 2
    height = HEAD + rows * (SIDE + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11" role="img" aria-label="{escape(title)}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{GAP}" y="22" font-size="14">{escape(title)}</text>',
        *_legend(),
    ]
    for index, panel in enumerate(PANELS):
        x, y = GAP + index % 2 * (SIDE + GAP), HEAD + index // 2 * (SIDE + GAP)
        answers = [a for a in found if a.flag in panel.flags and a.predicted is not None]
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, answers, spread)}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    marks = [*COLOURS.items(), ("other", OTHER)]
    return [
        f'<circle cx="{GAP + 5 + 90 * i}" cy="38" r="4" fill="{colour}"/>'
        f'<text x="{GAP + 14 + 90 * i}" y="42">{name}</text>'
        for i, (name, colour) in enumerate(marks)
    ]


def _panel(panel: Panel, found: Sequence[Answer], spread: Spread) -> str:
    title = f'<text y="-6" font-size="12">{escape(panel.title)}, {panel.unit}</text>'
    frame = f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>'
    values = [v * panel.factor for a in found for v in (a.observed, a.predicted or 0.0)]
    if not values:
        return title + frame
    low, high = math.log10(min(values)), math.log10(max(values))
    xs, ys = Scale(low, high, 0.0, SIDE), Scale(low, high, SIDE, 0.0)
    body = _ticks(xs, ys) + _line(xs, ys, 1.0, "#444", "")
    metric = spread.metrics.get(panel.flags[0])
    for end in metric.quantiles["0.9"] if metric else ():
        # measured = predicted x factor: the line is drawn at predicted = measured / factor
        body += _line(xs, ys, math.exp(-end), "#444", ' stroke-dasharray="4 3"')
    return title + body + _dots(panel, found, xs, ys) + frame + _axes()


def _axes() -> str:
    return (
        f'<text x="{SIDE / 2}" y="{SIDE + 32}" text-anchor="middle">measured</text>'
        f'<text transform="translate(-46 {SIDE / 2}) rotate(-90)" text-anchor="middle">'
        "predicted</text>"
    )


def _dots(panel: Panel, found: Sequence[Answer], xs: Scale, ys: Scale) -> str:
    cells: Counter[tuple[int, int, str]] = Counter()
    for a in found:
        at = [round(CELL * math.log10(v * panel.factor)) for v in (a.observed, a.predicted or 1.0)]
        cells[at[0], at[1], COLOURS.get(a.case.arch, OTHER)] += 1
    return "".join(
        f'<circle cx="{xs(10 ** (x / CELL)):.0f}" cy="{ys(10 ** (y / CELL)):.0f}" '
        f'r="{min(7.0, 1.2 + 0.5 * math.sqrt(count)):.1f}" fill="{colour}" fill-opacity=".45"/>'
        for (x, y, colour), count in sorted(cells.items())
    )


def _line(xs: Scale, ys: Scale, factor: float, colour: str, style: str) -> str:
    """predicted = factor x measured, inside the square."""
    low = max(xs.low, xs.low - math.log10(factor))
    high = min(xs.high, xs.high - math.log10(factor))
    if low >= high:
        return ""
    ends = [(xs(10**at), ys(10**at * factor)) for at in (low, high)]
    (x1, y1), (x2, y2) = ends
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{style}/>'
    )


def _ticks(xs: Scale, ys: Scale) -> str:
    marks = [t for t in xs.ticks() if math.log10(t) % 1 == 0]
    return "".join(
        f'<text x="{xs(t):.0f}" y="{SIDE + 15}" text-anchor="middle">{t:g}</text>'
        f'<text x="-6" y="{ys(t) + 4:.0f}" text-anchor="end">{t:g}</text>'
        f'<path d="M{xs(t):.0f} 0V{SIDE}M0 {ys(t):.0f}H{SIDE}" stroke="#eee"/>'
        for t in marks
    )
