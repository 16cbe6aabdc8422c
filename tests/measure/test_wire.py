"""HTTP by hand, against servers and cuts of the stream that are not ours."""

import asyncio
import ssl
import time

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.wire import Answer, BrokenAnswerError, Connection, Origin, Pool

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that only keeps what was written."""

    def __init__(self):
        super().__init__()
        self.written = b""

    def write(self, data):
        self.written += data

    def abort(self):
        pass


def receive(pieces, then=lambda _: None):
    """Feed a connection with these reads; its answer, or the error it ended in."""

    async def go():
        connection, answer = Connection(), Answer(raw=[])
        connection.connection_made(Wire())
        waiting = asyncio.ensure_future(connection.exchange(b"GET", answer))
        await asyncio.sleep(0)
        for piece in pieces:
            connection.data_received(piece)
        then(connection)
        await asyncio.sleep(0)
        if not waiting.done():
            waiting.cancel()
            return "open", answer
        try:
            return "whole", await waiting
        except BrokenAnswerError as error:
            return str(error), answer

    return asyncio.run(go())


def cut(data, places):
    ends = sorted({min(len(data), place) for place in places} | {len(data)})
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False) if a < b]


def chunked(parts, end=b"0\r\n\r\n"):
    return HEAD + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + end


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    st.lists(st.integers(1, 400), max_size=12),
    st.sampled_from([b"0\r\n\r\n", b"0;x=y\r\n\r\n", b"0\r\nTrailer: a\r\n\r\n", b"000\r\n\r\n"]),
)
def test_chunks_are_found_wherever_reads_are_cut(parts, places, end):
    """The parts hold line ends and zeros as they like."""
    state, answer = receive(cut(chunked(parts, end), places))
    assert state == "whole"
    assert b"".join(data for _, data in answer.body()) == b"".join(parts)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5), st.integers(1, 80))
def test_a_torn_answer_is_never_taken_for_whole(parts, missing):
    data = chunked(parts)
    state, answer = receive([data[: max(len(HEAD), len(data) - missing)]])
    assert state == "open"
    assert b"".join(parts).startswith(b"".join(data for _, data in answer.body()))


def test_events_that_end_in_crlf_do_not_end_the_answer():
    data = chunked([b"data: 1\r\n\r\n", b"data: 0\r\n\r\n", b"data: [DONE]\r\n\r\n"])
    for place in range(len(HEAD), len(data)):
        assert receive([data[:place]])[0] == "open"
    assert receive([data])[0] == "whole"


def test_each_piece_has_the_time_at_which_it_arrived():
    state, answer = receive([HEAD + b"5\r\nab", b"cd", b"e\r\n3\r\nfgh\r\n", b"0\r\n\r\n"])
    assert state == "whole"
    assert [data for _, data in answer.body()] == [b"ab", b"cd", b"e", b"fgh"]
    times = [at for at, _ in answer.raw]
    assert [at for at, _ in answer.body(zero_s=0.0)] == [times[0], times[1], times[2], times[2]]
    assert answer.body(zero_s=times[0])[0][0] == 0.0


def test_a_length_ends_an_answer_and_a_close_one_without():
    sized = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd"
    assert receive([sized[:-1]])[0] == "open"
    assert receive([sized])[1].text() == "abcd"
    until_close = b"HTTP/1.1 503 Busy\r\nRetry-After: 2\r\n\r\nlater"
    state, answer = receive([until_close], lambda c: c.connection_lost(None))
    assert (state, answer.status, answer.headers["retry-after"]) == ("whole", 503, "2")
    assert receive([b"HTTP/1.1 204 No Content\r\n\r\n"])[0] == "whole"
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" + sized
    assert receive(cut(interim, [3, 30, 60]))[1].text() == "abcd"


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        ([b"SSH-2.0-OpenSSH\r\n"], "not an HTTP/1.1 answer"),
        ([b"HTTP/1.1 abc\r\n\r\n"], "not an HTTP/1.1 answer"),
        ([b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70000], "not an HTTP/1.1 answer"),
        ([HEAD + b"zz\r\nhello\r\n\r\n"], "has no size"),
    ],
)
def test_what_is_not_http_breaks_with_a_reason(pieces, message):
    assert message in receive(pieces)[0]


def test_a_lost_connection_breaks_with_its_reason():
    reset = ConnectionResetError("by peer")
    lost = receive([HEAD + b"5\r\nab"], lambda c: c.connection_lost(reset))
    assert lost[0] == "ConnectionResetError: by peer"
    assert lost[1].text() == "ab"
    closed = receive([], lambda c: c.connection_lost(None))
    assert closed[0] == "the server closed the connection"


def test_a_closed_connection_takes_no_request():
    async def go():
        with pytest.raises(BrokenAnswerError, match="closed before"):
            await Connection().exchange(b"GET", Answer(raw=[]))

    asyncio.run(go())


def test_bytes_that_nobody_asked_for_end_the_connection():
    connection = Connection()
    connection.connection_made(Wire())
    connection.data_received(b"hello")
    assert not connection.is_open


@pytest.mark.parametrize(
    ("url", "host", "port", "base"),
    [
        ("http://a:8000/v1", "a", 8000, ""),
        ("http://a/", "a", 80, ""),
        ("https://a.b/llm/v1/", "a.b", 443, "/llm"),
        ("http://[::1]:9/v1", "::1", 9, ""),
    ],
)
def test_urls(url, host, port, base):
    origin = Origin.of(url)
    assert (origin.host, origin.port, origin.base) == (host, port, base)


def test_a_request_names_its_host_and_length():
    headers = {"Authorization": "B k"}
    request = Origin.of("http://[::1]:9/x").request("POST", "/v1/a", b"{}", headers)
    head, body = request.split(b"\r\n\r\n")
    assert head.split(b"\r\n")[:2] == [b"POST /x/v1/a HTTP/1.1", b"Host: [::1]:9"]
    assert b"Content-Length: 2" in head
    assert b"Authorization: B k" in head
    assert body == b"{}"


@pytest.mark.parametrize("url", ["a:80", "ftp://a", "http://", "http://a:99999"])
def test_bad_urls(url):
    with pytest.raises(AskError, match="write http://HOST:PORT"):
        Origin.of(url)


async def _echo(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    if request.path == "/sized":
        return web.Response(body=body)
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for byte in body:
        await response.write(bytes([byte]))
    return response


async def _serving(tls=None):
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{any:.*}", _echo)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    return runner, site._server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("path", ["/sized", "/streamed"])
def test_one_connection_serves_many_requests_of_an_independent_server(path):
    async def go():
        runner, port = await _serving()
        origin = Origin.of(f"http://127.0.0.1:{port}")
        pool = Pool(origin)
        first = await pool.connection()
        found, connection = [], first
        for size in (1, 500, 3):
            body = bytes(i % 251 for i in range(size))
            answer = await connection.exchange(origin.request("POST", path, body), Answer(raw=[]))
            found.append(b"".join(data for _, data in answer.body()) == body)
            pool.give_back(connection)
            connection = await pool.connection()
            assert connection is first
        await asyncio.sleep(Pool.KEEP_S + 0.3)
        assert (await pool.connection()) is not first  # a cold one is not trusted
        pool.close()
        await runner.cleanup()
        return found

    assert asyncio.run(go()) == [True] * 3


def test_tls(tmp_path):
    import subprocess

    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key,
         "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def go():
        runner, port = await _serving(context)
        origin = Origin.of(f"https://localhost:{port}")
        with pytest.raises(ssl.SSLCertVerificationError):
            await Pool(origin).open()
        pool = Pool(origin)
        pool._tls.load_verify_locations(certificate)
        connection = await pool.connection()
        answer = await connection.exchange(origin.request("POST", "/sized", b"x"), Answer(raw=[]))
        await runner.cleanup()
        return answer.text()

    assert asyncio.run(go()) == "x"


def test_stamps_are_taken_on_the_monotonic_clock():
    before = time.monotonic()
    _, answer = receive([HEAD])
    assert before <= answer.raw[0][0] <= time.monotonic()
