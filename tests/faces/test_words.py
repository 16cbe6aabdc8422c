"""Named values are read as the command line reads them, and their schema says what is read."""

from __future__ import annotations

import contextlib

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.faces.options import ENGINE, MANY, MONEY, ONE, WORKLOAD, Option, whole
from neoserve.faces.words import json_schema, namespace

KNOWN = (*WORKLOAD, *ONE, *ENGINE, *MONEY)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("isl", "8k", 8000), ("isl", "1Ki", 1024), ("memory", "24GiB", 24 * 2**30),
        ("utilization", "60%", 0.6), ("price", "$1.25", 1.25), ("think_time", "200ms", 0.2),
        ("simulate", "no", False), ("request_rate", "2.5", 2.5), ("tp", "4", 4),
    ],
)  # fmt: skip
def test_text_and_plain_values_say_the_same(name: str, text: str, value: object) -> None:
    assert namespace(KNOWN, {name: text}) == namespace(KNOWN, {name: value})


def test_what_is_left_out_is_as_on_the_command_line() -> None:
    from argparse import ArgumentParser

    from neoserve.faces.options import add_options

    parser = ArgumentParser()
    add_options(parser, KNOWN)
    assert namespace(KNOWN, {}) == parser.parse_args([])


def test_lists_are_text_or_arrays() -> None:
    one = namespace(MANY, {"tensor_parallel": "1,2", "expert_parallel": [False, "yes"]})
    assert one.tensor_parallel == namespace(MANY, {"tp": ["1", 2]}).tensor_parallel == (1, 2)
    assert one.expert_parallel == (False, True)
    assert namespace(MANY, {"weight_quant": "fp8"}).weight_quant == ("fp8",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"isll": 5}, "unknown option 'isll', did you mean isl?"),
        ({"isl": 1.5}, "isl is 1.5; expected a whole number"),
        ({"isl": True}, "isl is True; expected a whole number"),
        ({"isl": [1]}, "isl is [1]; expected a whole number"),
        ({"isl": {}}, "isl is {}; expected a whole number"),
        ({"isl": "many"}, "isl: "),
        ({"isl": None}, "isl is None; leave it out for its usual value, 512"),
        ({"request_rate": float("nan")}, "request_rate is nan; expected a finite number"),
        ({"simulate": 1}, "simulate is 1; expected true or false"),
        ({"slo": 3}, "slo is 3; expected text"),
        ({"engine": "x" * 5000}, "engine has 5000 characters"),
        ({"arrival": "daily"}, "arrival is 'daily'; expected one of poisson"),
        ({"rate": 1, "request_rate": 1}, "rate and request_rate say the same"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_told(given: dict[str, object], said: str) -> None:
    with pytest.raises(AskError) as error:
        namespace(KNOWN, given)
    assert said in str(error.value)


def test_the_schema_takes_what_is_read_and_nothing_else() -> None:
    schema = json_schema(KNOWN, ("isl",))
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid({"isl": 5, "memory": "24GiB", "simulate": False, "slo": "ttft<3s"})
    for wrong in ({}, {"isl": 1.5}, {"isl": 1, "arrival": "daily"}, {"isl": 1, "other": 2},
                  {"isl": 1, "slo": 3}):  # fmt: skip
        assert not check.is_valid(wrong)
    assert schema["properties"]["isl"]["default"] == 512
    assert "24GiB" in schema["properties"]["memory"]["description"]


def test_one_type_each_for_clients_that_know_no_other() -> None:
    schema = json_schema((*KNOWN, *MANY), one_type=True)
    for name, one in schema["properties"].items():
        assert isinstance(one["type"], str), name
        assert "anyOf" not in one
    properties = schema["properties"]
    assert [properties[n]["type"] for n in ("isl", "price", "memory", "simulate", "slo")] == [
        "integer", "number", "string", "boolean", "string"]  # fmt: skip
    assert properties["weight_quant"] == properties["weight_quant"] | {"type": "array"}


@given(st.dictionaries(
    st.sampled_from([name for option in KNOWN for name in option.names] + ["x"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(),
              st.text("0159.,%kGiBms-xNn $", max_size=8), st.lists(st.integers(), max_size=2)),
    max_size=4,
))  # fmt: skip
def test_any_values_are_read_or_refused(given: dict[str, object]) -> None:
    with contextlib.suppress(AskError):
        namespace(KNOWN, given)


def test_huge_whole_numbers_are_kept() -> None:
    option = Option(("--n",), "a number", whole)
    assert namespace((option,), {"n": 10**400}).n == 10**400
