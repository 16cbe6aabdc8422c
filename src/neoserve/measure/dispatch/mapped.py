"""The libraries that a server's processes have loaded, each with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ...schema.dispatch import MappedLibrary
from ..engine.linker import loaded


def mapped_libraries(pids: Iterable[int]) -> tuple[MappedLibrary, ...]:
    """In the order in which the first process's dynamic linker holds them; () where unreadable."""
    found: dict[str, list[int]] = {}
    for pid in pids:
        for path in loaded(pid):
            found.setdefault(path, []).append(pid)
    return tuple(_library(path, tuple(pids)) for path, pids in found.items())


def _library(path: str, pids: tuple[int, ...]) -> MappedLibrary:
    try:
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return MappedLibrary(path, digest, file.tell(), pids)
    except OSError:
        return MappedLibrary(path, "", 0, pids)
