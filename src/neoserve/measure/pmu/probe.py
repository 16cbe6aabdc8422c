"""What this host lets us count: found once, on a program that spins, before any load."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ...errors import AskError, EngineFailed
from ...schema.pmu import CoreType
from . import events
from .cores import core_type
from .perf import Perf, find_perf, try_events

_ROOT = Path("/")
_PROBE_S = 0.3
# Devices of /sys/bus/event_source that count cycles and instructions of cores.
_CORE_PMU = re.compile(r"^(cpu|cpu_core|cpu_atom|armv[89]_.*|arm_pmuv3.*|armv8_pmuv3.*)$")


class Host(NamedTuple):
    """What may be counted here, and why not more."""

    perf: Perf | None
    core: CoreType | None
    events: dict[str, str]  # name -> perf's word, of those that count here
    group_size: int  # events that are on the counters at once, cycles included
    reasons: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether there is any hardware counter."""
        return bool(self.events)


@lru_cache(maxsize=1)
def this_host() -> Host:
    """Of this machine; about a second where it has counters, nothing where it has none."""
    return probe()


def probe(root: Path = _ROOT) -> Host:
    """As `this_host`, each time anew."""
    try:
        core = core_type(root)
    except AskError as error:
        return Host(None, None, {}, 0, (str(error),))
    if not core_pmus(root):
        who = "this guest's hypervisor" if _is_guest(root) else "this kernel"
        return Host(None, core, {}, 0, (
            f"{who} shows no PMU of its cores: /sys/bus/event_source/devices has none",
        ))  # fmt: skip
    perf = find_perf()
    if isinstance(perf, str):
        return Host(None, core, {}, 0, (perf,))
    return _tried(perf, core, _denied(root))


def core_pmus(root: Path = _ROOT) -> list[str]:
    """Names of the devices that count what cores do."""
    folder = root / "sys/bus/event_source/devices"
    return sorted(path.name for path in folder.glob("*") if _CORE_PMU.match(path.name))


def _tried(perf: Perf, core: CoreType | None, denied: str) -> Host:
    """Every event on its own, then the largest group whose events all count all of the time.
    `denied` is the likely reason of a refusal."""
    asked = events.events_of(core)
    try:
        supported, reasons = _supported(perf, asked)
    except EngineFailed as error:
        return Host(perf, core, {}, 0, (denied or f"perf counts nothing here: {error}",))
    if events.CYCLES not in supported:
        return Host(perf, core, {}, 0, (*reasons, "cycles do not count here"))
    plain = [name for name in supported if not supported[name].startswith(("slots", "topdown"))]
    for size in events.sizes(plain):
        if _fits(perf, [supported[name] for name in plain[:size]]):
            return Host(perf, core, supported, size, reasons)
    return Host(perf, core, {}, 0, (*reasons, "no two events count together here"))


def _supported(perf: Perf, asked: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Events that count on a spinning core. A hypervisor may take an event and never count it:
    what cannot be nought there, and is, does not count."""
    lead = asked.get("slots")
    alone = [word for word in asked.values() if not word.startswith("topdown-")]
    parts = [word for word in asked.values() if word.startswith("topdown-")]
    words = ["{" + ",".join((lead, *parts)) + "}"] if lead and parts else []
    try:
        lines = try_events(perf, [*(w for w in alone if w != lead or not words), *words], _PROBE_S)
    except EngineFailed:
        if not words:
            raise
        lines = try_events(perf, [word for word in alone if word != lead], _PROBE_S)
    seen = {key_of(line.event): line for line in lines}
    found: dict[str, str] = {}
    refused: dict[str, list[str]] = {}
    silent: list[str] = []
    for name, word in asked.items():
        line = seen.get(key_of(word))
        if line is None or line.value is None:
            problem = line.problem if line else "<not supported>"
            refused.setdefault(problem, []).append(f"{name} ({word})")
        elif line.value == 0 and events.counts_on_spin(name):
            silent.append(f"{name} ({word})")
        else:
            found[name] = word
    reasons = []
    if silent:
        reasons.append(f"0 even on a busy core, so not counted here: {', '.join(silent)}")
    for problem, which in refused.items():
        told = "no counter was free for" if problem == "<not counted>" else "not supported here:"
        reasons.append(f"{told} {', '.join(which)}")
    return found, tuple(reasons)


def _fits(perf: Perf, words: list[str]) -> bool:
    try:
        lines = try_events(perf, ["{" + ",".join(words) + "}"], _PROBE_S)
    except EngineFailed:
        return False
    return len(lines) >= len(words) and all(line.is_whole for line in lines)


def key_of(event: str) -> str:
    """perf may write a raw event back in another case, or with blanks."""
    return event.replace(" ", "").lower()


def _denied(root: Path) -> str:
    """Why the kernel would refuse those without CAP_PERFMON; "" where it would not."""
    try:
        level = int((root / "proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        return ""
    if level <= 2 or os.geteuid() == 0:
        return ""
    return (
        f"kernel.perf_event_paranoid is {level}: nobody but root may count; set it to 2 or less "
        "(sysctl -w kernel.perf_event_paranoid=1), or give CAP_PERFMON"
    )


def _is_guest(root: Path) -> bool:
    try:
        return "hypervisor" in (root / "proc/cpuinfo").read_text(errors="replace").split()
    except OSError:
        return False
