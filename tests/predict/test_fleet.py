"""Fleets in predictions and plans: machines, idle share, bill."""

from __future__ import annotations

import math

import pytest

from neoserve.faces.ask import answer_plan, answer_predict
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload

MODEL = "Qwen/Qwen3-8B"
SHORT = Deployment(max_model_len=4096)


def load(**changes: object) -> Workload:
    return Workload(prompt_tokens=1000, output_tokens=300).replace(**changes)


def test_a_rate_beyond_one_machine_says_how_many_it_takes() -> None:
    asked = PredictAsk(
        model=MODEL, on="L4", deployment=SHORT, usd_per_hour=0.5, online=False,
        workload=load(arrival="poisson", rate_rps=10.0),
    )  # fmt: skip
    answer = answer_predict(asked)
    assert answer.fleet is not None
    assert answer.throughput is not None
    assert answer.throughput.max_rate_rps is not None
    assert answer.fleet.replicas == math.ceil(10.0 / answer.throughput.max_rate_rps) > 1
    assert answer.fleet.idle_share == pytest.approx(1 - 10.0 / answer.fleet.capacity_rps)
    assert answer.fleet.usd_per_month == pytest.approx(answer.fleet.replicas * 0.5 * 730)


def test_a_volume_is_billed_by_whole_machines() -> None:
    # 2.628e9 output tokens a month are 1,000 a second, 3.33 requests of 300
    asked = PredictAsk(
        model=MODEL, on="L4", deployment=SHORT, usd_per_hour=0.5, online=False,
        workload=load(concurrency=8), output_tokens_per_month=2.628e9,
    )  # fmt: skip
    fleet = answer_predict(asked).fleet
    assert fleet is not None
    assert fleet.rate_rps == pytest.approx(10 / 3)
    assert fleet.usd_per_hour == pytest.approx(fleet.replicas * 0.5)
    half = answer_predict(asked.replace(utilization_share=0.5)).fleet
    assert half is not None
    assert half.rate_rps == pytest.approx(20 / 3)
    assert half.replicas >= fleet.replicas


def test_a_closed_load_asks_for_no_fleet() -> None:
    asked = PredictAsk(model=MODEL, on="L4", deployment=SHORT, workload=load(), online=False)
    assert answer_predict(asked).fleet is None


def test_a_plan_for_a_rate_tells_its_fleet() -> None:
    plan = answer_plan(
        PlanAsk(model=MODEL, on=("L4",), workload=load(), rate_rps=10.0, online=False)
    )
    for answer in plan.candidates:
        assert answer.fleet is not None
        assert answer.cost is not None
        assert answer.fleet.rate_rps == pytest.approx(10.0)
        assert answer.fleet.capacity_rps >= 10.0 * (1 - 1e-9)
        assert answer.fleet.usd_per_hour == pytest.approx(answer.cost.usd_per_hour)
