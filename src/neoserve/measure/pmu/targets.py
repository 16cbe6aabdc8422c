"""Whom to count: the processes of an engine that compute."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ...errors import AskError
from ..engine.proc import descendants

_ROOT = Path("/")
# Names that engines give the processes that compute, cut to 15 characters by the kernel. Where
# there are none, all processes of the engine are counted.
_COMPUTES = re.compile(r"^(VLLM::Engine|VLLM::Worker|EngineCore|sglang::sched)")


def workers(pids: Iterable[int], root: Path = _ROOT) -> tuple[int, ...]:
    """Those of an engine's processes that compute, by their names; all, where none says so."""
    alive = [pid for pid in pids if _name(pid, root)]
    named = [pid for pid in alive if _COMPUTES.match(_name(pid, root))]
    return tuple(named or alive)


def tree(pid: int, root: Path = _ROOT) -> tuple[int, ...]:
    """A process and all below it. Raises AskError where it does not run."""
    if not _name(pid, root):
        raise AskError(f"process {pid} does not run, or is not ours to see")
    return (pid, *descendants(pid, root))


def _name(pid: int, root: Path) -> str:
    try:
        return (root / f"proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""
