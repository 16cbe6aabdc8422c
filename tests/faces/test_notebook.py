"""`predict` and `plan` as functions: the options, words and answers of the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from neoserve.errors import AskError, CatalogMiss
from neoserve.faces.notebook import plan, predict
from neoserve.schema.prediction import Plan, Prediction

from .conftest import Cli

MODEL = "Qwen/Qwen3-8B"


def one(**options: Any) -> Prediction:
    return predict(MODEL, "L4", offline=True, **{"max_model_len": 8192, **options})


def many(**options: Any) -> Plan:
    return plan(MODEL, "L4,L40S", offline=True, **options)


def same(document: Any, answer: Prediction | Plan) -> bool:
    return bool(document == json.loads(answer.to_json()))


# the command line's own answers


def test_a_prediction_is_the_commands(cli: Cli) -> None:
    words = ("--isl", "1000", "--osl", "300", "--max-model-len", "8k", "--price", "$0.5",
             "--slo", "tpot<50ms", "--concurrency", "4", "--no-async-scheduling")  # fmt: skip
    document = cli("predict", MODEL, "--on", "L4", "--offline", *words, "--json").document
    answer = one(isl=1000, osl=300, max_model_len="8k", price=0.5, slo="tpot<50ms", concurrency=4,
                 async_scheduling=False)  # fmt: skip
    assert same(document, answer)
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == 0.5


def test_a_plan_is_the_commands(cli: Cli) -> None:
    words = ("--rate", "4", "--slo", "tpot<50ms", "-q", "fp8,w4a16", "--tp", "1,2")
    document = cli("plan", MODEL, "--on", "L4,L40S", "--offline", *words, "--json").document
    answer = many(rate=4.0, slo="tpot<50ms", weight_quant="fp8,w4a16", tp=(1, 2))
    assert same(document, answer)


# spellings


@pytest.mark.parametrize("length", ["8k", "8_000", 8000])
def test_text_is_read_as_on_the_command_line(length: object) -> None:
    assert one(max_model_len=length).deployment.max_model_len == 8000


@pytest.mark.parametrize("name", ["tensor_parallel", "tp", "tensor_parallel_size"])
def test_every_flag_of_an_option_is_its_name(name: str) -> None:
    assert one(**{name: 2}).deployment.tensor_parallel == 2


@pytest.mark.parametrize("value", ["fp8,w4a16", ("fp8", "w4a16"), ["fp8", "w4a16"]])
def test_lists_are_text_tuples_or_lists(value: object) -> None:
    tried = {c.deployment.weight_quant for c in many(weight_quant=value, tp=1).candidates}
    assert tried == {"fp8", "w4a16"}


@pytest.mark.parametrize(("value", "ranks"), [(2, {2}), ("2", {2}), ("1,2", {1, 2}), ([1], {1})])
def test_one_value_is_a_list_of_one(value: object, ranks: set[int]) -> None:
    answer = many(tp=value, weight_quant="fp8")
    assert {c.deployment.tensor_parallel for c in answer.candidates} == ranks


def test_yes_and_no_are_read_in_lists() -> None:
    answer = many(enforce_eager="no,yes", tp=1, weight_quant="fp8")
    assert {c.deployment.enforce_eager for c in answer.candidates} == {False, True}


def test_switches_are_truth_values() -> None:
    assert one(enforce_eager=True).deployment.enforce_eager is True
    assert one().deployment.enforce_eager is False
    assert one(enable_prefix_caching=False).deployment.enable_prefix_caching is False


@pytest.mark.parametrize("name", ["enforce_eager", "enable_prefix_caching"])
def test_the_text_of_a_switch_is_read_or_refused(name: str) -> None:
    try:
        found = getattr(one(**{name: "no"}).deployment, name)
    except AskError:
        found = False
    assert found is False


def test_a_choice_that_is_none_is_refused() -> None:
    with pytest.raises(AskError, match="float8"):
        one(mamba_ssm_cache_dtype="float8")


@pytest.mark.parametrize("options", [{"isl": None}, {"max_model_len": [8]}, {"weight_quant": 3}])
def test_a_value_of_the_wrong_kind_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(AskError):
        one(**options)


# refusals


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    with pytest.raises(AskError, match=r"unknown option 'tensor'; expected one of .*tensor_parall"):
        one(tensor=2)
    with pytest.raises(AskError, match="unknown option 'replicas'"):
        many(replicas=2)  # a plan sizes its fleets itself


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isl": "many"}, "many"),
        ({"price": "-1"}, "negative"),
        ({"prefix_hit_share": "half"}, "half"),
        ({"isl": 0}, "--isl is 0"),
        ({"available_kv_gib": "1", "available_kv_bytes": "1GiB"}, "say the same; give one"),
    ],
)
def test_bad_values_are_the_command_lines_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(AskError, match=said):
        one(**options)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(AskError, match="an empty list was given"):
        many(weight_quant=" , ")
    with pytest.raises(AskError, match="is an empty list"):
        many(weight_quant=[])


def test_unknown_names_are_refused() -> None:
    with pytest.raises(CatalogMiss):
        predict("nobody/has-this-7B", "L4", offline=True)
    with pytest.raises(CatalogMiss):
        predict(MODEL, "L4000", offline=True)
