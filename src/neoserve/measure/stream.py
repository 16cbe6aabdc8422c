"""What a streamed answer says, read after the request ended from (arrival time, bytes) pairs."""

from __future__ import annotations

import contextlib
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
    said: list[Any] = []  # of each such chunk: text, or tool calls
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
    with contextlib.suppress(_UnreadableError):
        _read(reading, chunks)
    return "".join(said for said in reading.said if isinstance(said, str))


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
        if line.startswith(b"data:"):
            value = line[5:].strip()
            if value == b"[DONE]":
                reading.ended = True
            else:
                _read_event(reading, at_s, _event(value))
        elif line.startswith(b"error:"):  # llama.cpp names the field after its content
            reading.error = line[6:].strip().decode(errors="replace")[:300]


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
    if "usage" in event and isinstance(event["usage"], dict):
        reading.usage = event["usage"]
    if "timings" in event and isinstance(event["timings"], dict):
        reading.timings = event["timings"]
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return
    choice = choices[0]
    said = _said(choice)
    if said:
        reading.token_s.append(at_s)
        reading.said.append(said)
    if choice.get("finish_reason"):
        reading.ended = True
        if reading.token_s and not said:
            reading.end_s = at_s  # tokens that printed nothing came before it


def _said(choice: dict[str, Any]) -> Any:
    """What of the answer this chunk carries, on any channel; false for nothing."""
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return choice.get("text")
    return next((delta[channel] for channel in _TOKEN_CHANNELS if delta.get(channel)), None)
