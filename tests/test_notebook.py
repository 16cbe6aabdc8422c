"""The example notebook, run by a real kernel that can reach no network; what documents draw."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from evidence.sample import trial
from neoserve.schema.trial import Quantile, TrialCost

ROOT = Path(__file__).resolve().parent.parent
NO_NETWORK = """
import socket
def _refuse(*_): raise OSError("no network in this test")
socket.create_connection = socket.getaddrinfo = _refuse
"""


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def executed() -> nbformat.NotebookNode:
    notebook = nbformat.read(ROOT / "examples" / "planning.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(NO_NETWORK))
    client = NotebookClient(notebook, timeout=120, kernel_name="python3",
                            resources={"metadata": {"path": str(ROOT)}})  # fmt: skip
    return client.execute()


def test_the_example_runs(executed: nbformat.NotebookNode) -> None:
    pages = [out.data["text/html"] for cell in executed.cells for out in cell.get("outputs", ())
             if "text/html" in out.get("data", {})]  # fmt: skip
    prediction, ranked, measured = map(Page, pages)
    for page in (prediction, ranked, measured):
        assert set(page.tags) <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert "Qwen/Qwen3-8B on L4" in prediction.text
    assert "L40S" in ranked.text
    assert "requests served" in measured.text


def test_the_rows_of_the_example_are_numbers(executed: nbformat.NotebookNode) -> None:
    plain = [out.data["text/plain"] for cell in executed.cells for out in cell.get("outputs", ())
             if "text/html" not in out.get("data", {"text/html": ""})]  # fmt: skip
    rows = eval(plain[-1], {"__builtins__": {}})
    assert [row[0] for row in rows] == [1, 2, 4, 8, 16, 32]
    costs = [cost for _, _, cost in rows]
    assert costs == sorted(costs, reverse=True)  # batches make tokens cheaper


def test_a_trial_draws_itself() -> None:
    hostile = "<script>alert(1)</script>"
    cost = TrialCost(usd_per_hour=1.0, price_source=hostile, usd_per_mtok_output=2.0,
                     usd_per_mtok_input=1.0, usd_per_mtok_total=0.7)  # fmt: skip
    p95 = Quantile(value=0.3, low=0.2, high=None)
    drawn = trial()
    drawn = drawn.replace(ttft_s=drawn.ttft_s.replace(p95=p95), cost=cost, notes=(hostile,),
                          reasons=(hostile,))  # fmt: skip
    page = Page(drawn._repr_html_())
    assert "script" not in page.tags
    assert page.text.count(hostile) == 3
    assert "200 ms to unbounded" in page.text
    assert "$2.00 per million output tokens" in page.text
    assert page.text.startswith("PASS on ttft:p95<1.00 s: 1 of 1 requests served")
