"""The Pareto set as SVG: cost against time per token. No dependency; PNG through matplotlib."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..errors import AskError, Error
from ..schema.prediction import Plan, Prediction
from ..schema.view import per_mtok_output

WIDTH, HEIGHT, MARGIN = 720, 440, 64


def points(result: Plan) -> list[tuple[float, float, str, bool]]:
    """(seconds per token, dollars or device-seconds per million tokens, label, on the front)."""
    return [
        (p.latency.tpot_s.mean, per_mtok_output(p), _label(p), i in result.pareto)
        for i, p in enumerate(result.candidates)
        if p.latency is not None
        and p.latency.tpot_s.mean is not None
        and math.isfinite(per_mtok_output(p))
    ]


def _label(p: Prediction) -> str:
    d = p.deployment
    return f"{d.hardware} TP{d.tensor_parallel} {d.weight_quant} kv {d.kv_cache_dtype}"


def svg(result: Plan) -> str:
    """A self-contained drawing; logarithmic axes, the Pareto set joined."""
    data = points(result)
    if not data:
        return _frame(result, "", "")
    xs, ys = (
        Scale.over([d[0] for d in data], MARGIN, WIDTH - 24),
        Scale.over([d[1] for d in data], HEIGHT - MARGIN, 40),
    )
    dots = "".join(
        f'<circle cx="{xs(x):.1f}" cy="{ys(y):.1f}" r="{5 if front else 3}" '
        f'fill="{"#0b6" if front else "#999"}"><title>{escape(label)}: {x * 1e3:.1f} ms, '
        f"{y:.3g}</title></circle>"
        for x, y, label, front in data
    )
    front = sorted((x, y) for x, y, _, on in data if on)
    names = "".join(_name(xs(x), ys(y), label) for x, y, label, on in data if on)
    line = " ".join(f"{xs(x):.1f},{ys(y):.1f}" for x, y in front)
    joined = f'<polyline points="{line}" fill="none" stroke="#0b6" stroke-width="1.5"/>'
    return _frame(result, joined + dots + names, _ticks(xs, ys))


def _name(x: float, y: float, label: str) -> str:
    """A label below left of its point, where no other can lie, or above right at the edge."""
    anchor, right, down = ("end", -8, 14) if x > 0.3 * WIDTH else ("start", 8, -6)
    return (
        f'<text x="{x + right:.1f}" y="{y + down:.1f}" font-size="10" text-anchor="{anchor}" '
        f'fill="#064">{escape(label)}</text>'
    )


class Scale:
    """A logarithmic axis; a single value stands in its middle."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        pad = 0.06 * (high - low) or 0.5
        self.low, self.high, self.start, self.end = low - pad, high + pad, start, end

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float) -> Scale:
        """From the least to the greatest of positive values."""
        return cls(math.log10(min(values)), math.log10(max(values)), start, end)

    def __call__(self, value: float) -> float:
        """Position in pixels."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten inside the axis."""
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        marks = [m * 10.0**p for p in powers for m in (1, 2, 5)]
        return [m for m in marks if self.low <= math.log10(m) <= self.high]


def _ticks(xs: Scale, ys: Scale) -> str:
    along = "".join(
        f'<text x="{xs(t):.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{t * 1e3:g}</text>'
        f'<line x1="{xs(t):.1f}" x2="{xs(t):.1f}" y1="40" y2="{HEIGHT - MARGIN}" stroke="#eee"/>'
        for t in xs.ticks()
    )
    up = "".join(
        f'<text x="{MARGIN - 8}" y="{ys(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        f'<line x1="{MARGIN}" x2="{WIDTH - 24}" y1="{ys(t):.1f}" y2="{ys(t):.1f}" stroke="#eee"/>'
        for t in ys.ticks()
    )
    return along + up


def _frame(result: Plan, marks: str, ticks: str) -> str:
    priced = any(p.cost is not None for p in result.candidates)
    unit = "dollars" if priced else "device-seconds"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12" role="img" aria-label="Pareto set">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
        f'<text x="{MARGIN}" y="22" font-size="14">{escape(result.model)}: {unit} per million '
        f"output tokens against time per token (predicted)</text>{ticks}"
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 16}" text-anchor="middle">'
        f"milliseconds per output token</text>{marks}</svg>\n"
    )


def write(result: Plan, path: Path) -> None:
    """Write FILE.svg, or FILE.png if matplotlib is there. Raises AskError."""
    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise AskError(f"--plot {path.name}: expected a name that ends in .svg or .png")
    if kind == ".svg":
        save(path, svg(result))
        return
    try:
        _png(result, path)
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}") from None


def save(path: Path, text: str) -> None:
    """A drawing as FILE.svg. Raises AskError for another kind of file, Error."""
    if path.suffix.lower() != ".svg":
        raise AskError(f"--plot {path.name}: expected a name that ends in .svg")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Error(f"{path}: {error.strerror or error}") from None


def _png(result: Plan, path: Path) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise AskError("a PNG needs matplotlib: pip install 'neoserve[plot]', or ask for SVG"
                       ) from None  # fmt: skip
    figure, axes = pyplot.subplots(figsize=(WIDTH / 100, HEIGHT / 100), dpi=150)
    for x, y, _, front in points(result):
        axes.scatter(x * 1e3, y, color="#0b6" if front else "#999", s=30 if front else 12)
    axes.set(xscale="log", yscale="log", xlabel="milliseconds per output token",
             ylabel="per million output tokens", title=result.model)  # fmt: skip
    figure.savefig(path)
    pyplot.close(figure)
