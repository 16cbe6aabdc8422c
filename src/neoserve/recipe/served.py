"""Served: the measured process, taken apart for the programs that are to run it again."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ..errors import AskError
from ..schema.campaign import Recommendation
from ..schema.engine import EngineConfig
from ..schema.trial import EngineFacts, Trial
from ..units import GIB, parse_cpus, show_cpus
from .claims import claims

Device = Literal["cpu", "gpu"]

# Words that may name the model in a measured command. Model by position: `serve`.
_MODEL_FLAGS = {
    "vllm": ("--model", "serve"),  # in this order: `python -m` has the short one's name
    "sglang": ("--model-path", "--model"),
    "llama.cpp": ("--model", "-m"),
}


class Served(NamedTuple):
    """What was measured, and what it ran on. "" or null: not known."""

    config: EngineConfig
    program: tuple[str, ...]  # what opens it on the measured host: a path, python -m module
    model: str  # path or hub id
    arguments: tuple[str, ...]  # all others, in their order
    device: Device
    num_gpus: int
    arch: str  # arm64, amd64
    cpus: str  # CPUs that the engine's threads were allowed, "0-14"
    memory_bytes: int | None  # that it had
    version: str  # the engine's, "0.32.0"
    build: str  # llama.cpp's build, "b9999"
    says: tuple[str, ...] = ()  # sentences for the top of a file
    head: str = ""  # of the ledger

    @property
    def num_cpus(self) -> int:
        """Whole CPUs that it ran on; 0 where unknown."""
        return len(parse_cpus(self.cpus))

    @property
    def is_local(self) -> bool:
        """The model is a file or a folder of the measured host."""
        return self.model.startswith("/")

    @property
    def folder(self) -> str:
        """Of a local model: shards and tokenizers lie beside a file."""
        return self.model.rpartition("/")[0] or "/" if self._is_file else self.model

    @property
    def name(self) -> str:
        """For resources: lower case, digits and dashes, at most 50."""
        last = self.model.rstrip("/").rpartition("/")[2].removesuffix(".gguf").lower()
        words = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
        return f"neoserve-{words}"[:50].rstrip("-")

    @property
    def compiles(self) -> bool:
        """Its first start compiles the model, which takes minutes."""
        return self.config.engine == "vllm" and "--enforce-eager" not in self.arguments

    @property
    def start_s(self) -> int:
        """After which a start has failed: weights from a slow disk, and compilation."""
        if self.config.engine == "llama.cpp":
            return 300
        return 1920 if self.compiles else 600

    @property
    def _is_file(self) -> bool:
        return self.model.endswith(".gguf")


def served_by(recommendation: Recommendation, head: str = "") -> Served:
    """What the pick of a campaign runs."""
    return served(
        recommendation.config, recommendation.trial, says=claims(recommendation), head=head
    )


def served(
    config: EngineConfig, trial: Trial | None = None, *, says: Sequence[str] = (), head: str = ""
) -> Served:
    """Raises AskError for a server that was running already, and for unprintable words."""
    if config.url or not config.argv:
        raise AskError(
            f"the engine at {config.url or 'an unknown place'} was running already, so its "
            "command is not known: measure one that NeoServe starts, with --engine"
        )
    _check_words(config)
    program, model, arguments = _taken_apart(config)
    facts = trial.facts if trial else None
    return Served(
        config=config,
        program=program,
        model=model,
        arguments=arguments,
        device=_device(config, facts),
        num_gpus=_ranks(config) if _device(config, facts) == "gpu" else 0,
        arch=_arch(trial.host.isa) if trial else "",
        cpus=_cpus(facts),
        memory_bytes=trial.host.memory_bytes if trial else None,
        version=(re.findall(r"\d+\.[\w.+]+", config.version) or [""])[-1],
        build=_build(config, facts),
        says=tuple(says),
        head=head,
    )


def value_of(words: Sequence[str], *flags: str) -> str | None:
    """The last value of a flag, as ``--flag value`` or ``--flag=value``."""
    found = None
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in flags:
            found = value if equals else "".join(words[i + 1 : i + 2])
    return found


def _check_words(config: EngineConfig) -> None:
    """No format carries control characters alike, and no engine wants them."""
    for word in (*config.argv, *config.env, *config.env.values()):
        if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in word):
            raise AskError(f"{word!r} holds a control character, which recipes do not carry")
    for name in config.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise AskError(f"{name!r} is no name that a shell takes for a variable")


def _taken_apart(config: EngineConfig) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    if config.engine not in _MODEL_FLAGS:
        known = ", ".join(_MODEL_FLAGS)
        raise AskError(f"no recipe is known for engine {config.engine!r}; expected {known}")
    words = config.argv
    for flag in _MODEL_FLAGS[config.engine]:
        if flag in words[:-1]:
            at = words.index(flag)
            end = 3 if words[1] == "-m" else 2 if "serve" in words[1:2] else 1
            return words[:end], words[at + 1], (*words[end:at], *words[at + 2 :])
    raise AskError(f"the command of {config.engine} names no model: {shlex.join(words)}")


def _device(config: EngineConfig, facts: EngineFacts | None) -> Device:
    if config.engine == "llama.cpp":
        layers = value_of(config.argv, "-ngl", "--gpu-layers", "--n-gpu-layers")
        return "cpu" if layers in (None, "0") else "gpu"
    said = facts.log.get("device_config", "") if facts else ""
    if said:
        return "cpu" if said == "cpu" else "gpu"
    names_cpu = "cpu" in config.version or any(n.startswith("VLLM_CPU_") for n in config.env)
    return "cpu" if names_cpu else "gpu"


_RANKS = (
    ("--tensor-parallel-size", "-tp", "--tp-size", "--tp"),
    ("--pipeline-parallel-size", "-pp", "--pp-size"),
    ("--data-parallel-size", "-dp", "--dp-size"),
)


def _ranks(config: EngineConfig) -> int:
    """Devices of one server."""
    product = 1
    for flags in _RANKS:
        text = value_of(config.argv, *flags) or "1"
        product *= int(text) if text.isdecimal() else 1
    return product


def _arch(isa: Sequence[str]) -> str:
    if "asimd" in isa:
        return "arm64"
    return "amd64" if any(flag in isa for flag in ("avx", "avx2", "fma")) else ""


def _cpus(facts: EngineFacts | None) -> str:
    """Of all its threads: bound ones have a CPU each, the rest what it was started with."""
    if facts is None:
        return ""
    lists = [cpus for process in facts.processes for cpus in process.affinity] or facts.affinity
    return show_cpus(sorted({cpu for text in lists for cpu in parse_cpus(text)}))


def _build(config: EngineConfig, facts: EngineFacts | None) -> str:
    """Embedded builds that call themselves b0 do not know theirs."""
    said = f"{config.version} {facts.version if facts else ''}"
    match = re.search(r"\bb([1-9]\d{2,})\b|llama-server ([1-9]\d{2,})\b", said)
    return f"b{match[1] or match[2]}" if match else ""


def memory_gib(served: Served) -> int | None:
    """Of a machine like the measured one, what its own services leave: nine tenths."""
    if served.memory_bytes is None:
        return None
    return max(1, int(0.9 * served.memory_bytes / GIB))
