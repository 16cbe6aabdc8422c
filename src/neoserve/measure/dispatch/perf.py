"""Shares of the samples by function: `perf record` on running processes, and its report."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from ...errors import AskError
from ...schema.dispatch import Symbol

SAMPLES_PER_S = 99  # not in step with timers of 100 a second
MADE_AT_RUN_TIME = "(made at run time)"  # oneDNN's JIT kernels have no names here
UNNAMED = "(no symbol)"
_KEPT_SHARE = 0.001
_HEADER = re.compile(r"^# +(Children +Self|Overhead)\b", re.MULTILINE)
_SAMPLES = re.compile(r"^# Samples: (\S+) +of events? '([^']*)'", re.MULTILINE)
_ROW = re.compile(
    r"^ *(?P<first>\d+\.\d+)% +(?:(?P<second>\d+\.\d+)% +)?(?P<where>\S.*?) +\[[^\]]\] "
    r"(?P<name>.+)$"
)
_PARANOID = re.compile(r"perf_event_paranoid setting is (-?\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_EXTRA_S = 60.0  # to write the samples down, and to look their symbols up


class Samples(NamedTuple):
    """What a report says."""

    event: str
    num: str  # as perf rounds it
    symbols: tuple[Symbol, ...]  # largest share first, callees included where they are known


def parse_report(text: str) -> Samples:
    """What `perf report --stdio` prints, with call graphs or without. Raises AskError.

    Hand-written kernels have labels of their own as symbols (KleidiAI's ``label_opt_3``), so that
    only the share with callees belongs to the function that has a name.
    """
    header = _HEADER.search(text)
    if header is None:
        raise AskError("this is no report of perf: expected what `perf report --stdio` prints")
    has_callees = header[1] != "Overhead"
    seen = _SAMPLES.search(text)
    rows: dict[tuple[str, str], Symbol] = {}
    for line in text.splitlines():
        row = _ROW.match(line)
        if row is None or (row["second"] is not None) != has_callees:
            continue
        symbol = _symbol(row, has_callees)
        before = rows.get((symbol.name, symbol.library))  # of another thread's name, or unnamed
        rows[symbol.name, symbol.library] = _joined(before, symbol) if before else symbol
    return Samples(
        event=seen[2] if seen else "", num=seen[1] if seen else "",
        symbols=tuple(sorted(rows.values(), key=attrgetter("share"), reverse=True)),
    )  # fmt: skip


def _symbol(row: re.Match[str], has_callees: bool) -> Symbol:
    first, name = float(row["first"]) / 100, row["name"].strip()
    library = re.split(r"\s{2,}", row["where"])[-1]
    own = float(row["second"]) / 100 if has_callees else first
    if library.startswith("[JIT]"):
        library, name = "JIT", MADE_AT_RUN_TIME
    elif _ADDRESS.fullmatch(name):
        name = UNNAMED
    if name in (MADE_AT_RUN_TIME, UNNAMED):  # callers among them would be counted twice
        first = own
    return Symbol(name, library, own, first if has_callees else None)


def _joined(one: Symbol, other: Symbol) -> Symbol:
    total = None
    if one.total_share is not None and other.total_share is not None:
        total = one.total_share + other.total_share
    return Symbol(one.name, one.library, one.self_share + other.self_share, total)


def record(pids: Sequence[int], duration_s: float) -> Samples | str:
    """Samples of these processes for so long; a sentence where that cannot be had."""
    program = shutil.which("perf")
    if program is None:
        return "no samples: perf is not installed (Debian: apt-get install linux-perf)"
    with tempfile.TemporaryDirectory(prefix="neoserve-") as folder:
        data = str(Path(folder) / "perf.data")
        taken = _run([program, "record", "-q", "-g", "-F", str(SAMPLES_PER_S), "-o", data,
                      "-p", ",".join(map(str, pids)), "--", "sleep", f"{duration_s:g}"],
                     duration_s + _EXTRA_S)  # fmt: skip
        if isinstance(taken, str):
            return f"no samples: perf record: {taken}"
        told = _run([program, "report", "--stdio", "--children", "-g", "none", "-i", data],
                    2 * _EXTRA_S)  # fmt: skip
    if isinstance(told, str):
        return f"no samples: perf report: {told}"
    try:
        found = parse_report(told.stdout)
    except AskError:
        return "no samples: the processes slept all the time, or perf may not watch them"
    kept = [symbol for symbol in found.symbols if symbol.share >= _KEPT_SHARE]
    return found._replace(symbols=tuple(kept))


def _run(command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str] | str:
    """What it printed, or its reason in one line."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"it did not end within {timeout_s:.0f} s"
    except OSError as error:
        return str(error.strerror)
    if done.returncode:
        return _reason(done.stderr) or f"exit code {done.returncode}"
    return done


def _reason(text: str) -> str:
    """perf's own first sentence, and the kernel's setting where perf names it."""
    lines = [line.strip() for line in text.splitlines()]
    sentence = next((line for line in lines if line and line != "Error:"), "")
    setting = _PARANOID.search(text)
    return f"{sentence} (perf_event_paranoid is {setting[1]})" if setting else sentence
