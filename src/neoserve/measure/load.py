"""Open-loop load: requests leave when they are due, whatever the server does.

The whole schedule is drawn first. Bytes are stamped as they arrive and parsed when the request
has ended. Every planned request gives one row, failed ones with their reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..errors import AskError, EngineFailed
from ..schema.trial import RequestRow
from ..schema.workload import Workload
from .arrivals import arrival_times_s, num_requests_for
from .prompts import Prompts
from .stream import Chunk, read_answer

if TYPE_CHECKING:
    import aiohttp

Route = Literal["completions", "chat"]
OnProgress = Callable[[int, int, RequestRow], None]  # finished, planned, the row that finished

_PROBES = 3


class Server(msgspec.Struct, frozen=True):
    """Where requests go and how this server wants them."""

    url: str  # without /v1
    route: Route = "completions"
    model: str = ""  # "": the first that the server lists
    api_key: str = ""
    timeout_s: float = 600.0
    ignore_eos: bool = True
    num_words: int = 0  # that make `prompt_tokens` on this server

    @property
    def endpoint(self) -> str:
        """The URL that requests are posted to."""
        return f"{self.url}/v1/{'chat/completions' if self.route == 'chat' else self.route}"

    def body(self, prompt: str, output_tokens: int) -> bytes:
        """One request."""
        asked: dict[str, Any] = (
            {"messages": [{"role": "user", "content": prompt}]}
            if self.route == "chat"
            else {"prompt": prompt}
        )
        asked |= {
            "model": self.model,
            "max_tokens": output_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(asked | ({"ignore_eos": True} if self.ignore_eos else {})).encode()


def run(
    url: str,
    workload: Workload,
    num_requests: int | None = None,
    duration_s: float | None = None,
    on_progress: OnProgress | None = None,
    *,
    route: Route = "completions",
    model: str = "",
    api_key: str = "",
    timeout_s: float = 600.0,
) -> list[RequestRow]:
    """One load on an OpenAI-compatible server; a row for every planned request, in due order.

    Give `num_requests`, or `duration_s` of an open workload. Ctrl-C ends the load and keeps its
    rows: those in flight are "cancelled", those not yet due "unsent". `on_progress` is called
    between requests and has to be quick. Raises AskError, or EngineFailed if no request gets an
    answer at all.
    """
    planned = _planned(workload, num_requests, duration_s)
    due_s = (0.0,) * planned if workload.arrival == "closed" else arrival_times_s(workload, planned)
    server = Server(_base(url), route, model, api_key, timeout_s)
    return asyncio.run(_run(server, workload, due_s, on_progress or (lambda *_: None)))


def _planned(workload: Workload, num_requests: int | None, duration_s: float | None) -> int:
    if (num_requests is None) == (duration_s is None):
        raise AskError("give either num_requests or duration_s")
    if duration_s is not None and (workload.arrival == "closed" or not duration_s > 0):
        raise AskError("duration_s has to be above 0 and needs an open workload; give num_requests")
    planned = num_requests if duration_s is None else num_requests_for(workload, duration_s)
    if planned is None or planned < 1 or workload.prompt_tokens < 1 or workload.output_tokens < 1:
        raise AskError("requests, prompt tokens and output tokens have to be at least 1")
    if workload.arrival == "closed" and workload.concurrency < 1:
        raise AskError(f"concurrency is {workload.concurrency}; give at least 1")
    return planned


def _base(url: str) -> str:
    base = url.rstrip("/").removesuffix("/v1")
    if not base.startswith(("http://", "https://")):
        raise AskError(f"URL {url!r} has no scheme; write http://HOST:PORT")
    return base


async def _run(
    server: Server, workload: Workload, due_s: tuple[float, ...], on_progress: OnProgress
) -> list[RequestRow]:
    prompts = Prompts(workload)
    async with _session(server) as session:
        server = await _fitted(session, server, workload, prompts)
        bodies = [
            server.body(prompts.text(server.num_words), workload.output_tokens) for _ in due_s
        ]
        load = _Load(session, server, bodies, due_s, on_progress)
        return await load.run(workload)


def _session(server: Server) -> aiohttp.ClientSession:
    import aiohttp

    headers = {"Content-Type": "application/json"}
    if server.api_key:
        headers["Authorization"] = f"Bearer {server.api_key}"
    return aiohttp.ClientSession(
        # limit=0: a cap below the backlog would close the loop. force_close: servers end idle
        # connections after a few seconds (cpp-httplib and uvicorn: 5), and a request that meets
        # that moment would fail by our doing.
        connector=aiohttp.TCPConnector(limit=0, force_close=True),
        timeout=aiohttp.ClientTimeout(total=server.timeout_s),
        headers=headers,
    )


class _Load:
    """The requests of one load while they run."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: Server,
        bodies: list[bytes],
        due_s: tuple[float, ...],
        on_progress: OnProgress,
    ) -> None:
        self._session = session
        self._server = server
        self._bodies = bodies
        self._on_progress = on_progress
        self._rows = [RequestRow(due_s=due, status="unsent") for due in due_s]
        self._num_finished = 0
        self._start = time.monotonic()

    async def run(self, workload: Workload) -> list[RequestRow]:
        self._start = time.monotonic()
        tasks = [asyncio.ensure_future(part) for part in self._parts(workload)]
        try:
            # Ctrl-C cancels this task; its rows are the answer.
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._rows

    def _parts(self, workload: Workload) -> list[Coroutine[Any, Any, None]]:
        indexes = iter(range(len(self._rows)))
        if workload.arrival == "closed":
            return [self._slot(indexes) for _ in range(min(workload.concurrency, len(self._rows)))]
        return [self._at_due_time(index) for index in indexes]

    async def _at_due_time(self, index: int) -> None:
        await asyncio.sleep(self._rows[index].due_s - self._now_s())
        await self._one(index, self._rows[index].due_s)

    async def _slot(self, indexes: Iterator[int]) -> None:
        for index in indexes:
            await self._one(index, due_s=self._now_s())
            if self._rows[index].status == "cancelled":
                return

    async def _one(self, index: int, due_s: float) -> None:
        row = RequestRow(due_s=due_s, sent_s=self._now_s())
        self._rows[index] = await _ask(
            self._session, self._server, self._bodies[index], row, self._now_s
        )
        self._num_finished += 1
        self._on_progress(self._num_finished, len(self._rows), self._rows[index])

    def _now_s(self) -> float:
        return time.monotonic() - self._start


async def _ask(
    session: aiohttp.ClientSession,
    server: Server,
    body: bytes,
    row: RequestRow,
    now_s: Callable[[], float],
) -> RequestRow:
    """Send one request and read its whole answer into `row`. Raises nothing."""
    import aiohttp

    chunks: list[Chunk] = []
    try:
        async with session.post(server.endpoint, data=body) as response:
            if response.status != 200:
                return row.replace(status="http", error=await _refusal(response))
            async for data in response.content.iter_any():
                chunks.append((now_s(), data))  # noqa: PERF401 - the clock is read as it arrives
    except asyncio.CancelledError:
        return read_answer(row, chunks).replace(status="cancelled", error="the trial was ended")
    except TimeoutError:
        late = f"no whole answer within {server.timeout_s:g} s"
        return read_answer(row, chunks).replace(status="timeout", error=late)
    except (aiohttp.ClientError, OSError) as error:
        reason = f"{type(error).__name__}: {error}"
        return read_answer(row, chunks).replace(status="connection", error=reason)
    return read_answer(row, chunks)


async def _refusal(response: aiohttp.ClientResponse) -> str:
    text = (await response.content.read(2000)).decode(errors="replace").strip()
    wait = response.headers.get("Retry-After")
    return f"HTTP {response.status}{f', retry after {wait}' if wait else ''}: {text[:300]}"


async def _fitted(
    session: aiohttp.ClientSession, server: Server, workload: Workload, prompts: Prompts
) -> Server:
    """Learn the model's name, whether the server knows ignore_eos, and how many words make
    the asked prompt: chat templates and start tokens are counted by `usage`, too."""
    if not server.model:
        server = msgspec.structs.replace(server, model=await _first_model(session, server))
    num_words = workload.prompt_tokens
    for _ in range(_PROBES):
        row = await _probe(session, server, prompts.text(num_words))
        if row.status == "http" and "ignore_eos" in row.error and server.ignore_eos:
            server = msgspec.structs.replace(server, ignore_eos=False)
            continue
        if row.status != "ok":
            raise EngineFailed(f"{server.endpoint} does not serve: {row.error}")
        excess = row.prompt_tokens - workload.prompt_tokens
        num_words = max(1, num_words - excess)
        if excess == 0:
            break
    return msgspec.structs.replace(server, num_words=num_words)


async def _probe(session: aiohttp.ClientSession, server: Server, prompt: str) -> RequestRow:
    row = RequestRow(due_s=0.0, sent_s=0.0)
    row = await _ask(session, server, server.body(prompt, 2), row, lambda: math.nan)
    if row.status == "cancelled":  # Ctrl-C, and there is nothing to keep yet
        raise asyncio.CancelledError
    return row


async def _first_model(session: aiohttp.ClientSession, server: Server) -> str:
    import aiohttp

    try:
        async with session.get(f"{server.url}/v1/models") as response:
            return str((await response.json())["data"][0]["id"])
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise EngineFailed(f"{server.url} does not answer: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError):
        return ""  # the server lists none: it serves one and ignores the name
