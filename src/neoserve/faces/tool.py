"""Desk and Tool: who asks, and one thing to ask."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..catalog.models import check_bundled
from ..errors import AskError
from ..schema.base import Document
from .campaigns import Campaigns
from .options import Option
from .results import Results
from .words import json_schema, namespace

FILES = ("catalog", "profile", "trace")  # options that name a file of the host
# Read too, but not told to agents: a list of tools is part of every conversation.
_RARE = ("arrival", "async_scheduling", "available_kv_bytes", "available_kv_gib", "block_size",
         "burstiness", "decode_context_parallel", "disable_hybrid_kv_cache_manager",
         "enforce_eager", "mamba_ssm_cache_dtype", "num_prompts", "num_speculative_tokens",
         "offline", "pipeline_parallel", "seed", "simulate", "think_time", "turns", *FILES)


class Desk(NamedTuple):
    """What an asker may reach."""

    results: Results
    opens_files: bool = True  # paths in a question: only for whoever could open them anyway
    asks_hub: bool = True
    campaigns: Campaigns | None = None  # those who may start work are told of these tools too


class Tool(NamedTuple):
    """One thing to ask. `run` raises Error."""

    name: str
    title: str
    help: str
    words: tuple[Option, ...]
    required: tuple[str, ...]
    answer: type[Document]
    run: Callable[[Desk, argparse.Namespace], Document]
    is_predicted: bool = False  # of models and hardware, not of run folders
    is_work: bool = False  # of a campaign: only for those who may
    changes: bool = False  # something: it is no question
    is_repeatable: bool = True  # asking twice is as asking once

    def ask(self, desk: Desk, given: Mapping[str, Any]) -> Document:
        """The answer to named values. Raises AskError for words that it does not take."""
        missing = [name for name in self.required if given.get(name) in (None, "", [])]
        if missing:
            raise AskError(f"{self.name} needs {' and '.join(missing)}; {self._example(missing)}")
        args = namespace(self.words_for(desk), {k: v for k, v in given.items() if v is not None})
        if self.is_predicted:
            args.on = ",".join(args.on) if isinstance(args.on, tuple) else args.on
            _keep_inside(desk, args)
        return self.run(desk, args)

    def words_for(self, desk: Desk) -> tuple[Option, ...]:
        """Those that this asker may use."""
        if desk.opens_files or not self.is_predicted:
            return self.words
        return tuple(option for option in self.words if option.name not in FILES)

    def schema(self, desk: Desk) -> dict[str, Any]:
        """Of what it takes, for agents."""
        words = self.words_for(desk)
        if not self.is_predicted:
            return json_schema(words, self.required, one_type=True)
        told = [option for option in words if option.name not in _RARE]
        return {**json_schema(told, self.required, one_type=True), "additionalProperties": True}

    def _example(self, missing: list[str]) -> str:
        found = {option.names[0]: option.help for option in self.words}
        return "; ".join(f"{name}: {found.get(name, name)}" for name in missing)


def _keep_inside(desk: Desk, args: argparse.Namespace) -> None:
    """Names of the catalog alone, where files and the hub are out of bounds."""
    values = vars(args)
    for name in FILES:
        values.setdefault(name, "")
    if not desk.asks_hub:
        values["offline"] = True
    if desk.opens_files:
        return
    if values.get("model"):
        check_bundled(values["model"])
    for name in filter(None, (part.strip() for part in values.get("on", "").split(","))):
        if name.lower().endswith((".yaml", ".yml")) or name.lower() == "local":
            raise AskError(
                f"on is {name[:80]!r}: files and this host are not looked at here; list_hardware "
                "names what the catalog has"
            )
