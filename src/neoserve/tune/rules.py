"""Why a candidate is never started: the engine's rules, the host, memory, and the SLO."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ..errors import AskError
from ..measure.cores import parse_cpus, show_cpus
from ..schema.space import WEIGHTS, Candidate, Knob, Space
from .host import HostFacts
from .knobs import since
from .planner import Planner
from .space import version_of

_QUANTIZED = re.compile(r"(i?q\d|tq\d)")  # llama.cpp's cache types with scales by blocks
_BLOCK = 32  # elements that share a scale


def broken_rule(
    space: Space, candidate: Candidate, facts: HostFacts, planner: Planner | None = None
) -> str:
    """A sentence, "" for a candidate that may be started.

    Without a planner memory and SLO are not looked at; nor is the SLO for the engine's defaults.
    """
    for rule in (_words, *_RULES.get(space.engine, ())):
        if reason := next(rule(space, candidate, facts), ""):
            return reason
    if planner is None:
        return ""
    reason = _model_rule(space, candidate, planner) or planner.shortage(candidate)
    if not reason and candidate.knobs:
        reason = planner.hopeless(candidate)
    return reason


def _words(space: Space, candidate: Candidate, facts: HostFacts) -> Iterator[str]:  # noqa: ARG001
    """Each value is one that its knob can take."""
    for name, value in candidate.knobs.items():
        knob = space.knob(name)
        if knob is None:
            yield f"{name} is no knob of this space"
        elif name == WEIGHTS and value not in knob.value_of:
            yield f"weights={value}: no checkpoint of that name was given"
        elif _is_switch(knob) and value not in ("on", "off"):
            yield f"{name}={value}: it is a switch, on or off"
        elif _is_count(knob) and not _positive(name, value):
            yield f"{name}={value}: expected a whole number above 0"


def _is_switch(knob: Knob) -> bool:
    return bool(knob.off_flag)


def _is_count(knob: Knob) -> bool:
    return knob.name in _COUNTS


_COUNTS = frozenset({
    "threads", "threads-batch", "parallel", "batch", "ubatch", "poll",
    "reserved-cpus", "data-parallel", "kv-space", "batched-tokens", "max-seqs", "block-size",
    "tensor-parallel",
})  # fmt: skip
_MAY_BE_ZERO = ("poll", "reserved-cpus")


def _positive(name: str, value: str) -> bool:
    return value.isdigit() and (int(value) > 0 or name in _MAY_BE_ZERO)


def _llama_cpp(space: Space, candidate: Candidate, facts: HostFacts) -> Iterator[str]:
    chosen = candidate.knobs
    cores = len(facts.cores)
    for name in ("threads", "threads-batch"):
        if name in chosen and int(chosen[name]) > cores:
            yield f"{name}={chosen[name]} is more than the {cores} cores that may be used"
    if "poll" in chosen and int(chosen["poll"]) > 100:
        yield f"poll={chosen['poll']}: llama.cpp takes 0 to 100"
    batch, ubatch = int(chosen.get("batch", 2048)), int(chosen.get("ubatch", 0))
    if ubatch > batch:
        yield f"ubatch={ubatch} is more than the batch of {batch}: llama.cpp would cut it"
    value_type = chosen.get("cache-type-v", "f16")
    if _QUANTIZED.match(value_type) and chosen.get("flash-attn") == "off":
        yield f"cache-type-v={value_type} needs flash attention, which is off"
    if chosen.get("kv-unified") == "off" and not _has_slots(space, candidate):
        yield (
            "kv-unified=off needs a number of slots: where parallel is left out llama.cpp has one "
            "cache for all"
        )


def _has_slots(space: Space, candidate: Candidate) -> bool:
    return "parallel" in candidate.knobs or not {"--parallel", "-np"}.isdisjoint(space.pins)


def _vllm(space: Space, candidate: Candidate, facts: HostFacts) -> Iterator[str]:
    chosen = candidate.knobs
    tokens, seqs = _count(space, chosen, "batched-tokens"), _count(space, chosen, "max-seqs")
    if 0 < tokens < seqs:
        yield f"batched-tokens={tokens} is less than max-seqs={seqs}: vLLM refuses to start"
    length = space.pins.get("--max-model-len", "")
    if chosen.get("chunked-prefill") == "off" and length.isdigit() and 0 < tokens < int(length):
        yield (
            f"without chunked prefill batched-tokens={tokens} has to hold a whole request of "
            f"{length} tokens"
        )
    if space.device == "cpu":
        yield from _vllm_cpu(space, candidate, facts)
    elif int(chosen.get("tensor-parallel", 1)) > len(facts.gpus):
        yield f"tensor-parallel={chosen['tensor-parallel']}: this host has {len(facts.gpus)} GPUs"


def _count(space: Space, chosen: dict[str, str], name: str) -> int:
    """As chosen, else the engine's own; 0: not known."""
    knob = space.knob(name)
    text = chosen.get(name) or (knob.default if knob else "")
    return int(text) if text.isdigit() else 0


def _vllm_cpu(space: Space, candidate: Candidate, facts: HostFacts) -> Iterator[str]:
    chosen = candidate.knobs
    bind, reserved = chosen.get("bind", "auto"), chosen.get("reserved-cpus")
    if reserved is not None and bind != "auto":
        yield f"reserved-cpus works only with bind=auto, not with {bind}"
    if reserved is not None and int(reserved) >= len(facts.cores):
        yield f"reserved-cpus={reserved} leaves none of the {len(facts.cores)} cores"
    ranks = int(chosen.get("data-parallel", 1))
    if ranks > facts.host.numa_nodes:
        nodes = facts.host.numa_nodes
        yield f"data-parallel={ranks}: vLLM binds one rank to each NUMA node, and there are {nodes}"
    if bind not in ("auto", "nobind"):
        knob = space.knob("bind")
        cpus = knob.value_of.get(bind, bind) if knob else bind
        yield from _binding(cpus, ranks, facts)
    block = chosen.get("block-size")
    if block is not None and int(block) % 32:
        yield f"block-size={block}: vLLM's CPU kernels want multiples of 32"
    yield from _allocator(space, chosen.get("allocator", ""), facts)


def _allocator(space: Space, allocator: str, facts: HostFacts) -> Iterator[str]:
    own = bool(facts.bundled_allocator) and since(version_of(space.version), 0, 20)
    if own and allocator and "tcmalloc" not in allocator:
        yield (
            f"allocator={allocator}: this vLLM puts its own tcmalloc before it, so that it would "
            "never be used"
        )


def _binding(cpus: str, ranks: int, facts: HostFacts) -> Iterator[str]:
    try:
        lists = [parse_cpus(text) for text in cpus.split("|")]
    except AskError:
        yield f"bind={cpus}: expected auto, nobind, or a list of CPUs such as 0-3"
        return
    allowed = {cpu for core in facts.cores for cpu in core}
    missing = sorted({cpu for found in lists for cpu in found} - allowed)
    if missing:
        yield f"bind={cpus}: this host has no CPU {show_cpus(missing)} to give"
    if ranks > 1 or len(lists) > 1:
        yield f"bind={cpus}: with several ranks only auto and nobind are tried"
    used = [cpu for found in lists for cpu in found]
    if any(len(set(core) & set(used)) > 1 for core in facts.cores):
        yield f"bind={cpus} puts two threads on one physical core, which share its SIMD units"


_Rule = Callable[[Space, Candidate, HostFacts], Iterator[str]]
_RULES: dict[str, tuple[_Rule, ...]] = {"llama.cpp": (_llama_cpp,), "vllm": (_vllm,)}


def _model_rule(space: Space, candidate: Candidate, planner: Planner) -> str:
    """What the model's shape forbids."""
    try:
        model = planner.model(candidate)
    except AskError:
        return ""
    if space.context_tokens > model.max_position_tokens:
        return (
            f"requests of {space.context_tokens:,} tokens are longer than the model's "
            f"{model.max_position_tokens:,}"
        )
    if space.engine == "llama.cpp":
        return _cache_type_rule(candidate, planner)
    scheme = candidate.knobs.get("quantization")
    if scheme and (method := planner.stored(candidate).quantization.method):
        return f"quantization={scheme}: the checkpoint is quantized already ({method})"
    heads = max((m.num_heads for layer in model.layers for m in layer.mixers), default=0)
    ranks = int(candidate.knobs.get("tensor-parallel", 1))
    if heads and heads % ranks:
        return f"tensor-parallel={ranks} does not divide the model's {heads} attention heads"
    return ""


def _cache_type_rule(candidate: Candidate, planner: Planner) -> str:
    """Quantized caches hold a head in whole blocks (llama-context.cpp)."""
    model = planner.model(candidate)
    for name in ("cache-type-k", "cache-type-v"):
        kind = candidate.knobs.get(name, "f16")
        odd = [m.head_dim for layer in model.layers for m in layer.mixers if m.head_dim % _BLOCK]
        if _QUANTIZED.match(kind) and odd:
            return f"{name}={kind} has blocks of {_BLOCK}, which heads of {odd[0]} do not fill"
    return ""


