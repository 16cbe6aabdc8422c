"""Programs that we start, watch and stop, with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...errors import EngineFailed
from .leash import PARENT_VARIABLE

# PR_SET_PDEATHSIG fires when the *thread* that forked ends, so one that never ends does it.
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="neoserve-spawn")

_POLL_S = 0.05


class Process:
    """One running program, leader of its own session, logging to a file."""

    def __init__(self, name: str, argv: Sequence[str], env: dict[str, str], log_path: Path) -> None:
        """Start it. Raises EngineFailed when it cannot be started."""
        self.log_path = log_path
        self._name = name
        self._popen = _SPAWNER.submit(_spawn, argv, env, log_path).result()

    @property
    def pid(self) -> int:
        """Its process id, which is its group's, too."""
        return self._popen.pid

    def log(self) -> str:
        """What it has printed."""
        return self.log_path.read_text(errors="replace")

    def has_ended(self) -> bool:
        """Whether it has ended. It is left unreaped, so that its id stays ours."""
        if self._popen.returncode is not None:
            return True
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is not None

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
        """End the whole group: SIGTERM, then SIGKILL for what is left. May be called twice."""
        if self._popen.returncode is not None:
            return
        self._signal(signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while not self.has_ended() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        self._signal(signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        # The leader is not reaped yet, so nobody else can have this group id.
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def _failure(self, what: str, reason: Callable[[str], str]) -> EngineFailed:
        return EngineFailed(f"{self._name} {what}: {reason(self.log())} (log: {self.log_path})")


def _spawn(argv: Sequence[str], env: dict[str, str], log_path: Path) -> subprocess.Popen[bytes]:
    try:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("wb") as log:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,  # the leash: it ends with us
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | env | {PARENT_VARIABLE: str(os.getpid())},
                start_new_session=True,
            )
    except OSError as error:
        raise EngineFailed(f"{argv[0]} cannot be started: {error}") from None
