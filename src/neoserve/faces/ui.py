"""`neoserve ui` and `neoserve mcp`: which folders, which address, who may start work."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EXIT_MET, AskError, Error
from ..schema.answers import Listening
from .campaigns import Campaigns
from .http.guard import Rules, rules_for
from .results import Results
from .tool import Desk

if TYPE_CHECKING:
    from .http.guard import App

_USUAL = "runs"  # where the commands put runs
_MIN_TOKEN = 16


def need(extra: str, *modules: str) -> None:
    """Raises AskError where an extra is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise AskError(f"this needs {', '.join(missing)}: pip install 'neoserve[{extra}]'")


def desk_for(folders: list[str], *, is_local: bool, may_tune: bool) -> Desk:
    """What may be asked about; paths and the hub only by somebody at this host's own terminal."""
    for name in folders:
        if not Path(name).is_dir():
            raise AskError(f"{name} is no folder; name one that holds run folders, or is one")
    roots = [Path(name) for name in folders or [_USUAL]]
    campaigns = Campaigns(roots[0]) if may_tune else None
    return Desk(Results(roots), opens_files=is_local, asks_hub=is_local, campaigns=campaigns)


def rules_of(args: argparse.Namespace) -> Rules:
    """Raises AskError for a weak token. One is made up where it is needed and none was given."""
    token = args.token or os.environ.get("NEOSERVE_TOKEN", "")
    if token and len(token) < _MIN_TOKEN:
        raise AskError(f"--token has {len(token)} characters; expected at least {_MIN_TOKEN}")
    if not token.isascii() or any(c.isspace() or not c.isprintable() for c in token):
        raise AskError("--token has to be printable ASCII without blanks")
    if not 0 <= args.port <= 65535:
        raise AskError(f"--port is {args.port}; expected 0 to 65535")
    rules = rules_for(args.host, token, args.allow_host or ())
    if not token and (args.allow_tune or not rules.is_loopback):
        return rules._replace(token=secrets.token_urlsafe(32))
    return rules


def run_ui(args: argparse.Namespace, note: Callable[[str], None]) -> int:
    """Serve until Ctrl-C."""
    need("ui", "fastapi", "uvicorn", "mcp")
    rules = rules_of(args)
    desk = desk_for(args.results, is_local=False, may_tune=args.allow_tune)
    from .http.app import Served, make_app
    from .mcp import make_server

    app = make_app(Served(desk, rules, make_server(desk)))
    path = f"/#token={rules.token}" if rules.token else "/"  # a browser keeps it to itself
    return _listen(app, args, rules, note, path,
                   "the dashboard; /api is JSON, /mcp is for agents")  # fmt: skip


def run_mcp(args: argparse.Namespace, note: Callable[[str], None]) -> int:
    """Serve agents until the client leaves, or Ctrl-C."""
    if args.json and not args.http:
        raise AskError("stdout speaks MCP here: --json goes with --http")
    need("mcp", "mcp")
    desk = desk_for(args.results or [], is_local=not args.http, may_tune=args.allow_tune)
    from .mcp import make_server, serve_stdio

    if not args.http:
        if sys.stdin.isatty():
            note("agents' client speaks to this on stdin and stdout; docs/agents.md says how to "
                 "set one up, --http serves at an address")  # fmt: skip
        try:
            serve_stdio(make_server(desk))
        finally:
            if desk.campaigns is not None:
                desk.campaigns.close()
        return EXIT_MET
    need("mcp", "uvicorn")
    rules = rules_of(args)
    from .http.agents_only import agents_app

    app = agents_app(make_server(desk), rules, desk.campaigns)
    return _listen(app, args, rules, note, "/mcp", "for agents")


def _listen(
    app: App, args: argparse.Namespace, rules: Rules, note: Callable[[str], None],
    path: str, what: str,
) -> int:
    import uvicorn

    sock = _socket(args.host, args.port)
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}{path}"
    if args.json:
        print(Listening(url=url, token=rules.token).to_pretty_json(), flush=True)
    else:
        note(f"{url}  {what}; Ctrl-C ends it")
        if rules.token:
            note(f"its token, for Authorization: Bearer TOKEN: {rules.token}")
    config = uvicorn.Config(
        app, log_level="warning", lifespan="on", server_header=False,
        timeout_graceful_shutdown=2, h11_max_incomplete_event_size=65536,
    )  # fmt: skip
    with contextlib.suppress(KeyboardInterrupt):  # the usual end
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
        sock.listen(128)  # whoever is told the address may connect at once
    except OSError as error:
        raise Error(f"{host}:{port} cannot be listened on: {error.strerror or error}; name another "
                    "--port, 0 takes a free one") from None  # fmt: skip
    return sock
