"""The user's own prompts: JSON lines, or a ShareGPT file.

A line has `prompt` (vLLM's custom dataset) or `messages` (OpenAI), and may have `output_tokens` or
`max_tokens`. ShareGPT is one JSON list of `conversations`, or the same in lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import AskError

_EXPECTED = 'write {"prompt": TEXT} or {"messages": [{"role": "user", "content": TEXT}]}'
_USERS = ("user", "human")


class Message(NamedTuple):
    """What a user says in one turn."""

    text: str  # "" where it is made up
    output_tokens: int  # 0: as the workload says


class UserPrompt(msgspec.Struct, frozen=True):
    """One line of a dataset."""

    text: str  # sent where an arrival is one request: all messages, a blank line between
    turns: tuple[str, ...]  # the user's messages
    output_tokens: int = 0  # 0: the line does not say

    def messages(self, num_turns: int) -> tuple[Message, ...]:
        """What is sent in so many turns; fewer where the conversation is shorter."""
        if num_turns == 1:
            return (Message(self.text, self.output_tokens),)
        return tuple(Message(text, self.output_tokens) for text in self.turns[:num_turns])


def read_dataset(path: Path) -> tuple[UserPrompt, ...]:
    """All prompts of a file. Raises AskError naming the line, or the entry of a ShareGPT list.

    Entries of a ShareGPT file in which no human speaks are left out, as its users do.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    prompts = tuple(_list(path, data) if data.lstrip()[:1] == b"[" else _lines(path, data))
    if not prompts:
        raise AskError(f"{path} holds no prompts; {_EXPECTED}, one a line")
    return prompts


def _lines(path: Path, data: bytes) -> Iterator[UserPrompt]:
    lines = ((f"line {i}", line) for i, line in enumerate(data.split(b"\n"), 1) if line.strip())
    return _prompts(path, ((place, _decoded(path, place, line)) for place, line in lines))


def _list(path: Path, data: bytes) -> Iterator[UserPrompt]:
    entries = _decoded(path, "its JSON", data)
    return _prompts(path, ((f"entry {i}", entry) for i, entry in enumerate(entries, 1)))


def _decoded(path: Path, place: str, data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise AskError(f"{path}, {place}: not JSON ({error}); {_EXPECTED}") from None


def _prompts(path: Path, entries: Iterable[tuple[str, Any]]) -> Iterator[UserPrompt]:
    for place, entry in entries:
        try:
            prompt = _prompt(entry)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise AskError(f"{path}, {place}: no prompt is found; {_EXPECTED}") from None
        if prompt is not None:
            yield prompt


def _prompt(entry: Any) -> UserPrompt | None:
    output_tokens = entry.get("output_tokens", entry.get("max_tokens", 0))
    if type(output_tokens) is not int or output_tokens < 0:
        raise ValueError
    if "conversations" in entry:
        turns = tuple(_text(m["value"]) for m in entry["conversations"] if m["from"] in _USERS)
        return UserPrompt(turns[0], turns, output_tokens) if turns else None
    if "messages" not in entry:
        text = _text(entry["prompt"])
        return UserPrompt(text, (text,), output_tokens)
    messages = [(m["role"], _text(m["content"])) for m in entry["messages"]]
    turns = tuple(text for role, text in messages if role in _USERS)
    if not turns:
        raise ValueError
    return UserPrompt("\n\n".join(text for _, text in messages), turns, output_tokens)


def _text(content: Any) -> str:
    """A message's text; OpenAI also writes it as a list of parts."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    if not isinstance(content, str) or not content:
        raise ValueError
    return content
