"""What /proc says of running processes."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ...schema.trial import ProcessFacts
from .linker import allocator

_ROOT = Path("/")
_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)
_LISTEN = "0A"  # net/tcp_states.h


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
                    allocator=allocator(pid),
                )
            )
    return tuple(found)


def thread_cpus(pid: int, root: Path = _ROOT) -> dict[str, int]:
    """CPU list, such as ``"0-3"`` → threads that may run there; empty where unreadable."""
    lists: Counter[str] = Counter()
    for status in (root / f"proc/{pid}/task").glob("*/status"):
        lists.update(_CPUS.findall(_read(status)))
    return dict(sorted(lists.items()))


def is_listening(port: int, pids: Iterable[int], root: Path = _ROOT) -> bool:
    """Whether one of these processes, and not another's, accepts connections on this TCP port."""
    sockets = _listening(port, root)
    return any(not sockets.isdisjoint(_open_files(pid, root)) for pid in pids)


def listeners(port: int, root: Path = _ROOT) -> tuple[int, ...]:
    """Processes that accept connections on this port, and all below them; () where none can be
    seen, or where one is ours: then server and client cannot be told apart."""
    sockets = _listening(port, root)
    found = [pid for path in (root / "proc").glob("[0-9]*")
             if not sockets.isdisjoint(_open_files(pid := int(path.name), root))]  # fmt: skip
    if os.getpid() in found:
        return ()
    return tuple(sorted({each for pid in found for each in (pid, *descendants(pid, root))}))


def _listening(port: int, root: Path) -> set[str]:
    """Sockets that accept connections on this TCP port, as a process's open files name them."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in _read(root / f"proc/net/{table}").splitlines()[1:]:
            words = line.split()
            if words[3] == _LISTEN and int(words[1].rpartition(":")[2], 16) == port:
                found.add(f"socket:[{words[9]}]")
    return found


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
