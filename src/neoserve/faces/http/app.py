"""The routes: each looks its function up, hands the words over, sends the document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from ... import __version__
from ...errors import Error
from ..published import published
from ..tool import Desk
from ..tools import BY_NAME
from .answers import document, on_error, on_http, on_invalid, words_of
from .guard import Guard, Rules
from .openapi import POSTED, describe
from .pages import Page, read_pages
from .runs import add_runs
from .work import add_campaigns, add_status

MAX_AT_ONCE = 2  # questions that are computed; others wait
MAX_WAITING = 16
_PLAN_KEEPS = 50  # as `neoserve plan` does; agents get fewer


class Served(NamedTuple):
    """What a server serves."""

    desk: Desk
    rules: Rules
    mcp: Any = None  # an MCP server of the SDK
    web: Path | None = None  # other pages than the built ones


def make_app(served: Served) -> Guard:
    """The ASGI application, guarded."""
    manager: Any = None
    routes: list[Any] = []
    if served.mcp is not None:
        from ..mcp import http_routes

        manager, routes = http_routes(served.mcp)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            async with AsyncExitStack() as stack:
                if manager is not None:
                    await stack.enter_async_context(manager.run())
                yield
        finally:
            if served.desk.campaigns is not None:
                await anyio.to_thread.run_sync(served.desk.campaigns.close)

    app = FastAPI(title="NeoServe", version=__version__, docs_url=None, redoc_url=None,
                  openapi_url="/api/openapi.json", lifespan=lifespan)  # fmt: skip
    app.add_middleware(GZipMiddleware, minimum_size=4096, compresslevel=4)  # no event streams
    app.add_exception_handler(Error, on_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, on_http)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, on_invalid)  # type: ignore[arg-type]
    _add_questions(app, served)
    add_runs(app, served.desk)
    add_status(app, served.desk, served.rules)
    if served.desk.campaigns is not None:
        add_campaigns(app, served.desk, served.desk.campaigns)
    app.router.routes.extend(routes)
    _add_pages(app, read_pages(served.web) if served.web else read_pages())
    describe(app)
    return Guard(app, served.rules)


def _add_questions(app: FastAPI, served: Served) -> None:
    limiter = anyio.CapacityLimiter(MAX_AT_ONCE)

    async def computed(work: Callable[[], Any]) -> Any:
        if limiter.statistics().tasks_waiting >= MAX_WAITING:
            raise HTTPException(429, "too many questions at once; ask again in a moment")
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    def add(path: str, name: str) -> None:
        tool = BY_NAME[name]

        async def answer(request: Request) -> Response:
            given = await words_of(request)
            if path == "plan":
                given.setdefault("keep", _PLAN_KEEPS)
            return document(await computed(lambda: tool.ask(served.desk, given)))

        app.add_api_route(f"/api/{path}", answer, methods=["POST"], summary=tool.title,
                          description=tool.help, operation_id=path)  # fmt: skip

    for path, name in POSTED.items():
        add(path, name)

    @app.get("/api/hardware", summary=BY_NAME["list_hardware"].title, operation_id="hardware")
    def hardware(name: str = "", kind: str = "", limit: int = 1000) -> Response:
        words = {"name": name, "kind": kind or None, "limit": limit}
        return document(BY_NAME["list_hardware"].ask(served.desk, words))

    @app.get("/api/models", summary=BY_NAME["list_models"].title, operation_id="models")
    def models(name: str = "", limit: int = 1000) -> Response:
        return document(BY_NAME["list_models"].ask(served.desk, {"name": name, "limit": limit}))

    @app.get("/api/published", summary="Published measurements", operation_id="published")
    def points(model: str = "", hardware: str = "", limit: int = 1000) -> Response:
        return document(published(model, hardware, limit))


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
