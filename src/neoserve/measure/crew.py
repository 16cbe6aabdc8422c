"""One load by one process or several: each sends its own slice of the one schedule."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..errors import AskError, EngineFailed
from ..schema.trial import PlannedRequest, RequestRow, Stop
from ..schema.workload import Workload
from .load import Load, OnAnswer, OnRow, Plan
from .loop import loop_name, run_quickly
from .target import Target

TICK_S = 0.5  # how often a running load is looked at, or seldomer:
_LOOK_SHARE = 0.005  # of the time may be spent on looking, during which no socket is read
_START_S = 0.2  # between "ready" and time zero, so that every process is there in time
_SOCKETS = 65_536
_MAX_LAGS = 20_000  # of a worker, sent at its end


class Board(msgspec.Struct):
    """A load as it stands: a row for every planned request, and which are being answered."""

    rows: list[RequestRow]
    begun: set[int] = set()  # in flight, with bytes of the answer received
    now_s: float = 0.0


class Ran(msgspec.Struct):
    """A load that has ended."""

    rows: list[RequestRow]
    stop: Stop
    lags_s: list[float]  # of the clients' event loops
    cpu_s: float  # of the clients
    loop: str
    start_s: float = 0.0  # on the monotonic clock
    fault: str = ""  # of the client itself; its load was not the one planned


OnTick = Callable[[Board], Stop | None]


class Orders(msgspec.Struct, frozen=True):
    """A load to run."""

    target: Target
    workload: Workload
    schedule: tuple[PlannedRequest, ...]
    salt: str
    words: tuple[str, ...]
    workers: int = 1

    def plans(self) -> list[Plan]:
        """One for each process; a conversation stays with one of them.

        A closed load has no more of them than slots.
        """
        if self.workers < 1:
            raise AskError(f"{self.workers} client processes send nothing; give at least 1")
        is_closed = self.workload.arrival == "closed"
        num = min(self.workers, self.workload.concurrency) if is_closed else self.workers
        parts: list[dict[int, PlannedRequest]] = [{} for _ in range(num)]
        for index, planned in enumerate(self.schedule):
            parts[planned.session % num][index] = planned
        return [
            Plan(self.target, self.workload, part, self.salt, self.words,
                 _share(self.workload.concurrency, num, number))
            for number, part in enumerate(parts)
        ]  # fmt: skip


def run(
    orders: Orders, on_row: OnRow, on_tick: OnTick, on_answer: OnAnswer | None = None
) -> Ran:
    """Run a load to its end. Ctrl-C ends it and keeps its rows.

    `on_row` gets each request that has ended; `on_tick` is called twice a second and may end
    the load. Both have to be quick. `on_answer` sees raw answers, of a single process only.
    """
    _allow_many_sockets()
    if orders.workers > 1:
        return run_quickly(_together(orders, on_row, on_tick))
    return run_quickly(_alone(orders, on_row, on_tick, on_answer))


def _allow_many_sockets() -> None:
    """A backlog of open requests must not end at the shell's usual 1,024 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, _SOCKETS)), hard))


async def _alone(
    orders: Orders, on_row: OnRow, on_tick: OnTick, on_answer: OnAnswer | None
) -> Ran:
    load = Load(orders.plans()[0], on_row, on_answer)
    board = Board(list(load.rows.values()))
    stops: list[Stop] = []

    def look() -> None:
        board.rows = list(load.rows.values())
        board.begun = load.begun()
        board.now_s = load.now_s()
        if (stop := on_tick(board)) is not None:
            stops.append(stop)
            load.stop()

    cpu_s = _cpu_s()
    await load.prepare()
    ticking = asyncio.ensure_future(_every_tick(look))
    ticking.add_done_callback(lambda _: load.stop())  # a look that fails ends the load
    start_s = time.monotonic() + _START_S
    try:
        await load.run(start_s)
    except asyncio.CancelledError:
        stops.append("interrupted")
    _end_ticking(ticking)
    rows = list(load.rows.values())
    stop = stops[0] if stops else "planned"
    return Ran(rows, stop, load.lags_s, _cpu_s() - cpu_s, loop_name(), start_s)


def _end_ticking(ticking: asyncio.Future[None]) -> None:
    """Raises what a look raised."""
    if ticking.done():
        ticking.result()
    ticking.cancel()


async def _every_tick(look: Callable[[], None]) -> None:
    wait_s = TICK_S
    while True:
        await asyncio.sleep(wait_s)
        began_s = time.monotonic()
        look()
        wait_s = max(TICK_S, (time.monotonic() - began_s) / _LOOK_SHARE)


def _share(total: int, parts: int, number: int) -> int:
    return total // parts + (number < total % parts)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Note(msgspec.Struct):
    """What a worker tells: rows that have ended, answers that have begun, its end."""

    rows: list[tuple[int, RequestRow]] = []
    flying: list[tuple[int, RequestRow]] = []  # in flight, as they would be if all ended now
    begun: list[int] = []
    ready: bool = False
    ended: bool = False
    lags_s: list[float] = []
    cpu_s: float = 0.0


async def _together(orders: Orders, on_row: OnRow, on_tick: OnTick) -> Ran:
    board = Board([
        RequestRow(due_s=p.due_s, status="unsent", phase=p.phase, session=p.session, turn=p.turn)
        for p in orders.schedule
    ])  # fmt: skip
    workers = [await _Worker.start(plan) for plan in orders.plans()]
    ran = Ran(board.rows, "planned", [], 0.0, loop_name())
    try:
        for worker in workers:
            await worker.ready()
        ran.start_s = start_s = time.monotonic() + _START_S
        for worker in workers:
            worker.say(start_s)
        await _follow(workers, board, start_s, ran, on_row, on_tick)
    finally:
        for worker in workers:
            worker.kill()
    return ran


async def _follow(
    workers: list[_Worker],
    board: Board,
    start_s: float,
    ran: Ran,
    on_row: OnRow,
    on_tick: OnTick,
) -> None:
    """Gather what the workers tell until each has ended."""

    def look() -> None:
        board.begun = set().union(*(worker.begun for worker in workers))
        board.now_s = time.monotonic() - start_s
        if (stop := on_tick(board)) is not None:
            ran.stop = stop
            _stop_all(workers)

    left = sum(row.phase != "drain" for row in board.rows)

    async def listen(worker: _Worker) -> None:
        nonlocal left
        async for said in worker.notes():
            for index, row in said.flying:
                board.rows[index] = row
            for index, row in said.rows:
                board.rows[index] = row
                on_row(index, row)
                left -= row.phase != "drain"
            if not left:
                _stop_all(workers)
            ran.lags_s += said.lags_s
            ran.cpu_s += said.cpu_s
        if not worker.has_ended:
            ran.fault = "a process of the load client died"
            _stop_all(workers)

    ticking = asyncio.ensure_future(_every_tick(look))
    ticking.add_done_callback(lambda _: _stop_all(workers))
    listening = asyncio.gather(*(listen(worker) for worker in workers))
    try:
        await asyncio.shield(listening)
    except asyncio.CancelledError:
        ran.stop = "interrupted"
        _stop_all(workers)
        await listening
    _end_ticking(ticking)


def _stop_all(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.say(None)


class _Worker:
    """A client process, seen from the one that started it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.begun: list[int] = []
        self.has_ended = False  # by its own word

    @classmethod
    async def start(cls, plan: Plan) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "neoserve.measure.crew",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is ours to pass on
            env=os.environ | {"NEOSERVE_PARENT_PID": str(os.getpid())},
        )  # fmt: skip
        worker = cls(process)
        worker._send(msgspec.msgpack.encode(plan))
        return worker

    def say(self, start_s: float | None) -> None:
        """A time to start at, or null: stop."""
        with contextlib.suppress(OSError, RuntimeError):  # uvloop's word for a closed pipe
            self._send(msgspec.msgpack.encode(start_s))

    async def ready(self) -> None:
        async for said in self.notes():
            if said.ready:
                return
        raise EngineFailed("a load worker ended before it was ready; its error stands above")

    async def notes(self) -> Any:
        """What it tells, until it ends."""
        assert self._process.stdout is not None
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                size = int.from_bytes(await self._process.stdout.readexactly(4), "big")
                data = await self._process.stdout.readexactly(size)
                said = msgspec.msgpack.decode(data, type=Note)
                self.begun = said.begun
                self.has_ended = said.ended
                yield said
                if said.ended:
                    return

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(len(data).to_bytes(4, "big") + data)


async def _work() -> None:
    """A worker's life: read the plan, say ready, wait for the start, send, tell."""
    reader = asyncio.StreamReader(limit=2**30)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    plan = msgspec.msgpack.decode(await _frame(reader), type=Plan)
    fresh: list[tuple[int, RequestRow]] = []
    load = Load(plan, lambda index, row: fresh.append((index, row)), ends_alone=False)
    await load.prepare()
    _tell(Note(ready=True))
    start_s = msgspec.msgpack.decode(await _frame(reader), type=float)

    async def obey() -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await _frame(reader)
        load.stop()  # by order, or because whoever gives orders is gone

    def tell() -> None:
        flying = [(i, row) for i, row in load.rows.items() if row.status == "cancelled"]
        _tell(Note(rows=list(fresh), flying=flying, begun=sorted(load.begun())))
        fresh.clear()

    cpu_s = _cpu_s()
    others = [asyncio.ensure_future(_every_tick(tell)), asyncio.ensure_future(obey())]
    await load.run(start_s)
    for task in others:
        task.cancel()
    tell()
    step = max(1, len(load.lags_s) // _MAX_LAGS)
    _tell(Note(ended=True, lags_s=load.lags_s[::step], cpu_s=_cpu_s() - cpu_s))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _tell(note: Note) -> None:
    data = msgspec.msgpack.encode(note)
    try:
        sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # whoever listened is gone
        os._exit(1)


def main() -> None:
    """Run as ``python -m``: a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_quickly(_work())


if __name__ == "__main__":
    main()
