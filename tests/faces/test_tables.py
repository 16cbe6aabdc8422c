"""Tables fit the width and lose nothing."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.faces.tables import WIDTH, pairs, shell, table, wrap

from .conftest import Cli

CELL = st.text("abc/,.", min_size=1, max_size=60)


def test_a_table_as_it_is_drawn() -> None:
    drawn = table(["name", "n"], [["a", "1"], ["long one", "23"]], [False, True])
    assert drawn.splitlines() == ["name       n", "------------", "a          1", "long one  23"]


def test_wide_columns_of_words_fold_and_numbers_do_not() -> None:
    drawn = table(["id", "note", "n"], [["a" * 30, "word " * 40, "123,456"]], [False, False, True])
    lines = drawn.splitlines()
    assert max(map(len, lines)) == WIDTH
    assert sum(line.count("word") for line in lines) == 40
    assert "123,456" in lines[2]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 8).flatmap(lambda n: st.tuples(
    st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1, max_size=5),
    st.lists(st.booleans(), min_size=n, max_size=n))))  # fmt: skip
def test_any_table_fits_and_keeps_every_character(drawn: tuple[list, list[bool]]) -> None:
    rows, right = drawn
    lines = table(rows[0], rows[1:], right).splitlines()
    assert max(map(len, lines)) <= WIDTH
    rule = next(i for i, line in enumerate(lines) if line and set(line) == {"-"})
    seen = sorted("".join(lines[:rule] + lines[rule + 1 :]).replace(" ", ""))
    assert seen == sorted("".join(c for row in rows for c in row).replace(" ", ""))


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab c", max_size=400))
def test_paragraphs_fit(text: str) -> None:
    for line in (wrap(text) + "\n" + pairs("title", [("name", text)])).splitlines():
        assert len(line) <= WIDTH


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="ab-'\" $\\{}=", min_size=1, max_size=20), min_size=1, max_size=20)
)
def test_a_folded_command_is_the_same_command(words: list[str]) -> None:
    folded = shell(shlex.join(words))
    assert shlex.split(folded.replace("\\\n", " ")) == words
    longest = max(len(shlex.quote(word)) for word in words)
    assert max(map(len, folded.splitlines())) <= max(WIDTH, 2 * longest + 10)


@pytest.mark.parametrize(
    "model",
    ["Qwen/Qwen3-8B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3",
     "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-4-E4B-it",
     "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4"],
)  # fmt: skip
def test_answers_fit_the_width(cli: Cli, model: str) -> None:
    """Dense, mixture of experts, MLA, gated delta, shared caches, Mamba hybrid with a long name."""
    for words in (
        ("predict", model, "--on", "8xH200", "--tp", "8", "--slo", "tpot:mean<1s"),
        ("predict", model, "--on", "RTX-PRO-6000-Blackwell", "--request-rate", "1e5"),
        ("plan", model, "--on", "RTX-PRO-6000-Blackwell,L4,p5.48xlarge", "--rate", "50"),
        ("catalog", "models", model),
    ):
        said = cli(*words)
        assert said.code in (0, 1)
        assert max(map(len, said.out.splitlines())) <= WIDTH, words


@pytest.mark.parametrize(
    "words",
    [("hardware",), ("instances",), ("models",), ("engines",), ("quantization",),
     ("hardware", "L40S"), ("hardware", "graviton4"), ("instances", "c8g")],
)  # fmt: skip
def test_catalog_fits_the_width(cli: Cli, words: tuple[str, ...]) -> None:
    assert max(map(len, cli("catalog", *words).out.splitlines())) <= WIDTH


def test_a_load_beyond_capacity_has_no_latency(cli: Cli) -> None:
    words = ("predict", "Qwen/Qwen3-8B", "--on", "L4", "--max-model-len", "4k", "--rate", "1000")
    assert "unbounded" in cli(*words).out
    found = cli(*words, "--json").document
    assert found["latency"]["ttft_s"]["mean"] is None  # JSON has no infinity
    assert found["throughput"]["max_rate_rps"] < 1000
