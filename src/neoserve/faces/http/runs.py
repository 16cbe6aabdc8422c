"""Routes of run folders: lists, pages, files, logs, and the ledger as it grows."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException

from ...errors import AskError
from ...evidence.recommended import recommended
from ..results import LEDGER, NoSuchRun, open_file
from ..run_view import list_runs, view_run
from ..tool import Desk
from ..tools import BY_NAME
from .answers import document
from .events import HEARTBEAT_S, MAX_STREAMS, ledger_events

_LOG_BYTES = 65536


def add_runs(app: FastAPI, desk: Desk) -> None:
    """What a results folder holds."""
    results = desk.results
    listening = [0]

    @app.get("/api/runs", summary=BY_NAME["list_runs"].title, operation_id="runs")
    def runs() -> Response:
        return document(list_runs(results))

    @app.get("/api/runs/{run}", summary="A run folder in full", operation_id="run")
    def one(run: str) -> Response:
        return document(view_run(results, run))

    @app.get("/api/runs/{run}/trials/{number}", summary=BY_NAME["explain_trial"].title,
             operation_id="trial")  # fmt: skip
    def trial(run: str, number: int) -> Response:
        return document(BY_NAME["explain_trial"].ask(desk, {"run": run, "trial": number}))

    @app.get("/api/runs/{run}/verify", summary=BY_NAME["verify_ledger"].title,
             operation_id="verify")  # fmt: skip
    def verified(run: str, head: str = "") -> Response:
        return document(BY_NAME["verify_ledger"].ask(desk, {"run": run, "head": head}))

    @app.get("/api/runs/{run}/recipe", summary=BY_NAME["get_serving_recipe"].title,
             operation_id="recipe")  # fmt: skip
    def recipe(run: str, to: str = "all", output_tokens_per_month: float | None = None) -> Response:
        words = {"run": run, "to": to, "output_tokens_per_month": output_tokens_per_month}
        return document(BY_NAME["get_serving_recipe"].ask(desk, words))

    @app.get("/api/runs/{run}/recommendation", summary="What a campaign ended in",
             operation_id="recommendation")  # fmt: skip
    def recommendation(run: str) -> Response:
        return document(recommended(results.find(run)).recommendation)

    @app.get("/api/runs/{run}/ledger", summary="The ledger's bytes", operation_id="ledger")
    def ledger_bytes(run: str) -> Response:
        return _file(results.find(run), LEDGER)

    @app.get("/api/runs/{run}/files/{name:path}", summary="One file of a run", operation_id="file")
    def file(run: str, name: str) -> Response:
        return _file(results.find(run), name)

    @app.get("/api/runs/{run}/log", summary="The end of a log as it grows", operation_id="log")
    def log(run: str, after: int = 0, name: str = "logs/engine.log") -> Response:
        return document(_log_tail(results.find(run), name, after))

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
