"""config.yml for ``vllm serve --config``: the measured arguments as vLLM's own reader gives them.

Read from FlexibleArgumentParser of vLLM 0.32: a key becomes ``--key`` and the value's text a word
after it; true becomes the flag alone, a list one word per item.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

from ..errors import AskError
from .served import Served
from .writing import heading, yaml_of

_LONG = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-q": "quantization",
}

_Value = str | bool | list[str]


class ServeConfig(NamedTuple):
    """A config.yml and the arguments that such a file cannot say."""

    text: str
    rest: tuple[str, ...]  # repeated and short flags: they follow on the command line

    @property
    def command(self) -> str:
        """What serves it."""
        return shlex.join(["vllm", "serve", "--config", "config.yml", *self.rest])


def vllm_config(served: Served) -> ServeConfig:
    """Raises AskError for another engine, or for a command that read a file of its own."""
    if served.config.engine != "vllm":
        raise AskError(f"config.yml is vLLM's; engine {served.config.engine!r} reads none")
    entries: dict[str, _Value] = {"model": served.model}
    rest: list[str] = []
    for flag, values in _flags(served.arguments):
        key, equals, value = flag.partition("=")
        if key == "--config":
            raise AskError("it was measured with a --config of its own: hand that file over")
        name = _LONG.get(key, key[2:] if key.startswith("--") else "")
        given = [value, *values] if equals else values
        if not name or name in entries or any(v.startswith("--") for v in given):
            rest += [flag, *values]
        else:
            # Always text: 08, 1e5 and off would be numbers and switches.
            entries[name] = given if len(given) > 1 else given[0] if given else True
    found = ServeConfig("", tuple(rest))
    return ServeConfig(heading(served, f"Use it: {found.command}") + yaml_of(entries), found.rest)


def _flags(words: tuple[str, ...]) -> list[tuple[str, list[str]]]:
    """Each flag with the words after it, negative numbers among them."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if re.match(r"-(?!\d)", word) or not found:
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found
