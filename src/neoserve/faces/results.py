"""The run folders below some results folders, and the files in them; nothing outside of them.

What a user names is looked up among the folders that were found, never joined to a path, and a
file is opened part by part without following links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ..errors import AskError
from ..evidence import ledger

LEDGER = "ledger.jsonl"
MAX_RUNS = 1000
MAX_FILE_BYTES = 64 * 2**20
_DEPTH = 3  # folders below a results folder
_MAX_LISTED = 5000  # files of one run
_CACHED = 64


class NoSuchRun(AskError):
    """A run or a file of it that is not there."""


class Results:
    """Results folders; a folder that is a run itself counts as one."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(root.absolute() for root in roots)
        self._read: dict[Path, tuple[tuple[int, int], list[ledger.Link]]] = {}

    def runs(self) -> dict[str, Path]:
        """Every run folder by its id."""
        found: dict[str, Path] = {}
        for root in self.roots:
            for path in _run_folders(root, _DEPTH):
                name = "~".join(path.relative_to(root).parts) or root.name
                if name in found and found[name] != path:
                    name = f"{root.name}~{name}"
                found[name] = path
                if len(found) == MAX_RUNS:
                    return found
        return found

    def find(self, run: str) -> Path:
        """The folder of an id. Raises NoSuchRun."""
        found = self.runs()
        if run in found:
            return found[run]
        near = [name for name in found if run and run.lower() in name.lower()] or list(found)
        where = ", ".join(map(str, self.roots)) or "no results folder"
        held = f"known: {', '.join(sorted(near)[:12])}" if near else f"{where} holds none yet"
        raise NoSuchRun(f"no run {run[:80]!r}; {held}; name a folder of runs with --results DIR")

    def links(self, path: Path) -> list[ledger.Link]:
        """A ledger whose chain holds, read again when it has grown. Raises EvidenceBroken."""
        file = path / LEDGER
        try:
            status = file.stat()
        except OSError:
            return ledger.links(file)  # says what is wrong
        key = (status.st_mtime_ns, status.st_size)
        known = self._read.get(path)
        if known is None or known[0] != key:
            if len(self._read) >= _CACHED:
                self._read.clear()
            known = self._read[path] = (key, ledger.links(file))
        return known[1]


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / LEDGER).is_file():
        yield folder
        return
    if depth == 0:
        return
    try:
        below = sorted(entry.name for entry in os.scandir(folder)
                       if entry.is_dir(follow_symlinks=False))  # fmt: skip
    except OSError:
        return
    for name in below:
        if not name.startswith("."):
            yield from _run_folders(folder / name, depth - 1)


def files_of(run: Path) -> tuple[str, ...]:
    """Relative paths of a run's regular files."""
    found: list[str] = []
    for folder, names, files in os.walk(run):
        names.sort()
        below = [Path(folder) / name for name in sorted(files)]
        # A file of a live run may be gone by now: it is none.
        found += [file.relative_to(run).as_posix() for file in below
                  if file.is_file() and not file.is_symlink()]  # fmt: skip
        if len(found) > _MAX_LISTED:
            break
    return tuple(found[:_MAX_LISTED])


@contextmanager
def open_file(run: Path, name: str) -> Iterator[BinaryIO]:
    """A regular file of a run folder. Raises NoSuchRun for anything else."""
    parts = name.split("/")
    missing = NoSuchRun(f"no file {name[:80]!r} in this run; its `files` list them")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise missing
    try:
        fd = _descriptor(run, parts)
    except (OSError, UnicodeError):
        raise missing from None
    with open(fd, "rb") as file:
        if os.fstat(fd).st_size > MAX_FILE_BYTES:
            raise AskError(
                f"{name[:80]} has more than {MAX_FILE_BYTES // 2**20} MiB; read it on its host"
            )
        yield file


def _descriptor(run: Path, parts: Sequence[str]) -> int:
    """Of a regular file, each part opened in the folder before it. Raises OSError."""
    fd = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            below = os.open(part, flags | os.O_DIRECTORY * (number < len(parts)), dir_fd=fd)
        finally:
            os.close(fd)
        fd = below
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "no regular file")
