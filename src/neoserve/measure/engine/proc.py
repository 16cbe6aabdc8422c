"""What /proc says of running processes."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ...schema.trial import ProcessFacts
from .elf import Library, read_library

_ROOT = Path("/")
_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)
_LISTEN = "0A"  # net/tcp_states.h
# Where a file cannot be read, it is known by its name alone.
_ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc", "rpmalloc", "hoard", "scudo", "snmalloc")


def descendants(pid: int, root: Path = _ROOT) -> tuple[int, ...]:
    """Process ids below `pid`, without itself and without those that have ended."""
    children: dict[int, list[int]] = {}
    for stat in (root / "proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found, rest = [], [pid]
    while rest:
        more = children.get(rest.pop(), [])
        found += more
        rest += more
    return tuple(sorted(found))


def facts(pids: Iterable[int], root: Path = _ROOT) -> tuple[ProcessFacts, ...]:
    """Of each process that still runs."""
    found = []
    for pid in pids:
        affinity = thread_cpus(pid, root)
        if affinity:
            found.append(
                ProcessFacts(
                    pid=pid,
                    name=_read(root / f"proc/{pid}/comm"),
                    threads=sum(affinity.values()),
                    affinity=affinity,
                    allocator=allocator(pid, root),
                )
            )
    return tuple(found)


def thread_cpus(pid: int, root: Path = _ROOT) -> dict[str, int]:
    """CPU list, such as ``"0-3"`` → threads that may run there; empty where unreadable."""
    lists: Counter[str] = Counter()
    for status in (root / f"proc/{pid}/task").glob("*/status"):
        lists.update(_CPUS.findall(_read(status)))
    return dict(sorted(lists.items()))


def environ(pid: int, root: Path = _ROOT) -> dict[str, str]:
    """The environment that its program was started with."""
    pairs = (entry.partition("=") for entry in _read(root / f"proc/{pid}/environ").split("\0"))
    return {name: value for name, _, value in pairs if name}


def is_listening(port: int, pids: Iterable[int], root: Path = _ROOT) -> bool:
    """Whether one of these processes, and not another's, accepts connections on this TCP port."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in _read(root / f"proc/net/{table}").splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{words[9]}]")
    return any(not inodes.isdisjoint(_open_files(pid, root)) for pid in pids)


def allocator(pid: int, root: Path = _ROOT) -> str:
    """The library that malloc resolves to, as the dynamic linker looks for it; "" if unreadable.

    The program itself, what is preloaded, then what is linked, breadth first: the first that
    defines malloc. A library that was only opened later, or defines none, is not it.
    """
    mapped = _mapped(pid, root)
    if not mapped:
        return ""
    by_name: dict[str, str] = {}
    for path in mapped:
        by_name |= {path: path, Path(path).name: path, _library(path).soname or path: path}
    order = [_program(pid, root), *_preloaded(pid, root)]
    seen: set[str] = set()
    while order:
        name = order.pop(0)
        path = by_name.get(name) or by_name.get(os.path.realpath(name), "")
        if not path or path in seen:
            continue
        seen.add(path)
        library = _library(path)
        if library.has_malloc:
            return _short(path)
        order += library.needed
    return ""


def _mapped(pid: int, root: Path) -> list[str]:
    """Files that are mapped with code."""
    lines = (line.split(maxsplit=5) for line in _read(root / f"proc/{pid}/maps").splitlines())
    # address perms offset dev inode path
    found = {words[5] for words in lines if len(words) == 6 and "x" in words[1]}
    return sorted(path for path in found if path.startswith("/"))


def _program(pid: int, root: Path) -> str:
    try:
        return os.readlink(root / f"proc/{pid}/exe")
    except OSError:
        return ""


def _preloaded(pid: int, root: Path) -> list[str]:
    words = re.split(r"[:\s]+", environ(pid, root).get("LD_PRELOAD", ""))
    return [word for word in words if word] + _read(root / "etc/ld.so.preload").split()


def _library(path: str) -> Library:
    found = read_library(path)
    if found is None:
        is_known = any(name in Path(path).name for name in _ALLOCATORS)
        return Library(soname="", needed=(), has_malloc=is_known)
    return found


def _short(path: str) -> str:
    name = Path(path).name
    if name.startswith(("libc.so", "libc-2")):
        return "glibc"
    return "musl" if name.startswith(("ld-musl", "libc.musl")) else name


def _open_files(pid: int, root: Path) -> set[str]:
    found = set()
    for entry in (root / f"proc/{pid}/fd").glob("*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(entry))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").rstrip("\n")
    except OSError:
        return ""
