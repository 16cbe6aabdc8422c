"""Runs a program so that nothing of it outlives NeoServe: ``python leashed.py -- PROGRAM ...``.

It stands between NeoServe and the program, does no work itself, and ends every descendant when
the program ends, when it is told to (SIGTERM, then the end of its stdin), and when NeoServe dies.
Standard library only: it is started by path, before anything of ours can be imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypedDict

PARENT_VARIABLE = "NEOSERVE_PARENT_PID"
ORDER_VARIABLE = "NEOSERVE_ENGINE_ORDER"  # an Order as JSON

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h

class Order(TypedDict):
    """What to run the program with."""

    env: dict[str, str]  # on top of this process's own
    cpus: list[int]  # empty: all that this process may use
    report: int  # file descriptor for the program's id


_GRACE_S = 2.0  # for what the program left behind, such as the cleaner of its shared memory
_TICK_S = 0.02


def main(argv: list[str]) -> NoReturn:
    """Run `argv` and end with its exit code, or 128 and its signal's number."""
    order: Order = json.loads(os.environ.pop(ORDER_VARIABLE))
    parent = int(os.environ.pop(PARENT_VARIABLE))
    waking, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what leaves the group, or loses its parent, stays ours
    program = _start(argv, order)
    _watch(program, waking, lambda: os.getppid() == parent)
    end_descendants(_GRACE_S)
    code = program.wait()
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:  # leave no zombie to a host whose init reaps late
            pass
    sys.exit(code if code >= 0 else 128 - code)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(argv: list[str], order: Order) -> subprocess.Popen[bytes]:
    """Start the program and report its id, or why it cannot be started."""
    def before_exec() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # when this process is killed itself

    try:
        if order["cpus"]:
            os.sched_setaffinity(0, order["cpus"])
        program = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            env=os.environ | order["env"],
            preexec_fn=before_exec,
        )
    except (OSError, subprocess.SubprocessError) as error:
        os.write(order["report"], str(error).encode())
        sys.exit(127)
    os.write(order["report"], str(program.pid).encode())
    os.close(order["report"])
    return program


def _watch(program: subprocess.Popen[bytes], waking: int, is_ours: Callable[[], bool]) -> None:
    """Until the program has ended or nobody wants it; SIGTERM is passed on to it."""
    while is_ours():
        readable, _, _ = select.select([0, waking], [], [])
        numbers = os.read(waking, 4096) if waking in readable else b""
        if 0 in readable and not os.read(0, 4096):  # NeoServe let go of the leash
            return
        if any(n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) for n in numbers) and is_ours():
            program.terminate()
        if _reap_orphans(program):
            return


def _reap_orphans(program: subprocess.Popen[bytes]) -> bool:
    """Reap what was left to us; whether the program has ended, which is left to its own wait."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        if found is None:
            return False
        if found.si_pid == program.pid:
            return True
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def end_descendants(grace_s: float) -> None:
    """SIGTERM to all, and after the grace SIGKILL until none is left."""
    _signal_all(signal.SIGTERM)
    deadline_s = time.monotonic() + grace_s
    while _living() and time.monotonic() < deadline_s:
        time.sleep(_TICK_S)
    while _living():  # again, for what was forked meanwhile
        _signal_all(signal.SIGKILL)
        time.sleep(_TICK_S)


def _signal_all(number: signal.Signals) -> None:
    for pid in _living():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _living() -> list[int]:
    """Every descendant that still runs."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found, rest = [], [os.getpid()]
    while rest:
        more = children.get(rest.pop(), [])
        found += more
        rest += more
    return found


if __name__ == "__main__":
    main(sys.argv[sys.argv.index("--") + 1 :])
