"""Routes of campaigns, of the token, and of what this server allows."""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ... import __version__
from ..campaigns import Campaigns
from ..tool import Desk
from ..tools import BY_NAME
from .answers import document, fault, words_of
from .guard import COOKIE, TRUSTED, Rules


def add_campaigns(app: FastAPI, desk: Desk, campaigns: Campaigns) -> None:
    """Start, follow and stop; starting takes the token even on this host."""

    def allowed(request: Request) -> None:
        if not request.scope.get(TRUSTED):
            raise HTTPException(401, "starting work takes the token: Authorization: Bearer TOKEN")

    def ask(name: str, given: dict[str, Any]) -> Response:
        return document(BY_NAME[name].ask(desk, given))

    @app.post("/api/tune", summary=BY_NAME["start_tune"].title, operation_id="start_tune")
    async def start(request: Request) -> Response:
        allowed(request)
        given = await words_of(request)
        return await anyio.to_thread.run_sync(ask, "start_tune", given)

    @app.get("/api/tune", summary="Campaigns of this server", operation_id="tunes")
    def states() -> Response:
        return document(campaigns.list())

    @app.get("/api/tune/{name}", summary=BY_NAME["tune_status"].title, operation_id="tune_status")
    def state(name: str) -> Response:
        return ask("tune_status", {"id": name})

    @app.delete("/api/tune/{name}", summary=BY_NAME["stop_tune"].title, operation_id="stop_tune")
    def stop(request: Request, name: str) -> Response:
        allowed(request)
        return ask("stop_tune", {"id": name})


def add_status(app: FastAPI, desk: Desk, rules: Rules) -> None:
    """For pages: is a token needed, is it there?"""

    @app.get("/api/status", summary="What this server allows", operation_id="status")
    def status(request: Request) -> Response:
        return document({
            "version": __version__, "needs_token": not rules.is_loopback,
            "has_token": bool(request.scope.get(TRUSTED)),
            "may_tune": desk.campaigns is not None,
            "results": [root.name for root in desk.results.roots],
        })  # fmt: skip

    @app.post("/api/session", summary="Exchange the token for a cookie", operation_id="session")
    def session(request: Request) -> Response:
        if not request.scope.get(TRUSTED):
            return fault(401, "the token is missing or wrong: Authorization: Bearer TOKEN")
        response = document({"has_token": True})
        response.set_cookie(COOKIE, rules.session, httponly=True, samesite="strict", path="/")
        return response
