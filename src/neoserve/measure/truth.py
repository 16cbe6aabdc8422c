"""A server whose latencies are known: every token at its own absolute deadline.

It says in each chunk when it wrote it, on the clock that the client reads, so that the client's
error is known apart from the server's own lateness. Run with ``python -m``; one process.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import time

import msgspec

from .loop import run_quickly

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class _Asked(msgspec.Struct):
    """What matters of a request."""

    max_tokens: int = 16
    prompt: str = ""


class Truth(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        self._ttft_s = ttft_s
        self._itl_s = itl_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: somebody has come."""
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, _: Exception | None) -> None:
        """asyncio: they have gone."""
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """asyncio: a request, or a part of one."""
        now_s = time.monotonic()
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end or len(body) < _content_length(head):
            return
        self._received = b""
        if head.startswith(b"GET"):
            self._write(_whole(b'{"data": [{"id": "truth"}]}'))
        elif b"/completions" not in head.split(b"\r\n", 1)[0]:
            self._write(_whole(b"{}", b"404 Not Found"))
        else:
            self._answer(msgspec.json.decode(body, type=_Asked), now_s)

    def _answer(self, asked: _Asked, now_s: float) -> None:
        # loop.time() may count from elsewhere than time.monotonic(): schedule by difference.
        start_s = self._loop.time() - (time.monotonic() - now_s) + self._ttft_s
        self._write(_HEAD)
        self._token(asked, 0, start_s)

    def _token(self, asked: _Asked, number: int, start_s: float) -> None:
        if number == asked.max_tokens:
            self._write(_end(len(asked.prompt.split()), asked.max_tokens))
            return
        due_s = start_s + number * self._itl_s
        self._loop.call_at(due_s, self._send, asked, number, start_s)

    def _send(self, asked: _Asked, number: int, start_s: float) -> None:
        late_s = self._loop.time() - start_s - number * self._itl_s
        self._write(_chunk(b'data: {"choices":[{"index":0,"text":" t","finish_reason":null}],'
                           b'"written_s":%.6f,"late_s":%.6f}\n\n' % (time.monotonic(), late_s)))
        self._token(asked, number + 1, start_s)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _whole(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _end(prompt_tokens: int, output_tokens: int) -> bytes:
    usage = (
        b'data: {"choices":[{"index":0,"text":"","finish_reason":"length"}],"usage":'
        b'{"prompt_tokens":%d,"completion_tokens":%d}}\n\n' % (prompt_tokens, output_tokens)
    )
    return _chunk(usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


async def serve(ttft_s: float, itl_s: float, port: int) -> None:
    """Serve until ended; says on stdout where."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Truth(ttft_s, itl_s), "127.0.0.1", port, backlog=4096
    )
    print(f"ready at http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> None:
    """Run as ``python -m``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = argparse.ArgumentParser(prog="truth")
    parser.add_argument("--ttft", type=float, required=True, help="seconds")
    parser.add_argument("--itl", type=float, required=True, help="seconds")
    parser.add_argument("--port", type=int, default=0)
    asked = parser.parse_args()
    run_quickly(serve(asked.ttft, asked.itl, asked.port))


if __name__ == "__main__":
    main()
