"""The hash-chained ledger: one line of canonical JSON (RFC 8785) per entry.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import rfc8785

from ..errors import AskError, Error, EvidenceBroken
from ..schema.evidence import LedgerEntry

GENESIS = "0" * 64
_VERSION = 2  # of an entry
_BLOCK_BYTES = 65536


class Link(NamedTuple):
    """An entry and what stands for it and all before it."""

    entry: LedgerEntry
    digest: str  # of its line


def canonical(data: Any) -> bytes:
    """JSON as RFC 8785 has it: keys in UTF-16 order, numbers as ECMAScript writes doubles.

    Raises AskError for what does not survive that: NaN, integers beyond 2^53, foreign types.
    """
    try:
        return rfc8785.dumps(data)
    except RecursionError:
        raise AskError("data is nested too deeply to be written as JSON") from None
    except ValueError as error:
        raise AskError(f"data cannot be written as canonical JSON: {error}") from None


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
            v=_VERSION,
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
        if not last:
            sync_folder(path.parent)  # or a power cut takes the file, synced as it is
    return entry


def entries(path: Path) -> list[LedgerEntry]:
    """All entries of a ledger whose chain holds. Raises EvidenceBroken."""
    return [link.entry for link in links(path)]


def verify(path: Path, head: str | None = None) -> str:
    """Check every line and return the ledger's head. Raises EvidenceBroken naming the line."""
    chain = links(path)
    check_head(path, chain, head)
    return chain[-1].digest


def check_head(path: Path, chain: Sequence[Link], head: str | None) -> None:
    """`head` is one that was published: its line has to be there, and may have successors."""
    if head is not None and all(link.digest != head for link in chain):
        raise EvidenceBroken(
            f"{path}, line {len(chain)}: no line has the published head {head}; "
            f"the ledger ends in {chain[-1].digest}"
        )


def head(path: Path) -> str:
    """The digest of the last line; it stands for all before it. Checks that line alone."""
    with _opened(path) as fd:
        last = _last_line(fd)
    if not last:
        raise _empty(path)
    _parse(last, path, "last line")
    return digest(last)


def repair(path: Path) -> str:
    """Complete or cut off a line that a crash tore, and say what was done; "" if nothing was."""
    with _locked(path) as fd:
        return _mend(path, fd)


def links(path: Path) -> list[Link]:
    """Every entry with its line's digest, in one pass. Raises EvidenceBroken naming the line."""
    prev = GENESIS
    chain = []
    for number, line in enumerate(_lines(path), start=1):
        entry = _parse(line, path, f"line {number}")
        if entry.prev != prev:
            raise EvidenceBroken(
                f"{path}, line {number}: prev is {entry.prev}, but the line before has {prev}"
            )
        if entry.seq != number - 1:
            raise EvidenceBroken(f"{path}, line {number}: seq is {entry.seq}, not {number - 1}")
        prev = digest(line)
        chain.append(Link(entry, prev))
    if not chain:
        raise _empty(path)
    return chain


def _empty(path: Path) -> EvidenceBroken:
    return EvidenceBroken(f"{path}, line 1: the ledger holds no entry")


def _lines(path: Path) -> list[bytes]:
    with _opened(path) as fd, os.fdopen(os.dup(fd), "rb") as file:
        return file.readlines()


def _parse(line: bytes, path: Path, where: str) -> LedgerEntry:
    if not line.endswith(b"\n"):
        raise EvidenceBroken(
            f"{path}, {where}: torn, it has no newline: a crash while it was written; those "
            "before it are kept: run `neoserve verify --repair` on the run folder"
        )
    try:
        data = json.loads(line, parse_int=_number)
        entry = LedgerEntry.parse(data, "entry")
        is_canonical = canonical(data) + b"\n" == line
    except (AskError, RecursionError) as error:
        raise EvidenceBroken(f"{path}, {where}: {error}") from None
    except ValueError as error:
        raise EvidenceBroken(f"{path}, {where}: no JSON: {error}") from None
    if entry.v != _VERSION:
        raise EvidenceBroken(
            f"{path}, {where}: an entry of version {entry.v}; this NeoServe checks version "
            f"{_VERSION} alone: use the one that wrote it"
        )
    if not is_canonical:
        raise EvidenceBroken(f"{path}, {where}: not in canonical form (RFC 8785)")
    return entry


def _number(text: str) -> int | float:
    """RFC 8785 knows doubles alone and writes even 1e17 without exponent."""
    number = float(text)
    return int(number) if abs(number) < 2**53 else number


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


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """To read, while nobody writes."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH)
            yield fd
        finally:
            os.close(fd)
    except OSError as error:
        raise EvidenceBroken(f"{path}: the ledger cannot be read: {error.strerror}") from None


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


def _mend(path: Path, fd: int) -> str:
    """Complete or cut off a last line that a crash tore; nobody was told that it was written."""
    tail = _last_line(fd)
    if not tail or tail.endswith(b"\n"):
        return ""
    if _is_whole(tail, path):
        _write(path, fd, b"\n")
        return "the last line had lost its newline, which was added"
    os.ftruncate(fd, os.fstat(fd).st_size - len(tail))
    os.fsync(fd)
    return f"{len(tail)} bytes of a line that a crash tore were cut off"


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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
