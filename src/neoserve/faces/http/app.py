"""The routes: each looks its function up, hands the words over, sends the document."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException

from ... import __version__
from ...errors import EXIT_EVIDENCE_BROKEN, AskError, Error
from ...evidence.recommended import recommended
from ..published import published
from ..results import LEDGER, NoSuchRun, open_file
from ..run_view import list_runs, view_run
from ..tools import BY_NAME, Desk
from .events import HEARTBEAT_S, MAX_STREAMS, ledger_events
from .guard import COOKIE, TRUSTED, Guard, Rules
from .openapi import describe
from .pages import Page, read_pages

MAX_AT_ONCE = 2  # questions that are computed; others wait
MAX_WAITING = 16
_LOG_BYTES = 65536
_POSTED = {
    "predict": "predict", "plan": "recommend_config", "cost": "project_cost",
    "compare_hardware": "compare_hardware",
}  # fmt: skip
_PLAN_KEEPS = 50  # as `neoserve plan` does; agents get fewer


class Served(NamedTuple):
    """What a server serves."""

    desk: Desk
    rules: Rules
    may_tune: bool = False
    mcp: Any = None  # an MCP server of the SDK
    web: Path | None = None  # other pages than the built ones


def make_app(served: Served) -> Guard:
    """The ASGI application, guarded."""
    manager = _add_mcp(served)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if manager is None:
            yield
            return
        async with manager.session_manager.run():
            yield

    app = FastAPI(title="NeoServe", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url="/api/openapi.json", lifespan=lifespan)  # fmt: skip
    app.add_exception_handler(Error, _on_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _on_http)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _on_invalid)  # type: ignore[arg-type]
    _add_questions(app, served)
    _add_runs(app, served)
    _add_status(app, served)
    if manager is not None:
        app.router.routes.extend(manager.routes)
    _add_pages(app, read_pages(served.web) if served.web else read_pages())
    describe(app)
    return Guard(app, served.rules)  # type: ignore[arg-type]


class _Mcp(NamedTuple):
    session_manager: Any
    routes: list[Any]


def _add_mcp(served: Served) -> _Mcp | None:
    if served.mcp is None:
        return None
    from ..mcp import http_routes

    return _Mcp(*http_routes(served.mcp))


def _document(document: Any, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(document), media_type="application/json",
                    headers=dict(headers or {}))  # fmt: skip


def _fault(status: int, sentence: str, exit_code: int = 2) -> Response:
    body = msgspec.json.encode({"error": sentence, "exit_code": exit_code})
    return Response(body, status_code=status, media_type="application/json")


async def _on_error(_: Request, error: Error) -> Response:
    sentence = " ".join(str(error).split())
    if isinstance(error, NoSuchRun):
        return _fault(404, sentence)
    status = 409 if error.exit_code == EXIT_EVIDENCE_BROKEN else 400
    return _fault(status, sentence, error.exit_code)


async def _on_http(_: Request, error: HTTPException) -> Response:
    said = {404: "there is no such page or route; /api/openapi.json lists them",
            405: "this route takes another method; /api/openapi.json says which"}  # fmt: skip
    return _fault(error.status_code, said.get(error.status_code, str(error.detail)))


async def _on_invalid(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    where = ".".join(map(str, first.get("loc", ())[1:]))
    return _fault(400, f"{where or 'the request'}: {first.get('msg', 'not understood')}")


async def _words(request: Request) -> dict[str, Any]:
    """The fields of a JSON body. A form of another site cannot say that it is JSON."""
    if not request.headers.get("content-type", "").lower().startswith("application/json"):
        raise AskError("the body has to be JSON: send Content-Type: application/json")
    try:
        data = msgspec.json.decode(await request.body() or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AskError(f"the body is no JSON: {error}") from None
    if not isinstance(data, dict):
        raise AskError("the body has to be a JSON object of named values")
    return data


def _add_questions(app: FastAPI, served: Served) -> None:
    limiter: list[anyio.CapacityLimiter] = []  # made in the loop that uses it

    async def computed(work: Callable[[], Any]) -> Any:
        if not limiter:
            limiter.append(anyio.CapacityLimiter(MAX_AT_ONCE))
        if limiter[0].statistics().tasks_waiting >= MAX_WAITING:
            raise HTTPException(429, "too many questions at once; ask again in a moment")
        return await anyio.to_thread.run_sync(work, limiter=limiter[0])

    def add(path: str, name: str) -> None:
        tool = BY_NAME[name]

        async def answer(request: Request) -> Response:
            given = await _words(request)
            if path == "plan":
                given.setdefault("keep", _PLAN_KEEPS)
            return _document(await computed(lambda: tool.ask(served.desk, given)))

        app.add_api_route(f"/api/{path}", answer, methods=["POST"], summary=tool.title,
                          description=tool.help, operation_id=path)  # fmt: skip

    for path, name in _POSTED.items():
        add(path, name)

    @app.get("/api/hardware", summary=BY_NAME["list_hardware"].title, operation_id="hardware")
    def hardware(name: str = "", kind: str = "", limit: int = 1000) -> Response:
        words = {"name": name, "kind": kind or None, "limit": limit}
        return _document(BY_NAME["list_hardware"].ask(served.desk, words))

    @app.get("/api/models", summary=BY_NAME["list_models"].title, operation_id="models")
    def models(name: str = "", limit: int = 1000) -> Response:
        return _document(BY_NAME["list_models"].ask(served.desk, {"name": name, "limit": limit}))

    @app.get("/api/published", summary="Published measurements", operation_id="published")
    def points(model: str = "", hardware: str = "", limit: int = 1000) -> Response:
        return _document(published(model, hardware, limit))


def _add_runs(app: FastAPI, served: Served) -> None:
    results = served.desk.results
    listening = [0]

    @app.get("/api/runs", summary=BY_NAME["list_runs"].title, operation_id="runs")
    def runs() -> Response:
        return _document(list_runs(results))

    @app.get("/api/runs/{run}", summary="A run folder in full", operation_id="run")
    def one(run: str) -> Response:
        return _document(view_run(results, run))

    @app.get("/api/runs/{run}/trials/{number}", summary=BY_NAME["explain_trial"].title,
             operation_id="trial")  # fmt: skip
    def trial(run: str, number: int) -> Response:
        return _document(BY_NAME["explain_trial"].ask(served.desk, {"run": run, "trial": number}))

    @app.get("/api/runs/{run}/verify", summary=BY_NAME["verify_ledger"].title,
             operation_id="verify")  # fmt: skip
    def verified(run: str, head: str = "") -> Response:
        return _document(BY_NAME["verify_ledger"].ask(served.desk, {"run": run, "head": head}))

    @app.get("/api/runs/{run}/recipe", summary=BY_NAME["get_serving_recipe"].title,
             operation_id="recipe")  # fmt: skip
    def recipe(run: str, to: str = "all", output_tokens_per_month: float | None = None) -> Response:
        words = {"run": run, "to": to, "output_tokens_per_month": output_tokens_per_month}
        return _document(BY_NAME["get_serving_recipe"].ask(served.desk, words))

    @app.get("/api/runs/{run}/recommendation", summary="What a campaign ended in",
             operation_id="recommendation")  # fmt: skip
    def recommendation(run: str) -> Response:
        return _document(recommended(results.find(run)).recommendation)

    @app.get("/api/runs/{run}/ledger", summary="The ledger's bytes", operation_id="ledger")
    def ledger_bytes(run: str) -> Response:
        return _file(results.find(run), LEDGER)

    @app.get("/api/runs/{run}/files/{name:path}", summary="One file of a run", operation_id="file")
    def file(run: str, name: str) -> Response:
        return _file(results.find(run), name)

    @app.get("/api/runs/{run}/log", summary="The end of a log as it grows", operation_id="log")
    def log(run: str, after: int = 0, name: str = "logs/engine.log") -> Response:
        return _document(_log_tail(results.find(run), name, after))

    @app.get("/api/runs/{run}/events", summary="Ledger lines as they are written",
             operation_id="events")  # fmt: skip
    async def events(request: Request, run: str, after: int = 0) -> Response:
        path = await anyio.to_thread.run_sync(results.find, run)
        seen = request.headers.get("last-event-id", "")
        start = int(seen) if seen.isdecimal() and len(seen) < 16 else after
        if listening[0] >= MAX_STREAMS:
            raise HTTPException(429, f"{MAX_STREAMS} pages listen already; close one")

        async def counted() -> AsyncIterator[Any]:
            listening[0] += 1
            try:
                async for event in ledger_events(path, start):
                    yield event
            finally:
                listening[0] -= 1

        return EventSourceResponse(counted(), ping=HEARTBEAT_S)


def _file(run: Path, name: str) -> Response:
    """As it is on disk; a browser shows it as text or keeps it, and runs nothing."""
    with open_file(run, name) as file:
        body = file.read()
    kind = "application/json" if name.endswith(".json") else "text/plain; charset=utf-8"
    if name.startswith("blobs/"):
        kind = "application/gzip" if body[:2] == b"\x1f\x8b" else kind
    digest = hashlib.sha256(body).hexdigest()
    return Response(body, media_type=kind, headers={"x-content-sha256": digest})


def _log_tail(run: Path, name: str, after: int) -> dict[str, Any]:
    if not name.startswith("logs/"):
        raise AskError("a log lies below logs/; the run's `files` list them")
    try:
        with open_file(run, name) as file:
            size = file.seek(0, 2)
            start = after if 0 < after <= size else max(0, size - _LOG_BYTES)
            file.seek(start)
            data = file.read(_LOG_BYTES)
    except NoSuchRun:
        return {"name": name, "after": 0, "next": 0, "text": ""}
    return {"name": name, "after": start, "next": start + len(data),
            "text": data.decode(errors="replace")}  # fmt: skip


def _add_status(app: FastAPI, served: Served) -> None:
    rules = served.rules

    @app.get("/api/status", summary="What this server allows", operation_id="status")
    def status(request: Request) -> Response:
        return _document({
            "version": __version__, "needs_token": not rules.is_loopback,
            "has_token": bool(request.scope.get(TRUSTED)), "may_tune": served.may_tune,
            "results": [root.name for root in served.desk.results.roots],
        })  # fmt: skip

    @app.post("/api/session", summary="Exchange the token for a cookie", operation_id="session")
    def session(request: Request) -> Response:
        if not request.scope.get(TRUSTED):
            return _fault(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
        response = _document({"has_token": True})
        response.set_cookie(COOKIE, rules.session, httponly=True, samesite="strict", path="/")
        return response


def _add_pages(app: FastAPI, pages: dict[str, Page]) -> None:
    @app.get("/{path:path}", include_in_schema=False)
    def page(request: Request, path: str) -> Response:
        found, status = pages.get(f"/{path}"), 200
        if found is None:
            found, status = pages.get("/404.html"), 404
            if found is None or path.startswith(("api/", "mcp")):
                raise HTTPException(404)
        headers = {
            "etag": found.etag, "content-security-policy": found.policy,
            "vary": "accept-encoding", "cache-control":
            "public, max-age=31536000, immutable" if found.is_lasting else "no-cache",
        }  # fmt: skip
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        body = found.body
        if found.packed and "gzip" in request.headers.get("accept-encoding", ""):
            body, headers["content-encoding"] = found.packed, "gzip"
        return Response(body, status, headers, found.type)
