"""What a streamed answer says, read after the request ended from (arrival time, bytes) pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from ..schema.trial import RequestRow
from .wire import Chunk

_TOKEN_CHANNELS = ("content", "reasoning_content", "reasoning", "tool_calls")
_DIGITS = 6  # microseconds: a loopback read is no more exact

_decode = msgspec.json.Decoder().decode


class _UnreadableError(Exception):
    """A line of the stream is not what the protocol says."""


class _Reading(msgspec.Struct):
    """What was seen so far."""

    token_s: list[float] = []  # arrivals of chunks that carried tokens
    end_s: float | None = None  # of tokens that printed nothing, after the last chunk with text
    text: list[str] = []
    usage: dict[str, Any] = {}
    timings: dict[str, Any] = {}  # llama.cpp's own
    ended: bool = False
    error: str = ""


def read_answer(row: RequestRow, chunks: Sequence[Chunk]) -> RequestRow:
    """`row` with times, tokens and status taken from the whole stream."""
    reading = _Reading()
    try:
        _read(reading, chunks)
    except _UnreadableError as error:
        return _with(row, reading).replace(status="truncated", error=str(error))
    row = _with(row, reading)
    if reading.error:
        return row.replace(status="server", error=reading.error)
    if not reading.ended:
        return row.replace(status="truncated", error="the stream stopped before the answer ended")
    return _complete(row, reading)


def answer_text(chunks: Sequence[Chunk]) -> str:
    """The text that the answer carried, as far as it can be read."""
    reading = _Reading()
    try:
        _read(reading, chunks)
    except _UnreadableError:
        pass
    return "".join(reading.text)


def _complete(row: RequestRow, reading: _Reading) -> RequestRow:
    if not reading.usage:
        return row.replace(status="server", error="the stream carried no usage: no token count")
    if row.first_token_s is None:
        return row.replace(status="server", error="the answer held no token")
    return row


def _with(row: RequestRow, reading: _Reading) -> RequestRow:
    times, usage = reading.token_s, reading.usage
    details = usage.get("prompt_tokens_details")
    return row.replace(
        first_token_s=round(times[0], _DIGITS) if times else None,
        last_token_s=round(max(times[-1], reading.end_s or 0.0), _DIGITS) if times else None,
        prompt_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(details, "cached_tokens") if isinstance(details, dict) else 0,
        queue_s=_queue_s(row, reading),
        itl_s=tuple(round(b - a, _DIGITS) for a, b in pairwise(times)),
    )


def _queue_s(row: RequestRow, reading: _Reading) -> float | None:
    """llama.cpp tells how long the prompt took; the rest until the first token was waiting."""
    prompt_ms = reading.timings.get("prompt_ms")
    if not isinstance(prompt_ms, int | float) or not reading.token_s or row.sent_s is None:
        return None
    return round(max(0.0, reading.token_s[0] - row.sent_s - prompt_ms / 1e3), _DIGITS)


def _count(usage: dict[str, Any], key: str) -> int:
    value = usage.get(key)
    return value if isinstance(value, int) and value >= 0 else 0


def _read(reading: _Reading, chunks: Sequence[Chunk]) -> None:
    for at_s, line in _lines(chunks):
        _read_line(reading, at_s, line)


def _lines(chunks: Sequence[Chunk]) -> Iterator[Chunk]:
    """Whole lines, each with the time at which its end arrived."""
    rest = b""
    for at_s, data in chunks:
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            if line:
                yield at_s, line
    if rest.strip():
        yield chunks[-1][0], rest


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
        event = _decode(value)
    except msgspec.DecodeError:
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
    if isinstance(event.get("timings"), dict):
        reading.timings = event["timings"]
    choices = event.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        _read_choice(reading, at_s, choices[0])


def _read_choice(reading: _Reading, at_s: float, choice: dict[str, Any]) -> None:
    if _holds_token(choice):
        reading.token_s.append(at_s)
        delta = choice.get("delta")
        said = delta.get("content") if isinstance(delta, dict) else choice.get("text")
        if isinstance(said, str):
            reading.text.append(said)
    elif choice.get("finish_reason") and reading.token_s:
        reading.end_s = at_s  # tokens that printed nothing came before it
    reading.ended = reading.ended or bool(choice.get("finish_reason"))


def _holds_token(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    if isinstance(delta, dict):
        return any(delta.get(channel) for channel in _TOKEN_CHANNELS)
    return bool(choice.get("text"))
