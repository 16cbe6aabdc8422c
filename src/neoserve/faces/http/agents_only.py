"""/mcp alone, for `neoserve mcp --http`: it needs no more than the agents' SDK brings."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette

from ..mcp import http_routes
from .guard import Guard, Rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def agents_app(server: Any, rules: Rules) -> Guard:
    """The ASGI application, guarded."""
    manager, routes = http_routes(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Guard(Starlette(routes=routes, lifespan=lifespan), rules)  # type: ignore[arg-type]
