"""Runs in the engine's process: it dies when the process that started it dies."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading

PARENT_VARIABLE = "NEOSERVE_PARENT_PID"

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tie_to_parent() -> None:
    """Die by SIGKILL from the kernel (Linux), and when stdin ends (anywhere).

    The kernel's signal needs no GIL, which llama.cpp holds while it loads a model; the pipe
    covers parents further up, whose end closes the chain of stdins.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent = int(os.environ.get(PARENT_VARIABLE, "0"))
    if parent and os.getppid() != parent:  # it died before prctl
        _die()
    threading.Thread(target=_follow_stdin, name="leash", daemon=True).start()


def _follow_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    _die()


def _die() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
