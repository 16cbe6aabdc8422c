"""One trial: a load on a running server, and what it says."""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import msgspec

from ..errors import AskError
from ..schema.trial import ClientFacts, HostPrint, RequestRow, Stop, Verdict
from ..schema.workload import Slo, Workload
from ..stats import quantile
from . import usage
from .backlog import backlog
from .cores import CorePlan, parse_cpus, show_cpus
from .crew import Board, Orders, run
from .dataset import UserPrompt
from .engine.running import Engine
from .figures import Observed, Setting, judge_rows
from .host import host_print
from .load import OnRow, ask_once
from .loop import loop_name
from .pmu import Steady
from .prompts import fresh_salt
from .schedule import Schedule, plan
from .target import Route, Target, fitted
from .traces import Trace
from .verdict import LEVEL, Reading, Watch, observed_until_s

_WARM_UP_SHARE = 0.1  # of the measured requests, within the bounds below
_WARM_UP_MIN, _WARM_UP_MAX = 5, 50
_POLL_S = 2.0  # between looks at the server's gauges
_BACKLOG_EVERY = 15  # ended requests
_GAUGES = ("running", "waiting", "kv_usage_share")


class TrialAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What to measure, and how far."""

    workload: Workload
    slo: Slo = Slo()
    num_requests: int  # measured ones; with `turns` above 1, conversations
    num_warmup: int | None = None  # null: a tenth of them, 5 to 50
    route: Route = "completions"
    workers: int = 1
    timeout_s: float = 600.0  # of a request
    level: float = LEVEL  # chance of a wrong PASS, and of a wrong FAIL
    ends_early: bool = True  # as soon as the SLO is decided, or the server saturated
    usd_per_hour: float | None = None
    price_source: str = ""
    trace: Trace | None = None
    dataset: tuple[UserPrompt, ...] | None = None
    notes: tuple[str, ...] = ()  # for whoever reads the trial
    counts: bool = True  # hardware counters, or what the kernel accounts, over the steady window


class Prepared(msgspec.Struct, frozen=True):
    """A load that is ready to run on a server that answers."""

    ask: TrialAsk
    orders: Orders
    setting: Setting  # as far as it is known before the load

    @property
    def schedule(self) -> Schedule:
        """Every planned request."""
        return self.orders.schedule

    def measured(self) -> list[int]:
        """Numbers of the measured requests, in the order of their arrival."""
        return [i for i, planned in enumerate(self.schedule) if planned.phase == "measured"]


class Look(msgspec.Struct):
    """A running load, for whoever shows its progress."""

    board: Board
    num_planned: int
    verdict: Verdict | None
    is_saturated: bool


OnLook = Callable[[Look], None]


def prepare(
    engine: Engine,
    ask: TrialAsk,
    host: HostPrint | None = None,
    cores: CorePlan | None = None,
) -> Prepared:
    """Draw the schedule, learn how the server counts, read what runs.

    Raises AskError for what cannot be asked, EngineFailed where the server does not answer.
    """
    schedule, salt = draw(ask), fresh_salt()
    target, words = fitted(
        Target(engine.url, ask.route, engine.model, engine.api_key, ask.timeout_s,
               ask.workload.ignore_eos),
        ask.workload, salt, ask_once,
    )  # fmt: skip
    orders = Orders(target, ask.workload, schedule, salt, words, ask.workers)
    setting = Setting(
        workload=ask.workload,
        slo=ask.slo,
        engine=engine.config,
        facts=engine.facts(),
        host=host or host_print(versions={engine.config.engine: engine.config.version}),
        client=ClientFacts(
            loop=loop_name(),
            workers=ask.workers,
            cpus=cores.client_cpus if cores else show_cpus(sorted(os.sched_getaffinity(0))),
            shares_cores=engine.group != 0 and (cores is None or cores.shares),
            lag_p99_s=None,
            cpu_s=None,
            engine_cpu_s=None,
            others_cores=None,
        ),
        salt=salt,
        level=ask.level,
        num_planned=sum(planned.phase == "measured" for planned in schedule),
        stop="crashed",
        counters={},
        faults=engine.mismatches(),
        usd_per_hour=ask.usd_per_hour,
        price_source=ask.price_source,
        notes=tuple(_notes(ask, target, cores)),
    )
    return Prepared(ask, orders, setting)


def draw(ask: TrialAsk) -> Schedule:
    """The whole schedule of a trial. Raises AskError where it cannot be."""
    if ask.workload.output_tokens < 1 or ask.workload.prompt_tokens < 1:
        raise AskError("prompts and answers have to be at least 1 token long")
    return plan(
        ask.workload,
        ask.num_requests,
        num_warmup=_num_warmup(ask),
        num_drain=_num_drain(ask),
        trace=ask.trace,
        dataset=ask.dataset,
    )


def _num_warmup(ask: TrialAsk) -> int:
    if ask.num_warmup is not None:
        return ask.num_warmup
    least = _WARM_UP_MIN
    if ask.workload.arrival == "closed":
        least = max(least, ask.workload.concurrency)
    usual = max(least, min(_WARM_UP_MAX, round(_WARM_UP_SHARE * ask.num_requests)))
    if ask.trace is not None and ask.workload.arrival == "trace":
        return max(0, min(usual, len(ask.trace) - ask.num_requests))  # it has no more than that
    return usual


def _num_drain(ask: TrialAsk) -> int:
    """Requests that keep the load up until the last measured one has ended, as a rule."""
    if ask.workload.arrival == "trace":
        return 0
    return 10 + ask.num_requests // 4 + 2 * (ask.workload.concurrency - 1)


def run_trial(
    engine: Engine,
    prepared: Prepared,
    *,
    cores: CorePlan | None = None,
    on_row: OnRow = lambda *_: None,
    on_look: OnLook = lambda _: None,
) -> Observed:
    """Load a running engine and judge it. It starts nothing and stops nothing.

    `on_row` gets the number and the row of each request that has ended, to be kept at once.
    Ctrl-C ends the load and judges what there is.
    """
    steady = _steady(engine, prepared)
    watcher = _Watcher(engine, prepared, on_look, steady)
    with _pinned(cores), steady:  # which may try counters first: no part of what the load used
        before, counters = usage.snapshot(engine.group), engine.metrics()
        with _Gauges(engine) as gauges:
            ran = run(prepared.orders, on_row, watcher.look)
    spent = before.until(usage.snapshot(engine.group))
    early = prepared.setting
    setting = msgspec.structs.replace(
        early,
        client=early.client.replace(
            lag_p99_s=quantile(ran.lags_s, 0.99) if ran.lags_s else None,
            cpu_s=ran.cpu_s,
            engine_cpu_s=spent.engine_s,
            others_cores=spent.others_cores,
        ),
        stop="engine" if engine.has_ended() else ran.stop,
        counters=_gained(counters, engine.metrics()) | gauges.peaks,
        pmu=steady.counters,
        faults=(*early.faults, *_ending(engine), *filter(None, [ran.fault])),
    )
    return Observed(judge_rows(setting, ran.rows, prepared.schedule), ran.rows, prepared.schedule)


def _steady(engine: Engine, prepared: Prepared) -> Steady:
    """What counts over the steady window; nothing, where the engine is not on this host."""
    measured = prepared.measured()
    is_open = prepared.ask.workload.arrival != "closed"
    due_s = [prepared.schedule[i].due_s for i in measured]
    expected_s = due_s[-1] - due_s[0] if is_open and due_s else None
    return Steady(engine.pids() if prepared.ask.counts else (), measured, expected_s)


def _ending(engine: Engine) -> Iterator[str]:
    if engine.has_ended():
        yield f"the engine ended during the trial: {engine.end_reason()}"


def _notes(ask: TrialAsk, target: Target, cores: CorePlan | None) -> Iterator[str]:
    yield from ask.notes
    if cores is not None and cores.note:
        yield cores.note
    if ask.workload.ignore_eos and not target.ignore_eos:
        yield "the server does not know ignore_eos: answers end where the model ends them"
    if ask.trace is not None and ask.trace.note():
        yield ask.trace.note()


class _Watcher:
    """Looks at a running load twice a second: is it decided, saturated, or in vain?"""

    def __init__(
        self, engine: Engine, prepared: Prepared, on_look: OnLook, steady: Steady
    ) -> None:
        self._engine = engine
        self._steady = steady
        self._ask = prepared.ask
        self._measured = prepared.measured()
        self._watch = Watch(prepared.ask.slo, len(self._measured), prepared.ask.level)
        self._on_look = on_look
        self._num_ended = 0  # measured ones from the first on that have all ended
        self._ended: dict[str, list[Reading]] = {"ttft": [], "tpot": [], "e2e": []}
        self._saturated = False
        self._next_backlog = _BACKLOG_EVERY

    def look(self, board: Board) -> Stop | None:
        """Why the load has to end now; null: it goes on."""
        # What is decided now has to be decided by the rows later, and they know no clock.
        self._steady.look(board.rows)
        until_s = observed_until_s(board.rows)
        verdict = self._watch.verdict(self._readings(board, until_s))
        self._look_at_backlog(board, until_s)
        self._on_look(Look(board, len(self._measured), verdict, self._saturated))
        if self._engine.has_ended():
            return "engine"
        if self._ask.ends_early and verdict is not None:
            return "decided"
        return "saturated" if self._ask.ends_early and self._saturated else None

    def _readings(self, board: Board, until_s: float) -> dict[str, list[Reading]]:
        """Those of ended requests are kept, so that a look costs what is new."""
        begin = self._num_ended
        while self._num_ended < len(self._measured):
            if board.rows[self._measured[self._num_ended]].status in ("unsent", "cancelled"):
                break
            self._num_ended += 1
        ended = self._measured[begin : self._num_ended]
        for metric, new in _of(board, ended, until_s).items():
            self._ended[metric] += new
        out = itertools.takewhile(
            lambda i: board.rows[i].status != "unsent", self._measured[self._num_ended :]
        )
        new_ones = _of(board, out, until_s)
        return {metric: self._ended[metric] + new for metric, new in new_ones.items()}

    def _look_at_backlog(self, board: Board, until_s: float) -> None:
        """It is told anew after every 15 requests, or twentieth of them."""
        if self._num_ended < self._next_backlog or self._ask.workload.arrival == "closed":
            return
        self._next_backlog = self._num_ended + max(_BACKLOG_EVERY, self._num_ended // 20)
        self._saturated = backlog(board.rows, until_s).is_saturated


def _of(board: Board, indexes: Iterable[int], until_s: float) -> dict[str, list[Reading]]:
    chosen = list(indexes)
    rows = [board.rows[i] for i in chosen]
    return readings(rows, [i in board.begun for i in chosen], until_s)


def readings(
    rows: Sequence[RequestRow], begun: Sequence[bool], now_s: float
) -> dict[str, list[Reading]]:
    """Each latency of each row, in due order, as (value, whether it is final).

    That of a request in flight is at least the time since it was due; of its first token only
    while nothing has come. Failed requests are infinitely slow; one token has no TPOT.
    """
    found: dict[str, list[Reading]] = {"ttft": [], "tpot": [], "e2e": []}
    for row, has_begun in zip(rows, begun, strict=True):
        waited_s = max(0.0, now_s - row.due_s) if row.sent_s is not None else 0.0
        for metric, value_s, at_least_s in (
            ("ttft", row.ttft_s, 0.0 if has_begun else waited_s),
            ("tpot", row.tpot_s, 0.0),
            ("e2e", row.e2e_s, waited_s),
        ):
            if row.status in ("unsent", "cancelled"):
                found[metric].append((at_least_s, False))
            elif row.status != "ok":
                found[metric].append((math.inf, True))
            elif value_s is not None:
                found[metric].append((value_s, True))
    return found


class _Gauges:
    """The server's gauges while the load runs, read by a thread of its own: their peaks."""

    def __init__(self, engine: Engine) -> None:
        self.peaks: dict[str, float] = {}
        self._engine = engine
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="gauges", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._over.wait(_POLL_S):
            now = self._engine.metrics()
            for name in _GAUGES:
                if name in now:
                    peak = f"{name}_peak"
                    self.peaks[peak] = max(self.peaks.get(peak, 0.0), now[name])


def _gained(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    return {
        name: value - before[name]
        for name, value in after.items()
        if name in before and name not in _GAUGES
    }


@contextmanager
def _pinned(cores: CorePlan | None) -> Iterator[None]:
    """This process, and the load workers that it starts, on the client's CPUs meanwhile."""
    before = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, parse_cpus(cores.client_cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
