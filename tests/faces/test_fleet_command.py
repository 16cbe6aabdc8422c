"""`neoserve fleet`: one model, a file of several, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.faces.ask import answer_predict
from neoserve.faces.fleet import answer_fleet
from neoserve.faces.fleet_ask import demand_of, read_fleet
from neoserve.faces.fleet_command import show_fleet
from neoserve.schema.ask import PredictAsk
from neoserve.schema.fleet import FleetAsk, FleetClass, FleetKind, FleetPlan
from neoserve.schema.prediction import Prediction
from neoserve.schema.workload import Workload

from .conftest import Cli

EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet" / "fleet.toml"
LOAD = Workload(prompt_tokens=512, output_tokens=128)
SLO = "ttft:p95<3s; tpot:p95<100ms"


def ask(*, kinds: tuple[FleetKind, ...] = (), **more: object) -> FleetAsk:
    of = FleetClass(name="chat", model="Qwen/Qwen2.5-1.5B-Instruct", slo=SLO,
                    demand=(5.0, 60.0, 90.0), workload=LOAD,
                    weight_quant=("checkpoint",))  # fmt: skip
    return FleetAsk(kinds=kinds or (FleetKind(on="g5.xlarge"),), classes=(of.replace(**more),),
                    online=False, sensitivity=False)  # fmt: skip


@pytest.fixture(scope="module")
def found() -> FleetPlan:
    kinds = (FleetKind(on="g5.xlarge", reserved_usd_per_hour=0.5, spot_usd_per_hour=0.3),
             FleetKind(on="c8g.large"))  # fmt: skip
    return answer_fleet(ask(kinds=kinds, slo="ttft:p95<1s; tpot:p95<50ms"), Path())


def test_a_mix_carries_the_peak_as_one_replica_was_predicted_to(found: FleetPlan) -> None:
    [mix] = found.classes
    gpu = mix.options[0]
    assert gpu.capacity_rps is not None
    assert gpu.deployment is not None
    # a third schedule, at the rate that is promised less what chance makes of 95th percentiles
    alone = answer_predict(PredictAsk(
        model=mix.model, on=gpu.on, deployment=gpu.deployment, slo=mix.slo, online=False,
        simulate=True, workload=mix.workload.replace(rate_rps=0.9 * gpu.capacity_rps, seed=7),
    ))  # fmt: skip
    assert alone.meets_slo
    last = mix.steps[-1]
    assert last.up_to_rps == 90.0
    assert last.capacity_rps == pytest.approx((sum(last.replicas) - 1) * gpu.capacity_rps)
    assert last.capacity_rps >= 90.0
    assert all(check.meets_slo for check in mix.checks)
    assert len(mix.checks) == 1


def test_spot_is_bought_only_where_it_may_be_reclaimed(found: FleetPlan) -> None:
    [mix] = found.classes
    assert mix.options[0].spot_usd_per_hour is None
    assert {use.purchase for use in mix.uses} <= {"reserved", "on-demand"}
    assert mix.options[0].reserved_usd_per_hour == 0.5


def test_idle_hours_are_paid_whole_and_said(found: FleetPlan) -> None:
    [mix] = found.classes
    assert mix.usd_per_month is not None
    assert mix.utilization_share is not None
    assert mix.options[0].capacity_rps is not None
    # three hours of 5, 60 and 90 requests/s repeat 730 / 3 times
    tokens = (5 + 60 + 90) * 3600 * 128 * 730 / 3
    assert mix.usd_per_mtok_output == pytest.approx(mix.usd_per_month / tokens * 1e6)
    able = sum(use.replica_hours for use in mix.uses) * mix.options[0].capacity_rps
    assert mix.utilization_share == pytest.approx(155 / able)
    assert mix.usd_per_mtok_output_full == pytest.approx(
        mix.usd_per_mtok_output * mix.utilization_share
    )
    bills = [use.usd_per_hour * (use.replica_hours + use.start_hours) * 730 / 3
             for use in mix.uses]  # fmt: skip
    assert mix.usd_per_month == pytest.approx(sum(bills))
    assert [use.usd_per_month for use in mix.uses] == pytest.approx(bills)


def test_a_kind_that_keeps_no_slo_says_what_a_lone_request_takes(found: FleetPlan) -> None:
    [mix] = found.classes
    assert mix.options[1].capacity_rps is None
    assert "no rate keeps ttft:p95<1s; tpot:p95<50ms" in mix.options[1].reason
    assert "a request alone has a TTFT of" in mix.options[1].reason
    assert "idle hours and spares are paid whole" in show_fleet(found)


def test_a_class_that_nothing_can_serve_is_refused_by_its_reasons(cli: Cli) -> None:
    code, out, _ = cli("fleet", "Qwen/Qwen3-32B", "--on", "g6.xlarge,g5.xlarge", "--demand", "1,2",
                       "--slo", SLO, "--weight-quant", "none", "--offline", "--json")  # fmt: skip
    plan = FleetPlan.parse_json(out, "answer")
    assert code == 1
    assert plan.usd_per_month is None
    assert plan.classes[0].reason.startswith("no kind can serve it: g6.xlarge: weights alone take")
    assert plan.summary == f"demand has no fleet: {plan.classes[0].reason}."


def missing(share: float) -> Callable[[PredictAsk], Prediction]:
    """The first load that is looked at misses the SLO, and so does all above a share of it."""
    most: list[float] = []

    def answer(asked: PredictAsk) -> Prediction:
        most.append(share * asked.workload.rate_rps)
        told = answer_predict(asked)
        if asked.workload.rate_rps <= most[0] * (1 + 1e-9):
            return told
        assert told.throughput is not None
        return told.replace(
            meets_slo=False, throughput=told.throughput.replace(max_rate_rps=most[0])
        )

    return answer


def test_what_fails_its_check_is_taken_to_carry_less(
    found: FleetPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neoserve.faces.fleet.answer_predict", missing(0.5))
    [mix] = answer_fleet(ask(slo="ttft:p95<1s; tpot:p95<50ms"), Path()).classes
    before = found.classes[0]
    assert mix.options[0].capacity_rps == pytest.approx(0.5 * before.checks[0].rate_rps, rel=0.2)
    assert sum(mix.steps[-1].replicas) > sum(before.steps[-1].replicas)
    assert all(check.meets_slo for check in mix.checks)
    assert mix.steps[-1].capacity_rps >= 90.0


def test_what_holds_no_rate_at_its_check_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neoserve.faces.fleet.answer_predict", missing(0.0))
    [mix] = answer_fleet(ask(), Path()).classes
    assert "on a second schedule" in mix.reason
    assert mix.usd_per_month is None


def test_start_up_is_billed_in_whole_increments() -> None:
    def usd(start_up_s: float, billing_s: float) -> float:
        told = answer_fleet(ask().replace(start_up_s=start_up_s, billing_s=billing_s), Path())
        return sum(use.start_hours for use in told.classes[0].uses)

    assert usd(61.0, 60.0) == pytest.approx(usd(120.0, 60.0))
    assert usd(61.0, 3600.0) == pytest.approx(usd(3600.0, 3600.0))


@pytest.mark.parametrize(("changed", "says"), [
    ({"kinds": ()}, "0 kinds"),
    ({"kinds": (FleetKind(on="L4"), FleetKind(on="L4"))}, "two kind entries"),
    ({"billing_s": 7.0}, "divides an hour"),
    ({"spot_loss_share": 1.0}, "spot_loss_share is 1"),
    ({"kinds": (FleetKind(on="L4", spot_usd_per_hour=-1.0),)}, "spot_usd_per_hour of L4 is -1"),
])  # fmt: skip
def test_a_bad_fleet_is_one_sentence(changed: dict[str, object], says: str) -> None:
    with pytest.raises(AskError, match=says):
        answer_fleet(ask().replace(**changed), Path())


@pytest.mark.parametrize(("changed", "says"), [
    ({"slo": "quality<4%"}, "no limit of time"),
    ({"demand": (0.0, 0.0)}, "one of them above 0"),
    ({"demand": "nowhere.csv"}, "cannot be read"),
    ({"on": ("H100",)}, "none of the kinds"),
    ({"spares": -1}, "spares is -1"),
])  # fmt: skip
def test_a_bad_class_is_one_sentence(changed: dict[str, object], says: str) -> None:
    with pytest.raises(AskError, match=says):
        answer_fleet(ask(**changed), Path())


def test_a_model_needs_demand_and_a_file_says_it_all(cli: Cli, tmp_path: Path) -> None:
    code, _, err = cli("fleet", "Qwen/Qwen3-8B", "--on", "L4", "--slo", SLO)
    assert (code, "--demand is missing" in err) == (2, True)
    code, _, err = cli("fleet", str(EXAMPLE), "--on", "L4")
    assert (code, "leave --on out" in err) == (2, True)
    path = tmp_path / "fleet.toml"
    path.write_text("kinds = 3")
    code, _, err = cli("fleet", str(path))
    assert (code, "fleet.toml" in err) == (2, True)
    path.write_text("kinds = [")
    assert cli("fleet", str(path))[0] == 2


def test_rates_and_files_are_told_apart() -> None:
    assert demand_of("2,5,9.5") == (2.0, 5.0, 9.5)
    assert demand_of("week.csv") == "week.csv"


def test_the_example_is_a_fleet_of_three_models_and_six_kinds() -> None:
    fleet = read_fleet(EXAMPLE)
    assert len({of.model for of in fleet.classes}) == 3
    assert len(fleet.kinds) == 6
    assert json.loads(fleet.to_json())["schema"] == "neoserve/fleet-ask/1"
