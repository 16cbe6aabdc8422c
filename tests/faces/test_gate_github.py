"""What GitHub reads of a gate, escaped by the rules of each place."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from neoserve.faces import gate_github as github
from neoserve.schema.gate import Check, Gate, Side

FAILED = Check(name="ttft:geomean", kind="regression", verdict="FAIL", unit="s", value=0.12,
               baseline=0.1, limit=0.05, change=0.2, low=0.1, high=0.31, reason="slow")  # fmt: skip
SLO = Check(name="ttft:p95<3.00 s", kind="slo", verdict="PASS", unit="s", value=0.3, limit=3.0,
            reason="0 of 600 requests missed")  # fmt: skip
COST = Check(name="usd_per_mtok_output", kind="cost", verdict="INCONCLUSIVE", unit="usd",
             value=2.0, low=1.5, high=2.6, limit=2.2, reason="near")  # fmt: skip


def gate(*checks: Check, what: str = "m") -> Gate:
    side = Side(source="runs/a", basis="measured", what=what, usd_per_mtok_output=2.0, head="ab12")
    return Gate(verdict="FAIL", checks=checks, subject=side, tolerance=0.05, detect=0.5, level=0.05)


def test_an_annotation_is_escaped_as_the_toolkit_does() -> None:
    """actions/toolkit, packages/core/src/command.ts: escapeData and escapeProperty."""
    line = github.annotation("error", "a:b,c%\n", "100% of\r\n::error::x, y")
    assert line == "::error title=a%3Ab%2Cc%25%0A::100%25 of%0D%0A::error::x, y"


def test_the_worst_three_are_annotated_failures_first() -> None:
    lines = github.worst(gate(SLO, COST, *[FAILED] * 2, COST))
    assert [line.split()[0] for line in lines] == ["::error", "::error", "::warning"]
    assert github.worst(gate(SLO)) == []


def test_no_value_can_end_its_own_heredoc() -> None:
    first, second = (github.output({"a": "x\ny"}).splitlines() for _ in range(2))
    assert first[0].startswith("a<<")
    assert first[1:3] == ["x", "y"]
    assert first[3] == first[0].removeprefix("a<<") != second[3]
    assert len(first[3]) >= 32


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "text", ["<b>x</b>", "a|b", "@octocat", "[x](http://e)", "`a` *b* _c_", "#1"]
)
def test_a_summary_holds_texts_as_texts(text: str) -> None:
    page = github.summary(gate(FAILED, SLO, what=text))
    read = Tags(page)
    assert read.tags == {"details", "summary"}
    assert text in read.text  # a browser shows what was there
    assert text not in page


def test_a_summary_has_a_row_a_check_a_chart_and_the_head() -> None:
    page = github.summary(gate(FAILED, SLO, COST))
    assert page.startswith("### ")
    assert sum(line.startswith("| ") for line in page.splitlines()) == 2 + 3
    [bar] = [line[14:] for line in page.splitlines() if line.startswith("ttft:geomean  ")]
    assert bar.index("o") > bar.index("!") > bar.index("|")  # beyond the limit, beyond no change
    assert "`ab12`" in page


def test_a_benchmark_file_is_what_the_action_reads() -> None:
    """github-action-benchmark's customSmallerIsBetter: name, unit, value; range, extra."""
    entries = json.loads(github.benchmark_json(gate(FAILED, SLO, COST)))
    assert [(e["name"], e["unit"], e["value"]) for e in entries] == [
        ("ttft:geomean", "s", 0.12), ("ttft:p95", "s", 0.3),
        ("usd_per_mtok_output", "USD per million output tokens", 2.0),
    ]  # fmt: skip
    assert all({"name", "unit", "value"} <= e.keys() <= {"name", "unit", "value", "range", "extra"}
               for e in entries)  # fmt: skip
    assert entries[2]["range"] == "1.5 to 2.6"
    assert "range" not in entries[0]  # its bounds are of the change
