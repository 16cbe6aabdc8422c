"""The hash-chained ledger: one canonical JSON line per entry.

It hashes bytes, not JSON: `prev` is the SHA-256 of the previous line with its newline, so
``head -n 1 ledger.jsonl | sha256sum`` gives the `prev` of line 2. The last line is protected
only by publishing the head. Nothing is rewritten, except that a line torn by a crash, which
nobody was told of, is completed or cut off by the next append.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..errors import AskError, Error, EvidenceBroken
from ..schema.evidence import LedgerEntry

GENESIS = "0" * 64
_BLOCK_BYTES = 65536


def canonical(data: Any) -> bytes:
    """JSON with sorted keys, no spaces, ASCII only. Raises AskError for NaN or foreign types."""
    try:
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError) as error:
        raise AskError(f"not plain, finite JSON data: {error}") from None
    return text.encode("ascii")


def line_of(entry: LedgerEntry) -> bytes:
    """The entry's bytes in the ledger, newline included."""
    return canonical(msgspec.structs.asdict(entry)) + b"\n"


def digest(data: bytes) -> str:
    """SHA-256 as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def append(path: Path, kind: str, body: dict[str, Any]) -> LedgerEntry:
    """Add one entry, durably, whoever else appends. Raises Error when it cannot be written."""
    with _locked(path) as fd:
        _mend(path, fd)
        last = _last_line(fd)
        previous = _parse(last, path, "last line") if last else None
        entry = LedgerEntry(
            seq=previous.seq + 1 if previous else 0,
            prev=digest(last) if last else GENESIS,
            kind=kind,
            at=datetime.now(UTC).isoformat(timespec="microseconds"),
            body=body,
        )
        line = line_of(entry)
        if not _is_whole(line[:-1], path):  # such as lone surrogates
            raise AskError(f"a {kind!r} entry does not read back as it was written")
        _write(path, fd, line)
    return entry


def entries(path: Path) -> list[LedgerEntry]:
    """All entries of a ledger whose chain holds. Raises EvidenceBroken."""
    return [entry for entry, _ in _checked(path)]


def verify(path: Path, head: str | None = None) -> str:
    """Check every line and return the ledger's head.

    `head` is one that was published: the line it stands for has to be there, and may have
    successors. Raises EvidenceBroken naming the line.
    """
    digests = [line_digest for _, line_digest in _checked(path)]
    if head is not None and head not in digests:
        raise EvidenceBroken(
            f"{path}, line {len(digests)}: no line has the published head {head}; "
            f"the ledger ends in {digests[-1]}"
        )
    return digests[-1]


def _checked(path: Path) -> Iterator[tuple[LedgerEntry, str]]:
    prev = GENESIS
    number = 0
    for number, line in enumerate(_lines(path), start=1):
        entry = _parse(line, path, f"line {number}")
        if entry.prev != prev:
            raise EvidenceBroken(
                f"{path}, line {number}: prev is {entry.prev}, but the line before has {prev}"
            )
        if entry.seq != number - 1:
            raise EvidenceBroken(f"{path}, line {number}: seq is {entry.seq}, not {number - 1}")
        prev = digest(line)
        yield entry, prev
    if number == 0:
        raise EvidenceBroken(f"{path}, line 1: the ledger holds no entry")


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            return file.readlines()
    except OSError as error:
        raise EvidenceBroken(f"{path}: the ledger cannot be read: {error.strerror}") from None


def _parse(line: bytes, path: Path, where: str) -> LedgerEntry:
    if not line.endswith(b"\n"):
        raise EvidenceBroken(f"{path}, {where}: torn, it has no newline")
    try:
        entry = LedgerEntry.parse_json(line, "entry")
    except (AskError, RecursionError) as error:
        raise EvidenceBroken(f"{path}, {where}: {error}") from None
    if line_of(entry) != line:
        raise EvidenceBroken(f"{path}, {where}: not in canonical form")
    return entry


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Error(f"{path}: the ledger cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _last_line(fd: int) -> bytes:
    """The last line, or b"" of an empty file. The file ends in a newline."""
    size = os.fstat(fd).st_size
    length = 0
    while length < size:
        length = min(size, length + _BLOCK_BYTES)
        tail = os.pread(fd, length, size - length)
        start = tail.rfind(b"\n", 0, -1)
        if start >= 0 or length == size:
            return tail[start + 1 :]
    return b""


def _mend(path: Path, fd: int) -> None:
    """Complete or cut off a last line that a crash tore."""
    tail = _last_line(fd)
    if not tail or tail.endswith(b"\n"):
        return
    if _is_whole(tail, path):
        _write(path, fd, b"\n")
    else:
        os.ftruncate(fd, os.fstat(fd).st_size - len(tail))


def _is_whole(tail: bytes, path: Path) -> bool:
    try:
        _parse(tail + b"\n", path, "last line")
    except EvidenceBroken:
        return False
    return True


def _write(path: Path, fd: int, data: bytes) -> None:
    """Append and sync; on failure leave the file as it was."""
    size = os.fstat(fd).st_size
    try:
        _write_all(fd, data)
        os.fsync(fd)
    except OSError as error:
        os.ftruncate(fd, size)
        raise Error(
            f"{path}: the entry was not written: {error.strerror}; the {size} bytes before it "
            "are kept: make room and resume"
        ) from None


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
