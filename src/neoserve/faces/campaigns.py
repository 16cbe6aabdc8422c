"""Campaigns that a server starts: `neoserve tune` as a program of its own, one at a time.

It is the same command that a person would type; stopping it is Ctrl-C, which keeps all that was
measured and concludes from it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..errors import AskError, Error
from ..schema.runs import CampaignList, CampaignState
from .options import TUNE, Option, whole

_WORDS = ("engine", "device", "slo", "isl", "osl", "isl_cv", "osl_cv", "prefix_hit_share", "seed",
          "burstiness", "rate", "max_candidates", "budget", "rungs", "certify_requests",
          "certify_seeds", "finalists", "tolerance", "on", "price")  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BUDGET = "10m"  # a campaign that somebody else starts has an end
_KEPT_LINES, _SHOWN_LINES = 500, 20
_GRACE_S = 60.0  # to stop an engine and conclude


START = (
    Option(("--model",), "GGUF file, checkpoint folder or name, as the engine takes it",
           default=""),
    Option(("--name",), "of the run's folder (tune- and the time)", default=""),
    *(replace(option, default=None) for option in TUNE if option.name in _WORDS),
    Option(("--wait-s",), "seconds to wait for its end, telling progress (10)", whole, default=10),
)
CAMPAIGN = Option(("--id",), "of the campaign, as start_tune gave it", default="")


class Campaign:
    """One started program."""

    def __init__(self, name: str, argv: list[str]) -> None:
        self.name, self._began_s = name, time.monotonic()
        self._since = datetime.now(UTC).isoformat(timespec="seconds")
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._is_stopping, self._ended_s = False, 0.0
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True, errors="replace", start_new_session=True,
                env={**os.environ, "NO_COLOR": "1"},
            )  # fmt: skip
        except OSError as error:
            raise Error(f"the campaign cannot be started: {error.strerror}") from None
        self._reader = threading.Thread(target=self._read, name="campaign", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text := line.rstrip():
                self._lines.append(text)
        self._process.wait()
        self._ended_s = time.monotonic()

    def is_over(self) -> bool:
        """Its program has ended and all it said was read."""
        return not self._reader.is_alive()

    def state(self) -> CampaignState:
        """As it is now."""
        is_over = self.is_over()
        until_s = self._ended_s if is_over else time.monotonic()
        return CampaignState(
            id=self.name,
            state="ended" if is_over else "stopping" if self._is_stopping else "running",
            since=self._since,
            elapsed_s=round(until_s - self._began_s, 1),
            exit_code=self._process.returncode if is_over else None,
            lines=tuple(list(self._lines)[-_SHOWN_LINES:]),
        )

    def stop(self, wait_s: float) -> None:
        """As Ctrl-C does; what was measured is kept."""
        if not self.is_over():
            self._is_stopping = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)
        self._reader.join(wait_s)

    def kill(self) -> None:
        """For one that does not stop: engines end with what started them."""
        if not self.is_over():
            self._process.kill()


class Campaigns:
    """All of a server, kept below its first results folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: dict[str, Campaign] = {}
        self._lock = threading.Lock()

    def start(self, args: argparse.Namespace) -> CampaignState:
        """Raises AskError while another one runs: two would disturb each other."""
        name = args.name or f"tune-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        if not _NAME.fullmatch(name):
            raise AskError(f"name is {name[:80]!r}; expected letters, digits, dots and dashes")
        with self._lock:
            running = next((c.name for c in self._all.values() if not c.is_over()), None)
            if running:
                raise AskError(f"campaign {running} runs: wait for its end, or stop_tune it first")
            if name in self._all or (self._folder / name).exists():
                raise AskError(f"there is a run {name} already; give another name")
            campaign = self._all[name] = Campaign(name, command(args, self._folder / name))
        return campaign.state()

    def state(self, name: str) -> CampaignState:
        """Raises AskError for one that this server did not start."""
        return self._find(name).state()

    def list(self) -> CampaignList:
        """The newest first."""
        return CampaignList(campaigns=tuple(c.state() for c in reversed(self._all.values())))

    def stop(self, name: str, wait_s: float = 5.0) -> CampaignState:
        """Ask it to end and conclude; it may take longer than `wait_s`."""
        campaign = self._find(name)
        campaign.stop(wait_s)
        return campaign.state()

    def close(self) -> None:
        """The server ends: so do they."""
        for campaign in self._all.values():
            campaign.stop(_GRACE_S)
            campaign.kill()

    def _find(self, name: str) -> Campaign:
        if name not in self._all:
            held = ", ".join(self._all) or "none yet"
            raise AskError(f"no campaign {name[:80]!r} was started here ({held}); list_runs has "
                           "those of others")  # fmt: skip
        return self._all[name]


def command(args: argparse.Namespace, out: Path) -> list[str]:
    """`neoserve tune` in words. Raises AskError for a model that would be read as an option."""
    if args.model.startswith("-"):
        raise AskError(f"model is {args.model[:80]!r}; expected a file, a folder or a name")
    words = [sys.executable, "-m", "neoserve.faces.cli", "tune"]
    words += [args.model] if args.model else []
    words += [f"--out={out}", "--json"]
    if args.budget is None:
        words.append(f"--budget={_BUDGET}")
    for option in TUNE:
        value = getattr(args, option.name, None)
        if option.name in _WORDS and value is not None:
            words.append(f"{option.flags[0]}={_text(value)}")
    return words


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)
