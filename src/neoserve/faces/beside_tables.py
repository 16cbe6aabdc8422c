"""A comparison for people: one table, what stands apart and why, and one chart."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..schema.comparison import ComparedSide, Comparison, Figure
from ..tune.side_by_side import show_gain
from ..units import show_usd, significant
from .plot import Scale, save
from .tables import table, wrap

HEADER = ("side", "basis", "requests/s", "out tok/s", "Mtok/$", "$/Mtok", "gain", "per $")
_RIGHT = (False, False, True, True, True, True, True, True)
_WIDTH, _ROW, _LEFT, _HEAD = 760, 26, 230, 64
_COLOURS = {"measured": "#2b6cb0", "predicted": "#dd8800", "published": "#666"}


def show_sides(found: Comparison) -> str:
    """The table, what is apart with its reason, sources and notes."""
    blocks = [wrap(terms_line(found), ""), table(HEADER, side_rows(found), _RIGHT)]
    if found.apart:
        blocks.append("\n".join(["Apart, since unlike", *map(wrap, apart_lines(found))]))
    blocks.append("\n".join(["Sources", *map(wrap, source_lines(found))]))
    if found.notes:
        blocks.append("\n".join(["Notes", *map(wrap, found.notes)]))
    return "\n\n".join([*blocks, wrap(found.summary, "")])


def terms_line(found: Comparison) -> str:
    """What all sides share, in a sentence."""
    t = found.terms
    load_word = "Poisson" if t.load == "poisson" else t.load
    load = (f"output with {t.concurrency} requests in flight" if t.load == "closed"
            else f"highest rate of a {load_word} load within {t.slo}" if t.slo
            else f"highest rate of a {load_word} load that is served")  # fmt: skip
    shape = f", {t.shape}" if t.shape else ""
    return (
        f"{t.model}: {load}; requests of {t.prompt_tokens:g} + {t.output_tokens:g} tokens{shape}. "
        f"Gains are over {found.baseline}; money is for output tokens."
    )


def side_rows(found: Comparison) -> list[list[str]]:
    """A row a side, as in the terminal and in the documentation. An interval is shown once."""
    return [
        [side.name, side.basis, show_figure(side, side.rate_rps),
         show_figure(side, side.output_tokens_per_s, is_short=side.rate_rps is not None),
         show_figure(side, _millions(side.output_tokens_per_usd), is_short=True),
         _cost(side),
         *_gains(side, found.baseline)]
        for side in found.sides
    ]  # fmt: skip


def _cost(side: ComparedSide) -> str:
    """A rate of at least so much costs at most so much."""
    if side.usd_per_mtok_output is None:
        return "-"
    words = {"at least": "≤ {}", "unknown": "{} ?"}
    return words.get(side.standing, "{}").format(show_usd(side.usd_per_mtok_output.value))


def _gains(side: ComparedSide, baseline: str) -> tuple[str, str]:
    if side.name == baseline:
        return "baseline", ""
    return show_gain(side.gain), show_gain(side.gain_per_usd).partition(" ")[0]


def _millions(figure: Figure | None) -> Figure | None:
    return None if figure is None else Figure(figure.value / 1e6)


def apart_lines(found: Comparison) -> list[str]:
    """What is apart, with its figure and the reason."""
    return [
        f"{side.name} ({side.basis}), {_figures(side)}: {side.reason}" for side in found.apart
    ]


def show_figure(side: ComparedSide, figure: Figure | None, is_short: bool = False) -> str:
    """``4.01 (4.01 to 10.1)``, ``at least 1.86``; a figure of unknown standing gets a ``?``.

    `is_short`: without its interval.
    """
    if figure is None:
        return "-"
    value = significant(figure.value)
    if side.standing == "at least":
        return f"≥ {value}" if is_short else f"at least {value}"
    if side.standing == "unknown":
        return f"{value} ?"
    if is_short:
        return value
    if figure.low == figure.high:  # exact, or no interval is known
        return value
    low, high = ("?" if v is None else significant(v, 2) for v in (figure.low, figure.high))
    return f"{value} ({low} to {high})"


def _figures(side: ComparedSide) -> str:
    if side.output_tokens_per_s is None:
        return "no figure"
    return f"{show_figure(side, side.output_tokens_per_s)} output tokens/s"


def source_lines(found: Comparison) -> list[str]:
    """Each source once, with the sides that are from it; then each list of prices."""
    sources: dict[str, list[str]] = {}
    prices: dict[str, list[str]] = {}
    for side in (*found.sides, *found.apart):
        missing = side.reason if side.standing == "none" and side in found.sides else ""
        said = ", ".join(part for part in (side.what, missing) if part)
        source = ", ".join(part for part in (side.basis, side.source, side.date) if part)
        sources.setdefault(source, []).append(f"{side.name} ({said})" if said else side.name)
        if side.usd_per_hour is not None:
            told = f"{side.name} ${side.usd_per_hour:g}/h"
            prices.setdefault(side.price_basis or "of the run", []).append(told)
    return [
        *(f"{source}: {'; '.join(sides)}" for source, sides in sources.items()),
        *(f"prices {basis}: {', '.join(sides)}" for basis, sides in prices.items()),
    ]


def write(found: Comparison, path: Path) -> None:
    """FILE.svg. Raises AskError for another kind of file."""
    save(path, svg(found))


def svg(found: Comparison) -> str:
    """Output tokens a second, and a dollar: a bar a side, its interval, an arrow for "at least"."""
    shown = [side for side in (*found.sides, *found.apart) if side.output_tokens_per_s]
    half = _HEAD + _ROW * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {2 * half}" '
        'font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="{escape(str(found.terms.model))} side by side">',
        f'<rect width="{_WIDTH}" height="{2 * half}" fill="#fff"/>',
    ]  # fmt: skip
    for index, (title, name) in enumerate((
        ("output tokens a second", "output_tokens_per_s"),
        ("output tokens a dollar", "output_tokens_per_usd"),
    )):  # fmt: skip
        rows = [(side, getattr(side, name)) for side in shown]
        body = _bars(f"{found.terms.model}: {title}", rows, len(found.sides))
        parts.append(f'<g transform="translate(0 {index * half})">{body}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bars(
    title: str, rows: Sequence[tuple[ComparedSide, Figure | None]], num_alike: int
) -> str:
    values = [v for _, f in rows if f for v in (f.value, f.low, f.high) if v]
    text = f'<text x="16" y="24" font-size="14">{escape(title)}, logarithmic</text>'
    if not values:
        return text + '<text x="16" y="48">no price is known</text>'
    scale = Scale.over(values, _LEFT, _WIDTH - 70)
    legend = "".join(
        f'<text x="{_LEFT + 110 * i}" y="44" fill="{colour}">{basis}</text>'
        for i, (basis, colour) in enumerate(_COLOURS.items())
    )
    lines = [_bar(side, figure, scale, _HEAD + _ROW * i, i >= num_alike)
             for i, (side, figure) in enumerate(rows)]  # fmt: skip
    return text + legend + "".join(lines)


def _bar(
    side: ComparedSide, figure: Figure | None, scale: Scale, y: int, is_apart: bool
) -> str:
    colour = _COLOURS[side.basis]
    name = f"{side.name}{' (unlike)' if is_apart else ''}"
    label = f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
    if figure is None:
        return label + f'<text x="{_LEFT}" y="{y + 4}">no price is known</text>'
    x = scale(figure.value)
    low = scale(figure.low) if figure.low else scale.start
    high = scale(figure.high) if figure.high else x
    shape = f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{"#fff" if is_apart else colour}" ' \
            f'stroke="{colour}"/>'  # fmt: skip
    if side.standing == "at least":
        end = x + 40
        span = f'<path d="M{x:.1f} {y}H{end:.1f}m-6 -4l6 4l-6 4" fill="none" stroke="{colour}"/>'
    else:
        span = f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}"/>'
    told = f"{name}, {side.basis}: {show_figure(side, figure)}"
    return f"{label}<g><title>{escape(told)}</title>{span}{shape}</g>" \
           f'<text x="{x:.1f}" y="{y - 8}" font-size="10" text-anchor="middle">' \
           f"{significant(figure.value)}</text>"  # fmt: skip
