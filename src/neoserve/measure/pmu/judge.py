"""From counted windows to figures with intervals, the rules they keep, the rung. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...schema.pmu import Check, CoreType, Counted, Rung, Window
from ...stats import mean_interval
from .checks import identity_check, sum_check, window_checks
from .events import CYCLES, may_be_nought
from .formulas import LEVEL1, SMT, STALLS, figures, source_of


class Judged(NamedTuple):
    """What windows say."""

    rung: Rung
    figures: dict[str, Counted]
    checks: tuple[Check, ...]
    reasons: tuple[str, ...]
    formula: str


def judge(windows: Sequence[Window], core: CoreType | None) -> Judged:
    """Figures with intervals; what breaks a rule is left out, with the reason."""
    windows, reasons = _without_noughts(windows)
    checks = list(window_checks(windows))
    broken = [check for check in checks if not check.holds]
    if broken:
        says = tuple(check.says for check in broken)
        return Judged("proc", {}, tuple(checks), (*says, *reasons), "")
    total = rates(windows)
    found = figures(core, total)
    about_level1 = [] if core is None else [
        check for check in (sum_check(found), identity_check(found, total, core)) if check
    ]  # fmt: skip
    checks += about_level1
    rejected = tuple(f"level 1 is rejected: {c.says}" for c in about_level1 if not c.holds)
    if rejected:
        found = {name: value for name, value in found.items() if name not in (*LEVEL1, SMT)}
    rung = rung_of(found)
    formula = source_of(core) if core is not None and rung == "topdown" else ""
    counted = with_intervals(found, windows, core)
    return Judged(rung, counted, tuple(checks), (*rejected, *reasons), formula)


def _without_noughts(windows: Sequence[Window]) -> tuple[list[Window], tuple[str, ...]]:
    """Less the events that stayed 0 all the time, which no busy engine does."""
    total: dict[str, float] = defaultdict(float)
    for window in windows:
        for name, count in window.counts.items():
            total[name] += count
    absent = [name for name, count in total.items() if count == 0 and not may_be_nought(name)]
    kept = [
        window.replace(counts={n: c for n, c in window.counts.items() if n not in absent})
        for window in windows
    ]
    if not absent:
        return kept, ()
    return kept, (
        f"0 all the time under load, so this host may not count them: {', '.join(absent)}",
    )


def rung_of(found: Iterable[str]) -> Rung:
    """The highest that these figures make up."""
    names = set(found)
    if names.issuperset(LEVEL1):
        return "topdown"
    if names.intersection(STALLS):
        return "stalls"
    return "ipc" if names else "proc"


def rates(windows: Sequence[Window]) -> dict[str, float]:
    """Counts a cycle, each over the cycles of the groups that it was counted in."""
    counts: dict[str, float] = defaultdict(float)
    cycles: dict[str, float] = defaultdict(float)
    for window in windows:
        for name, count in window.counts.items():
            counts[name] += count
            cycles[name] += window.counts.get(CYCLES, 0.0)
    return {name: counts[name] / cycles[name] for name in counts if cycles[name]}


def with_intervals(
    found: Mapping[str, float], windows: Sequence[Window], core: CoreType | None
) -> dict[str, Counted]:
    """Each figure with the t interval of its rounds: windows that hold every group once."""
    each: dict[str, list[float]] = defaultdict(list)
    for part in rounds(windows):
        for name, value in figures(core, rates(part)).items():
            each[name].append(value)
    return {name: _counted(value, each[name]) for name, value in found.items()}


def rounds(windows: Sequence[Window]) -> list[list[Window]]:
    """Windows cut where a group comes again; a last one that lacks groups is left out."""
    found: list[list[Window]] = []
    seen: set[tuple[str, ...]] = set()
    for window in windows:
        group = tuple(window.counts)
        if not found or group in seen:
            found.append([])
            seen = set()
        found[-1].append(window)
        seen.add(group)
    whole = max((len(part) for part in found), default=0)
    return [part for part in found if len(part) == whole]


def _counted(value: float, each: Sequence[float]) -> Counted:
    """The ratio of all counts, and how far its rounds leave their mean open."""
    if len(each) < 2:
        return Counted(value, None, None, max(1, len(each)))
    middle, low, high = mean_interval(each)
    return Counted(value, value + low - middle, value + high - middle, len(each))
