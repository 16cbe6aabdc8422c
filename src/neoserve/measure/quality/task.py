"""A paired task: questions whose answers are right or wrong, for McNemar's test."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...errors import AskError
from ...schema.quality import TaskAnswer
from ..engine.api import Api
from .asking import QualityUnmeasurable, post

_MAX_TOKENS = 32
_EXPECTED = 'expected {"question": TEXT, "answer": TEXT}; "rule" may be "contains" or "exact"'
_NO_WORD = re.compile(r"[^\w.%-]+")


class Question(NamedTuple):
    """One line of a task."""

    prompt: str
    answer: str
    is_exact: bool = False  # the first line is the answer; else the answer stands in the text
    max_tokens: int = _MAX_TOKENS

    @property
    def name(self) -> str:
        """Digest of all of it, so that only like questions are paired."""
        return hashlib.sha256(msgspec.json.encode(tuple(self))).hexdigest()[:16]

    def is_right(self, text: str) -> bool:
        """Whether a completion holds the answer; case and punctuation are nothing to it."""
        if self.is_exact:
            return _plain(text.strip().split("\n")[0]) == _plain(self.answer)
        return f" {_plain(self.answer)} " in f" {_plain(text)} "


def read_questions(path: Path) -> tuple[Question, ...]:
    """JSON lines with ``question`` or ``prompt``, and ``answer``. Raises AskError with the line."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise AskError(f"{path} cannot be read: {error}") from None
    found = tuple(
        _question(f"{path}, line {number}", line)
        for number, line in enumerate(lines, 1)
        if line.strip()
    )
    if not found:
        raise AskError(f"{path} holds no questions; {_EXPECTED}, one a line")
    if len({question.name for question in found}) != len(found):
        raise AskError(f"{path} asks a question twice; expected each once")
    return found


def answer_all(
    api: Api, model: str, task: Sequence[Question], num_at_once: int
) -> tuple[TaskAnswer, ...]:
    """Greedy completions, judged. Raises QualityUnmeasurable or EngineFailed."""

    def one(question: Question) -> TaskAnswer:
        asked = {"model": model, "prompt": question.prompt, "temperature": 0,
                 "max_tokens": question.max_tokens}  # fmt: skip
        answer = post(api, "/v1/completions", asked)
        try:
            text = str(answer["choices"][0]["text"])
        except (TypeError, KeyError, IndexError):
            raise QualityUnmeasurable(f"{api.url}/v1/completions answered no text") from None
        return TaskAnswer(question.name, question.is_right(text))

    with ThreadPoolExecutor(num_at_once) as pool:
        return tuple(pool.map(one, task))


def _question(place: str, line: str) -> Question:
    try:
        data: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        raise AskError(f"{place}: is no JSON object; {_EXPECTED}") from None
    prompt = data.get("question", data.get("prompt"))
    answer, rule = data.get("answer"), data.get("rule", "contains")
    limit = data.get("max_tokens", _MAX_TOKENS)
    is_told = isinstance(prompt, str) and isinstance(answer, str | int | float)
    is_told = is_told and bool(_plain(str(answer))) and rule in ("contains", "exact")
    if not is_told or type(limit) is not int or limit < 1:
        raise AskError(f"{place}: {_EXPECTED}, and max_tokens above 0")
    return Question(str(prompt), str(answer), rule == "exact", limit)


def _plain(text: str) -> str:
    words = (word.strip(".") for word in _NO_WORD.split(text.casefold()))
    return " ".join(word for word in words if word.strip("-"))
