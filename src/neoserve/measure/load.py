"""The load: requests leave when they are due, whatever the server does.

The whole schedule is drawn first. Bytes are stamped as they arrive and parsed when the request
has ended. Every planned request gives one row, failed ones with their reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import msgspec

from ..schema.trial import PlannedRequest, RequestRow
from ..schema.workload import Workload
from .loop import run_quickly
from .prompts import Prompts
from .stream import answer_text, read_answer
from .target import Message, Target, user
from .wire import Answer, BrokenAnswerError, Connection, Origin, Pool

_LEAD_S = 0.1  # a connection is opened so long before its request is due
_BEAT_S = 0.02  # how often the event loop's own lateness is sampled

OnRow = Callable[[int, RequestRow], None]
OnAnswer = Callable[[int, Answer], None]


class Plan(msgspec.Struct, frozen=True):
    """What one process sends: requests by their number in the schedule, and to whom."""

    target: Target
    workload: Workload
    requests: dict[int, PlannedRequest]
    salt: str
    words: tuple[str, ...]
    concurrency: int = 1  # of a closed load, this process's share


class Load:
    """The requests of one plan while they run."""

    def __init__(
        self,
        plan: Plan,
        on_row: OnRow,
        on_answer: OnAnswer | None = None,
        ends_alone: bool = True,  # false: only `stop` ends it
    ) -> None:
        self.rows = {
            i: RequestRow(
                due_s=p.due_s, status="unsent", phase=p.phase, session=p.session, turn=p.turn
            )
            for i, p in plan.requests.items()
        }
        self.lags_s: list[float] = []  # of the event loop, every 20 ms
        self._plan = plan
        self._on_row = on_row
        self._on_answer = on_answer
        self._ends_alone = ends_alone
        self._prompts = Prompts(plan.workload, plan.salt, plan.words)
        self._pool = Pool(Origin.of(plan.target.url))
        self._start_s = time.monotonic()
        self._over = asyncio.Event()
        self._open = {i for i, p in plan.requests.items() if p.phase != "drain"}
        self._requests: dict[int, bytes] = {}
        self._flights: dict[int, Connection] = {}
        self._unread: deque[tuple[int, RequestRow, Answer]] = deque()
        self._has_unread = asyncio.Event()

    def now_s(self) -> float:
        """Seconds since the load's start."""
        return time.monotonic() - self._start_s

    def begun(self) -> set[int]:
        """Requests in flight of whose answers bytes have come."""
        return {index for index, flight in self._flights.items() if flight.has_body}

    def stop(self) -> None:
        """End the load: what is in flight is cancelled, what is not yet due stays unsent."""
        self._over.set()

    async def prepare(self) -> None:
        """Make the first requests and connections, so that the start is on time."""
        if self._plan.workload.turns <= 1:
            self._requests = {
                i: self._request(i, [user(self._text(i))]) for i in self._plan.requests
            }
        if self._plan.workload.arrival == "closed":
            with contextlib.suppress(OSError):  # told by the requests that then fail
                opened = [await self._pool.open() for _ in range(self._plan.concurrency)]
                for connection in opened:
                    connection.idle_since_s = time.monotonic()
                    self._pool.give_back(connection)

    async def run(self, start_s: float) -> dict[int, RequestRow]:
        """Send everything; `start_s` is time zero on the monotonic clock.

        Ends when all but the drain have ended, or by `stop`, or when its task is cancelled
        (Ctrl-C), which leaves the rows.
        """
        self._start_s = start_s
        gc.collect()
        gc.freeze()  # a collection of all that is alive would hold up the clock's readings
        parts = (*self._parts(), self._beat(), self._read())
        tasks: set[asyncio.Future[None]] = {asyncio.ensure_future(part) for part in parts}
        over = asyncio.ensure_future(self._over.wait())
        try:
            await _first_of(over, tasks)
        finally:
            over.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(over, *tasks, return_exceptions=True)
            gc.unfreeze()
            self._read_all()
            self._pool.close()
        return self.rows

    def _parts(self) -> Iterator[Coroutine[Any, Any, None]]:
        sessions = self._sessions()
        if self._plan.workload.arrival == "closed":
            shared = iter(sessions)
            num = min(self._plan.concurrency, len(sessions))
            yield from (self._slot(shared) for _ in range(num))
        else:
            yield self._pump(sessions)

    def _sessions(self) -> list[list[int]]:
        """Request numbers of each conversation, in the order of their first turns."""
        found: dict[int, list[int]] = defaultdict(list)
        for index, planned in self._plan.requests.items():
            found[planned.session].append(index)
        return list(found.values())

    async def _pump(self, sessions: Iterable[list[int]]) -> None:
        """Wake each conversation shortly before its first request is due."""
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                wait_s = self.rows[session[0]].due_s - _LEAD_S - self.now_s()
                if wait_s > 0:
                    await asyncio.sleep(wait_s)
                group.create_task(self._session(session, self.rows[session[0]].due_s))

    async def _slot(self, sessions: Iterator[list[int]]) -> None:
        for session in sessions:
            await self._session(session, self.now_s())

    async def _session(self, session: list[int], due_s: float) -> None:
        """One request, or the turns of a conversation, each after the last answer."""
        if len(session) == 1:
            await self._one(session[0], self._requests.pop(session[0]), due_s)
            return
        said: list[Message] = []
        for index in session:
            said.append(user(self._text(index)))
            answer = await self._one(index, self._request(index, said), due_s)
            self._read_all()
            row = self.rows[index]
            if row.status != "ok" or row.last_token_s is None:
                self._skip(session, index, row)
                return
            said.append({"role": "assistant", "content": answer_text(answer.body())})
            due_s = row.last_token_s + self._plan.workload.think_time_s

    def _skip(self, session: list[int], index: int, failed: RequestRow) -> None:
        """Turns after one that failed cannot be asked: they fail with it."""
        for later in session[session.index(index) + 1 :]:
            reason = f"turn {failed.turn} failed: {failed.error}"
            self._end(later, self.rows[later].replace(
                due_s=self.now_s(), status=failed.status, error=reason))  # fmt: skip

    async def _one(self, index: int, request: bytes, due_s: float) -> Answer:
        """Send one request when it is due and wait for its end; it is read later."""
        connecting = asyncio.ensure_future(self._pool.connection())
        try:
            while (wait_s := due_s - self.now_s()) > 0:  # uvloop's timers round to milliseconds
                await asyncio.sleep(wait_s)
            row = self.rows[index].replace(due_s=round(due_s, 6), sent_s=round(self.now_s(), 6))
            answer = Answer(raw=[])
            self.rows[index] = row.replace(status="cancelled", error="the trial was ended")
            try:
                async with asyncio.timeout(self._plan.target.timeout_s):
                    await self._exchange(index, connecting, request, answer)
                row = row.replace(status="ok")
            except asyncio.CancelledError:
                self.rows[index] = read(self.rows[index], answer, self._start_s)
                raise
            except (BrokenAnswerError, OSError, TimeoutError) as error:
                row = _failed(row, error, self._plan.target.timeout_s)
        finally:
            connecting.cancel()
        self._unread.append((index, row, answer))
        self._has_unread.set()
        return answer

    async def _read(self) -> None:
        """Read answers one by one between other work: many may end at the same moment, and
        the next requests must not wait until all of them are parsed."""
        while True:
            await self._has_unread.wait()
            while self._unread:
                self._read_next()
                await asyncio.sleep(0)
            self._has_unread.clear()

    def _read_all(self) -> None:
        while self._unread:
            self._read_next()

    def _read_next(self) -> None:
        index, row, answer = self._unread.popleft()
        self._end(index, read(row, answer, self._start_s))
        if self._on_answer is not None:
            self._on_answer(index, answer)

    async def _exchange(
        self, index: int, connecting: asyncio.Future[Connection], request: bytes, answer: Answer
    ) -> None:
        connection = await connecting
        was_idle = connection.idle_since_s > 0
        self._flights[index] = connection
        try:
            await connection.exchange(request, answer)
        except BrokenAnswerError:
            # A server may close an idle connection at the moment we use it: not its fault.
            if not was_idle or answer.raw:
                raise
            connection = self._flights[index] = await self._pool.open()
            await connection.exchange(request, answer)
        finally:
            self._flights.pop(index, None)
        self._pool.give_back(connection)

    def _end(self, index: int, row: RequestRow) -> None:
        self.rows[index] = row
        self._on_row(index, row)
        self._open.discard(index)
        if self._ends_alone and not self._open:
            self._over.set()

    async def _beat(self) -> None:
        while True:
            due_s = self.now_s() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self.lags_s.append(max(0.0, self.now_s() - due_s))

    def _text(self, index: int) -> str:
        planned = self._plan.requests[index]
        if planned.prompt:
            return planned.prompt
        num_words = self._plan.target.num_words(planned.prompt_tokens)
        return self._prompts.text(index, num_words, planned.prefix)

    def _request(self, index: int, messages: list[Message]) -> bytes:
        return self._plan.target.request(messages, self._plan.requests[index].output_tokens)


async def _first_of(over: asyncio.Future[Any], tasks: set[asyncio.Future[None]]) -> None:
    """Wait for `over`, but not in vain when a task has failed by our own fault."""
    running = set(tasks)
    while not over.done():
        ended, _ = await asyncio.wait({over, *running}, return_when=asyncio.FIRST_COMPLETED)
        running -= ended
        for task in ended - {over}:
            task.result()


def ask_once(target: Target, request: bytes) -> RequestRow:
    """Send one request now and read its answer; times count from its sending."""

    async def ask() -> RequestRow:
        answer, start_s = Answer(raw=[]), time.monotonic()
        row = RequestRow(due_s=0.0, sent_s=0.0)
        try:
            async with asyncio.timeout(target.timeout_s):
                connection = await Pool(Origin.of(target.url)).open()
                await connection.exchange(request, answer)
                connection.close()
        except (BrokenAnswerError, OSError, TimeoutError) as error:
            row = _failed(row, error, target.timeout_s)
        return read(row, answer, start_s)

    return run_quickly(ask())


def read(row: RequestRow, answer: Answer, zero_s: float) -> RequestRow:
    """`row` with what its answer says, in seconds from `zero_s` of the monotonic clock.

    A row whose request did not end whole keeps its status.
    """
    if answer.status == 200:
        found = read_answer(row, answer.body(zero_s))
        return found if row.status == "ok" else found.replace(status=row.status, error=row.error)
    if row.status != "ok":
        return row
    wait = answer.headers.get("retry-after")
    hint = f", retry after {wait}" if wait else ""
    text = " ".join(answer.text()[:300].split())
    return row.replace(status="http", error=f"HTTP {answer.status}{hint}: {text}")


def _failed(row: RequestRow, error: Exception, timeout_s: float) -> RequestRow:
    if isinstance(error, TimeoutError):  # before OSError: it is one
        return row.replace(status="timeout", error=f"no whole answer within {timeout_s:g} s")
    if isinstance(error, BrokenAnswerError):
        return row.replace(status="connection", error=str(error))
    return row.replace(status="connection", error=f"{type(error).__name__}: {error}")
