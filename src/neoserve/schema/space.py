"""Knob, Space, Candidate: which settings of an engine may be tried."""

from __future__ import annotations

import hashlib
from typing import Literal

from .base import Document

Origin = Literal[
    "default",        # what the engine does by itself: the baseline
    "known-good",     # what its makers or experts advise for this kind of host
    "predicted",      # near the top of the planner's order
    "one-change",     # an advised one with one setting changed
    "space-filling",  # far from all before it
    "given",          # from the user's own list
]  # fmt: skip

DEFAULT = "default"  # as a knob's value: nothing is said, the engine chooses
WEIGHTS = "weights"  # the knob that chooses a checkpoint; its values are the user's names


class Knob(Document, frozen=True):
    """One setting and what it may be. Values are words; what they do is in flag, env or value_of.

    A knob with a flag and the values ``on`` and ``off`` is a switch: the words of `flag` or of
    `off_flag`. A default that is one of `values` is what the engine does by itself, so that
    saying it changes nothing.
    """

    name: str
    values: tuple[str, ...]  # in ascending order where they have one
    default: str  # what the engine does where nothing is said, as far as it is known; for people
    flag: str = ""  # "--max-num-seqs"
    off_flag: str = ""  # "--no-enable-prefix-caching"
    env: str = ""  # "VLLM_CPU_OMP_THREADS_BIND"
    value_of: dict[str, str] = {}  # word -> what the engine gets: a path, a list of CPUs
    restart: bool = True  # needs a new server; false: free
    changes_output: bool = False  # may change what the model answers: quality is to be checked
    meaning: str = ""  # one sentence, for people
    source: str = ""  # where values and default were read


class Candidate(Document, frozen=True):
    """One point of a space: what differs from the engine's defaults, knob by knob."""

    knobs: dict[str, str]  # a knob that is left out is at the engine's default
    origin: Origin = "space-filling"
    predicted_rps: float | None = None  # highest rate within the SLO, by the planner

    @property
    def id(self) -> str:
        """Of the settings alone: the same ones have the same id in every campaign."""
        text = "\n".join(f"{name}={value}" for name, value in sorted(self.knobs.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def show(self) -> str:
        """``threads=1 parallel=8``, or that nothing is set."""
        return " ".join(f"{k}={v}" for k, v in sorted(self.knobs.items())) or "engine defaults"


# Version history: 1, first.
class Space(Document, frozen=True, kw_only=True):
    """What may be tried on this engine and host."""

    schema: str = "neoserve/space/1"
    engine: str  # vllm, llama.cpp
    device: Literal["cpu", "gpu"]
    model: str  # path or name that the engine is given, unless a knob chooses one
    version: str = ""  # of the engine, as its configuration says it; "": not known
    context_tokens: int = 2048  # of one request: what the traffic needs, no matter of choice
    knobs: tuple[Knob, ...]
    pins: dict[str, str] = {}  # flag or variable -> value, the same in every candidate
    given: tuple[Candidate, ...] = ()  # the user's own list
    notes: tuple[str, ...] = ()  # what was left out of it, and why

    def knob(self, name: str) -> Knob | None:
        """By name."""
        return next((knob for knob in self.knobs if knob.name == name), None)


class Rejected(Document, frozen=True):
    """A point that is never started, and why."""

    candidate: Candidate
    reason: str
