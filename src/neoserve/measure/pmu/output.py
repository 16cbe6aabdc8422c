"""What `perf stat -j` and `perf stat -x,` print. Pure."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from ...errors import AskError

_WHOLE = 99.995  # percent; perf prints two decimals
_SEPARATORS = ",;\t"


class Line(NamedTuple):
    """One event of one interval."""

    event: str  # as perf names it, without its modifier
    value: float | None  # null with `problem`
    unit: str = ""  # "msec" of clocks
    running_share: float = 1.0  # of the time in which it was on a counter
    problem: str = ""  # "<not supported>", "<not counted>"
    at_s: float | None = None  # end of its interval, with -I
    user_only: bool = False  # perf was not allowed to count the kernel

    @property
    def is_whole(self) -> bool:
        """Counted, and all of the time: not scaled up from a part."""
        return self.value is not None and self.running_share * 100 >= _WHOLE


def read(text: str, what: str) -> list[Line]:
    """Either format, told apart by its first line. Raises AskError naming `what`."""
    lines = [line.strip() for line in text.splitlines()]
    body = [line for line in lines if line and not line.startswith("#")]
    if not body:
        raise AskError(f"{what} holds no counts: perf printed nothing")
    return _json(body, what) if body[0].startswith("{") else _csv(body, what)


def _json(lines: Iterable[str], what: str) -> list[Line]:
    found = []
    for line in lines:
        if not line.startswith("{"):
            continue  # a line of the measured program, or perf's own summary
        try:
            # Some releases leave a comma before the brace (perf 6.8 with metrics).
            data = msgspec.json.decode(re.sub(r",\s*}$", "}", line))
        except msgspec.DecodeError as error:
            raise AskError(f"{what} is no output of perf stat -j: {error}") from None
        if "counter-value" in data and "event" in data:  # the others hold a metric alone
            found.append(_line(data))
    return found


def _line(data: dict[str, Any]) -> Line:
    at_s = data.get("interval")
    return _made(
        str(data["event"]), str(data["counter-value"]), str(data.get("unit", "")),
        str(data.get("pcnt-running", 100)), None if at_s is None else float(at_s),
    )  # fmt: skip


def _csv(lines: Sequence[str], what: str) -> list[Line]:
    separator = max(_SEPARATORS, key=lines[0].count)
    found = []
    for row in csv.reader(lines, delimiter=separator):
        fields = list(row)
        at_s = None
        if len(fields) > 4 and _number(fields[0]) is not None and _is_value(fields[1]):
            at_s = float(fields.pop(0))  # with -I
        if len(fields) < 5 or not _is_value(fields[0]) or not fields[2]:
            if len(fields) >= 5 and not fields[0]:
                continue  # a further metric of the line before
            raise AskError(
                f"{what}: {separator.join(row)[:80]!r} is no line of perf stat -x; expected "
                "value,unit,event,run time,percent running (without -A or --per-core)"
            )
        found.append(_made(fields[2], fields[0], fields[1], fields[4], at_s))
    return found


def _made(event: str, value: str, unit: str, running: str, at_s: float | None) -> Line:
    name, _, modifier = event.partition(":") if "/" not in event else _split_pmu(event)
    number = _number(value)
    share = (_number(running) or 0.0) / 100
    problem = "" if number is not None else value.strip() or "no value"
    return Line(name, number, unit, share, problem, at_s, modifier.startswith("u"))


def _split_pmu(event: str) -> tuple[str, str, str]:
    name, slash, modifier = event.rpartition("/")
    return name + slash, ":", modifier.removeprefix(":")


def _is_value(text: str) -> bool:
    return _number(text) is not None or text.strip().startswith("<not ")


def _number(text: str) -> float | None:
    try:
        return float(text.strip())
    except ValueError:
        return None
