"""Arm Performix through its own program: the flow that its documentation and MCP server use.

``apx target add`` and ``target prepare`` once, then ``recipe ready``, ``recipe run ... --pid``,
``run render`` and ``render query``. There is no ``--output`` and no recipe "topdown".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...errors import AskError, EngineFailed

RECIPE = "cpu_microarchitecture"
_DEFAULT_PATHS = ("/opt/Arm Performix/assets/apx/apx",)
_QUERY = "SELECT * FROM drilldown"  # as Arm's MCP server asks where a recipe has no query
_LIMIT_S = 600.0


class Rendered(NamedTuple):
    """A run of Performix, and the table that a query gave."""

    run_id: str
    table: str


def find_apx() -> str:
    """The program. Raises AskError where it is not installed."""
    found = shutil.which("apx") or next((p for p in _DEFAULT_PATHS if os.access(p, os.X_OK)), None)
    if found is None:
        raise AskError(
            "Arm Performix is not installed: no apx on the path; it comes as a package for Linux "
            "from developer.arm.com"
        )
    return found


def prepare(apx: str, address: str, name: str) -> None:
    """Register a target, ``user@host:22:key``, and put Performix's tools on it."""
    _run([apx, "target", "add", address, "--name", name])
    _run([apx, "target", "prepare", "--target", name])


def profile(
    apx: str, target: str, pid: int, length_s: float, note: Callable[[str], None]
) -> Rendered:
    """Level 1 of a process on a prepared target. Raises EngineFailed with apx's own words."""
    _run([apx, "recipe", "ready", RECIPE, "--target", target])
    note(f"Performix counts process {pid} for {length_s:g} s ...")
    said = _run([
        apx, "recipe", "run", RECIPE, "--target", target, "--pid", str(pid),
        "--timeout", str(round(length_s)), "--deploy-tools", "--json",
        "--param", "metrics_group=topdown_l1",
    ], length_s + _LIMIT_S)  # fmt: skip
    run_id = _found(said, ("data", "run_id", "value"))
    if not run_id:
        raise EngineFailed(f"apx recipe run named no run: {_short(said)}")
    session_id = _found(_run([apx, "run", "render", run_id, "--json"]),
                        ("data", "invocation", "session_id"))  # fmt: skip
    if not session_id:
        raise EngineFailed(f"apx run render {run_id} opened no session to query")
    return Rendered(run_id, _run([apx, "render", "query", session_id, _QUERY]))


def _run(command: Sequence[str], limit_s: float = _LIMIT_S) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineFailed(f"{' '.join(command[1:3])} of apx failed: {error}") from None
    if done.returncode != 0:
        raise EngineFailed(
            f"apx {' '.join(command[1:3])} failed: {_short(done.stderr or done.stdout)}"
        )
    return done.stdout


def _found(said: str, keys: Sequence[str]) -> str:
    """apx prints JSON, or a line of JSON after others."""
    for text in (said, *reversed(said.splitlines())):
        try:
            value: Any = json.loads(text)
        except ValueError:
            continue
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return ""


def _short(text: str) -> str:
    return " ".join(text.split())[:300] or "it said nothing"
