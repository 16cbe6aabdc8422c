"""HTTP/1.1 on bare asyncio: bytes are stamped as they arrive and read when the answer is whole.

A general client parses headers, decodes chunks and wakes a task for each of them, which at some
thousand chunks a second delays its own clock readings by more than the server's latency
(docs/load.md). Here `data_received` reads the clock first, keeps the bytes, and only looks
whether they end the message.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator, Mapping
from itertools import accumulate
from urllib.parse import urlsplit

import msgspec

from ..errors import AskError

Chunk = tuple[float, bytes]  # when bytes arrived, in seconds, and the bytes

_MAX_HEAD_BYTES = 65536
_NO_BODY = (204, 304)


class BrokenAnswerError(Exception):
    """The connection broke, or what came is not HTTP. Carries what the protocol lacked."""


class Origin(msgspec.Struct, frozen=True):
    """Where connections go."""

    host: str
    port: int
    tls: bool
    base: str = ""  # path before /v1

    @classmethod
    def of(cls, url: str) -> Origin:
        """``http://HOST:PORT/base``; a trailing /v1 is the API's own. Raises AskError."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise AskError(f"URL {url!r}: {error}; write http://HOST:PORT") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AskError(f"URL {url!r} has no http:// or https://; write http://HOST:PORT")
        tls = parts.scheme == "https"
        base = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, port or (443 if tls else 80), tls, base)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> bytes:
        """One request as bytes."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = self.port == (443 if self.tls else 80)
        lines = [
            f"{method} {self.base}{path} HTTP/1.1",
            f"Host: {host if usual else f'{host}:{self.port}'}",
            "Accept: */*",
            *(f"{name}: {value}" for name, value in (headers or {}).items()),
        ]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Answer(msgspec.Struct):
    """What came back: raw bytes with their times, cut where the head ends."""

    status: int = 0
    headers: dict[str, str] = {}
    raw: list[Chunk] = []
    head_bytes: int = 0
    is_chunked: bool = False

    def body(self, zero_s: float = 0.0) -> list[Chunk]:
        """The body's bytes, each piece with the time at which it arrived, from `zero_s` on."""
        data = b"".join([data for _, data in self.raw])
        arrivals = _Arrivals(self.raw, zero_s)
        if self.is_chunked:
            return _dechunked(data, self.head_bytes, arrivals)
        return list(arrivals.pieces(data, self.head_bytes, len(data)))

    def text(self) -> str:
        """The whole body."""
        return b"".join(data for _, data in self.body()).decode(errors="replace")


class Connection(asyncio.Protocol):
    """One connection that carries one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._answer = Answer()
        self._length: int | None = None  # of the body; null: until the connection ends
        self._body_bytes = 0
        self._walked = 0  # raw bytes of whole chunks that were looked through
        self._tail = b""  # last five bytes of a chunked body
        self.is_open = False
        self.is_reusable = True
        self.idle_since_s = 0.0

    @property
    def has_body(self) -> bool:
        """Whether bytes of the running answer's body have come."""
        return self._body_bytes > 0

    async def exchange(self, request: bytes, answer: Answer) -> Answer:
        """Send a request and wait for its whole answer, which fills `answer` as it comes.

        Raises BrokenAnswerError; what had come by then is in `answer`.
        """
        if self._transport is None or not self.is_open:
            raise BrokenAnswerError("the connection was closed before the request was sent")
        self._begin(answer)
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            if not self._waiter.done() or self._waiter.cancelled():
                self.close()  # an answer that nobody waits for would run into the next one
            self._waiter = None

    def close(self) -> None:
        """End it. May be called twice."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: it is open."""
        self._transport = transport  # type: ignore[assignment]
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes have come."""
        now_s = time.monotonic()
        answer = self._answer
        answer.raw.append((now_s, data))
        if self._waiter is None:
            self.close()  # nobody asked
            return
        if not answer.status:
            data = self._read_head(b"".join(piece for _, piece in answer.raw))
        if answer.status and self._is_whole(data):
            self._finish()

    def eof_received(self) -> None:
        """asyncio: the server has closed its side."""
        self.is_open = False

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: it is gone."""
        self.is_open = False
        if self._waiter is None or self._waiter.done():
            return
        if self._answer.status and not self._answer.is_chunked and self._length is None:
            self._finish()
        else:
            reason = f"{type(exc).__name__}: {exc}" if exc else "the server closed the connection"
            self._fail(reason)

    def _begin(self, answer: Answer) -> None:
        self._answer = answer
        self._length = None
        self._body_bytes = 0
        self._walked = 0
        self._tail = b""

    def _finish(self) -> None:
        if self._answer.headers.get("connection", "").lower() == "close":
            self.is_reusable = False
        self.idle_since_s = time.monotonic()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(self._answer)

    def _fail(self, reason: str) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(BrokenAnswerError(reason))
        self.close()

    def _read_head(self, data: bytes) -> bytes:
        """Parse status and headers when they are whole; returns the body bytes after them."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > _MAX_HEAD_BYTES or not b"HTTP/1.".startswith(data[:7]):
                self._fail(f"not an HTTP/1.1 answer: {data[:60]!r}")
            return b""
        try:
            status, headers = _parse_head(data[:end])
        except ValueError:
            self._fail(f"not an HTTP/1.1 answer: {data[:60]!r}")
            return b""
        if status < 200:  # an interim answer, as 100 Continue
            self._answer.raw[:] = [(self._answer.raw[-1][0], data[end + 4 :])]
            return self._read_head(data[end + 4 :]) if data[end + 4 :] else b""
        answer = self._answer
        answer.status, answer.headers, answer.head_bytes = status, headers, end + 4
        answer.is_chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        if status in _NO_BODY:
            self._length = 0
        elif not answer.is_chunked and headers.get("content-length", "").isdigit():
            self._length = int(headers["content-length"])
        return data[end + 4 :]

    def _is_whole(self, data: bytes) -> bool:
        self._body_bytes += len(data)
        if not self._answer.is_chunked:
            return self._length is not None and self._body_bytes >= self._length
        self._tail = tail = data[-5:] if len(data) > 4 else (self._tail + data)[-5:]
        # The last chunk is "0", or a trailer's line, and an empty line. Events that end in CRLF
        # CRLF are followed by their chunk's CRLF, so that a fifth byte tells them apart.
        return tail.endswith(b"\r\n\r\n") and tail[0] != 10 and self._ends_chunks()

    def _ends_chunks(self) -> bool:
        """Walk over whole chunks; true when the last one and its trailer are there."""
        data = b"".join([data for _, data in self._answer.raw])
        at = self._walked or self._answer.head_bytes
        while (end := data.find(b"\r\n", at)) >= 0:
            size = _chunk_size(data[at:end])
            if size is None:
                self._fail(f"a chunk of the answer has no size: {data[at:end][:40]!r}")
                return False
            if size == 0:
                return True
            if end + size + 4 > len(data):
                break
            at = end + size + 4
        self._walked = at
        return False


class Pool:
    """Connections to one server: opened ahead of need, kept while they are warm.

    Servers end idle connections after some seconds (uvicorn and cpp-httplib: 5), and
    cpp-httplib holds a thread for each, so idle ones are closed after a second.
    """

    KEEP_S = 1.0

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._idle: list[Connection] = []
        self._tls = ssl.create_default_context() if origin.tls else None

    async def connection(self) -> Connection:
        """A warm one, or a new one. Raises OSError."""
        self._drop_cold()
        while self._idle:
            connection = self._idle.pop()  # the warmest
            if connection.is_open:
                return connection
        return await self.open()

    async def open(self) -> Connection:
        """A new connection. Raises OSError."""
        origin = self._origin
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection,
            origin.host,
            origin.port,
            ssl=self._tls,
            server_hostname=origin.host if self._tls else None,
        )
        return connection

    def give_back(self, connection: Connection) -> None:
        """Keep it for the next request, if it can take one."""
        if connection.is_open and connection.is_reusable:
            self._idle.append(connection)
            asyncio.get_running_loop().call_later(self.KEEP_S, self._drop_cold)
        else:
            connection.close()

    def close(self) -> None:
        """End all idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _drop_cold(self) -> None:
        cold_s = time.monotonic() - self.KEEP_S
        while self._idle and self._idle[0].idle_since_s <= cold_s:
            self._idle.pop(0).close()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, names in lower case. Raises ValueError."""
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(first)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


def _chunk_size(line: bytes) -> int | None:
    """Of a chunk-size line; extensions after a semicolon are ignored."""
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        return None


class _Arrivals:
    """Which bytes came when; asked for ever later spans of the joined bytes."""

    def __init__(self, raw: list[Chunk], zero_s: float) -> None:
        self._times_s = [at_s - zero_s for at_s, _ in raw]
        self._ends = list(accumulate(len(data) for _, data in raw))
        self._piece = 0

    def pieces(self, data: bytes, start: int, end: int) -> Iterator[Chunk]:
        """``data[start:end]`` in the parts in which it arrived."""
        while start < end:
            while self._ends[self._piece] <= start:
                self._piece += 1
            until = min(end, self._ends[self._piece])
            yield self._times_s[self._piece], data[start:until]
            start = until


def _dechunked(data: bytes, at: int, arrivals: _Arrivals) -> list[Chunk]:
    """Chunk contents, each part with the time at which it arrived; a torn end is kept."""
    body: list[Chunk] = []
    while (end := data.find(b"\r\n", at)) >= 0:
        size = _chunk_size(data[at:end])
        if not size:
            break
        at = end + 2 + size + 2
        body += arrivals.pieces(data, end + 2, min(at - 2, len(data)))
    return body
