"""The server of known latencies, seen by an independent client and by bare sockets."""

import asyncio
import itertools
import json
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager

import aiohttp
import pytest

from neoserve.measure import truth
from neoserve.measure.truth import Truth

TTFT_S, ITL_S = 0.06, 0.02


@contextmanager
def serving(ttft_s=TTFT_S, itl_s=ITL_S):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen():
        return await loop.create_server(lambda: Truth(ttft_s, itl_s), "127.0.0.1", 0)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def complete(port, **body):
    """Events of one answer, read by aiohttp, and when it was asked."""
    asked_s = time.monotonic()
    url = f"http://127.0.0.1:{port}/v1/completions"
    async with aiohttp.ClientSession() as client, client.post(url, json=body) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        text = await answer.text()
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return asked_s, events


def test_every_token_has_its_own_deadline_and_says_how_late_it_was():
    with serving() as port:
        asked_s, events = asyncio.run(complete(port, prompt="one two three", max_tokens=6))
    assert events[-1] == "[DONE]"
    tokens = [json.loads(event) for event in events[:-2]]
    assert len(tokens) == 6
    due_s = [token["written_s"] - token["late_s"] for token in tokens]
    for before_s, after_s in itertools.pairwise(due_s):
        assert after_s - before_s == pytest.approx(ITL_S, abs=1e-3)
    assert due_s[0] - asked_s >= TTFT_S - 1e-3
    assert all(token["late_s"] >= -2e-3 for token in tokens)  # timers round to milliseconds
    last = json.loads(events[-2])
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 6}
    assert last["choices"][0]["finish_reason"] == "length"


def test_one_late_token_does_not_move_the_others(monkeypatch):
    """The loop is held up once for 50 ms: the next tokens keep their absolute deadlines."""
    sent, send = [], Truth._send

    def hold_up(self, asked, number, start_s):
        sent.append(number)
        if number == 1:
            time.sleep(0.05)
        send(self, asked, number, start_s)

    monkeypatch.setattr(Truth, "_send", hold_up)
    with serving() as port:
        _, events = asyncio.run(complete(port, prompt="a", max_tokens=8))
    tokens = [json.loads(event) for event in events[:-2]]
    assert sent == list(range(8))
    assert tokens[1]["late_s"] >= 0.05
    due_s = [token["written_s"] - token["late_s"] for token in tokens]
    assert due_s[7] - due_s[0] == pytest.approx(7 * ITL_S, abs=2e-3)


def test_models_and_unknown_routes():
    async def ask(port):
        base = f"http://127.0.0.1:{port}"
        async with aiohttp.ClientSession() as client:
            async with client.get(base + "/v1/models") as models:
                listed = await models.json(content_type=None)
            async with client.post(base + "/tokenize", json={"content": "a"}) as unknown:
                return listed, unknown.status

    with serving() as port:
        assert asyncio.run(ask(port)) == ({"data": [{"id": "truth"}]}, 404)


def read_to_end(connection, end=b"0\r\n\r\n"):
    data = b""
    while not data.endswith(end):
        part = connection.recv(65536)
        assert part, data
        data += part
    return data


def post(body):
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_a_request_may_come_byte_by_byte_and_a_connection_be_used_again():
    request = post(b'{"prompt": "a b", "max_tokens": 2}')
    with serving(0.005, 0.001) as port, socket.create_connection(("127.0.0.1", port), 10) as mine:
        mine.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            mine.sendall(bytes([byte]))
        first = read_to_end(mine)
        mine.sendall(request)
        second = read_to_end(mine)
    for answer in (first, second):
        assert answer.count(b'"written_s"') == 2
        assert b'"prompt_tokens":2' in answer


def test_a_client_that_leaves_does_no_harm():
    with serving(0.01, 0.01) as port:
        with socket.create_connection(("127.0.0.1", port), 10) as gone:
            gone.sendall(post(b'{"prompt": "a", "max_tokens": 5}'))
            assert gone.recv(10)
        time.sleep(0.05)  # its tokens come due meanwhile
        _, events = asyncio.run(complete(port, prompt="a", max_tokens=3))
    assert len(events) == 3 + 2


def test_the_program_says_where_it_is_and_serves_there(monkeypatch, capsys):
    """`main` in this process: a client comes once it has said where, then the loop is ended."""
    serve, seen = truth.serve, []

    async def for_a_while(*asked):
        seen.append(asked)
        server = asyncio.ensure_future(serve(*asked))
        said = ""
        while "ready" not in said:
            await asyncio.sleep(0.01)
            said += capsys.readouterr().out
        port = int(said.rpartition(":")[2])
        seen.append(await complete(port, prompt="a", max_tokens=2))
        server.cancel()

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(truth, "serve", for_a_while)
    monkeypatch.setattr(sys, "argv", ["truth", "--ttft", "0.02", "--itl", "0.003"])
    try:
        truth.main()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN  # its parent ends it
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen[0] == (0.02, 0.003, 0)
    assert len(seen[1][1]) == 4
