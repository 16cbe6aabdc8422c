"""What is looked into: a file, the members of a wheel, a package's or a process's libraries."""

from __future__ import annotations

import mmap
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from ...errors import AskError
from ..engine.proc import descendants

Kind = Literal["file", "wheel", "package", "process"]

_LIBRARY = re.compile(r"\.so(\.|$)")
_MAPPED = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ..x. \S+ (\S+) ([0-9]+) *(.*)$", re.MULTILINE)
_DELETED = " (deleted)"  # the kernel's mark
_MAX_MEMBER_BYTES = 8 << 30
_CHUNK_BYTES = 1 << 22
_ROOT = Path("/")
_EXPECTED = "expected an ELF file, a wheel, or the name of an installed package"


class Part(NamedTuple):
    """One file to look into; where it cannot be had, why."""

    name: str
    data: mmap.mmap | None
    reason: str = ""


def kind_of(target: str) -> Kind:
    """A path that exists is a file; what looks like one is never taken for a package."""
    if target.endswith(".whl"):
        return "wheel"
    is_file = os.path.lexists(target) or "/" in target or _LIBRARY.search(target)
    return "file" if is_file else "package"


def parts(kind: Kind, target: str, root: Path = _ROOT) -> Iterator[Part]:
    """One after another, so that one is in memory at a time. Raises AskError."""
    if kind == "file":
        yield Part(target, map_file(Path(target)))
    elif kind == "wheel":
        yield from _of_wheel(Path(target))
    elif kind == "package":
        yield from _of_package(target)
    else:
        yield from _of_process(int(target), root)


def map_file(path: Path) -> mmap.mmap:
    """The whole file, without reading it. Raises AskError."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "no regular file (a pipe or device)"
            raise AskError(f"{path} is {what}; {_EXPECTED}")
        if path.stat().st_size == 0:
            raise AskError(f"{path} is empty; {_EXPECTED}")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # a path may hold a null byte
        reason = getattr(error, "strerror", None) or str(error)
        raise AskError(f"{path} cannot be read: {reason}; {_EXPECTED}") from None


def _may_be_elf(name: str) -> bool:
    """By name: libraries, and programs, which have no suffix."""
    base = name.rpartition("/")[2]
    return bool(_LIBRARY.search(base)) or "." not in base


def _of_wheel(path: Path) -> Iterator[Part]:
    map_file(path).close()  # says what it is where it is no file
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.is_dir() or not _may_be_elf(member.filename):
                    continue
                with archive.open(member) as file:
                    if file.read(4) != b"\x7fELF":
                        continue
                yield Part(member.filename, _unpacked(archive, member))
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError,
            ValueError) as error:  # fmt: skip
        raise AskError(f"{path} is no whole wheel: {error}; get it again") from None


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> mmap.mmap:
    """One member in memory; its checksum is tested on the way."""
    if member.file_size > _MAX_MEMBER_BYTES:
        raise AskError(f"{member.filename} is {member.file_size} bytes unpacked; expected at most "
                       f"{_MAX_MEMBER_BYTES}")  # fmt: skip
    data = mmap.mmap(-1, member.file_size)
    with archive.open(member) as file:
        while chunk := file.read(_CHUNK_BYTES):
            data.write(chunk)
    return data


def _of_package(name: str) -> Iterator[Part]:
    import importlib.metadata  # as slow as numpy, and for packages alone

    try:
        files = importlib.metadata.distribution(name).files or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        raise AskError(f"{name!r} is neither a file nor an installed package; {_EXPECTED} of the "
                       "Python that runs neoserve") from None  # fmt: skip
    for file in files:
        path = Path(str(file.locate()))
        if _may_be_elf(path.name) and _starts_as_elf(path):
            yield Part(str(file), map_file(path))


def _starts_as_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _of_process(pid: int, root: Path) -> Iterator[Part]:
    """Files whose code is mapped by the process or by those that it has started."""
    seen: set[tuple[str, str]] = set()
    num_nameless_bytes = 0
    for process in (pid, *descendants(pid, root)):
        for mapping in _MAPPED.finditer(_maps(process, root, process == pid)):
            start, end, device, inode, path = mapping.groups()
            if not path:
                num_nameless_bytes += int(end, 16) - int(start, 16)
            elif path.startswith("/") and (device, inode) not in seen:
                seen.add((device, inode))
                yield _mapped(root / f"proc/{process}", f"{start}-{end}", path)
    if num_nameless_bytes:
        yield Part(f"{num_nameless_bytes} bytes of code in no file", None,
                   "made at run time, as oneDNN's JIT does")  # fmt: skip


def _maps(pid: int, root: Path, is_asked: bool) -> str:
    try:
        return (root / f"proc/{pid}/maps").read_text(errors="surrogateescape")
    except OSError as error:
        if not is_asked:  # it has ended meanwhile
            return ""
        raise AskError(f"process {pid} cannot be looked into: {error.strerror}; expected one that "
                       "runs, and is yours") from None  # fmt: skip


def _mapped(process: Path, mapped: str, path: str) -> Part:
    """The file that is mapped, not one that took its place; by the process's own root."""
    name = path.encode(errors="surrogateescape").decode(errors="replace")
    found = process / "map_files" / mapped  # for root alone
    if not path.endswith(_DELETED) and not os.access(found, os.R_OK):
        found = process / "root" / path.lstrip("/")
    try:
        return Part(name.removesuffix(_DELETED), map_file(found))
    except AskError:
        gone = "was deleted or replaced since" if path.endswith(_DELETED) else "cannot be read"
        return Part(name, None, f"the file that is mapped {gone}")
