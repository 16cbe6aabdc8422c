"""Text for people: plain tables that fit 100 columns, numbers with their units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..predict.intervals import LEVEL
from ..schema.prediction import Plan, Prediction
from ..schema.view import devices, plan_header, plan_right, plan_rows, sections
from ..units import show_duration, show_usd, significant

WIDTH = 100


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns as wide as their content; `right` says which are numbers. Where that is too wide,
    the widest columns of words are folded."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if _line(widths) > WIDTH:  # titles of numbers fold at their blanks first
        words = [max(map(len, title.split()), default=0) for title in header]
        data = [max((len(row[i]) for row in rows), default=0) for i in range(len(header))]
        widths = [max(word, cell) if is_right else width for word, cell, width, is_right
                  in zip(words, data, widths, right, strict=True)]  # fmt: skip
        widths = _fitted(widths, right)
    head, *body = [_folded(row, widths, right) for row in cells]
    rule = "-" * max(len(line) for lines in (head, *body) for line in lines)
    return "\n".join([*head, rule, *(line for lines in body for line in lines)])


def _line(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _fitted(widths: list[int], right: Sequence[bool]) -> list[int]:
    """The widths, narrowed until a line fits; numbers are left as they are while words give."""
    while _line(widths) > WIDTH:
        words = [i for i, is_right in enumerate(right) if not is_right and widths[i] > 8]
        widest = max(words or range(len(widths)), key=lambda i: widths[i])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def _folded(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """The lines of one row."""
    columns = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, right, strict=True)
        ).rstrip()
        for cells in itertools.zip_longest(*columns, fillvalue="")
    ]


def _fold(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    import textwrap

    return textwrap.wrap(text, width) or [""]


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A titled list of name and value; long values go on below themselves."""
    width = max((len(name) for name, _ in rows), default=0)
    lines = [title]
    for name, value in rows:
        first, *more = _fold(value, max(20, WIDTH - width - 4))
        lines.append(f"  {name.ljust(width)}  {first}".rstrip())
        lines += [" " * (width + 4) + line for line in more]
    return "\n".join(lines)


def shell(command: str) -> str:
    """A command line to copy, continued over lines by backslashes."""
    if len(command) <= WIDTH - 2:
        return "  " + command
    import shlex

    parts: list[str] = []  # a flag stays with its value
    after_flag = False
    for word in map(shlex.quote, shlex.split(command)):
        is_flag = word.startswith("-")
        if after_flag and not is_flag:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
        after_flag = is_flag
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) > WIDTH - 9:
            lines.append(part)
        else:
            lines[-1] += f" {part}"
    return "  " + " \\\n      ".join(lines)


def wrap(text: str, indent: str = "  ") -> str:
    """A paragraph within the width."""
    import textwrap

    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def show_prediction(p: Prediction) -> str:
    """One configuration, section by section."""
    d = p.deployment
    engine = f"{d.engine} {d.engine_version}".strip()
    blocks = [wrap(f"{p.model} on {devices(p)} with {engine}", "")]
    if not p.starts:
        blocks.append(wrap(f"Would not start: {p.refusal}.", ""))
    blocks += [pairs(title, rows) for title, rows in sections(p)]
    if p.advice:
        blocks.append("\n".join(["What helps", *(wrap(a) for a in p.advice)]))
    if p.command:
        blocks.append("Run it\n" + shell(p.command))
    if p.assumptions:
        blocks.append("\n".join(["Assumed", *(wrap(a) for a in p.assumptions)]))
    blocks.append(closing(p))
    return "\n\n".join(blocks)


def closing(p: Prediction) -> str:
    """One sentence that a manager understands."""
    if not p.starts or p.latency is None or p.throughput is None:
        return wrap(f"{p.model} does not run on {devices(p)} like this: {p.refusal}.", "")
    verdict = {True: "It meets the SLO: ", False: "It misses the SLO: ", None: ""}[p.meets_slo]
    money = ""
    if p.cost is not None:
        money = f", {show_usd(p.cost.usd_per_mtok_output)} per million output tokens"
    if p.latency.ttft_s.mean is None:
        enough = f"; {p.fleet.replicas} of them carry it" if p.fleet else ""
        return wrap(
            f"{devices(p)} cannot keep up with this load: it takes "
            f"{significant(p.throughput.max_rate_rps or 0.0)} requests/s at most{enough}.", ""
        )  # fmt: skip
    return wrap(
        f"{verdict}{devices(p)} answers the first token of {p.model} after "
        f"{show_duration(p.latency.ttft_s.mean)} and then one every "
        f"{show_duration(p.latency.tpot_s.mean)}{money}.",
        "",
    )


def show_plan(result: Plan) -> str:
    """The ranked table, rejections by reason, and one closing sentence."""
    rows = plan_rows(result, 15)
    shown = f"{result.model}: {result.num_candidates:,} candidates, {len(rows)} shown"
    blocks = [wrap(shown, "")]
    if rows:
        blocks.append(table(plan_header(result), rows, plan_right(result)))
        legend = ["* on the Pareto set of cost and time per token"]
        if any(i < len(rows) for i in result.ties):
            legend.append(f"~ not told from 1 by cost: in the {LEVEL:.0%} interval of the ratio")
        if any(p.meets_slo and p.slo_share is not None for p in result.candidates):
            legend.append("SLO: how sure it is met, by how public benches differ from predictions")
        blocks.append("\n".join(legend))
    if result.rejected:
        blocks.append(_rejections(result))
    if result.best is not None:
        blocks.append("Run it\n" + shell(result.best.command))
        blocks.append("\n".join(["Prices", *(wrap(line) for line in _prices(result))]))
        notes = result.best.assumptions
        blocks.append("\n".join(["Assumed", *(wrap(a) for a in notes)]))
    if result.sensitivity:
        blocks.append("\n".join(["What would change it", *(wrap(s) for s in result.sensitivity)]))
    blocks.append(wrap(result.summary, ""))
    return "\n\n".join(blocks)


def _prices(result: Plan) -> list[str]:
    """Where each machine's price is from."""
    found: dict[str, str] = {}
    for p in result.candidates:
        basis = p.cost.price_basis if p.cost else "no public price"
        found.setdefault(p.deployment.hardware, f"{p.deployment.hardware}: {basis}")
    return list(found.values())


def _rejections(result: Plan) -> str:
    """One line a machine, rank count and scheme: the first reason met there."""
    reasons: dict[str, list[str]] = {}
    for r in result.rejected:
        d = r.deployment
        place = f"{d.hardware} TP {d.tensor_parallel} {d.weight_quant}"
        reasons.setdefault(place, []).append(r.reason)
    lines = [
        wrap(f"{place}: {found[0]}" + (f" ({len(found)} candidates)" if len(found) > 1 else ""))
        for place, found in list(reasons.items())[:6]
    ]
    more = len(reasons) - len(lines)
    if more > 0:
        lines.append(f"  and {more} more (--json lists them)")
    return "\n".join(["Would not start", *lines])
