"""Engine behaviour by version: which profile holds, and the engine's own defaults."""

from __future__ import annotations

import re
from functools import cache

from ..errors import AskError
from ..schema.engine import EngineProfile
from .files import bundled

ALIASES = {"trt-llm": "tensorrt-llm", "trtllm": "tensorrt-llm", "llamacpp": "llama.cpp",
           "llama-server": "llama.cpp", "sgl": "sglang"}  # fmt: skip


@cache
def profiles() -> tuple[EngineProfile, ...]:
    """Every profile, newest first for each engine."""
    return tuple(
        EngineProfile.parse(entry, f"engine profile {entry.get('versions')}")
        for entry in bundled("engines")["profiles"]
    )


def version_key(text: str) -> tuple[int, ...]:
    """``"0.20.1rc1.dev3+gabc"`` → (0, 20, 1): what orders behaviour. Raises AskError."""
    match = re.match(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", text.strip())
    if match is None:
        raise AskError(f"engine version {text!r} is not understood; write it as 0.32.0")
    return tuple(int(part or 0) for part in match.groups())


def _holds(versions: str, key: tuple[int, ...]) -> bool:
    for bound in versions.split(","):
        operator, text = re.match(r"(>=|<)(.+)", bound).groups()  # type: ignore[union-attr]
        limit = version_key(text)
        if (operator == ">=") != (key >= limit):
            return False
    return True


@cache
def find_profile(engine: str, version: str = "", device: str = "gpu") -> EngineProfile:
    """The profile of an engine's version, the newest where none is given.

    Raises AskError for an unknown engine or a version that no profile was read for.
    """
    name = ALIASES.get(engine.lower(), engine.lower())
    known = [p for p in profiles() if p.engine == name]
    if not known:
        names = ", ".join(sorted({p.engine for p in profiles()}))
        raise AskError(f"unknown engine {engine!r}; known: {names}")
    fitting = [p for p in known if p.device in (device, "any")]
    if not fitting:
        raise AskError(f"{name} has no profile for a {device}")
    if not version:
        return fitting[0]
    key = version_key(version)
    for profile in fitting:
        if _holds(profile.versions, key):
            return profile
    spans = "; ".join(p.versions for p in fitting)
    raise AskError(f"{name} {version} has no profile; there are profiles for {spans}")


def profile_or_newest(engine: str, version: str = "", device: str = "gpu") -> EngineProfile:
    """As `find_profile`; a version that no profile was read for is taken for the newest."""
    try:
        return find_profile(engine, version, device)
    except AskError:
        return find_profile(engine, "", device)
