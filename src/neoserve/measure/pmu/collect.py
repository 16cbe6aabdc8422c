"""Windows of counts on an engine that works, and the document that they make."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

from ...errors import EngineFailed
from ...schema.pmu import Counters, KernelFigures, Rung, Window
from . import kernel
from .checks import coverage_share
from .events import groups, level1
from .judge import judge
from .output import Line
from .perf import Perf, Scope, counting
from .probe import Host, key_of

SLICE_S = 1.0  # of one group of events, at least
_ROUNDS = 12  # as many as an interval needs; longer loads get longer windows
_LEAST_S = 0.25  # of a window that is kept when the load ends in it
_MOST_FAILED = 3  # windows in a row, after which it is given up
_TASK_CLOCK = "task-clock"


class Collector:
    """Counts one scope, window by window, until it is told to stop."""

    def __init__(self, host: Host, scope: Scope, pids: Sequence[int] = ()) -> None:
        """`pids`: those that a scope of CPUs is counted for; of processes they are the scope."""
        self._host, self._scope = host, scope
        self._pids = tuple(pids) or scope.pids
        self._windows: list[Window] = []
        self._problems: dict[str, None] = {}  # in the order in which they came up
        self._user_only = False

    def run(self, over: threading.Event, expected_s: float | None) -> Counters:
        """Count until `over`, which takes about `expected_s`; null: nobody knows."""
        before = kernel.snapshot(self._pids)
        if self._host.counts and self._host.perf is not None:
            self._count(self._host.perf, over, expected_s)
        over.wait()
        gained = kernel.gained(before, kernel.snapshot(self._pids)) if self._pids else None
        return self._document(gained)

    def _count(self, perf: Perf, over: threading.Event, expected_s: float | None) -> None:
        names = groups(self._host.core, self._host.events, self._host.group_size)
        slice_s = max(SLICE_S, (expected_s or 0.0) / (_ROUNDS * len(names)))
        failed = 0
        while not over.is_set() and failed < _MOST_FAILED:
            for group in names:
                if over.is_set():
                    return
                try:
                    self._window(perf, group, over, slice_s)
                    failed = 0
                except EngineFailed as error:
                    self._problems[str(error)] = None
                    failed += 1

    def _window(
        self, perf: Perf, group: tuple[str, ...], over: threading.Event, length_s: float
    ) -> None:
        words = ["{" + ",".join(self._host.events[name] for name in group) + "}"]
        if not self._scope.cpus:
            words.append(_TASK_CLOCK)
        with counting(perf, self._scope, words) as switched:
            used_s, began_s = kernel.cpu_s(self._scope.pids), time.monotonic()
            switched.on()
            over.wait(length_s)
            switched.off()
            used_s, took_s = kernel.cpu_s(self._scope.pids) - used_s, time.monotonic() - began_s
            lines = switched.lines()
        if took_s < _LEAST_S:
            return
        self._user_only |= any(line.user_only for line in lines)
        window = window_of(group, self._host, lines, took_s, used_s)
        if isinstance(window, str):
            self._problems[window] = None
        else:
            self._windows.append(window)

    def _document(self, gained: KernelFigures | None) -> Counters:
        core = self._host.core
        judged = judge(self._windows, core)
        rung: Rung = judged.rung
        if rung == "proc" and gained is None:
            rung = "none"
        reasons = [*self._problems, *judged.reasons]
        if rung != "topdown":
            reasons += [*self._host.reasons, *_no_level1(self._host)]
        counted = bool(judged.figures) and self._host.perf is not None
        return Counters(
            tool=f"perf {self._host.perf.version}" if counted and self._host.perf else
            "/proc" if gained else "",
            rung=rung,
            core=core,
            scope=self._scope.show(),
            formula=judged.formula,
            length_s=sum(w.length_s for w in self._windows) if counted else
            gained.length_s if gained else 0.0,
            coverage_share=coverage_share(self._windows),
            figures=judged.figures,
            checks=judged.checks,
            windows=tuple(self._windows),
            kernel=gained,
            reasons=tuple(dict.fromkeys(reasons)),
            notes=tuple(self._notes()),
        )  # fmt: skip

    def _notes(self) -> Iterator[str]:
        if self._user_only:
            yield (
                "user space alone was counted: the kernel lets nobody but root count it "
                "(kernel.perf_event_paranoid)"
            )
        if self._scope.cpus:
            yield f"whatever ran on CPUs {self._scope.cpus} was counted, not the engine alone"


def window_of(
    group: Sequence[str], host: Host, lines: Sequence[Line], length_s: float, cpu_s: float
) -> Window | str:
    """What perf printed of one group; a sentence where it cannot be used."""
    seen = {key_of(line.event): line for line in lines}
    counts = {}
    for name in group:
        line = seen.get(key_of(host.events[name]))
        if line is None or line.value is None:
            return f"{name} was {line.problem if line else 'not printed'} under load"
        if not line.is_whole:
            return (
                f"{name} was on a counter for {line.running_share:.1%} of the time: something "
                "else uses the counters, and scaled counts are not used"
            )
        counts[name] = line.value
    clock = seen.get(_TASK_CLOCK)
    clock_s = clock.value / 1e3 if clock is not None and clock.value is not None else None
    return Window(counts, length_s, clock_s, cpu_s if clock_s is not None else None)


def _no_level1(host: Host) -> Iterator[str]:
    if host.counts and not level1(host.core):
        name = host.core.name if host.core else "this core"
        yield f"level 1 is not known of {name}"
    elif host.counts and not set(level1(host.core)) <= set(host.events):
        yield "level 1 needs events that do not count here"


def collect(host: Host, scope: Scope, length_s: float, pids: Sequence[int] = ()) -> Counters:
    """For a fixed time. Ctrl-C ends it early and keeps what was counted."""
    over = threading.Event()
    timer = threading.Timer(length_s, over.set)
    timer.start()
    found: list[Counters] = []
    thread = threading.Thread(
        target=lambda: found.append(Collector(host, scope, pids).run(over, length_s)),
        name="counters", daemon=True,
    )  # fmt: skip
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        over.set()
        thread.join()
    finally:
        timer.cancel()
    if not found:
        raise EngineFailed("counting failed; its error stands above")
    return found[0]
