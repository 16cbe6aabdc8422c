"""Our own ``/metrics``: the last look, as Prometheus reads it (text format 0.0.4)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ..errors import AskError
from ..schema.watch import Watch, WatchedTarget

_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STATES = {"met": 1.0, "missed": 0.0}


def page(found: Watch | None) -> str:
    """What is not known is left out, never 0."""
    lines: list[str] = []
    _gauge(lines, "up", "Whether there was a look", [({}, float(found is not None))])
    if found is None:
        return "\n".join(lines) + "\n"
    whole = (
        ("window_seconds", "Span that the figures cover", found.window_s),
        ("request_rate", "Requests that ended, per second", found.request_rate_rps),
        ("output_tokens_rate", "Output tokens per second", found.output_tokens_per_s),
        ("input_tokens_rate", "Prompt tokens per second", found.input_tokens_per_s),
        ("load_ratio", "Request rate over the capacity", found.load_share),
    )
    for name, about, value in whole:
        _gauge(lines, name, about, [({}, value)])
    if (capacity := found.capacity) is not None:
        labels = {"basis": capacity.basis, "source": capacity.source}
        _gauge(lines, "capacity_rate", "Requests per second within the SLO, as certified or "
               "predicted", [(labels, capacity.rate_rps)])  # fmt: skip
    states = ("within", "drift", "overload", "unknown")
    _gauge(lines, "drift", "1 for the state that holds",
           [({"state": state}, float(state == found.drift)) for state in states])  # fmt: skip
    _targets(lines, found.targets)
    return "\n".join(lines) + "\n"


def _targets(lines: list[str], targets: tuple[WatchedTarget, ...]) -> None:
    columns: tuple[tuple[str, str, Callable[[WatchedTarget], float | None]], ...] = (
        ("slo_met", "1 met, 0 missed; absent where the window does not tell",
         lambda t: _STATES.get(t.state)),
        ("slo_requests", "Requests of the window", lambda t: float(t.num)),
        ("quantile_low_seconds", "Lower bound of the bucket with the quantile", lambda t: t.low_s),
        ("quantile_high_seconds", "Upper bound of the bucket with the quantile",
         lambda t: t.high_s),
        ("miss_ratio_low", "Share of requests above the limit, at least",
         lambda t: t.miss_share_low),
        ("miss_ratio_high", "Share of requests above the limit, at most",
         lambda t: t.miss_share_high),
    )  # fmt: skip
    for name, about, read in columns:
        _gauge(lines, name, about, [({"target": t.target}, read(t)) for t in targets])


def _gauge(
    lines: list[str], name: str, about: str, samples: list[tuple[dict[str, str], float | None]]
) -> None:
    known = [(labels, value) for labels, value in samples if value is not None]
    if not known:
        return
    full = f"neoserve_watch_{name}"
    lines += [f"# HELP {full} {about}", f"# TYPE {full} gauge"]
    for labels, value in known:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{full}{{{inside}}} {value!r}" if inside else f"{full} {value!r}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@contextlib.contextmanager
def serving(listen: str, note: Callable[[str], None]) -> Iterator[Callable[[Watch], None]]:
    """Serves the page at HOST:PORT while it is open; "": nothing. Yields what sets the look."""
    last: list[Watch | None] = [None]

    def publish(found: Watch) -> None:
        last[0] = found

    if not listen:
        yield publish
        return

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = page(last[0]).encode()
            is_page = self.path.partition("?")[0] == "/metrics"
            self.send_response(200 if is_page else 404)
            self.send_header("Content-Type", _TYPE)
            self.send_header("Content-Length", str(len(body) if is_page else 0))
            self.end_headers()
            if is_page:
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Scrapes are no news."""

    server = _server(listen, Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    host, port = server.server_address[:2]
    note(f"metrics at http://{host!s}:{port}/metrics")
    try:
        yield publish
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _server(listen: str, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    host, _, port = listen.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise AskError(f"--listen {listen!r}: expected PORT or HOST:PORT, such as 9109")
    try:
        return ThreadingHTTPServer((host or "127.0.0.1", int(port)), handler)
    except OSError as error:
        raise AskError(f"--listen {listen}: {error.strerror or error}") from None
