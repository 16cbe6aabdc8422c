"""A ledger followed while it grows: every line once, from where the reader left off."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from neoserve.evidence.run import Run
from neoserve.faces.http.events import ledger_events

from .serving import CANONICAL, RUN


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(CANONICAL / RUN, tmp_path / "run"))


async def take(run: Path, after: int, num: int) -> list[dict[str, Any]]:
    found = []
    stream = ledger_events(run, after, poll_s=0.01)
    async for event in stream:
        found.append(event)
        if len(found) == num:
            break
    await stream.aclose()
    return found


def test_every_line_is_one_event(run: Path) -> None:
    lines = (run / "ledger.jsonl").read_bytes().splitlines()
    events = asyncio.run(take(run, 0, len(lines)))
    assert [event["data"].encode() for event in events] == lines
    assert [event["id"] for event in events] == [str(n + 1) for n in range(len(lines))]
    assert {event["event"] for event in events} == {"entry"}


def test_a_reader_goes_on_where_it_left_off_and_sees_what_is_added(run: Path) -> None:
    num = len((run / "ledger.jsonl").read_bytes().splitlines())

    async def follow() -> list[dict[str, Any]]:
        reading = asyncio.create_task(take(run, num - 1, 3))
        await asyncio.sleep(0.05)
        for kind in ("note", "another"):
            await asyncio.to_thread(Run.open(run).record, kind, {"a": 1})
        return await asyncio.wait_for(reading, 30)

    events = asyncio.run(follow())
    assert [event["id"] for event in events] == [str(num), str(num + 1), str(num + 2)]
    assert '"kind":"note"' in events[1]["data"]


def test_a_torn_line_waits_for_its_end(run: Path) -> None:
    file = run / "ledger.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:50])

    async def follow() -> list[dict[str, Any]]:
        reading = asyncio.create_task(take(run, 0, 2))
        await asyncio.sleep(0.05)
        assert not reading.done()
        with file.open("ab") as more:
            more.write(lines[1][50:])
        return await asyncio.wait_for(reading, 30)

    assert asyncio.run(follow())[1]["data"].encode() + b"\n" == lines[1]


@pytest.mark.parametrize("gone", [True, False])
def test_a_ledger_that_was_cut_has_to_be_read_anew(run: Path, gone: bool) -> None:
    file = run / "ledger.jsonl"
    num = len(file.read_bytes().splitlines())

    async def follow() -> list[dict[str, Any]]:
        reading = asyncio.create_task(take(run, 0, num + 1))
        await asyncio.sleep(0.2)
        if gone:
            file.unlink()
        else:
            file.write_bytes(file.read_bytes()[:100])
        return await asyncio.wait_for(reading, 30)

    assert asyncio.run(follow())[-1] == {"event": "reset", "data": ""}
