"""What GitHub reads of a gate: step summary, outputs, annotations; and a benchmark file.

Every text may hold what somebody else chose, such as a model's name: it is escaped by the rules of
the place that it goes to.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ..schema.gate import Check, Gate
from .gate_tables import chart, check_rows, conclusion, sides

MAX_ANNOTATIONS = 3
_MAX_TEXT = 400  # characters of one cell or annotation
_MAX_NOTES = 12
_PLAIN = frozenset(" .,:;+-=/()%$'\"?")  # neither Markdown nor HTML nor a mention, inside a line
_MARKS = {"PASS": "✅", "FAIL": "❌", "INCONCLUSIVE": "❔"}


def annotation(level: Literal["error", "warning"], title: str, text: str) -> str:
    """One workflow command, escaped as actions/toolkit does."""
    return f"::{level} title={_property(title)}::{_data(_short(text))}"


def worst(found: Gate) -> list[str]:
    """The worst checks, three at most: a step shows ten of a kind, and others want some."""
    failed = [check for check in found.checks if check.verdict == "FAIL"]
    unsure = [check for check in found.checks if check.verdict == "INCONCLUSIVE"]
    return [
        annotation("error" if check.verdict == "FAIL" else "warning",
                   f"NeoServe gate: {check.verdict}", f"{check.name}: {check.reason}")
        for check in (*failed, *unsure)[:MAX_ANNOTATIONS]
    ]  # fmt: skip


def outputs(found: Gate) -> dict[str, str]:
    """By the names of the action's outputs."""
    usd = found.subject.usd_per_mtok_output
    counts = {verdict: sum(c.verdict == verdict for c in found.checks)
              for verdict in ("FAIL", "INCONCLUSIVE")}  # fmt: skip
    return {
        "verdict": found.verdict,
        "usd-per-mtok": "" if usd is None else f"{usd:.6g}",
        "ledger-head": found.subject.head,
        "failed": str(counts["FAIL"]),
        "inconclusive": str(counts["INCONCLUSIVE"]),
        "json": found.to_json().decode(),
    }


def output(values: Mapping[str, str]) -> str:
    """Lines of GITHUB_OUTPUT; each value ends at a delimiter that nobody could foresee."""
    text = ""
    for name, value in values.items():
        delimiter = f"neoserve_{secrets.token_hex(16)}"
        text += f"{name}<<{delimiter}\n{value}\n{delimiter}\n"
    return text


def summary(found: Gate) -> str:
    """Markdown below the third heading: a table, a chart, and the rest folded."""
    header = ["", "check", "now", "before", "change", "limit"]
    rows = [[_MARKS[row[-1]], *map(markdown, row[:-1])] for row in check_rows(found)]
    parts = [
        f"### NeoServe gate: {_MARKS[found.verdict]} {markdown(conclusion(found))}",
        _grid(header, rows),
    ]
    if lines := chart(found.checks):
        parts.append("\n".join(["```", *(line.replace("`", "'") for line in lines), "```"]))
    parts += ["- " + markdown(line) for line in sides(found)]
    if found.subject.head:
        parts.append(f"Ledger head `{markdown(found.subject.head)}`")
    told = [f"{check.name}: {check.reason}" for check in found.checks]
    parts.append(_folded("Reasons", told))
    if found.notes:
        parts.append(_folded("Notes", found.notes[:_MAX_NOTES]))
    return "\n\n".join(parts) + "\n\n"


def failed_summary(error: str) -> str:
    """Of a gate that could not decide."""
    return f"### NeoServe gate: could not decide\n\n{markdown(error)}\n\n"


def benchmark_json(found: Gate) -> str:
    """github-action-benchmark's ``customSmallerIsBetter``: what has a value and grows worse."""
    entries: list[dict[str, Any]] = []
    seen: set[str] = set()
    for check in found.checks:
        if check.value is None or check.unit not in ("s", "usd") or check.name in seen:
            continue
        seen.add(check.name)
        entries.append({
            "name": check.name.partition("<")[0], "unit": _unit(check), "value": check.value,
            "extra": f"{check.verdict}: {_short(check.reason)}",
        } | _range(check))  # fmt: skip
    return json.dumps(entries, indent=2) + "\n"


def _unit(check: Check) -> str:
    return "s" if check.unit == "s" else "USD per million output tokens"


def _range(check: Check) -> dict[str, str]:
    """Of the value itself, where that is known."""
    if check.change is not None or check.low is None or check.high is None:
        return {}
    return {"range": f"{check.low:.4g} to {check.high:.4g}"}


def markdown(text: str) -> str:
    """Text as text: what could be Markdown, HTML or a mention becomes a character code."""
    flat = _short(" ".join(text.split()))
    return "".join(
        char if char.isalnum() or char in _PLAIN else f"&#{ord(char)};" for char in flat
    )


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _folded(title: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"- {markdown(line)}" for line in lines)
    return f"<details><summary>{title}</summary>\n\n{items}\n\n</details>"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
