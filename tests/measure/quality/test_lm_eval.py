"""lm_eval's command, its task and its samples, as lm_eval 0.4.13 logged them of vLLM 0.32."""

import os
import stat
import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.engine.running import attach
from neoserve.measure.quality import Documents, QualityUnmeasurable, Text
from neoserve.measure.quality import lm_eval as module
from neoserve.measure.quality.lm_eval import PYTHON_VARIABLE, read_samples, score_by_lm_eval

from .servers import serving

# SmolLM2-135M in BF16 on six documents of 20 words; see tests/e2e/test_quality.py
SAMPLES = (Path(__file__).parents[2] / "data" / "lm_eval_samples.jsonl").read_bytes()

FAKE = """#!{python}
import glob, json, pathlib, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
folder = pathlib.Path(words["--include_path"])
out = pathlib.Path(sys.argv[-1]) / "model"
out.mkdir(parents=True)
task = json.loads((folder / "neoserve_text.yaml").read_text())
lines = open(task["dataset_kwargs"]["data_files"]["test"]).read().splitlines()
assert words["--model"] == "local-completions", words
assert ",max_length=66" in words["--model_args"], words
rows = [{{"doc_id": i, "doc": json.loads(line), "target": json.loads(line)["text"],
          "word_perplexity": [-10.0 * (i + 1), len(json.loads(line)["text"].split())]}}
        for i, line in enumerate(lines)]
text = "\\n".join(json.dumps(row) for row in reversed(rows))
(out / "samples_neoserve_text_2026.jsonl").write_text(text)
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A program in lm_eval's place."""

    def make(code):
        path = tmp_path / "lm_eval"
        path.write_text(code.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setattr(module.sys, "executable", str(tmp_path / "bin" / "python"))

    return make


def test_real_samples():
    found = read_samples(SAMPLES)
    assert [round(logprob, 2) for _, _, logprob in found] == [
        -150.68, -194.68, -204.42, -158.22, -122.59, -104.83
    ]  # fmt: skip
    assert {words for _, words, _ in found} == {20}
    assert found[0][0].text.startswith("Call me Ishmael.")


def test_a_run_is_scored_in_the_documents_order(fake):
    fake(FAKE)
    documents = Documents("two", (Text("a", "one two three"), Text("b", "four five")))
    with serving("echo") as (url, _):
        found = score_by_lm_eval(attach(url), documents, {}, window_tokens=64)
    assert [(d.name, d.num_words, d.num_tokens, d.logprob) for d in found.documents] == [
        ("a", 3, 3, -10.0), ("b", 2, 2, -20.0)
    ]  # fmt: skip
    assert (found.method, found.text) == ("lm_eval", documents.digest)


def test_its_last_words_are_the_reason(fake):
    fake("#!{python}\nimport sys\nsys.exit('ValueError: no such tokenizer')\n")
    documents = Documents("two", (Text("a", "one two"),))
    with serving("echo") as (url, _), pytest.raises(QualityUnmeasurable, match="no such tokenizer"):
        score_by_lm_eval(attach(url), documents, {})


def test_without_it(monkeypatch, tmp_path):
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    with serving("echo") as (url, _), pytest.raises(AskError, match="lm_eval is not installed"):
        score_by_lm_eval(attach(url), None, {})


@pytest.mark.parametrize("content", [b"{}", b"x", b'{"doc_id": 0, "word_perplexity": 3}'])
def test_samples_of_another_shape(content):
    with pytest.raises(QualityUnmeasurable, match="not as expected"):
        read_samples(content)
