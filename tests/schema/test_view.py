"""Documents as HTML and as rows: what a notebook shows."""

from __future__ import annotations

import functools
from html.parser import HTMLParser

import pytest

from neoserve.faces.ask import answer_plan, answer_predict
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Plan, Prediction
from neoserve.schema.view import per_mtok_output, plan_header, plan_html, plan_rows, sections
from neoserve.schema.workload import Workload

LLAMA = "meta-llama/Llama-3.1-8B"


class Read(HTMLParser):
    """Tables and paragraphs of a page; fails where tags do not close in turn."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.rows: list[list[str]] = []
        self.paragraphs: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert attrs == []
        self.open.append(tag)
        self.seen.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "p":
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "p":
            self.paragraphs[-1] += data
        else:
            self.rows[-1][-1] += data


@functools.cache
def plan(*on: str, **given: object) -> Plan:
    return answer_plan(PlanAsk(model=LLAMA, on=on, online=False, keep=100, **given))


@functools.cache
def one(model: str = LLAMA, on: str = "H100-SXM", length: int = 8192) -> Prediction:
    deployment = Deployment(max_model_len=length)
    return answer_predict(PredictAsk(model=model, on=on, deployment=deployment, online=False))


def rows_of(p: Prediction) -> dict[str, str]:
    return {name: value for _, rows in sections(p) for name, value in rows}


# HTML


def test_a_plan_is_a_table_and_its_summary() -> None:
    answer = plan("L4", "H100-SXM")
    page = Read(answer._repr_html_())
    header, *rows = page.rows
    assert header == plan_header(answer)
    assert len(rows) == 15 < len(answer.candidates)
    assert {len(row) for row in rows} == {len(header)}
    assert page.paragraphs == [answer.summary]
    marked = [i for i, row in enumerate(rows) if "*" in row[0]]
    assert marked == [i for i in answer.pareto if i < 15]
    assert [row[1].split("x ")[-1] for row in rows] == [
        c.deployment.hardware for c in answer.candidates[:15]
    ]


def test_as_many_rows_as_are_asked_for() -> None:
    assert len(Read(plan_html(plan("L4"), 3)).rows) == 1 + 3


def test_a_prediction_is_its_sections() -> None:
    answer = one()
    page = Read(answer._repr_html_())
    assert page.paragraphs == [f"{LLAMA} on H100-SXM-80GB with vllm"]
    titles = [row[0] for row in page.rows if row[1:] == [""]]
    assert titles == [
        "Memory of each device", "KV cache", "Under this load (predicted, 90% intervals)",
    ]  # fmt: skip
    assert ["per token", "128 KiB"] in page.rows  # 131,072 B


def test_a_refusal_is_a_paragraph() -> None:
    answer = one("meta-llama/Meta-Llama-3.1-70B", "L4")
    page = Read(answer._repr_html_())
    assert page.paragraphs[1].startswith("Would not start: weights alone take 131 GiB")
    assert "TTFT" not in [row[0] for row in page.rows]


NASTY = "<script>alert(1)</script> & \"'"


def test_names_are_escaped() -> None:
    hostile = one().replace(model=NASTY)
    page = Read(hostile._repr_html_())
    assert page.seen <= {"p", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.paragraphs[0].startswith(NASTY)
    refused = one("meta-llama/Meta-Llama-3.1-70B", "L4").replace(refusal=NASTY)
    assert Read(refused._repr_html_()).paragraphs[1].endswith(NASTY)


def test_a_plans_names_are_escaped() -> None:
    answer = plan("L4")
    first = answer.candidates[0]
    hostile = first.replace(deployment=first.deployment.replace(hardware=NASTY))
    page = Read(answer.replace(candidates=(hostile,), summary=NASTY)._repr_html_())
    assert page.paragraphs == [NASTY]
    assert page.rows[1][1].endswith(NASTY)
    assert "script" not in page.seen


def test_an_empty_plan_is_a_page_too() -> None:
    nothing = plan("L4").replace(candidates=(), pareto=(), best=None, summary="nothing starts")
    page = Read(nothing._repr_html_())
    assert len(page.rows) == 1
    assert page.paragraphs == ["nothing starts"]


# rows


def test_without_a_price_devices_seconds_are_counted() -> None:
    answer = plan("A30", tensor_parallel=(1, 2))
    assert "dev-s/Mtok" in plan_header(answer)
    assert not any("$" in name for name in plan_header(answer))
    for candidate in answer.candidates:
        assert candidate.throughput is not None
        rate = candidate.throughput.output_tokens_per_s
        by_hand = candidate.deployment.tensor_parallel * 1e6 / rate
        assert per_mtok_output(candidate) == pytest.approx(by_hand)


def test_with_a_price_dollars_are_counted() -> None:
    answer = plan("L4")
    assert "$/Mtok out" in plan_header(answer)
    assert per_mtok_output(answer.candidates[0]) == answer.candidates[0].cost.usd_per_mtok_output


def test_what_produces_nothing_has_no_price() -> None:
    answer = plan("A30", tensor_parallel=(1, 2))
    idle = answer.candidates[0]
    idle = idle.replace(throughput=idle.throughput.replace(output_tokens_per_s=0.0))
    (row,) = plan_rows(answer.replace(candidates=(idle,), pareto=()), 1)
    assert row[plan_header(answer).index("dev-s/Mtok")] == "-"


def test_a_row_names_copies_stages_and_scheme() -> None:
    answer = plan("L4", pipeline_parallel=(2,), tensor_parallel=(2,), rate_rps=100.0, slo="tpot<1s",
                  weight_quant=("checkpoint",), kv_cache_dtype=("fp8",))  # fmt: skip
    (candidate,) = answer.candidates
    (row,) = plan_rows(answer, 5)
    assert candidate.deployment.replicas > 1
    assert row[0] == "1*"
    assert row[1] == f"{candidate.deployment.replicas}x L4"
    assert row[2:5] == ["2x2", "as is", "fp8"]
    share = candidate.slo_share
    assert share is not None
    assert row[-1] == f"{share:.0%}"
    missed = candidate.replace(meets_slo=False)
    assert plan_rows(answer.replace(candidates=(missed,)), 1)[0][-1] == "misses"


def test_layers_of_several_kinds_are_counted() -> None:
    # Gemma-3-27B: 10 full and 52 windowed layers
    groups = rows_of(one("google/gemma-3-27b-it"))["groups"]
    counted = [part.split(" ") for part in groups.split(", ")]
    layers = {kind: 0 for *_, kind, _ in counted}
    for n, _, width, kind, _ in counted:
        layers[kind] += int(n) * int(width)
    assert layers == {"full": 10, "sliding": 52}
    assert "groups" not in rows_of(one())


def test_states_are_told_where_there_are_some() -> None:
    assert "state per request" not in rows_of(one())
    mamba = rows_of(one("tiiuae/falcon-mamba-7b", length=2048))
    assert mamba["state per request"].split()[1] == "MiB"


def test_a_price_and_its_source_stand_beside_the_cost() -> None:
    assert rows_of(one())["price"].startswith("published, ")
    assert "price" not in rows_of(one(on="A30"))


def test_a_wait_without_bound_is_said() -> None:
    flood = answer_predict(
        PredictAsk(
            model=LLAMA, on="L4", deployment=Deployment(max_model_len=8192), online=False,
            workload=Workload(arrival="poisson", rate_rps=500.0),
        )
    )  # fmt: skip
    assert rows_of(flood)["TTFT"] == "unbounded (mean)"
