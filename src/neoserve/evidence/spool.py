"""Rows on disk while a load still runs: what a crash leaves of it.

One ``write`` per row hands it to the operating system at once, so killing the process loses
nothing. A thread syncs once a second, so a power cut loses no more than that, and no request
waits for the disk.
"""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from .ledger import sync_folder

_SYNC_EVERY_S = 1.0


class Spool:
    """One load's file of JSON lines. Several processes may write to one path.

    It raises nothing into the load: a row that cannot be written is counted in `num_lost`, and
    `problem` says why.
    """

    def __init__(self, path: Path, started: int) -> None:
        """`started` is the number of the ledger entry that says what is loaded."""
        self.path = path
        self.started = started
        self.num_lost = 0
        self.problem = ""
        self._is_torn = False
        path.parent.mkdir(exist_ok=True)  # copying a run may drop an empty folder
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_SH)  # held: somebody still writes
        sync_folder(path.parent)
        self._ended = threading.Event()
        self._syncer = threading.Thread(target=self._sync, name="spool", daemon=True)
        self._syncer.start()

    def write(self, row: bytes) -> None:
        """Hand one row, a JSON object without newline, to the operating system."""
        line = b"\n" * self._is_torn + row + b"\n"
        try:
            num = os.write(self._fd, line)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return
        self._is_torn = num < len(line)
        if self._is_torn:
            self._lose("no room for a whole row")

    def close(self) -> None:
        """Sync and let go of the file; it stays until its trial is recorded."""
        if not self._ended.is_set():
            self._ended.set()
            self._syncer.join()
            os.close(self._fd)
            self._fd = -1  # a late row is counted as lost, not written to another file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lose(self, why: str) -> None:
        self.num_lost += 1
        self.problem = self.problem or f"{self.path}: a row was not written: {why}"

    def _sync(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ended.wait(_SYNC_EVERY_S)
            try:
                os.fdatasync(self._fd)
            except OSError as error:
                self.problem = self.problem or f"{self.path}: not synced: {error.strerror}"


def is_live(path: Path) -> bool:
    """Somebody still writes it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def live_spools(folder: Path) -> set[str]:
    """Names, without suffix, of the spools that somebody still writes."""
    return {path.stem for path in folder.glob("*.jsonl") if is_live(path)}


def whole_rows(path: Path) -> bytes:
    """The whole lines of a spool; what a crash or a full disk tore is left out."""
    try:
        with path.open("rb") as file:
            return b"".join(line for line in file if _is_object(line))
    except FileNotFoundError:  # the crash came first
        return b""


def _is_object(line: bytes) -> bool:
    """The beginning of a JSON object is never a whole one."""
    try:
        return line.endswith(b"\n") and isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
