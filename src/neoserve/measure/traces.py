"""Public traces of LLM requests, known by their columns.

Azure LLM inference 2023, 2024 (CSV): TIMESTAMP,ContextTokens,GeneratedTokens
BurstGPT (CSV): Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type; its third
    part has Session ID and Elapsed time as well; time in seconds
Mooncake (JSON lines): timestamp in ms, input_length, output_length, hash_ids of 512-token blocks
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..errors import AskError
from .lengths import Lengths

BLOCK_TOKENS = 512  # behind one hash id of Mooncake


class Row(NamedTuple):
    """One request of a trace."""

    time_s: float
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    session: str = ""


class Trace(msgspec.Struct, frozen=True):
    """Requests in the order of their arrival; all columns have the same length."""

    name: str
    times_s: tuple[float, ...]  # from 0 on
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    prefixes: tuple[tuple[int, ...], ...]  # ids of the blocks that a prompt is made of
    sessions: tuple[str, ...]  # "" where the trace names none
    num_left_out: int  # rows without a prompt or an answer: requests that failed

    def __len__(self) -> int:
        return len(self.times_s)

    def lengths(self) -> tuple[Lengths, ...]:
        """Prompt and answer tokens of each request."""
        return tuple(zip(self.prompt_tokens, self.output_tokens, strict=True))

    def rate_rps(self) -> float:
        """Mean rate between the first and the last request; infinite if all come at once."""
        span_s = self.times_s[-1] - self.times_s[0]
        return (len(self) - 1) / span_s if span_s else math.inf

    def first(self, num: int) -> Trace:
        """Its first `num` requests. Raises AskError where there are fewer."""
        if num > len(self):
            raise AskError(
                f"{self.name} has {len(self)} requests that were answered, {num} are asked for; "
                "ask for fewer"
            )
        return msgspec.structs.replace(
            self,
            times_s=self.times_s[:num],
            prompt_tokens=self.prompt_tokens[:num],
            output_tokens=self.output_tokens[:num],
            prefixes=self.prefixes[:num],
            sessions=self.sessions[:num],
        )

    def note(self) -> str:
        """What a reader has to know beside the figures; "" for nothing."""
        if not self.num_left_out:
            return ""
        return f"{self.num_left_out} requests of {self.name} that got no answer are not replayed"


def scaled(trace: Trace, rate_rps: float) -> Trace:
    """The same requests in the same rhythm, at another mean rate. Raises AskError."""
    if not 0 < rate_rps < math.inf:
        raise AskError(f"rate is {rate_rps:g} requests/s; give one above 0")
    if math.isinf(trace.rate_rps()):
        raise AskError(
            f"the {len(trace)} requests taken of {trace.name} come at one moment and cannot be "
            "set to a rate; take more"
        )
    factor = trace.rate_rps() / rate_rps
    return msgspec.structs.replace(trace, times_s=tuple(t * factor for t in trace.times_s))


def read_trace(path: Path, num: int | None = None) -> Trace:
    """The trace in a file, or its first `num` answered requests. Raises AskError naming the line.

    Rows without prompt or answer tokens are requests that failed (BurstGPT says so of its own):
    they are left out and counted.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _trace(path, file, num)
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AskError(f"{path} is no text file; give a trace as CSV or JSON lines") from None


def _trace(path: Path, file: Iterable[str], num: int | None) -> Trace:
    kept: list[Row] = []
    num_left_out = 0
    for row in _rows(path, file):
        if row.prompt_tokens and row.output_tokens:
            kept.append(row)
        else:
            num_left_out += 1
        if len(kept) == num:
            break
    if not kept:
        raise AskError(f"{path} holds no request that was answered")
    kept.sort(key=lambda row: row.time_s)
    times_s, prompt_tokens, output_tokens, prefixes, sessions = zip(*kept, strict=True)
    return Trace(
        name=path.name,
        # no trace is finer; times since an epoch are not exact to the last digit
        times_s=tuple(round(time_s - times_s[0], 6) for time_s in times_s),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        prefixes=prefixes,
        sessions=sessions,
        num_left_out=num_left_out,
    )


def _rows(path: Path, file: Iterable[str]) -> Iterator[Row]:
    lines = iter(file)
    first = next(lines, "")
    if first.lstrip().startswith("{"):
        return _parsed(path, _json_lines(path, itertools.chain([first], lines)), _mooncake)
    reader = csv.DictReader(itertools.chain([first], lines))
    columns = set(reader.fieldnames or ())
    for known, parse in _CSV.items():
        if columns >= set(known):
            return _parsed(path, ((reader.line_num, row) for row in reader), parse)
    expected = " or ".join(",".join(known) for known in _CSV)
    raise AskError(
        f"{path}, line 1: columns are {first.strip()[:200]!r}; expected {expected}, or JSON lines "
        "with timestamp, input_length and output_length"
    )


def _json_lines(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise AskError(f"{path}, line {number}: not JSON ({error})") from None


def _parsed(
    path: Path, rows: Iterable[tuple[int, Any]], parse: Callable[[Mapping[str, Any]], Row]
) -> Iterator[Row]:
    for number, fields in rows:
        try:
            yield parse(fields)
        except KeyError as error:
            raise AskError(f"{path}, line {number}: {error} is missing") from None
        except (TypeError, ValueError) as error:
            raise AskError(f"{path}, line {number}: {error}") from None


def _azure(fields: Mapping[str, Any]) -> Row:
    text = fields["TIMESTAMP"]
    try:
        at = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ValueError(f"TIMESTAMP is {text!r}; expected YYYY-MM-DD HH:MM:SS.ffffff") from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return Row(
        (at - _EPOCH).total_seconds(),
        _tokens(fields, "ContextTokens"),
        _tokens(fields, "GeneratedTokens"),
    )


def _burstgpt(fields: Mapping[str, Any]) -> Row:
    return Row(
        _seconds(fields, "Timestamp"),
        _tokens(fields, "Request tokens"),
        _tokens(fields, "Response tokens"),
        session=fields.get("Session ID") or "",
    )


def _mooncake(fields: Mapping[str, Any]) -> Row:
    prefix = fields.get("hash_ids", [])
    if not isinstance(prefix, list) or not all(type(block) is int for block in prefix):
        raise ValueError("hash_ids is no list of whole numbers")
    return Row(
        _seconds(fields, "timestamp") / 1000,
        _tokens(fields, "input_length"),
        _tokens(fields, "output_length"),
        tuple(prefix),
    )


def _tokens(fields: Mapping[str, Any], column: str) -> int:
    return round(_number(fields, column, "a whole number of tokens", whole=True))


def _seconds(fields: Mapping[str, Any], column: str) -> float:
    return _number(fields, column, "a time from 0 on", whole=False)


def _number(fields: Mapping[str, Any], column: str, expected: str, *, whole: bool) -> float:
    text = fields[column]
    try:
        value = float(text)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value < math.inf or (whole and value != int(value)):
        raise ValueError(f"{column} is {text!r}; expected {expected}")
    return value


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # near, so that a float keeps the microseconds
_CSV: dict[tuple[str, ...], Callable[[Mapping[str, Any]], Row]] = {
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"): _azure,
    ("Timestamp", "Request tokens", "Response tokens"): _burstgpt,
}
