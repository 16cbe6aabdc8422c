"""Engine: a server that is ready to be loaded, whether we started it or it was there already."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from ...errors import AskError, EngineFailed
from ...schema.engine import EngineConfig
from ...schema.trial import EngineFacts
from ...units import show_duration
from .. import usage
from ..cores import host_cpus, parse_cpus
from . import metrics, proc
from .api import Api, base_url, local_port
from .driver import Driver, Seen, affinity_mismatch, flag_value, inherited
from .llamacpp import LlamaCppDriver
from .process import Process, free_port
from .sglang import SglangDriver
from .vllm import VllmDriver

OnStage = Callable[[str], None]

_REMIND_S = 30.0

_DRIVERS: dict[str, Driver] = {
    driver.name: driver for driver in (LlamaCppDriver(), VllmDriver(), SglangDriver())
}


def driver_for(name: str) -> Driver:
    """Of an engine that we can start. Raises AskError."""
    if name not in _DRIVERS:
        known = ", ".join(_DRIVERS)
        raise AskError(f"engine {name!r} cannot be started here; expected one of {known}, or a URL")
    return _DRIVERS[name]


class Engine:
    """A ready server: ``with start(config, log_path) as engine:``. Made by `start` and `attach`."""

    def __init__(
        self, config: EngineConfig, api: Api, process: Process | None = None, cpus: str = ""
    ) -> None:
        self.config = config
        self.url = api.url
        self.api_key = api.key
        self.cpus = cpus
        self._api = api
        self._process = process
        self.model = config.model or _first_model(api, config.engine)

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
        """Of the program; 0 for a server that is not ours."""
        return self._process.pid if self._process else 0

    @property
    def group(self) -> int:
        """Of the program and all it started, for `usage.snapshot`; 0 as above."""
        return self._process.group if self._process else 0

    def pids(self) -> tuple[int, ...]:
        """All its processes; of a server that is not ours, those of this host that listen there."""
        if self._process is not None:
            return self._process.pids()
        port = local_port(self.url)
        return () if port is None else proc.listeners(port)

    def facts(self) -> EngineFacts | None:
        """What really runs: from its log, its API and /proc; null as above."""
        if self._process is None:
            return None
        seen = Seen(
            self.config, self._api, self._process.log(), proc.facts(self._process.pids())
        )
        facts = driver_for(self.config.engine).facts(seen)
        found = inherited(self.config.env, os.environ)
        log = facts.log | ({"inherited_environment": found} if found else {})
        return facts.replace(pid=self.pid, processes=seen.processes, log=log)

    def mismatches(self) -> tuple[str, ...]:
        """Where what runs is not what was asked; each makes a trial void."""
        facts = self.facts()
        if facts is None:
            return ()
        driver = driver_for(self.config.engine)
        strays = affinity_mismatch(self.cpus, facts.processes)
        return (*driver.mismatches(self.config, facts), *strays)

    def metrics(self) -> dict[str, float]:
        """Counters and gauges by the names in `metrics`; {} where it publishes none."""
        try:
            return metrics.vocabulary(self._api.text("/metrics"))
        except (OSError, ValueError):
            return {}

    def cpu_s(self) -> float | None:
        """User and system time of all its processes so far; null as above."""
        return usage.tree_cpu_s(self.group) if self.group else None

    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process is not None and self._process.has_ended()

    def end_reason(self) -> str:
        """Its own words for that; "" while it runs."""
        if self._process is None or not self.has_ended():
            return ""
        reason = driver_for(self.config.engine).reason(self._process.log())
        return self._process.killed_by() + reason

    def log(self) -> bytes:
        """What it has printed; empty for a server that is not ours."""
        return self._process.log_path.read_bytes() if self._process else b""

    def stop(self) -> None:
        """End it and all it started; a server that is not ours is left alone. May be repeated."""
        if self._process is not None:
            self._process.stop()


def start(
    config: EngineConfig,
    log_path: Path,
    *,
    cpus: str = "",
    ready_timeout_s: float | None = None,
    on_stage: OnStage | None = None,
) -> Engine:
    """Start it on these CPUs ("" for all) and wait until it is ready; `on_stage` is told how.

    Raises AskError for what cannot run as asked, and EngineFailed with the engine's own reason.
    """
    driver = driver_for(config.engine)
    driver.check(config)
    limit_s = driver.ready_timeout_s(config) if ready_timeout_s is None else ready_timeout_s
    tell = on_stage or (lambda _: None)
    tell(
        f"starting {driver.name}: usually ready within {show_duration(driver.expected_s(config))}, "
        f"given up after {show_duration(limit_s)}"
    )
    began_s = time.monotonic()
    port = free_port()
    process = Process(driver.name, driver.argv(config, port), config.env, log_path,
                      parse_cpus(cpus) or host_cpus())  # fmt: skip
    key = flag_value(config.argv, "--api-key") or config.env.get("VLLM_API_KEY", "")
    api = Api(f"http://127.0.0.1:{port}", key)
    try:
        is_ready = functools.partial(_is_ready, process, api, driver.health_route, port)
        process.wait_until(_Told(is_ready, process, driver, tell), limit_s, driver.reason)
        engine = Engine(config, api, process, cpus)
        tell(f"ready ({show_duration(time.monotonic() - began_s)})")
    except BaseException:
        process.stop()
        raise
    return engine


def attach(url: str, *, api_key: str = "", model: str = "") -> Engine:
    """A server that runs already. Raises EngineFailed where it does not answer."""
    api = Api(base_url(url), api_key)
    return Engine(EngineConfig(engine="url", url=api.url, model=model), api)


def _first_model(api: Api, engine: str) -> str:
    """The name that requests have to ask for; "" where the server lists none."""
    try:
        models = api.models()
    except (OSError, ValueError) as error:
        raise EngineFailed(f"{engine} at {api.url} does not answer /v1/models: {error}") from None
    return str(models[0].get("id", "")) if models else ""


def _is_ready(process: Process, api: Api, route: str, port: int) -> bool:
    # That the port is theirs rules out a stranger who took it in the meantime.
    return api.answers(route) and proc.is_listening(port, process.pids())


class _Told:
    """`is_ready` that tells of each new stage on its way, and now and then of one that lasts."""

    def __init__(
        self, is_ready: Callable[[], bool], process: Process, driver: Driver, tell: OnStage
    ) -> None:
        self._is_ready = is_ready
        self._process = process
        self._driver = driver
        self._tell = tell
        self._stage = ""
        self._began_s = self._told_s = time.monotonic()

    def __call__(self) -> bool:
        now_s = time.monotonic()
        stage = self._driver.stage(self._process.log())
        is_new = bool(stage) and stage != self._stage
        if is_new or now_s - self._told_s > _REMIND_S:
            self._stage, self._told_s = stage, now_s
            still = "" if is_new else "still "
            self._tell(f"{still}{stage or 'starting'} ({show_duration(now_s - self._began_s)})")
        return self._is_ready()
