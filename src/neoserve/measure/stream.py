"""What a streamed answer says, read after the request ended from (arrival time, bytes) pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ..schema.trial import RequestRow

Chunk = tuple[float, bytes]  # seconds since the start of the load, bytes as they arrived

_TOKEN_CHANNELS = ("content", "reasoning_content", "reasoning", "tool_calls")


class _UnreadableError(Exception):
    """A line of the stream is not what the protocol says."""


class _Reading(msgspec.Struct):
    """What was seen so far."""

    first_token_s: float | None = None
    last_token_s: float | None = None
    usage: dict[str, Any] | None = None
    ended: bool = False
    error: str = ""


def read_answer(row: RequestRow, chunks: Sequence[Chunk]) -> RequestRow:
    """`row` with times, tokens and status taken from the whole stream."""
    reading = _Reading()
    try:
        for at_s, line in _lines(chunks):
            _read_line(reading, at_s, line)
    except _UnreadableError as error:
        return _with(row, reading).replace(status="truncated", error=str(error))
    row = _with(row, reading)
    if reading.error:
        return row.replace(status="server", error=reading.error)
    if not reading.ended:
        return row.replace(status="truncated", error="the stream stopped before the answer ended")
    return _complete(row, reading)


def _complete(row: RequestRow, reading: _Reading) -> RequestRow:
    if reading.usage is None:
        return row.replace(status="server", error="the stream carried no usage: no token count")
    if reading.first_token_s is None:
        return row.replace(status="server", error="the answer held no token")
    return row


def _with(row: RequestRow, reading: _Reading) -> RequestRow:
    usage = reading.usage or {}
    return row.replace(
        first_token_s=reading.first_token_s,
        last_token_s=reading.last_token_s,
        prompt_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
    )


def _count(usage: dict[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def _lines(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Whole lines, each with the time at which its end arrived."""
    rest = b""
    for at_s, data in chunks:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield at_s, line.strip()
    if rest.strip():
        yield chunks[-1][0], rest.strip()


def _read_line(reading: _Reading, at_s: float, line: bytes) -> None:
    field, _, value = line.partition(b":")
    value = value.strip()
    if field == b"error":  # llama.cpp names the field after its content
        reading.error = value.decode(errors="replace")[:300]
    elif field == b"data" and value == b"[DONE]":
        reading.ended = True
    elif field == b"data":
        _read_event(reading, at_s, _event(value))


def _event(value: bytes) -> dict[str, Any]:
    try:
        event = json.loads(value)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        shown = value[:80].decode(errors="replace")
        raise _UnreadableError(f"not a JSON object in the stream: {shown!r}")
    return event


def _read_event(reading: _Reading, at_s: float, event: dict[str, Any]) -> None:
    if error := event.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        reading.error = str(message or error)[:300]
    if isinstance(event.get("usage"), dict):
        reading.usage = event["usage"]
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return
    choice = choices[0]
    if _holds_token(choice):
        reading.first_token_s = at_s if reading.first_token_s is None else reading.first_token_s
        reading.last_token_s = at_s
    elif choice.get("finish_reason") and reading.first_token_s is not None:
        reading.last_token_s = at_s  # tokens that printed nothing came before it
    reading.ended = reading.ended or bool(choice.get("finish_reason"))


def _holds_token(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(delta.get(channel) for channel in _TOKEN_CHANNELS)
    return bool(choice.get("text"))
