"""Monthly cost: by hand from the answers it rests on, and from a measured run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.evidence.recommended import recommended
from neoserve.faces.ask import answer_predict
from neoserve.faces.money import measured_cost, project_cost, show_cost
from neoserve.schema.ask import PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload

from .conftest import Cli
from .serving import CANONICAL, RUN

DATA = Path(__file__).parents[1] / "data"
HOURS = 8760 / 12
SLO = "ttft:mean<3s; tpot:mean<80ms"


def ask(on: str, volume: float | None = 5e9, **more: object) -> PredictAsk:
    return PredictAsk(
        model="Qwen/Qwen3-8B", on=on, slo=SLO, online=False, output_tokens_per_month=volume,
        deployment=Deployment(max_model_len=2048),
        workload=Workload(prompt_tokens=1000, output_tokens=250), **more,
    )  # fmt: skip


@pytest.mark.parametrize("share", [1.0, 0.4])
def test_a_month_by_hand(share: float) -> None:
    found = project_cost([ask("L40S", utilization_share=share)], against=0.5)
    [choice] = found.choices
    alone = answer_predict(ask("L40S", None))
    assert alone.throughput is not None
    assert alone.cost is not None
    most_rps = alone.throughput.max_rate_rps
    tokens = most_rps * 250 * HOURS * 3600 * share  # one replica, busy hours alone
    replicas = math.ceil(5e9 / tokens)
    usd = replicas * alone.cost.usd_per_hour * HOURS
    assert choice.replicas == replicas
    assert choice.capacity_output_tokens_per_month == pytest.approx(tokens)
    assert choice.usd_per_month == pytest.approx(usd)
    assert choice.usd_per_mtok_output == pytest.approx(usd / 5000)
    assert choice.idle_share == pytest.approx(1 - 5e9 / (replicas * tokens))
    even = alone.cost.usd_per_hour * HOURS / 0.5 * 1e6
    expected = even if even <= tokens else None
    assert choice.break_even_output_tokens_per_month == (expected and pytest.approx(expected))


def test_the_cheapest_is_named_and_the_others_say_why_not() -> None:
    found = project_cost([ask("c8g.4xlarge"), ask("L40S"), ask("L4")])
    cpu, l40s, l4 = found.choices
    assert cpu.usd_per_month is None
    assert cpu.reason
    assert found.best == min((l40s.usd_per_month, 1), (l4.usd_per_month, 2))[1]
    assert found.choices[found.best].hardware in found.summary
    assert "2026" in found.summary  # the price's date
    assert found.notes == ("A month is 730 hours; replicas are rented for all of them.",)
    text = show_cost(found)
    assert cpu.reason.split()[0] in text
    assert found.summary in text


def test_no_price_is_no_figure() -> None:
    [choice] = project_cost([ask("A30")]).choices
    assert (choice.usd_per_month, choice.usd_per_mtok_output) == (None, None)
    assert choice.replicas >= 1
    assert choice.reason == "no price is known for it: give --price"
    [given] = project_cost([ask("A30", usd_per_hour=0.4)]).choices
    assert given.price_basis == "given"
    assert given.usd_per_month == pytest.approx(given.replicas * 0.4 * HOURS)


def test_without_an_slo_it_says_that_requests_wait() -> None:
    found = project_cost([ask("L40S").replace(slo="")])
    assert "to saturation" in found.notes[1]


def test_a_context_that_traffic_needs_is_taken_where_none_is_given() -> None:
    """As a plan does: the checkpoint's own 40,960 tokens do not fit an L4."""
    whole = ask("L4").replace(deployment=Deployment())
    assert not answer_predict(whole).starts
    [choice] = project_cost([whole]).choices
    assert choice.deployment.max_model_len == 3072
    assert choice.usd_per_month is not None


def test_a_traces_own_lengths_are_what_a_month_counts_with() -> None:
    """60 requests with 722 prompt and 122 output tokens on average; the usual ones are 512, 128."""
    trace = Workload(arrival="trace", trace=str(DATA / "traces" / "azure_2023_conv.csv"))
    found = project_cost([ask("L40S").replace(workload=trace)])
    [choice] = found.choices
    assert (found.workload.prompt_tokens, found.workload.output_tokens) == (722, 122)
    carried = choice.replicas * choice.capacity_output_tokens_per_month * (1 - choice.idle_share)
    assert carried == pytest.approx(5e9)
    long = trace.replace(trace=str(DATA / "traces" / "mooncake_conversation.jsonl"))
    [choice] = project_cost(
        [ask("H100-SXM").replace(workload=long, deployment=Deployment())]
    ).choices
    assert choice.deployment.max_model_len > 10_000  # prompts there have 12,657 tokens on average


@pytest.mark.parametrize(
    ("asks", "against", "said"),
    [
        ([ask("L4", None)], None, "no volume was given"),
        ([ask("L4", -1.0)], None, "--output-tokens-per-month"),
        ([ask("L4")], 0.0, "--against is 0"),
        ([], None, "0 machines"),
        ([ask("L4")] * 17, None, "17 machines"),
    ],
)  # fmt: skip
def test_what_cannot_be_priced(asks: list[PredictAsk], against: float | None, said: str) -> None:
    with pytest.raises(AskError, match=said):
        project_cost(asks, against)


def test_a_measured_run_by_hand() -> None:
    found = recommended(CANONICAL / RUN).recommendation
    trial = found.trial
    assert trial is not None
    projected = measured_cost(RUN, found, 1e8, against=3.0, usd_per_hour=0.638)
    [choice] = projected.choices
    one = trial.output_tokens_per_s * 3600 * HOURS
    assert (projected.basis, choice.basis, choice.run) == ("measured", "measured", RUN)
    assert choice.replicas == math.ceil(1e8 / one)
    assert choice.usd_per_month == pytest.approx(choice.replicas * 0.638 * HOURS)
    assert choice.capacity_output_tokens_per_month == pytest.approx(one)
    assert choice.settings == found.pick.candidate.show()
    unpriced = measured_cost(RUN, found, 1e8)
    assert (unpriced.best, unpriced.choices[0].usd_per_month) == (None, None)
    assert unpriced.choices[0].replicas == choice.replicas
    assert "no price" in unpriced.choices[0].reason


def test_an_uncertified_run_promises_nothing() -> None:
    found = recommended(CANONICAL / RUN).recommendation
    capacity = found.pick.capacity.replace(certified_rps=None)
    shaky = found.replace(pick=found.pick.replace(capacity=capacity))
    [choice] = measured_cost(RUN, shaky, 1e8, usd_per_hour=1.0).choices
    assert choice.usd_per_month is None
    assert "no rate is certified" in choice.reason
    with pytest.raises(AskError, match="expected more than 0"):
        measured_cost(RUN, found, 0.0)


def test_the_command(cli: Cli) -> None:
    said = cli("cost", "Qwen/Qwen3-8B", "--on", "L4, L40S", "--output-tokens-per-month", "5e9",
               "--osl", "250", "--json")  # fmt: skip
    assert said.code == 0
    assert [c["hardware"] for c in said.document["choices"]] == ["L4", "L40S"]
    said = cli("cost", "Qwen/Qwen3-8B", "--on", "L40S", "--output-tokens-per-month", "5e9")
    assert "a month" in said.out
    run = cli("cost", str(CANONICAL / RUN), "--output-tokens-per-month", "1e8", "--json")
    assert run.code == 1  # no price
    assert json.loads(run.out)["basis"] == "measured"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Qwen/Qwen3-8B", "--output-tokens-per-month", "5e9"), "no hardware was given"),
        (("Qwen/Qwen3-8B", "--on", "L4"), "no volume was given"),
        ((str(CANONICAL / RUN),), "no volume was given"),
        ((str(CANONICAL / RUN), "--on", "L4", "--output-tokens-per-month", "5e9"), "leave --on"),
    ],
)  # fmt: skip
def test_a_bad_ask(words: tuple[str, ...], said: str, refused: object) -> None:
    assert said in refused("cost", *words)
