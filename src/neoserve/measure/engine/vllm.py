"""vLLM on CPUs and GPUs: ``vllm serve``, or its module where the command does not work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts, ProcessFacts
from ...units import GIB
from ..cores import parse_cpus, show_cpus
from . import metrics, vllm_log
from .driver import (
    Driver,
    Seen,
    affinities,
    allocators,
    check_model,
    flag_value,
    has_flag,
    last_words,
)  # fmt: skip
from .vllm_check import check_environment
from .vllm_program import find_program

# It would ask its makers' servers, and wait for them, on every start.
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}


def config(
    model: str,
    args: Sequence[str] = (),
    env: dict[str, str] | None = None,
    *,
    python: str = "",
) -> EngineConfig:
    """The exact process that serves `model`, less the port, which is chosen at start.

    `args` are vLLM's own; `python` is one that has vLLM, "" for NEOSERVE_VLLM_PYTHON, or else the
    ``vllm`` on PATH. Raises AskError where there is none.
    """
    program = find_program(python)
    return EngineConfig(
        engine="vllm",
        version=program.version,
        argv=(*program.argv, *program.model_words(model), *args),
        env=_QUIET | (env or {}),
    )


class VllmDriver(Driver):
    """Read from vLLM 0.32.0, and its sources from 0.11 on."""

    name = "vllm"

    def check(self, config: EngineConfig) -> None:
        """As `Driver.check`, the model's folder, and what vLLM would only find out later."""
        super().check(config)
        check_model(_model(config))
        check_environment(config.env, _ranks(config))

    def expected_s(self, config: EngineConfig) -> float:
        """About a minute is imports; compilation for a new model takes minutes more."""
        return 90.0 if has_flag(config.argv, "--enforce-eager") else 480.0

    def ready_timeout_s(self, config: EngineConfig) -> float:
        """Weights may come from a slow disk, or be downloaded."""
        return 4 * self.expected_s(config)

    def stage(self, log: str) -> str:
        """By the furthest line that tells."""
        return vllm_log.stage(log)

    def reason(self, log: str) -> str:
        """The exception of the process that failed first."""
        return vllm_log.reason(log) or last_words(log)

    def computing(self, processes: Sequence[ProcessFacts]) -> list[ProcessFacts]:
        """Its workers; with one GPU the engine core does their work."""
        for name in ("VLLM::Worker", "VLLM::EngineCor", ""):
            if found := [p for p in processes if p.name.startswith(name)]:
                return found
        return []

    def facts(self, seen: Seen) -> EngineFacts:
        """By the log, ``/version``, ``/v1/models`` and the cache's metric."""
        log = seen.log
        cache = _cache(seen)
        settings = vllm_log.settings(log)
        workers = self.computing(seen.processes)
        bound = vllm_log.cores(log)
        seqs = vllm_log.non_default(log).get("max_num_seqs")
        return EngineFacts(
            version=(seen.api.data("/version") or {}).get("version") or vllm_log.version(log),
            threads=sum(map(len, bound.values())) or None,
            context_tokens=_context_tokens(seen),
            num_parallel=seqs if isinstance(seqs, int) else None,
            affinity=affinities(workers),
            allocator=allocators(workers),
            dtype=settings.get("dtype", ""),
            kv_tokens=vllm_log.kv_tokens(log) or _number(cache.get("kv_cache_size_tokens")),
            max_concurrency=vllm_log.max_concurrency(log),
            block_size_tokens=_number(cache.get("block_size")),
            log=_topics(log, cache, settings, bound),
        )

    def mismatches(self, config: EngineConfig, facts: EngineFacts) -> tuple[str, ...]:
        """Flags, KV space, thread binding and allocator."""
        return (
            *_flags(config, facts),
            *_kv_space(config, facts),
            *_binding(config, facts, self.computing(facts.processes)),
            *_ignored(config, facts),
            *super().mismatches(config, facts),
        )


def _model(config: EngineConfig) -> str:
    named = flag_value(config.argv, "--model")
    if named is not None:
        return named
    words = list(config.argv)
    return words[words.index("serve") + 1] if "serve" in words[:-1] else ""


def _ranks(config: EngineConfig) -> int:
    """Worker processes of one replica."""
    tensor = flag_value(config.argv, "--tensor-parallel-size", "-tp") or "1"
    pipeline = flag_value(config.argv, "--pipeline-parallel-size", "-pp") or "1"
    return int(tensor) * int(pipeline) if tensor.isdigit() and pipeline.isdigit() else 1


def _cache(seen: Seen) -> dict[str, str]:
    try:
        return metrics.info(seen.api.text("/metrics"), "vllm:cache_config_info")
    except (OSError, ValueError):
        return {}


def _context_tokens(seen: Seen) -> int | None:
    try:
        return next((m.get("max_model_len") for m in seen.api.models()), None)
    except (OSError, ValueError):
        return None


def _topics(
    log: str, cache: dict[str, str], settings: dict[str, str], bound: dict[int, list[int]]
) -> dict[str, str]:
    found = settings | vllm_log.topics(log)
    found |= {f"cores_of_rank_{rank}": ",".join(map(str, cpus)) for rank, cpus in bound.items()}
    for name in ("kv_cache_memory_bytes", "num_gpu_blocks", "cache_dtype"):
        if name in cache and cache[name] != "None":
            found[name] = cache[name]
    batched = vllm_log.non_default(log).get("max_num_batched_tokens")
    if batched is not None:
        found["max_num_batched_tokens"] = str(batched)
    if unknown := vllm_log.unknown_variables(log):
        found["unknown_variables"] = ", ".join(unknown)
    return found


# Flags whose value shows under a name; "" means that the engine chooses.
_SHOWN = {
    ("--dtype",): "dtype",
    ("--kv-cache-dtype",): "kv_cache_dtype",
    ("--quantization", "-q"): "quantization",
    ("--tensor-parallel-size", "-tp"): "tensor_parallel_size",
    ("--pipeline-parallel-size", "-pp"): "pipeline_parallel_size",
    ("--max-num-batched-tokens",): "max_num_batched_tokens",
}
_COUNTED = {
    ("--max-model-len",): "context_tokens",
    ("--max-num-seqs",): "num_parallel",
    ("--block-size",): "block_size_tokens",
}
_SWITCHES = {
    "--enforce-eager": ("enforce_eager", "True"),
    "--no-enforce-eager": ("enforce_eager", "False"),
    "--enable-prefix-caching": ("enable_prefix_caching", "True"),
    "--no-enable-prefix-caching": ("enable_prefix_caching", "False"),
    "--enable-chunked-prefill": ("enable_chunked_prefill", "True"),
    "--no-enable-chunked-prefill": ("enable_chunked_prefill", "False"),
}
_DTYPES = {"half": "float16", "float": "float32"}
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _flags(config: EngineConfig, facts: EngineFacts) -> Iterator[str]:
    for flags, name in _SHOWN.items():
        asked = flag_value(config.argv, *flags)
        actual = facts.log.get(name)
        if asked not in (None, "auto") and _DTYPES.get(asked, asked) != actual:
            yield f"{flags[0]} asked for {asked}, but {_told(actual)} runs"
    for flags, name in _COUNTED.items():
        count = _integer(flag_value(config.argv, *flags))
        if count is not None and getattr(facts, name) != count:
            yield f"{flags[0]} asked for {count}, but {_told(getattr(facts, name))} runs"
    for flag, (name, wanted) in _SWITCHES.items():
        if has_flag(config.argv, flag) and facts.log.get(name) != wanted:
            yield f"{flag} was asked for, but {name} is {_told(facts.log.get(name))}"


def _integer(text: str | None) -> int | None:
    """vLLM's human-readable integers: 4096, 4k = 4000, 4K = 4096; None for ``auto`` and -1."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgKMG]?)", text or "")
    return int(float(match[1]) * _UNITS[match[2]]) if match else None


def _kv_space(config: EngineConfig, facts: EngineFacts) -> Iterator[str]:
    asked = config.env.get("VLLM_CPU_KVCACHE_SPACE", "0")
    actual = _number(facts.log.get("kv_cache_memory_bytes"))
    if asked != "0" and actual is not None and actual != int(asked) * GIB:
        yield f"VLLM_CPU_KVCACHE_SPACE asked for {asked} GiB, but {actual / GIB:g} GiB is set"


def _binding(
    config: EngineConfig, facts: EngineFacts, workers: Sequence[ProcessFacts]
) -> Iterator[str]:
    """Asked lists against the log, and the log against /proc."""
    asked = config.env.get("VLLM_CPU_OMP_THREADS_BIND", "auto")
    said = {name: cpus for name, cpus in facts.log.items() if name.startswith("cores_of_rank_")}
    if asked not in ("auto", "nobind"):
        wanted = [show_cpus(sorted(parse_cpus(text))) for text in asked.split("|")]
        bound = [show_cpus(sorted(parse_cpus(cpus))) for cpus in said.values()]
        if bound != wanted:
            yield f"VLLM_CPU_OMP_THREADS_BIND asked for {asked}, but {'|'.join(bound)} is bound"
    if asked == "nobind" and said:
        yield f"VLLM_CPU_OMP_THREADS_BIND asked for nobind, but {'|'.join(said.values())} is bound"
    allowed = {cpu for text in facts.affinity for cpu in parse_cpus(text)}
    missing = {cpu for cpus in said.values() for cpu in parse_cpus(cpus)} - allowed
    if said and workers and missing:
        yield (
            f"the log says that threads are bound to CPUs {show_cpus(sorted(missing))}, "
            "but no thread of a worker may run there"
        )


def _ignored(config: EngineConfig, facts: EngineFacts) -> Iterator[str]:
    """Variables that were asked for; others come from the surroundings and change nothing."""
    for name in facts.log.get("unknown_variables", "").split(", "):
        if name in config.env:
            yield f"this vLLM does not know {name}: it has no effect"


def _told(value: object) -> str:
    return "an unknown value" if value is None else str(value)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None

