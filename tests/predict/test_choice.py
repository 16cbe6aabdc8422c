"""Choices that cannot be told apart, and what would change the first."""

from __future__ import annotations

import functools
import math
from types import SimpleNamespace as Plain
from typing import Any

import pytest

from neoserve.catalog.hardware import find_machine
from neoserve.faces.ask import answer_plan
from neoserve.predict.choice import money_at, ratio_spread, rivals_of, ties
from neoserve.predict.plan import Candidate
from neoserve.schema.ask import PlanAsk
from neoserve.schema.prediction import Plan
from neoserve.schema.spread import Spread
from neoserve.schema.workload import Workload

SPREAD = Spread(
    device_class="", engine="", setting="new", num_sources=5, metrics={},
    ratios={"same_device": {"0.9": 0.03}, "other_device": {"0.9": 0.2}},
)  # fmt: skip


def candidate(on: str, money: float, scheme: str = "fp8", **given: Any) -> Candidate:
    ask = Plain(
        machine=find_machine(on), spread=given.pop("spread", SPREAD),
        workload=Workload(concurrency=8, arrival=given.pop("arrival", "closed")),
        deployment=Plain(weight_quant=scheme, tensor_parallel=1),
    )  # fmt: skip
    rest = {"meets_slo": True, "priced": True, "tpot_s": 0.02, **given}
    return Candidate(ask=ask, money=money, **rest)  # type: ignore[arg-type]


def test_errors_in_common_part_close_choices_on_one_device() -> None:
    # five percent: more than two figures of one device differ by, less than two devices do
    ranked = [candidate("L4", 1.0), candidate("L4", 1.05, "w4a16"), candidate("L40S", 1.05),
              candidate("L40S", 1.25), candidate("g6.2xlarge", 1.02)]  # fmt: skip
    assert ties(ranked, 0.0) == (2, 4)  # g6 holds an L4: two percent are within three
    assert ratio_spread(ranked[0], ranked[4]) == 0.03


def test_only_choices_of_the_same_kind_tie() -> None:
    ranked = [candidate("L4", 1.0), candidate("L40S", 1.0, meets_slo=False),
              candidate("L40S", 1.0, priced=False)]  # fmt: skip
    assert ties(ranked, 0.0) == ()
    assert ties([candidate("L4", 1.0, meets_slo=False), candidate("L4", 1.0)], 0.0) == ()
    assert ties([], 0.0) == ()


def test_without_a_spread_only_equal_costs_tie() -> None:
    ranked = [candidate("L4", 1.0, spread=None), candidate("L40S", 1.0), candidate("L40S", 1.01)]
    assert ties(ranked, 0.0) == (1,)


def test_a_fleet_costs_whole_machines() -> None:
    # 10 requests/s on machines of 2.6 each: 4; of 3.4 each: 3; of 2.4: 5
    fleet = candidate("L4", 4.0, machines=4, capacity_rps=2.6, arrival="poisson")
    assert money_at(fleet, 10.0, 0.0) == pytest.approx(4.0)
    assert money_at(fleet, 10.0, math.log(3.4 / 2.6)) == pytest.approx(3.0)
    assert money_at(fleet, 10.0, math.log(2.4 / 2.6)) == pytest.approx(5.0)
    exact = candidate("L4", 5.0, machines=5, capacity_rps=2.0, arrival="poisson")
    assert money_at(exact, 10.0, 0.0) == pytest.approx(5.0)


def test_an_open_load_costs_the_same_however_fast() -> None:
    fixed = candidate("L4", 1.0, arrival="poisson")
    assert money_at(fixed, 0.0, 0.5) == 1.0
    assert money_at(candidate("L4", 1.0), 0.0, math.log(2)) == pytest.approx(0.5)


def test_rivals_are_other_machines_first_then_other_schemes() -> None:
    ranked = [candidate("L4", 1.0), candidate("L4", 1.1, "w4a16"), candidate("L40S", 1.2),
              candidate("L40S", 1.3, "w4a16"), candidate("H100-SXM", 1.4)]  # fmt: skip
    assert [c.money for c in rivals_of(ranked)] == [1.2, 1.4, 1.1]


# a whole plan


@functools.cache
def planned(**given: Any) -> Plan:
    return answer_plan(
        PlanAsk(model="meta-llama/Llama-3.1-8B", on=("L4", "L40S", "H100-SXM"), online=False,
                keep=10_000, **given)
    )  # fmt: skip


def test_what_ties_is_within_the_spread_of_the_best() -> None:
    plan = planned(workload=Workload(concurrency=16))
    best = plan.candidates[0].cost
    assert best is not None
    for index in plan.ties:
        cost = plan.candidates[index].cost
        assert cost is not None
        assert best.usd_per_mtok_output <= cost.usd_per_mtok_output
    told = set(range(1, len(plan.candidates))) - set(plan.ties)
    assert told, "everything ties"


def test_the_price_that_is_named_turns_the_choice() -> None:
    plan = planned(workload=Workload(concurrency=16), kv_cache_dtype=("auto",))
    line = next((s for s in plan.sensitivity if "an hour" in s), "")
    assert line, plan.sensitivity
    rival, more = line.split(" is cheaper if ")[0], line.split(" costs ")[1].split("%")[0]
    best = plan.candidates[0]
    other = next(
        p for p in plan.candidates
        if p.deployment.hardware == rival.split()[0] and p.meets_slo is not False
    )  # fmt: skip
    assert other.cost is not None
    assert best.cost is not None
    ratio = other.cost.usd_per_mtok_output / best.cost.usd_per_mtok_output
    assert ratio - 1 == pytest.approx(float(more) / 100, abs=0.006)


def test_a_load_that_is_said_to_turn_the_choice_does() -> None:
    turned = 0
    for load in (1, 4, 16, 64):
        workload = Workload(concurrency=load, prompt_tokens=500, output_tokens=200)
        plan = planned(workload=workload, slo="tpot<40ms")
        for line in plan.sensitivity:
            if line.startswith(("with twice the requests in flight", "with half the requests")):
                turned += 1
                other = load * 2 if "twice" in line else load // 2
                moved = planned(workload=workload.replace(concurrency=other), slo="tpot<40ms")
                names = [p.deployment.hardware for p in moved.candidates]
                assert names[0] in line
    assert turned
