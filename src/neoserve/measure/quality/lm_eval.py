"""lm_eval as a program: its wikitext, or a user's text, asked of the served model.

It is not imported: it brings a hundred packages. Read from lm_eval 0.4.13.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ...errors import AskError, EngineFailed
from ...schema.quality import DocumentScore, QualityScore
from ..engine.api import Api
from ..engine.running import Engine
from .asking import QualityUnmeasurable
from .documents import Documents, Text
from .echo import Echo
from .scoring import WINDOW_TOKENS, summed
from .weights import score_key

PYTHON_VARIABLE = "NEOSERVE_LM_EVAL_PYTHON"

_INSTALL = "pip install 'neoserve[quality]'"
_TASK = "neoserve_text"
_TIMEOUT_S = 4 * 3600.0
_LAST_LINES = 3

Say = Callable[[str], None]


def score_by_lm_eval(
    engine: Engine,
    documents: Documents | None,
    settings: Mapping[str, str],
    note: Say = lambda _: None,
    *,
    tokenizer: str = "",
    window_tokens: int = WINDOW_TOKENS,
) -> QualityScore:
    """Perplexity of `documents`, or of wikitext-2 for null, which lm_eval downloads.

    `tokenizer` is a folder or hub name, "" for the served model's own. Unlike ours, its sums hold
    each document's first token, after the tokenizer's BOS or EOS. Raises AskError without lm_eval,
    and QualityUnmeasurable with its last words.
    """
    task = _TASK if documents else "wikitext"
    with tempfile.TemporaryDirectory(prefix="neoserve-lm-eval-") as name:
        folder = Path(name)
        if documents:
            write_task(folder, documents)
        asked = arguments(engine.url, engine.model, tokenizer or engine.model, task, folder,
                          window_tokens)  # fmt: skip
        note(f"running lm_eval on {documents.name if documents else task}")
        _run([*program(), *asked], engine, is_offline=documents is not None)
        samples = next(folder.glob(f"out/**/samples_{task}_*.jsonl"), None)
        if samples is None:
            raise QualityUnmeasurable("lm_eval ended well, but logged no samples")
        found = read_samples(samples.read_bytes())
    server = Echo(Api(engine.url, engine.api_key), engine.model)
    scored = [
        DocumentScore(text.name, num_words, len(server.tokens(text.text)), logprob)
        for text, num_words, logprob in found
    ]
    texts = documents or Documents(task, tuple(text for text, _, _ in found))
    return summed(scored, (), key=score_key(engine.config, settings), method="lm_eval",
                  documents=texts, window_tokens=window_tokens)  # fmt: skip


def program() -> list[str]:
    """How lm_eval is started. Raises AskError where it is not installed."""
    if python := os.environ.get(PYTHON_VARIABLE, ""):
        return [python, "-m", "lm_eval"]
    beside = Path(sys.executable).with_name("lm_eval")
    found = str(beside) if beside.is_file() else shutil.which("lm_eval")
    if found is None:
        raise AskError(f"lm_eval is not installed, and {PYTHON_VARIABLE} names no Python with it; "
                       f"{_INSTALL}")  # fmt: skip
    return [found]


def arguments(
    url: str, model: str, tokenizer: str, task: str, folder: Path, window_tokens: int
) -> list[str]:
    """Its command line. lm_eval takes two off `max_length`: a written token, and the prefix."""
    model_args = {"base_url": f"{url}/v1/completions", "model": model, "tokenizer": tokenizer,
                  "tokenized_requests": "True", "max_length": str(window_tokens + 2)}  # fmt: skip
    if any("," in value for value in model_args.values()):
        raise AskError("lm_eval takes no comma in a model's or tokenizer's name")
    return ["--model", "local-completions",
            "--model_args", ",".join(f"{k}={v}" for k, v in model_args.items()),
            "--tasks", task, "--include_path", str(folder), "--log_samples",
            "--output_path", str(folder / "out")]  # fmt: skip


def write_task(folder: Path, documents: Documents) -> None:
    """A local task of lm_eval on these documents."""
    lines = [msgspec.json.encode({"name": t.name, "text": t.text}) for t in documents.texts]
    data = folder / "documents.jsonl"
    data.write_bytes(b"\n".join(lines))
    task = {
        "task": _TASK,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}],
        "metadata": {"version": 1.0},
    }
    (folder / f"{_TASK}.yaml").write_bytes(msgspec.json.encode(task))  # JSON is YAML


def read_samples(content: bytes) -> list[tuple[Text, int, float]]:
    """Text, words and logprob of its samples in their order. Raises QualityUnmeasurable."""
    try:
        rows = [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
        return [_one(row) for row in sorted(rows, key=lambda row: int(row["doc_id"]))]
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise QualityUnmeasurable(f"lm_eval's samples are not as expected: {error!r}") from None


def _one(row: Any) -> tuple[Text, int, float]:
    logprob, words = row["word_perplexity"]
    name = str(row["doc"].get("name") or f"document {row['doc_id'] + 1}")
    return Text(name, str(row["target"])), int(words), float(logprob)


def _run(command: Sequence[str], engine: Engine, *, is_offline: bool) -> None:
    env = dict(os.environ)
    if engine.api_key:
        env["OPENAI_API_KEY"] = engine.api_key
    if is_offline:
        env |= {"HF_DATASETS_OFFLINE": "1"}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, env=env, check=False,
                               timeout=_TIMEOUT_S)  # fmt: skip
    except OSError as error:
        raise AskError(f"lm_eval cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise QualityUnmeasurable("lm_eval took longer than four hours") from None
    if ended.returncode == 0:
        return
    if engine.has_ended():
        raise EngineFailed(f"the engine ended while lm_eval asked it: {engine.end_reason()}")
    last = [line.strip() for line in ended.stderr.splitlines() if line.strip()][-_LAST_LINES:]
    raise QualityUnmeasurable(f"lm_eval failed: {'; '.join(last)}")
