"""Counters around a trial's steady window: first to last measured arrival."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Self

from ...errors import Error
from ...schema.pmu import Counters
from ...schema.trial import RequestRow
from .collect import Collector
from .perf import Scope
from .probe import Host, this_host
from .targets import workers


class Steady:
    """``with Steady(pids, measured) as steady``; `look` at the rows now and then.

    Nothing is done here while the load runs: a thread reads /proc at both ends, and perf sleeps
    while it counts.
    """

    def __init__(
        self,
        pids: Sequence[int],
        measured: Sequence[int],
        expected_s: float | None,
        host: Host | None = None,
    ) -> None:
        """`measured`: numbers of the measured requests, in the order of their arrival."""
        self.counters: Counters | None = None
        self._pids, self._measured, self._expected_s = tuple(pids), measured, expected_s
        self._host = host
        self._begin, self._over = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._pids and self._measured:
            host = self._host or this_host()  # probed before the load
            self._thread = threading.Thread(
                target=self._run, args=(host,), name="counters", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        if self._thread is not None:
            self._thread.join()

    def look(self, rows: Sequence[RequestRow]) -> None:
        """Begin when the first measured request has been sent, end when the last has been."""
        if self._thread is None or self._over.is_set():
            return
        if not self._begin.is_set() and rows[self._measured[0]].status != "unsent":
            self._begin.set()
        if rows[self._measured[-1]].status != "unsent":
            self.end()

    def end(self) -> None:
        """The window is over, or the load is."""
        self._over.set()
        self._begin.set()

    def _run(self, host: Host) -> None:
        self._begin.wait()
        if self._over.is_set():  # it ended before it had begun
            return
        pids = workers(self._pids)
        if not pids:
            return
        try:
            self.counters = Collector(host, Scope(pids)).run(self._over, self._expected_s)
        except (Error, OSError) as error:  # a trial goes on without
            self.counters = Counters(
                tool="", rung="none", core=host.core, scope=Scope(pids).show(),
                reasons=(str(error),),
            )  # fmt: skip
