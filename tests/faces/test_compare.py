"""Hardware side by side: each machine's best is what a plan of it alone says."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.faces.ask import answer_plan
from neoserve.faces.compare import compare_hardware, show_comparison
from neoserve.schema.answers import HardwareComparison
from neoserve.schema.ask import PlanAsk
from neoserve.schema.workload import Workload

from .conftest import Cli

DATA = Path(__file__).parents[1] / "data"

ASK = PlanAsk(
    model="Qwen/Qwen3-8B", on=("L4", "L40S", "T4", "c8g.4xlarge"), online=False,
    workload=Workload(arrival="poisson", rate_rps=4, prompt_tokens=1000, output_tokens=300),
    rate_rps=4, slo="ttft:mean<3s; tpot:mean<50ms",
)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> HardwareComparison:
    return compare_hardware(ASK)


def test_each_side_is_its_own_plans_best(found: HardwareComparison) -> None:
    for name, side in zip(ASK.on, found.sides, strict=True):
        plan = answer_plan(ASK.replace(on=(name,)))
        best = plan.best or plan.candidates[0]
        assert (side.deployment, side.latency, side.cost) == (
            best.deployment, best.latency, best.cost)  # fmt: skip
        assert (side.meets_slo is False) == (plan.best is None)


def test_the_cheapest_that_keeps_the_slo_is_first(found: HardwareComparison) -> None:
    kept = [s for s in found.sides if s.meets_slo]
    cheapest = min(kept, key=lambda side: side.cost.usd_per_mtok_output)
    assert found.sides[found.best] == cheapest
    assert found.summary.startswith(f"Cheapest within what was asked (predicted): "
                                    f"{cheapest.hardware}.")  # fmt: skip
    assert "c8g.4xlarge is out: the best that was tried misses the SLO" in found.summary
    assert show_comparison(found).count("\n") >= len(ASK.on) + 2


def test_without_a_price_the_first_is_not_called_cheap() -> None:
    one = compare_hardware(ASK.replace(on=("A30",), slo=""))
    assert one.sides[0].cost is None
    assert one.summary.startswith("Fewest device-seconds a token within what was asked")


def test_a_traces_own_lengths_are_shown() -> None:
    trace = Workload(arrival="trace", trace=str(DATA / "traces" / "azure_2023_conv.csv"))
    found = compare_hardware(ASK.replace(on=("L40S",), workload=trace, rate_rps=0.0))
    assert (found.workload.prompt_tokens, found.workload.output_tokens) == (722, 122)


def test_a_machine_on_which_nothing_starts_says_why() -> None:
    big = compare_hardware(
        ASK.replace(model="deepseek-ai/DeepSeek-V3", on=("T4", "8xH200"), tensor_parallel=(8,))
    )
    assert big.sides[0].deployment is None
    assert big.sides[0].reason.startswith("nothing that was tried would start: ")
    assert "-" in show_comparison(big)


def test_what_cannot_be_compared() -> None:
    with pytest.raises(AskError, match="0 machines"):
        compare_hardware(ASK.replace(on=()))
    with pytest.raises(AskError, match="unknown hardware"):
        compare_hardware(ASK.replace(on=("L4", "nothing-like-it")))


def test_the_command(cli: Cli) -> None:
    words = ("compare", "Qwen/Qwen3-8B", "--on", "L4,L40S", "--rate", "4", "--isl", "1000", "--osl",
             "300", "--slo", "tpot:mean<50ms")  # fmt: skip
    said = cli(*words, "--json")
    assert said.code == 0
    assert [s["hardware"] for s in said.document["sides"]] == ["L4", "L40S"]
    assert "Cheapest within" in cli(*words).out
    assert cli(*words[:-1], "tpot:mean<1us").code == 1
