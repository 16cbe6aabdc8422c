"""A server as the planner sees it: what it predicts of it, with some coefficients corrected."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from ...catalog.coefficients import coefficients_for, corrected
from ...catalog.engines import profile_or_newest
from ...errors import AskError
from ...measure.engine.driver import flag_value, has_flag
from ...predict.memo import Memo
from ...predict.predictor import Ask, Outcome, Run, outcome, share_of, simulation_of
from ...predict.simulation.requests import Draw
from ...schema.coefficients import Coefficients
from ...schema.engine import Deployment, EngineConfig, EngineProfile
from ...schema.hardware import HardwareSpec, Machine
from ...schema.model import ModelSpec
from ...schema.trial import EngineFacts
from ...schema.workload import Workload
from ..profile import version_number

METRICS = ("ttft_s", "tpot_s")

_T = TypeVar("_T")
_CHANGING = ("step", "server", "point", "simulation")  # with coefficients and load


class Lasting(Memo):
    """What depends on neither coefficients nor load: a fit asks a hundred thousand times."""

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """As `Memo.get`; what changes is made anew."""
        is_changing = isinstance(key, tuple) and key[0] in _CHANGING
        return make() if is_changing else super().get(key, make)


class Subject(Struct, frozen=True):
    """One model on one server of one device."""

    model: ModelSpec
    hardware: HardwareSpec  # the part of the device that the engine computes on
    deployment: Deployment
    rules: EngineProfile
    known: Coefficients
    kv_bytes: int | None = None
    draw: Draw | None = None  # of a schedule to simulate; None: means by the formula
    memo: Lasting = field(default_factory=Lasting)

    def ask(self, workload: Workload, factors: Mapping[str, float]) -> Ask:
        """The planner's question about a load."""
        return Ask(
            model=self.model,
            machine=Machine(id=self.hardware.id, hardware=self.hardware, num_devices=1),
            deployment=self.deployment,
            workload=workload,
            profile=self.rules,
            coefficients=corrected(self.known, factors),
            available_kv_bytes=self.kv_bytes,
            draw=self.draw,
        )

    def seconds(
        self, workload: Workload, factors: Mapping[str, float], num_requests: int | None = None
    ) -> dict[str, float]:
        """Mean TTFT, and TPOT of answers of two tokens or more: the time of all tokens after the
        first over their number.

        Simulated where requests meet, `num_requests` of them. Raises AskError for a load that the
        server would refuse.
        """
        ask = replace(self.ask(workload, factors), num_requests=num_requests)
        found = outcome(ask, self.memo, explain=False)
        if found.run is None:
            raise AskError(f"{workload.prompt_tokens} + {workload.output_tokens} tokens at "
                           f"{workload.concurrency} in flight: {found.refusal}")  # fmt: skip
        alone = workload.arrival == "closed" and workload.concurrency == 1
        if self.draw is not None and not alone:
            return self._simulated(ask, found, found.run)
        point = found.run.point
        seconds = {"ttft_s": point.ttft_s}
        if workload.output_tokens > 1:
            seconds["tpot_s"] = point.tpot_s
        return {name: value for name, value in seconds.items() if math.isfinite(value)}

    def _simulated(self, ask: Ask, found: Outcome, run: Run) -> dict[str, float]:
        ran = simulation_of(ask, found, run, self.memo).run(share_of(run, found))
        ttft_s, e2e_s = ran.latency.ttft_s.mean or 0.0, ran.latency.e2e_s.mean or 0.0
        steps = ran.output_tokens - 1.0
        return {"ttft_s": ttft_s} | ({"tpot_s": (e2e_s - ttft_s) / steps} if steps > 0 else {})


def subject_of(
    model: ModelSpec,
    hardware: HardwareSpec,
    config: EngineConfig,
    facts: EngineFacts,
    draw: Draw | None = None,
) -> Subject:
    """From the process that runs. `hardware` is the whole device."""
    engine = "llama.cpp" if config.engine in ("llama.cpp", "llama-server") else config.engine
    version = version_number(config.version) if engine != "llama.cpp" else ""
    device = "cpu" if hardware.kind == "cpu" else "gpu"
    return Subject(
        model=model,
        hardware=part_of(hardware, facts.threads),
        deployment=_deployment(engine, version, config, facts),
        rules=profile_or_newest(engine, version, device),
        known=coefficients_for(hardware, engine, version),
        kv_bytes=_kv_bytes(facts),
        draw=draw,
    )


def part_of(hardware: HardwareSpec, threads: int | None) -> HardwareSpec:
    """The cores of a CPU that compute. Its bandwidth is as it was measured."""
    if hardware.kind != "cpu" or not threads or threads >= hardware.cores:
        return hardware
    share = threads / hardware.cores
    peaks = {dtype: peak * share for dtype, peak in hardware.peak_flops_per_s.items()}
    return hardware.replace(cores=threads, peak_flops_per_s=peaks)


def settings_of(config: EngineConfig, facts: EngineFacts) -> dict[str, str]:
    """What of the engine is in the figures, for whoever reads the profile."""
    told = {
        "threads": facts.threads,
        "slots": facts.num_parallel,
        "context_tokens": facts.context_tokens,
        "dtype": facts.dtype,
        "eager": has_flag(config.argv, "--enforce-eager") or None,
        "cpus": ",".join(facts.affinity),
    }
    return {name: str(value) for name, value in told.items() if value not in (None, "")}


def _deployment(
    engine: str, version: str, config: EngineConfig, facts: EngineFacts
) -> Deployment:
    def number(*flags: str) -> int | None:
        text = flag_value(config.argv, *flags) or ""
        return int(text) if text.isdigit() else None

    if engine == "llama.cpp":
        slots, context = facts.num_parallel or 1, facts.context_tokens
        if facts.log.get("kv_unified") == "true" and context:
            context //= slots
        return Deployment(
            engine=engine,
            max_num_seqs=slots,
            max_model_len=context,
            max_num_batched_tokens=number("--ubatch-size", "-ub"),
            enable_prefix_caching=False,
        )
    return Deployment(
        engine=engine,
        engine_version=version,
        tensor_parallel=number("--tensor-parallel-size", "-tp") or 1,
        pipeline_parallel=number("--pipeline-parallel-size", "-pp") or 1,
        enforce_eager=has_flag(config.argv, "--enforce-eager"),
        max_model_len=facts.context_tokens,
        max_num_seqs=facts.num_parallel or number("--max-num-seqs"),
        max_num_batched_tokens=number("--max-num-batched-tokens"),
        block_size=number("--block-size"),
        kv_cache_dtype=flag_value(config.argv, "--kv-cache-dtype") or "auto",
    )


def _kv_bytes(facts: EngineFacts) -> int | None:
    text = facts.log.get("kv_cache_memory_bytes", "")
    return int(text) if text.isdigit() else None
