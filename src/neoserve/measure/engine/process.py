"""Programs that we start, watch and stop, with everything that they started."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...errors import EngineFailed
from . import leashed, proc

# PR_SET_PDEATHSIG fires when the *thread* that forked ends, so one that never ends does it.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="neoserve-spawn")

_POLL_S = 0.05
_LEASH_S = 10.0  # the leash's own grace, and time for a busy host


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One running program on a leash (see `leashed`), logging to a file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        env: dict[str, str],
        log_path: Path,
        cpus: Sequence[int] = (),
    ) -> None:
        """Start it, on these CPUs if any. Raises EngineFailed when it cannot be started."""
        self.log_path = log_path
        self._name = name
        self._popen, answer = _SPAWNER.submit(_spawn, argv, env, log_path, cpus).result()
        if not answer.isdigit():
            self.stop()
            raise EngineFailed(f"{name} cannot be started: {answer or 'its launcher ended'}")
        self.pid = int(answer)

    @property
    def group(self) -> int:
        """Process id of its leash, which is the group's, too."""
        return self._popen.pid

    def pids(self) -> tuple[int, ...]:
        """Of the program and all that it started."""
        return proc.descendants(self.group)

    def log(self) -> str:
        """What it has printed."""
        return self.log_path.read_text(errors="replace")

    def has_ended(self) -> bool:
        """Whether it has ended, with all it started. The leash is left unreaped: its id is ours."""
        return self._exit_status() is not None

    def killed_by(self) -> str:
        """What killed it, as a clause that ends in a colon; "" if it ended by its own doing."""
        status = self._exit_status()
        if status != 128 + signal.SIGKILL:
            return ""
        return "it was killed (SIGKILL), as the kernel does where memory runs out: "

    def wait_until(
        self, is_ready: Callable[[], bool], timeout_s: float, reason: Callable[[str], str]
    ) -> None:
        """Wait for readiness. Raises EngineFailed with `reason(log)` if it ends or is too slow."""
        deadline_s = time.monotonic() + timeout_s
        while not is_ready():
            if self.has_ended():
                raise self._failure("ended before it was ready", reason)
            if time.monotonic() > deadline_s:
                raise self._failure(f"was not ready within {timeout_s:g} s", reason)
            time.sleep(_POLL_S)

    def stop(self, grace_s: float = 5.0) -> None:
        """End it and all it started: SIGTERM, then SIGKILL for what is left; may be repeated."""
        if self._popen.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(signal.SIGTERM)
        self._wait(grace_s)
        if self._popen.stdin is not None:
            self._popen.stdin.close()
        self._wait(_LEASH_S)
        # The leader is not reaped yet, so nobody else can have this group id.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, signal.SIGKILL)
        self._popen.wait()

    def _exit_status(self) -> int | None:
        """As a shell counts: 128 and the signal's number for a program that was killed."""
        if self._popen.returncode is not None:
            return self._popen.returncode
        ended = os.waitid(os.P_PID, self.group, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return None if ended is None else ended.si_status

    def _wait(self, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not self.has_ended() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)

    def _failure(self, what: str, reason: Callable[[str], str]) -> EngineFailed:
        why = self.killed_by() + reason(self.log())
        return EngineFailed(f"{self._name} {what}: {why} (log: {self.log_path})")


def _spawn(
    argv: Sequence[str], env: dict[str, str], log_path: Path, cpus: Sequence[int]
) -> tuple[subprocess.Popen[bytes], str]:
    """The leash, and the program's process id or why there is none."""
    reading, report = os.pipe()
    order = leashed.Order(env=env, cpus=list(cpus), report=report)
    ours = {leashed.PARENT_VARIABLE: str(os.getpid()), leashed.ORDER_VARIABLE: json.dumps(order)}
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            popen = subprocess.Popen(
                # By path and isolated: neither our modules nor the user's are to be found.
                [sys.executable, "-I", "-S", leashed.__file__, "--", *argv],
                stdin=subprocess.PIPE,  # the leash: it ends with us
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | ours,
                start_new_session=True,
                pass_fds=(report,),
            )
    except OSError as error:
        os.close(reading)
        raise EngineFailed(f"{argv[0]} cannot be started: {error}") from None
    finally:
        os.close(report)
    with open(reading, "rb") as answer:
        return popen, answer.read().decode(errors="replace")
