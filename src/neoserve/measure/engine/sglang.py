"""SGLang: ``python -m sglang.launch_server``."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import AskError
from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts, ProcessFacts
from .driver import (
    Driver,
    Seen,
    affinities,
    allocators,
    check_model,
    first_exception,
    flag_value,
    has_flag,
    last_words,
    usage_error,
)

PYTHON_VARIABLE = "NEOSERVE_SGLANG_PYTHON"

_MODULE = "sglang.launch_server"
_INSTALL = "pip install sglang, or its image lmsysorg/sglang"

_POOL = re.compile(r"max_total_num_tokens=(\d+)")
_RUNNING = re.compile(r"max_running_requests=(\d+)")
_CONTEXT = re.compile(r"context_len=(\d+)")
_TOPICS = {
    "kv_pool": re.compile(r"KV Cache is allocated\. (.*)"),
    "kv_cache_dtype": re.compile(r"Using KV cache dtype: (?:torch\.)?(\w+)"),
    "weights": re.compile(r"Load weight end\. (.*)"),
    "graphs": re.compile(r"Capture cuda graph end\. (.*)"),
}
# The furthest one is what it is doing.
_STAGES = (
    ("fired up and ready to roll", "the server listens"),
    ("Application startup complete", "warming up"),
    ("max_total_num_tokens=", "starting the server"),
    ("Capture cuda graph begin", "capturing CUDA graphs"),
    ("KV Cache is allocated", "the KV cache is allocated"),
    ("Load weight begin", "loading weights"),
    ("Init torch distributed begin", "starting workers"),
    ("server_args=", "reading the model's config"),
)


def config(
    model: str,
    args: Sequence[str] = (),
    env: dict[str, str] | None = None,
    *,
    python: str = "",
) -> EngineConfig:
    """The exact process that serves `model`, less the port, which is chosen at start.

    `args` are SGLang's own; `python` is one that has SGLang, "" for NEOSERVE_SGLANG_PYTHON, or
    else this one. Raises AskError where it is not installed.
    """
    python = python or os.environ.get(PYTHON_VARIABLE, "") or sys.executable
    version = installed_version(python)
    metrics = () if has_flag(args, "--enable-metrics") else ("--enable-metrics",)
    return EngineConfig(
        engine="sglang",
        version=f"sglang {version}",
        argv=(python, "-m", _MODULE, "--model-path", model, *metrics, *args),
        env=env or {},
    )


@functools.cache
def installed_version(python: str) -> str:
    """Of SGLang in that Python. Raises AskError where it is not installed."""
    ask = "import importlib.metadata as m; print(m.version('sglang'))"
    try:
        done = subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AskError(f"{python} does not run as a Python: {error}") from None
    if done.returncode:
        raise AskError(
            f"SGLang is not installed in {python}; {_INSTALL}; {PYTHON_VARIABLE} may name "
            "another Python"
        )
    return done.stdout.strip()


class SglangDriver(Driver):
    """Read from SGLang 0.5: entrypoints/http_server.py, managers/scheduler.py, public logs."""

    name = "sglang"

    def check(self, config: EngineConfig) -> None:
        """As `Driver.check`, and the model's folder."""
        super().check(config)
        check_model(flag_value(config.argv, "--model-path", "--model") or "")

    def expected_s(self, config: EngineConfig) -> float:
        """Weights, and CUDA graphs unless they are off."""
        return 60.0 if has_flag(config.argv, "--disable-cuda-graph") else 180.0

    def stage(self, log: str) -> str:
        """By the furthest line that tells."""
        return next((told for line, told in _STAGES if line in log), "")

    def reason(self, log: str) -> str:
        """The scheduler's exception, or what its parser refused."""
        return usage_error(log) or first_exception(log) or last_words(log)

    def computing(self, processes: Sequence[ProcessFacts]) -> list[ProcessFacts]:
        """Schedulers run the model (``sglang::scheduler…``)."""
        found = [p for p in processes if p.name.startswith("sglang::schedul")]
        return found or list(processes)

    def facts(self, seen: Seen) -> EngineFacts:
        """By ``/server_info`` (``/get_server_info`` before 0.5.6) and the log."""
        info = _server_info(seen)
        workers = self.computing(seen.processes)
        log = {
            topic: match[1]
            for topic, pattern in _TOPICS.items()
            if (match := pattern.search(seen.log))
        }
        for name in _SHOWN.values():
            if info.get(name) is not None:
                log.setdefault(name, str(info[name]))
        return EngineFacts(
            version=str(info.get("version", "")),
            context_tokens=_first(seen.log, _CONTEXT),
            num_parallel=_first(seen.log, _RUNNING),
            affinity=affinities(workers),
            allocator=allocators(workers),
            dtype=str(info.get("dtype", "")).replace("auto", ""),
            kv_tokens=info.get("max_total_num_tokens") or _first(seen.log, _POOL),
            block_size_tokens=info.get("page_size"),
            log=log,
        )

    def mismatches(self, config: EngineConfig, facts: EngineFacts) -> tuple[str, ...]:
        """Flags against the server's own list, and the allocator."""
        return (*_flags(config, facts), *super().mismatches(config, facts))


# Flag → its name in the server's own list of arguments.
_SHOWN = {
    "--tp-size": "tp_size",
    "--pp-size": "pp_size",
    "--quantization": "quantization",
    "--mem-fraction-static": "mem_fraction_static",
    "--chunked-prefill-size": "chunked_prefill_size",
    "--attention-backend": "attention_backend",
}
_COUNTED = {
    "--context-length": "context_tokens",
    "--max-running-requests": "num_parallel",
    "--page-size": "block_size_tokens",
}


def _flags(config: EngineConfig, facts: EngineFacts) -> Iterator[str]:
    for flag, name in _SHOWN.items():
        asked, actual = flag_value(config.argv, flag), facts.log.get(name)
        if asked is not None and actual != asked:
            yield f"{flag} asked for {asked}, but {actual or 'an unknown value'} runs"
    for flag, name in _COUNTED.items():
        asked, count = flag_value(config.argv, flag), getattr(facts, name)
        if asked is not None and str(count) != asked:
            told = "an unknown number" if count is None else count
            yield f"{flag} asked for {asked}, but {told} runs"


def _server_info(seen: Seen) -> dict[str, Any]:
    for route in ("/server_info", "/get_server_info"):
        info = seen.api.data(route)
        if isinstance(info, dict):
            return info
    return {}


def _first(log: str, pattern: re.Pattern[str]) -> int | None:
    match = pattern.search(log)
    return int(match[1]) if match else None
