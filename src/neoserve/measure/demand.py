"""Demand by the hour: a curve as CSV, or a trace of requests whose arrivals are counted."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

from ..errors import AskError
from .traces import Trace, read_trace

COLUMN = "rate_rps"
HOUR_S = 3600.0


def read_curve(path: Path) -> tuple[float, ...] | None:
    """Requests/s, hour by hour, of a CSV file with a column `rate_rps`; lines that begin with #
    say where it is from. None: the file has no such column. Raises AskError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AskError(f"{path} is no text file; give a curve as CSV, or a trace") from None
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line and not line.startswith("#")]
    header = next(csv.reader([numbered[0][1]]), []) if numbered else []
    if COLUMN not in header:
        return None
    column = header.index(COLUMN)
    rows = zip((i for i, _ in numbered[1:]), csv.reader(line for _, line in numbered[1:]),
               strict=True)  # fmt: skip
    return tuple(_rate(path, number, fields, column) for number, fields in rows)


def _rate(path: Path, number: int, fields: list[str], column: int) -> float:
    text = fields[column] if column < len(fields) else ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise AskError(f"{path}, line {number}: {COLUMN} is {text!r}; expected requests/s from 0")
    return value


def read_requests(path: Path) -> tuple[tuple[float, ...], Trace]:
    """(requests/s of each whole hour, the trace); a shorter trace is one hour at its mean rate.
    A last hour that is not whole is left out. Raises AskError."""
    trace = read_trace(path)
    whole = int(trace.times_s[-1] // HOUR_S)
    if not whole:
        rate = trace.rate_rps()
        if not math.isfinite(rate):
            raise AskError(f"all requests of {path} come at once: no rate can be read from it")
        return (rate,), trace
    counts = Counter(int(time_s // HOUR_S) for time_s in trace.times_s)
    return tuple(counts[hour] / HOUR_S for hour in range(whole)), trace
