"""/mcp alone, for `neoserve mcp --http`: it needs no more than the agents' SDK brings."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.applications import Starlette

from ..mcp import http_routes
from .guard import Guard, Rules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..campaigns import Campaigns


def agents_app(server: Any, rules: Rules, campaigns: Campaigns | None = None) -> Guard:
    """The ASGI application, guarded."""
    manager, routes = http_routes(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            async with manager.run():
                yield
        finally:
            if campaigns is not None:
                await anyio.to_thread.run_sync(campaigns.close)

    return Guard(Starlette(routes=routes, lifespan=lifespan), rules)
