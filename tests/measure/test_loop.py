"""Which event loop loads run on."""

import asyncio
import sys

import pytest
import uvloop

from neoserve.measure.loop import loop_name, quick_loop, run_quickly


async def running():
    return type(asyncio.get_running_loop())


def test_uvloop_runs_loads_where_it_is_installed():
    assert loop_name() == "uvloop"
    assert run_quickly(running()) is uvloop.Loop


def test_loads_run_without_uvloop_too(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)  # its import fails
    assert loop_name() == "asyncio"
    assert quick_loop() is None
    assert issubclass(run_quickly(running()), asyncio.SelectorEventLoop)


def test_results_and_errors_come_back():
    async def fail():
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_quickly(fail())
