"""What vLLM prints while it starts. Read from logs of 0.32.0 and the sources of 0.11 to 0.33."""

from __future__ import annotations

import ast
import re

from .driver import first_exception, usage_error

_ENGINE_ARGS = re.compile(r"Initializing a V1 LLM engine \(v([^)]*)\) with config: (.*)")
_NON_DEFAULT = re.compile(r"non-default args: (\{.*\})")
_KV_TOKENS = re.compile(r"(?:CPU|GPU|XPU) KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_CORES = re.compile(r"local_rank=(\d+), core ids=\[([\d, ]*)\]")
_UNKNOWN_VARIABLE = re.compile(r"Unknown vLLM environment variable detected: (\w+)")

# Topics of EngineFacts.log: the first group of the last match.
_TOPICS = {
    "threads_bind": re.compile(r"VLLM_CPU_OMP_THREADS_BIND=('[^']*'.*)"),
    "reserved_cpus": re.compile(r"reserved_cpus=\[([\d, ]*)\]"),
    "kv_space": re.compile(r"Explicitly set (\([\d.]+/[\d.]+\) GiB) for KV cache"),
    "kv_available": re.compile(r"Available KV cache memory: ([\d.]+ GiB)"),
    "weights": re.compile(r"Model loading took ([\d.]+ GiB[^\n]*)"),
    "attention": re.compile(r"Using (\S+) (?:attention )?backend"),
    "compilation": re.compile(r"torch\.compile took ([\d.]+ s)"),
    "init": re.compile(r"init engine \([^)]*\) took ([\d.]+) s"),
}  # fmt: skip

# Of the engine's own list of its settings; the words are what later layers compare with.
_SETTINGS = (
    "dtype", "max_seq_len", "tensor_parallel_size", "pipeline_parallel_size", "quantization",
    "enforce_eager", "kv_cache_dtype", "enable_prefix_caching", "enable_chunked_prefill",
    "device_config",
)  # fmt: skip

# The furthest one is what it is doing.
_STAGES = (
    ("Application startup complete", "the server listens"),
    ("Starting vLLM", "starting the server"),
    ("init engine (", "the engine is up"),
    ("Capturing CUDA graphs", "capturing CUDA graphs"),
    ("Graph capturing finished", "graphs are captured"),
    ("KV cache size:", "warming up"),
    ("Warming up model for the compilation", "compiling the model"),
    ("Dynamo bytecode transform", "compiling the model"),
    ("Loading weights took", "sizing the KV cache"),
    ("checkpoint shards", "loading weights"),
    ("Starting to load model", "loading weights"),
    ("Initializing a V1 LLM engine", "starting workers"),
    ("Resolved architecture", "starting the engine"),
    ("non-default args", "reading the model's config"),
    ("Triton", "importing"),
)


def version(log: str) -> str:
    """Of vLLM; "" before it says so."""
    match = _ENGINE_ARGS.search(log)
    return match[1] if match else ""


def settings(log: str) -> dict[str, str]:
    """The engine's settings as it lists them, without ``torch.``."""
    match = _ENGINE_ARGS.search(log)
    text = f", {match[2]}" if match else ""
    found = {}
    for name in _SETTINGS:
        if value := re.search(rf", {name}=([^,)]+)", text):
            found[name] = value[1].strip("'").removeprefix("torch.")
    return found


def non_default(log: str) -> dict[str, object]:
    """The arguments that its parser accepted and that are not its defaults."""
    match = _NON_DEFAULT.search(log)
    try:
        value = ast.literal_eval(match[1]) if match else {}
    except (ValueError, SyntaxError):  # an object's repr among the values
        return {}
    return value if isinstance(value, dict) else {}


def kv_tokens(log: str) -> int | None:
    """Tokens that the KV cache holds, by its own definition; the least of several engines."""
    return min((_integer(text) for text in _KV_TOKENS.findall(log)), default=None)


def max_concurrency(log: str) -> float | None:
    """Requests of full length that the KV cache holds."""
    return min((float(times) for _, times in _CONCURRENCY.findall(log)), default=None)


def cores(log: str) -> dict[int, list[int]]:
    """Rank → CPUs that its compute threads are bound to; empty where it binds none."""
    return {
        int(rank): [int(cpu) for cpu in cpus.split(",") if cpu.strip()]
        for rank, cpus in _CORES.findall(log)
    }


def unknown_variables(log: str) -> list[str]:
    """Environment variables that this version has no use for."""
    return sorted(set(_UNKNOWN_VARIABLE.findall(log)))


def topics(log: str) -> dict[str, str]:
    """Further lines that say what was done."""
    found = {}
    for topic, pattern in _TOPICS.items():
        if matches := pattern.findall(log):
            found[topic] = str(matches[-1])
    return found


def stage(log: str) -> str:
    """What it is doing."""
    return next((told for line, told in _STAGES if line in log), "")


# Those that only tell that another process has ended.
_SECOND_HAND = ("Engine core initialization failed", "WorkerProc initialization failed",
                "Engine process failed to start", "EngineCore encountered")  # fmt: skip


def reason(log: str) -> str:
    """Its own words for its end, without the traceback; "" where it gives none."""
    return usage_error(log) or first_exception(log, _SECOND_HAND)


def _integer(text: str) -> int:
    return int(text.replace(",", ""))
