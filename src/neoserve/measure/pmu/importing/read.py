"""A file of another tool, told apart by its content."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....errors import AskError
from ....schema.pmu import Check, CoreType, Counted, Counters, Window
from ..checks import identity_check, sum_check
from ..events import CYCLES, level1
from ..formulas import LEVEL1, SMT
from ..judge import judge, rung_of
from ..output import Line, read
from .names import aperf_metric, arm_metric, counted, event_name

_METRICS_HEADER = "time,group,stage,level,metric,value,units"
_EVENTS_HEADER = "run,time,event,value"
_APERF = "processed_perf_stat_data"
_BAR = "┃"
_MOST_BYTES = 256 * 2**20


def read_file(path: Path, core: CoreType | None) -> Counters:
    """Counters in it; `core` is whose they are, where the file does not say. Raises AskError."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise AskError(f"{path} is larger than {_MOST_BYTES >> 20} MiB: no table of counters")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise AskError(f"{path} is no text; expected what perf, topdown-tool, APerf or Performix "
                       "wrote") from None  # fmt: skip
    return read_text(text, str(path), core)


def read_text(text: str, what: str, core: CoreType | None) -> Counters:
    """As `read_file`."""
    first = next((line.strip() for line in text.splitlines()
                  if line.strip() and not line.startswith("#")), "")  # fmt: skip
    if first == _METRICS_HEADER:
        return _topdown_metrics(text, what, core)
    if first == _EVENTS_HEADER:
        return _topdown_events(text, what, core)
    if first.startswith(_APERF) or '"data_name":"perf_stat"' in text[:4096].replace(" ", ""):
        return _aperf(text, what, core)
    if _BAR in text:
        return _performix(text, what, core)
    if not first:
        raise AskError(f"{what} is empty")
    return _perf(read(text, what), what, core)


def _perf(lines: Sequence[Line], what: str, core: CoreType | None) -> Counters:
    """An event that comes again begins a new group, as does the next interval."""
    windows: list[dict[str, float]] = []
    problems: dict[str, None] = {}
    at_s: float | None = None
    for line in lines:
        name = event_name(line.event, core)
        if name is None:
            continue
        if not windows or line.at_s != at_s or name in windows[-1]:
            windows.append({})
            at_s = line.at_s
        if line.value is None:
            problems[f"{line.event} is {line.problem}"] = None
        elif not line.is_whole:
            problems[
                f"{line.event} was on a counter for {line.running_share:.1%} of the time: scaled "
                "counts are not used"
            ] = None
        else:
            windows[-1][name] = line.value
    usable = [Window(counts) for counts in windows if CYCLES in counts or "slots" in counts]
    return _of_windows(usable, "perf stat", what, core, tuple(problems))


def _topdown_events(text: str, what: str, core: CoreType | None) -> Counters:
    runs: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    problems: dict[str, None] = {}
    for row in csv.DictReader(_body(text)):
        name = event_name(row["event"] or "", core)
        if name is None:
            continue
        if not (row["value"] or "").strip():
            problems[f"{row['event']} was not counted"] = None
            continue
        runs[row["run"] or "", row["time"] or ""][name] = _float(row["value"], what)
    usable = [Window(counts) for counts in runs.values() if CYCLES in counts]
    return _of_windows(usable, "topdown-tool", what, core, tuple(problems))


def _of_windows(
    windows: Sequence[Window], tool: str, what: str, core: CoreType | None,
    problems: tuple[str, ...],
) -> Counters:  # fmt: skip
    if not windows:
        why = "; ".join(problems) or "no event of it is known here"
        return Counters(tool=tool, rung="none", core=core, scope=what, basis="imported",
                        reasons=(f"nothing was counted: {why}",))  # fmt: skip
    judged = judge(windows, core)
    reasons = [*problems, *judged.reasons]
    if judged.rung != "topdown" and not level1(core):
        reasons.append("level 1 needs the core: give --core, such as --core v2")
    return Counters(
        tool=tool, rung=judged.rung if judged.figures else "none", core=core, scope=what,
        basis="imported", formula=judged.formula, figures=judged.figures, checks=judged.checks,
        windows=tuple(windows), reasons=tuple(reasons),
        notes=("whether the engine was what was counted cannot be told from the file",),
    )  # fmt: skip


def _topdown_metrics(text: str, what: str, core: CoreType | None) -> Counters:
    series: dict[str, list[float]] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for row in csv.DictReader(_body(text)):
        known = arm_metric(row["metric"] or "")
        key = (row["time"] or "", row["metric"] or "")
        if known and (row["value"] or "").strip() and key not in seen:  # groups share metrics
            seen.add(key)
            series[known[0]].append(_float(row["value"], what) / known[1])
    return _of_figures(counted(series), "topdown-tool", what, core)


def _aperf(text: str, what: str, core: CoreType | None) -> Counters:
    """``data/js/perf_stat.js`` of a report: an assignment of JSON, findings after it."""
    start = text.index("{") if "{" in text else len(text)
    try:
        data, _ = json.JSONDecoder().raw_decode(text[start:])
        runs: dict[str, Any] = data["runs"]
        name, run = next(iter(runs.items()))
        metrics: dict[str, Any] = run["metrics"]
    except (ValueError, KeyError, TypeError, StopIteration):
        raise AskError(f"{what} holds no time series of APerf's PMU data: expected "
                       "data/js/perf_stat.js of a report") from None  # fmt: skip
    series: dict[str, list[float]] = {}
    for metric, content in metrics.items():
        known = aperf_metric(metric)
        whole = [s for s in content.get("series", ()) if s.get("is_aggregate")] or content.get(
            "series", ()
        )
        if known and whole and whole[0].get("values"):
            series[known[0]] = [float(value) / known[1] for value in whole[0]["values"]]
    more = f", run {name} of {len(runs)}" if len(runs) > 1 else ""
    found = _of_figures(counted(series), "APerf", what + more, core)
    return found.replace(notes=(*found.notes, "APerf counts all CPUs and scales what it "
                                "multiplexes; its interval is over its samples"))  # fmt: skip


def _performix(text: str, what: str, core: CoreType | None) -> Counters:
    """A table of ``apx render query``: rows of metric and value, or one row of metrics."""
    rows = [[cell.strip() for cell in line.strip().strip(_BAR).split(_BAR)]
            for line in text.splitlines() if line.strip().startswith(_BAR)]  # fmt: skip
    table = [row for row in rows if len(row) > 1]
    pairs: list[tuple[str, str]] = []
    if len(table) == 2:
        pairs = list(zip(table[0], table[1], strict=False))
    elif table and len(table[0]) == 2:
        pairs = [(row[0], row[1]) for row in table[1:] if len(row) == 2]
    series = {}
    for name, value in pairs:
        if (known := arm_metric(name)) and value:
            series[known[0]] = [_float(value.rstrip("%"), what) / known[1]]
    if not series:
        columns = ", ".join(table[0]) if table else "none"
        raise AskError(
            f"{what}: no row of metric and value, nor one row of metrics; its columns are "
            f"{columns}. Query one row of the metrics that are asked for"
        )
    return _of_figures(counted(series), "Arm Performix", what, core)


def _of_figures(
    figures: dict[str, Counted], tool: str, what: str, core: CoreType | None
) -> Counters:
    """Figures that another tool computed keep the same rules."""
    if not figures:
        raise AskError(f"{what} holds none of the metrics that are known of {tool}")
    values = {name: one.value for name, one in figures.items()}
    rates = {"instructions": ipc} if (ipc := values.get("instructions_per_cycle")) else {}
    checks: list[Check] = [c for c in (sum_check(values),) if c]
    if core is not None and (found := identity_check(values, rates, core)):
        checks.append(found)
    reasons = tuple(f"level 1 is rejected: {c.says}" for c in checks if not c.holds)
    if reasons:
        figures = {n: one for n, one in figures.items() if n not in (*LEVEL1, SMT)}
    return Counters(
        tool=tool, rung=rung_of(figures) if figures else "none", core=core, scope=what,
        basis="imported", formula=tool if rung_of(figures) == "topdown" else "",
        figures=figures, checks=tuple(checks), reasons=reasons,
        notes=("whether the engine was what was counted cannot be told from the file",),
    )  # fmt: skip


def _body(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _float(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AskError(f"{what}: {text!r} is no number") from None
