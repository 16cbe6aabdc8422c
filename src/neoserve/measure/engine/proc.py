"""What /proc says of a running process."""

from __future__ import annotations

import re
from pathlib import Path

_ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc", "rpmalloc", "hoard", "scudo")
_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)$", re.MULTILINE)


def affinity(pid: int, root: Path = Path("/")) -> tuple[str, ...]:
    """The distinct CPU lists of its threads, such as ``("0-3",)``; empty where unreadable."""
    lists = set()
    for status in (root / f"proc/{pid}/task").glob("*/status"):
        try:
            lists.update(_CPUS.findall(status.read_text()))
        except OSError:  # the thread has ended
            continue
    return tuple(sorted(lists))


def allocator(pid: int, root: Path = Path("/")) -> str:
    """The allocator that is mapped, by its library; "" where unreadable.

    A preloaded one is looked for first: the C library is mapped in any case.
    """
    try:
        maps = (root / f"proc/{pid}/maps").read_text()
    except OSError:
        return ""
    # address perms offset dev inode path
    names = {Path(line.split(maxsplit=5)[-1]).name for line in maps.splitlines() if "/" in line}
    found = [n for n in sorted(names) if n.startswith("lib") and any(a in n for a in _ALLOCATORS)]
    if found:
        return ", ".join(found)
    return "musl" if any(n.startswith("ld-musl") for n in names) else "glibc"
