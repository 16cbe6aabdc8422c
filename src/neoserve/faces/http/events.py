"""A ledger as it grows: one server-sent event for each line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ..results import LEDGER, NoSuchRun, open_file

POLL_S = 1.0
HEARTBEAT_S = 15
MAX_STREAMS = 32
_BLOCK_BYTES = 2**20


async def ledger_events(run: Path, after: int, poll_s: float = POLL_S) -> AsyncIterator[Any]:
    """Lines from number `after` + 1 on, as long as the client listens.

    A ledger that got shorter, or went, ends it with a `reset`: what was sent has to be read anew.
    """
    offset, number, tail = 0, 0, b""
    while True:
        try:
            data, size = await asyncio.to_thread(_read, run, offset)
        except NoSuchRun:
            size, data = -1, b""
        if size < offset:
            yield {"event": "reset", "data": ""}
            return
        offset += len(data)
        *lines, tail = (tail + data).split(b"\n")
        for line in lines:
            number += 1
            if number > after:
                yield {"event": "entry", "id": str(number), "data": line.decode(errors="replace")}
        if not data:
            await asyncio.sleep(poll_s)


def _read(run: Path, offset: int) -> tuple[bytes, int]:
    """The next bytes, and how many there are in all."""
    with open_file(run, LEDGER) as file:
        size = file.seek(0, 2)
        file.seek(offset)
        return file.read(_BLOCK_BYTES), size
