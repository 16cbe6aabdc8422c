"""`neoserve quality` on servers of a known model, and on kept scores."""

import json
import math

import pytest

from measure.quality.servers import serving
from neoserve.schema.quality import QualityScore

from .conftest import Cli


@pytest.fixture
def kept(cli: Cli, tmp_path):
    """A score of the known model, kept as a file, and a text of 12 documents."""
    text = tmp_path / "text.jsonl"
    lines = [{"text": f"line {i} says that {i * i} is the square of {i}"} for i in range(12)]
    text.write_text("\n".join(map(json.dumps, lines)))
    with serving("echo") as (url, _):
        said = cli("quality", url, "--text", str(text), "--json")
    assert said.code == 0
    path = tmp_path / "score.json"
    path.write_text(said.out)
    return path, text


def moved(path, share, name):
    """The same score with its word perplexity changed by a share in each document."""
    score = QualityScore.parse_json(path.read_bytes(), "it")
    documents = tuple(
        d.replace(logprob=d.logprob - d.num_words * math.log1p(share)) for d in score.documents
    )
    out = path.with_name(name)
    out.write_bytes(score.replace(documents=documents, key=name).to_json())
    return out


def test_a_score_is_told(cli: Cli, kept):
    _, text = kept
    with serving("llama.cpp") as (url, _):
        said = cli("quality", url, "--text", str(text))
    assert said.code == 0
    assert "12 documents" in said.out
    assert "method forced" in said.out
    assert "word perplexity" in said.out


@pytest.mark.parametrize(("share", "budget", "code", "verdict"), [
    (0.01, "4%", 0, "PASS"), (0.2, "4%", 1, "FAIL"), (0.2, "0.3", 0, "PASS"),
])  # fmt: skip
def test_exit_codes_follow_the_verdict(cli: Cli, kept, share, budget, code, verdict):
    path, _ = kept
    other = str(moved(path, share, "b.json"))
    words = ("quality", other, "--against", str(path), "--budget", budget)
    said = cli(*words)
    assert said.code == code
    assert said.out.startswith(f"{verdict}: word perplexity {share:+.2%}")
    found = cli(*words, "--json").document
    assert found["verdict"] == verdict
    assert found["change_share"] == pytest.approx(share)
    assert found["candidate"] == "b.json"


def test_what_cannot_be_measured_has_not_passed(cli: Cli, kept):
    path, text = kept
    with serving("mute") as (url, _):
        said = cli("quality", url, "--text", str(text), "--against", str(path))
        alone = cli("quality", url, "--text", str(text))
    assert said.code == alone.code == 3
    assert said.out.startswith("INCONCLUSIVE: quality was not measured")
    assert "tells no logprobs" in alone.err


def test_a_task_is_paired(cli: Cli, kept, tmp_path):
    _, text = kept
    task = tmp_path / "task.jsonl"
    task.write_text('{"question": "how many words", "answer": 3}\n{"question": "no", "answer": 9}')
    with serving("echo") as (url, _):
        words = ("quality", url, "--text", str(text), "--task", str(task))
        assert "task: 1 of 2 right" in cli(*words).out
        assert "0 lost and 0 won, p = 1" in cli(*words, "--against", url).out


@pytest.mark.parametrize(("words", "sentence"), [
    (("none.json",), "none.json cannot be read"),
    (("m.gguf",), "m.gguf is no file; llama.cpp takes a GGUF file"),
    (("m", "--engine", "mystery"), "engine 'mystery' cannot be started"),
    (("http://127.0.0.1:1", "--method", "lm_eval", "--task", "t"), "--task is not for --method"),
    (("http://127.0.0.1:1", "--text", "none.txt"), "none.txt cannot be read"),
    (("http://127.0.0.1:1", "--words", "1"), "1 words are too short"),
    (("http://127.0.0.1:1", "--env", "novalue"), "is not NAME=VALUE"),
])  # fmt: skip
def test_bad_asks_are_one_sentence(cli: Cli, words, sentence):
    said = cli("quality", *words)
    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_nobody_there(cli: Cli):
    assert cli("quality", "http://127.0.0.1:1").code == 4
