"""`neoserve ui` and `neoserve mcp`: which folders, which address, who may start work."""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EXIT_MET, AskError, Error
from .http.guard import Rules, rules_for
from .results import Results
from .tools import Desk

if TYPE_CHECKING:
    from .http.guard import App

_USUAL = "runs"  # where the commands put runs
_MIN_TOKEN = 16


def need(extra: str, *modules: str) -> None:
    """Raises AskError where an extra is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise AskError(
            f"this needs {' and '.join(missing)}: pip install 'neoserve[{extra}]' (or [ui], which "
            "has both)"
        )


def desk_for(folders: list[str], *, is_local: bool) -> Desk:
    """What may be asked about; paths and the hub only by somebody at this host's own terminal."""
    for name in folders:
        if not Path(name).is_dir():
            raise AskError(f"{name} is no folder; name one that holds run folders, or is one")
    roots = [Path(name) for name in folders or [_USUAL]]
    return Desk(Results(roots), opens_files=is_local, asks_hub=is_local)


def rules_of(args: argparse.Namespace) -> Rules:
    """Raises AskError for a weak token. One is made up where it is needed and none was given."""
    token = args.token or os.environ.get("NEOSERVE_TOKEN", "")
    if token and len(token) < _MIN_TOKEN:
        raise AskError(f"--token has {len(token)} characters; expected at least {_MIN_TOKEN}")
    if not token.isascii() or any(c.isspace() or not c.isprintable() for c in token):
        raise AskError("--token has to be printable ASCII without blanks")
    rules = rules_for(args.host, token, args.allow_host or ())
    if not token and (args.allow_tune or not rules.is_loopback):
        return rules._replace(token=secrets.token_urlsafe(32))
    return rules


def run_ui(args: argparse.Namespace, note: Callable[[str], None]) -> int:
    """Serve until Ctrl-C."""
    need("ui", "fastapi", "uvicorn", "mcp")
    from .http.app import Served, make_app
    from .mcp import make_server

    rules = rules_of(args)
    desk = desk_for(args.results, is_local=False)
    app = make_app(Served(desk, rules, args.allow_tune, make_server(desk)))
    return _listen(app, args, rules, note, "the dashboard; /api is JSON, /mcp is for agents")


def run_mcp(args: argparse.Namespace, note: Callable[[str], None]) -> int:
    """Serve agents until the client leaves, or Ctrl-C."""
    need("mcp", "mcp")
    from .mcp import make_server, serve_stdio

    if not args.http:
        serve_stdio(make_server(desk_for(args.results or [], is_local=True)))
        return EXIT_MET
    need("mcp", "uvicorn")
    from .http.agents_only import agents_app

    rules = rules_of(args)
    server = make_server(desk_for(args.results or [], is_local=False))
    return _listen(agents_app(server, rules), args, rules, note, "for agents, at /mcp")


def _listen(
    app: App, args: argparse.Namespace, rules: Rules, note: Callable[[str], None], what: str
) -> int:
    import uvicorn

    if not 0 <= args.port <= 65535:
        raise AskError(f"--port is {args.port}; expected 0 to 65535")
    sock = _socket(args.host, args.port)
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    asks = rules.token and (args.allow_tune or not rules.is_loopback)
    note(f"http://{shown}:{port}/{f'#token={rules.token}' if asks else ''}  {what}; Ctrl-C ends it")
    config = uvicorn.Config(
        app, log_level="warning", lifespan="on", server_header=False,
        timeout_graceful_shutdown=2, h11_max_incomplete_event_size=65536,
    )  # fmt: skip
    uvicorn.Server(config).run(sockets=[sock])
    return EXIT_MET


def _socket(host: str, port: int) -> Any:
    """Bound before anything is said. Raises Error where it is taken."""
    import socket

    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        raise Error(f"{host}:{port} cannot be listened on: {error.strerror or error}; name another "
                    "--port, 0 takes a free one") from None  # fmt: skip
    return sock
