"""Scores against a language model whose probabilities are known."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.engine.running import attach
from neoserve.measure.quality import Documents, QualityUnmeasurable, Question, Text, score
from neoserve.measure.quality.scoring import pieces

from .servers import logprob, serving, tokens_of

TEXTS = Documents("three", (
    Text("a", "the quick brown fox jumps over the lazy dog again and again"),
    Text("b", "to be or not to be"),
    Text("c", "whale  ship\n\nsea  harpoon"),
))  # fmt: skip


def expected(text):
    return [logprob(*pair) for pair in itertools.pairwise(tokens_of(text))]


@pytest.mark.parametrize(("kind", "method"), [("echo", "echo"), ("llama.cpp", "forced")])
@pytest.mark.parametrize("window", [2, 3, 5, 512])
def test_the_score_is_the_models_own(kind, method, window):
    with serving(kind) as (url, _):
        found = score(attach(url), TEXTS, {"dtype": "x"}, window_tokens=window)
    sums = [math.fsum(expected(text.text)) for text in TEXTS.texts]
    assert [document.logprob for document in found.documents] == pytest.approx(sums)
    assert [document.num_words for document in found.documents] == [12, 6, 4]
    assert [document.num_tokens for document in found.documents] == [11, 5, 3]
    assert found.word_perplexity == pytest.approx(math.exp(-sum(sums) / 22))
    assert found.token_perplexity == pytest.approx(math.exp(-sum(sums) / 19))
    assert (found.method, found.window_tokens, found.text) == (method, window, TEXTS.digest)


def test_documents_are_sent_whole_and_nothing_of_one_reaches_another():
    with serving("llama.cpp") as (url, seen):
        score(attach(url), TEXTS, {})
    asked = [body for route, body in seen if route == "/completion"]
    firsts = [body for body in asked if len(body["prompt"]) == 1]
    assert len(firsts) == 3
    assert not any(body["cache_prompt"] for body in firsts)
    wholes = [tokens_of(text.text) for text in TEXTS.texts]
    assert all(any(w[: len(b["prompt"])] == b["prompt"] for w in wholes) for b in asked)


@given(st.integers(0, 60), st.integers(2, 20))
def test_every_token_but_the_first_is_scored_once_in_a_full_window(num, window):
    tokens = list(range(100, 100 + num))
    cut = pieces(tokens, window)
    assert [token for piece in cut for token in piece.scored] == tokens[1:]
    for piece in cut:
        first = piece.tokens[0] - 100
        assert list(piece.tokens) == tokens[first : first + len(piece.tokens)]
        assert len(piece.context) >= 1
        assert len(piece.tokens) == min(window + 1, num)


def test_a_server_without_logprobs_is_unmeasurable():
    with serving("mute") as (url, _), pytest.raises(QualityUnmeasurable, match="tells no logprobs"):
        score(attach(url), TEXTS, {})


def test_its_own_words_for_a_refusal_are_told():
    answer = ({"error": {"message": "invalid API key"}}, 401)
    with (
        serving("echo", tokenize=answer) as (url, _),
        pytest.raises(QualityUnmeasurable, match="tokenize refused: invalid API key"),
    ):
        score(attach(url), TEXTS, {})


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (({"completion_probabilities": [{"id": 1, "logprob": -1.0}]},), "did not write the doc"),
        (({"content": "x"},), "did not write the document's tokens"),
        (({"error": {"message": "failed to parse grammar"}}, 400), "failed to parse grammar"),
    ],
)
def test_a_llama_server_that_is_not_forced(answer, sentence):
    with (
        serving("llama.cpp", completion=answer) as (url, _),
        pytest.raises(QualityUnmeasurable, match=sentence),
    ):
        score(attach(url), TEXTS, {})


def test_a_logprob_that_is_no_number_is_not_summed():
    tokens = tokens_of("to be")
    told = [{"id": token, "logprob": None} for token in tokens[1:]]
    one = Documents("one", (Text("a", "to be"),))
    with (
        serving("llama.cpp", completion=({"completion_probabilities": told},)) as (url, _),
        pytest.raises(QualityUnmeasurable, match="not finite"),
    ):
        score(attach(url), one, {})


def test_a_document_longer_than_a_slot():
    long = Documents("long", (Text("x", "word " * 400),))
    with (
        serving("llama.cpp") as (url, _),
        pytest.raises(QualityUnmeasurable, match=r"has 400 tokens, and a slot .* holds 300"),
    ):
        score(attach(url), long, {})


def test_a_server_that_fails_is_no_quality():
    with (
        serving("llama.cpp", completion=({"error": "out of memory"}, 500)) as (url, _),
        pytest.raises(EngineFailed, match="out of memory"),
    ):
        score(attach(url), TEXTS, {})


def test_a_window_of_one_token():
    with serving("echo") as (url, _), pytest.raises(AskError, match="window of 1"):
        score(attach(url), TEXTS, {}, window_tokens=1)


def test_a_task_is_answered_and_judged():
    task = (Question("how many words here", "4"), Question("and how many", "4"))
    with serving("echo") as (url, seen):
        found = score(attach(url), TEXTS, {}, task=task)
    assert [answer.is_right for answer in found.answers] == [True, False]
    assert all(body["temperature"] == 0 for _, body in seen if "max_tokens" in body)


def test_keys_differ_by_settings_alone():
    with serving("echo") as (url, _):
        engine = attach(url)
        asked = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"}, {})
        keys = [score(engine, TEXTS, settings).key for settings in asked]
    assert keys[0] == keys[1] != keys[2]
