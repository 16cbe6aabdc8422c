"""`perf stat` on processes or CPUs that run already: opened beforehand, switched on for a window.

Counting mode alone: nothing is sampled, and perf sleeps while it counts. Events are switched by
perf's control pipe (5.10 and later), so that a window begins and ends within a millisecond and
everything that costs time happens outside it.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ...errors import AskError, EngineFailed
from .output import Line, read

_ACK = b"ack"
_OPEN_S = 20.0  # thousands of threads take long to open
_SWITCH_S = 5.0
_END_S = 10.0
_OLDEST = (5, 10)


class Scope(NamedTuple):
    """What is counted: processes with all their threads, or CPUs whoever runs there."""

    pids: tuple[int, ...] = ()
    cpus: str = ""

    def words(self) -> list[str]:
        """perf's options for it."""
        return ["-C", self.cpus] if self.cpus else ["-p", ",".join(map(str, self.pids))]

    def show(self) -> str:
        """For people."""
        if self.cpus:
            return f"CPUs {self.cpus}"
        return f"process{'es' if len(self.pids) > 1 else ''} {', '.join(map(str, self.pids))}"


class Perf(NamedTuple):
    """The program."""

    path: str
    version: str


def find_perf() -> Perf | str:
    """perf on the path, or why it cannot be used."""
    path = shutil.which("perf")
    if path is None:
        return "perf is not installed (packages linux-perf, linux-tools-$(uname -r) or perf)"
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_END_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} does not run: {error}"
    match = re.search(r"perf version (\S+)", said.stdout)
    if match is None:  # Ubuntu's wrapper where no perf fits the kernel
        words = " ".join((said.stdout + said.stderr).split())[:200]
        return f"{path} does not run: {words or 'it printed nothing'}"
    numbers = tuple(map(int, re.findall(r"\d+", match[1])[:2]))
    if numbers < _OLDEST:
        return f"perf {match[1]} is older than 5.10, which counts on demand"
    return Perf(path, match[1])


class Counting:
    """Events opened and switched off; made by `counting`."""

    def __init__(self, process: subprocess.Popen[bytes], orders: int, acks: int, out: Path) -> None:
        self._process, self._orders, self._acks, self._out = process, orders, acks, out

    def on(self) -> None:
        """Count from now on. Raises EngineFailed."""
        self._say("enable", _SWITCH_S)

    def off(self) -> None:
        """Count no more."""
        self._say("disable", _SWITCH_S)

    def wait_open(self) -> None:
        """Until every event is open. Raises EngineFailed with perf's own reason."""
        self._say("ping", _OPEN_S)

    def lines(self) -> list[Line]:
        """End perf; what it counted. Raises EngineFailed."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise EngineFailed("perf did not end when it was told to") from None
        try:
            return read(self._out.read_text(errors="replace"), "what perf printed")
        except (OSError, AskError) as error:
            raise EngineFailed(f"perf counted nothing: {error}") from None

    def _say(self, word: str, limit_s: float) -> None:
        try:
            os.write(self._orders, word.encode() + b"\n")
            ready, _, _ = select.select([self._acks], [], [], limit_s)
            answer = os.read(self._acks, 64) if ready else b""
        except OSError:
            answer = b""
        if _ACK not in answer:
            raise EngineFailed(f"perf does not count: {self._why()}")

    def _why(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        return _reason(self._out.with_suffix(".err")) or "it gave no reason"


@contextmanager
def counting(perf: Perf, scope: Scope, groups: Sequence[str]) -> Iterator[Counting]:
    """Open these groups of events, each as perf writes them; ended in any case. Raises
    EngineFailed where perf refuses."""
    with tempfile.TemporaryDirectory(prefix="neoserve-perf-") as folder:
        out = Path(folder) / "counts"
        to_perf, orders = os.pipe()
        acks, from_perf = os.pipe()
        events = [word for group in groups for word in ("-e", group)]
        command = [perf.path, "stat", "-j", "-o", str(out), "-D", "-1",
                   "--control", f"fd:{to_perf},{from_perf}", *events, *scope.words()]  # fmt: skip
        with out.with_suffix(".err").open("wb") as errors:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
                pass_fds=(to_perf, from_perf),
                start_new_session=True,  # Ctrl-C is ours
                env=os.environ | {"LC_ALL": "C"},
            )  # fmt: skip
        os.close(to_perf)
        os.close(from_perf)
        made = Counting(process, orders, acks, out)
        try:
            made.wait_open()
            yield made
        finally:
            os.close(orders)
            os.close(acks)
            if process.poll() is None:
                process.kill()
            process.wait()


def try_events(perf: Perf, events: Sequence[str], length_s: float) -> list[Line]:
    """Each word of `events` (an event or a group) on a program that only spins. Raises
    EngineFailed with perf's reason."""
    words = [word for event in events for word in ("-e", event)]
    with tempfile.TemporaryDirectory(prefix="neoserve-perf-") as folder:
        out, errors = Path(folder) / "counts", Path(folder) / "errors"
        command = [perf.path, "stat", "-j", "-o", str(out), "--timeout", str(round(length_s * 1e3)),
                   *words, "--", sys.executable, "-I", "-S", "-c", "while True: pass"]  # fmt: skip
        with errors.open("wb") as err:
            try:
                subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err,
                    timeout=length_s + _END_S, check=False, env=os.environ | {"LC_ALL": "C"},
                )  # fmt: skip
            except subprocess.TimeoutExpired:
                raise EngineFailed("perf did not end in time on a spinning program") from None
        try:
            return read(out.read_text(errors="replace"), "what perf printed")
        except (OSError, AskError):
            raise EngineFailed(_reason(errors) or "perf printed no counts") from None


def _reason(path: Path) -> str:
    """perf's own words for a refusal, in one line."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    told = [line for line in lines if line and not line.startswith(("Events ", "Error:"))]
    return " ".join(told)[:300]
