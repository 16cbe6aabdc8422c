"""Resolves the names in a request to documents and hands them to the planner.

The one place where catalog and predict meet; every face calls these functions.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..catalog.coefficients import calibrated, coefficients_for
from ..catalog.engines import find_profile
from ..catalog.hardware import find_machine, load_extra, stale_days
from ..catalog.intervals import spread_for
from ..catalog.models import bundled_names, find_model
from ..catalog.quantization import weight_scheme
from ..errors import AskError
from ..predict.plan import Grid, plan
from ..predict.predictor import Ask, given_price, own_checkpoint, predict, with_memory
from ..recipe.command import command
from ..schema.ask import PlanAsk, PredictAsk
from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import Machine
from ..schema.model import ModelSpec
from ..schema.prediction import Plan, Prediction
from ..schema.quantization import quantize
from ..schema.spread import Spread
from ..schema.workload import Slo, Workload
from ..units import MIB, TIB

if TYPE_CHECKING:
    from ..measure.traces import Trace
    from ..predict.simulation.requests import Draw

MAX_CANDIDATES = 200_000
MAX_BYTES = 1024 * TIB
MAX_SIMULATED = 1_000_000  # requests
VARIED = ("gamma", "mmpp", "ramp", "trace")  # arrivals whose means do not tell how it feels
_GPU_SCHEMES = ("checkpoint", "fp8", "w4a16")
_CPU_SCHEMES = ("checkpoint", "w8a8", "w4a8")


def answer_predict(request: PredictAsk) -> Prediction:
    """One configuration. Raises AskError."""
    trace = trace_of(request.workload)
    request = request.replace(workload=with_means(request.workload, trace))
    check_workload(request.workload)
    if request.output_tokens_per_month is not None:
        check_volume(request.output_tokens_per_month)
    machine = machine_of(request.on, request)
    model = scheme_model(
        find_model(request.model, request.online), request.deployment.weight_quant
    )
    ask = ask_for(model, machine, request.deployment, request, trace)
    answer = predict(ask)
    if request.profile and answer.latency is not None:
        from .profiled import with_measured_intervals

        answer = with_measured_intervals(answer, ask, request.profile)
    return with_command(answer, machine, request.model)


def answer_plan(request: PlanAsk) -> Plan:
    """A ranked comparison. Raises AskError."""
    trace = trace_of(request.workload)
    request = request.replace(workload=with_means(request.workload, trace))
    check_workload(request.workload)
    machines = [machine_of(name, request) for name in request.on]
    if request.profile and len(machines) != 1:
        raise AskError(f"--profile is of one device; --on names {len(machines)}: name that one")
    if not 0 <= request.keep <= MAX_CANDIDATES:
        raise AskError(f"--keep is {request.keep}; expected 0 to {MAX_CANDIDATES:,}")
    if not machines:
        raise AskError("no hardware was given; name some with --on, for example H100-SXM,L40S")
    empty = [name for name, value in request.to_data().items() if value in ((), [])]
    if empty:
        raise AskError(f"{empty[0]} is an empty list; give it at least one value, or leave it out")
    found = find_model(request.model, request.online)
    models = [(s, scheme_model(found, s)) for s in schemes_of(found, machines, request)]
    grid = grid_of(request, found, machines)
    size = grid.size(machines, len(models))
    if size > MAX_CANDIDATES:
        raise AskError(f"{size:,} candidates; at most {MAX_CANDIDATES:,}: narrow one of the lists")
    base = request.deployment.replace(max_model_len=length_of(request, found))
    for deployment in grid.each_value(base):
        check_deployment(deployment)
    slo = Slo.parse_text(request.slo) if request.slo else None
    kinds = {machine.id: machine.hardware.kind for machine in machines}
    return plan(
        models, machines, base, grid,
        ask_of=asker(request, slo, trace),
        slo=slo,
        rate_rps=request.rate_rps,
        command_of=lambda answer: command_of(
            answer, kinds[answer.deployment.hardware] == "cpu", request.model
        ),
        keep=request.keep,
        tries=lambda m, scheme: bool(request.weight_quant) or scheme in usual_schemes(m),
    )  # fmt: skip


def asker(
    request: PlanAsk, slo: Slo | None, trace: Trace | None = None
) -> Callable[[ModelSpec, Machine, Deployment], Ask]:
    """A maker of questions that looks each machine's facts up once."""
    engine, version = request.deployment.engine, request.deployment.engine_version
    facts: dict[str, tuple[EngineProfile, Coefficients, Spread]] = {}
    workload, draw = request.workload, draw_of(request, trace)
    if request.rate_rps:  # a fleet is sized for arrivals, whatever the workload says
        arrival = "poisson" if workload.arrival == "closed" else workload.arrival
        workload = workload.replace(arrival=arrival, rate_rps=request.rate_rps)

    def make(model: ModelSpec, machine: Machine, deployment: Deployment) -> Ask:
        if machine.id not in facts:
            profile, coefficients = facts_of(machine, engine, version, request.profile)
            facts[machine.id] = profile, coefficients, spread_for(coefficients)
        profile, coefficients, spread = facts[machine.id]
        return Ask(
            model, machine, deployment, workload, profile, coefficients, slo,
            None, request.utilization_share, None, draw, request.num_requests, spread,
        )  # fmt: skip

    return make


def facts_of(
    machine: Machine, engine: str, version: str, measured: str = ""
) -> tuple[EngineProfile, Coefficients]:
    """How an engine behaves on a machine: memory rules and speed, as a DeviceProfile has it if
    a file of one is given."""
    device = "cpu" if machine.hardware.kind == "cpu" else "gpu"
    profile = find_profile(engine, version, device)
    known = coefficients_for(machine.hardware, profile.engine, version)
    if measured:
        from ..tune.profile import read_profile

        known = calibrated(known, read_profile(Path(measured)))
    return profile, known


def ask_for(
    model: ModelSpec, machine: Machine, deployment: Deployment, request: PredictAsk,
    trace: Trace | None = None,
) -> Ask:  # fmt: skip
    """One question with everything it rests on."""
    profile, coefficients = facts_of(
        machine, deployment.engine, deployment.engine_version, request.profile
    )
    return Ask(
        model=model,
        machine=machine,
        deployment=check_deployment(deployment),
        workload=request.workload,
        profile=profile,
        coefficients=coefficients,
        slo=Slo.parse_text(request.slo) if request.slo else None,
        available_kv_bytes=request.available_kv_bytes,
        output_tokens_per_month=request.output_tokens_per_month,
        utilization_share=request.utilization_share,
        draw=draw_of(request, trace),
        num_requests=request.num_requests,
        spread=spread_for(coefficients),
    )


def draw_of(request: PredictAsk | PlanAsk, trace: Trace | None) -> Draw | None:
    """What draws the requests of a simulation; None where the formula's means are enough."""
    num = request.num_requests
    if num is not None and not 1 <= num <= MAX_SIMULATED:
        raise AskError(f"--num-prompts is {num}; expected 1 to {MAX_SIMULATED:,}")
    slo = Slo.parse_text(request.slo) if request.slo else None
    asked, w = request.simulate, request.workload
    if asked is None and request.profile and isinstance(request, PredictAsk):
        # as its loads were compared with what is predicted of them
        asked = w.arrival != "closed" or w.concurrency > 1 or None
    if not wants_simulation(asked, w, slo):
        return None
    from .simulate import drawer

    return drawer(trace)


def trace_of(workload: Workload) -> Trace | None:
    """The trace that a workload names. Raises AskError."""
    if not workload.trace:
        return None
    from ..measure.traces import read_trace

    return read_trace(Path(workload.trace))


def with_means(workload: Workload, trace: Trace | None) -> Workload:
    """The workload with the means of its trace: lengths, and the rate where none is given."""
    if trace is None:
        return workload
    rate_rps = workload.rate_rps
    if not rate_rps and workload.arrival != "closed":
        rate_rps = trace.rate_rps()
        if not math.isfinite(rate_rps):
            raise AskError(f"all requests of {trace.name} come at once; give --request-rate")
    return workload.replace(
        prompt_tokens=max(1, round(sum(trace.prompt_tokens) / len(trace))),
        output_tokens=max(1, round(sum(trace.output_tokens) / len(trace))),
        rate_rps=rate_rps,
    )


def wants_simulation(asked: bool | None, workload: Workload, slo: Slo | None) -> bool:
    """As asked; else where a percentile is, or where the load varies beyond what means tell."""
    if asked is not None:
        return asked
    if workload.trace:
        return True
    tails = slo is not None and any(t.statistic.startswith("p") for t in slo.targets)
    varied = workload.arrival in VARIED or workload.turns > 1
    return tails or varied or bool(workload.prompt_tokens_cv or workload.output_tokens_cv)


def machine_of(name: str, request: PredictAsk | PlanAsk) -> Machine:
    """A HW argument with the request's own catalog, memory and price. Raises AskError."""
    check_money(request)
    if name.strip().lower() == "local":
        from .profiled import local

        machine = local(request.profile)
    else:
        extra = load_extra(Path(request.catalog)) if request.catalog else None
        machine = find_machine(name, extra)
    if request.memory_bytes is not None:
        machine = machine.replace(hardware=with_memory(machine.hardware, request.memory_bytes))
    if request.usd_per_hour is not None:
        machine = given_price(machine, request.usd_per_hour)
    age = stale_days(machine.price.date, datetime.date.today()) if machine.price else 0
    if age:
        note = f"the price of {machine.id} is {age} days old: check it, or give --price"
        machine = machine.replace(notes=(*machine.notes, note))
    return machine


def check_money(request: PredictAsk | PlanAsk) -> None:
    """Raises AskError for memory, prices and shares that no machine has."""
    memory, usd, share = request.memory_bytes, request.usd_per_hour, request.utilization_share
    if memory is not None and not MIB <= memory <= MAX_BYTES:
        raise AskError(f"--memory is {memory} bytes; expected 1 MiB to 1 PiB, for example 24GiB")
    if usd is not None and not 0 <= usd <= 1e9:
        raise AskError(f"--price is {usd:g}; expected dollars per hour from 0 to 10^9")
    if not 1e-6 <= share <= 1:
        raise AskError(f"--utilization is {share:g}; expected a share above 0, at most 1")
    available = request.available_kv_bytes if isinstance(request, PredictAsk) else None
    if available is not None and not 0 <= available <= MAX_BYTES:
        raise AskError(f"--available-kv-bytes is {available}; expected bytes up to 1 PiB")


def check_volume(output_tokens_per_month: float) -> None:
    """Raises AskError for a month that nobody asks for."""
    if not 0 < output_tokens_per_month <= 1e18:
        raise AskError(f"--output-tokens-per-month is {output_tokens_per_month:g}; expected more "
                       "than 0, say 5e9")  # fmt: skip


def scheme_model(model: ModelSpec, scheme: str) -> ModelSpec:
    """The model in a weight scheme; ``checkpoint`` is as stored."""
    if scheme == "checkpoint":
        return model
    found = weight_scheme(scheme)
    if found.name == "none" and not model.quantization.method:
        return model
    return quantize(model, found)


def schemes_of(model: ModelSpec, machines: Iterable[Machine], request: PlanAsk) -> list[str]:
    """Weight schemes to compare; a checkpoint that is quantized already is taken as it is."""
    if request.weight_quant is not None:
        return list(dict.fromkeys(request.weight_quant))
    if model.quantization.method:
        return ["checkpoint"]
    return list(dict.fromkeys(s for m in machines for s in usual_schemes(m)))


def usual_schemes(machine: Machine) -> tuple[str, ...]:
    """What is worth trying on a kind of machine."""
    return _CPU_SCHEMES if machine.hardware.kind == "cpu" else _GPU_SCHEMES


def grid_of(request: PlanAsk, model: ModelSpec, machines: Iterable[Machine]) -> Grid:
    """The lists of the request; what it leaves open is filled by what usually matters."""
    quantized_kv = any("fp8" in m.hardware.peak_flops_per_s for m in machines)
    hit = request.workload.prefix_hit_share > 0
    # each running request needs a block for its state: the default may be too many
    has_state = any(m.state for layer in model.layers for m in layer.mixers)
    return Grid(
        tensor_parallel=request.tensor_parallel,
        pipeline_parallel=request.pipeline_parallel,
        expert_parallel=request.expert_parallel,
        kv_cache_dtype=request.kv_cache_dtype or (("auto", "fp8") if quantized_kv else ("auto",)),
        enforce_eager=request.enforce_eager,
        enable_prefix_caching=request.enable_prefix_caching or ((True, False) if hit else (True,)),
        max_num_seqs=request.max_num_seqs or ((None, 128) if has_state else (None,)),
        max_num_batched_tokens=request.max_num_batched_tokens or (None,),
    )


def length_of(request: PlanAsk | PredictAsk, model: ModelSpec) -> int:
    """The context a plan serves with: what was given, else twice the longest request, so that
    no memory is reserved for lengths that the traffic does not have."""
    if request.deployment.max_model_len:
        return request.deployment.max_model_len
    need = request.workload.prompt_tokens + request.workload.output_tokens
    if need > model.max_position_tokens:
        return model.max_position_tokens
    return min(model.max_position_tokens, max(2048, 1024 * math.ceil(2 * need / 1024)))


def check_workload(workload: Workload) -> None:
    """Raises AskError for lengths and rates that no traffic has."""
    positive = {"isl": workload.prompt_tokens, "osl": workload.output_tokens,
                "max-concurrency": workload.concurrency}  # fmt: skip
    for name, value in positive.items():
        if value < 1 or value > 100_000_000:
            raise AskError(f"--{name} is {value}; expected a whole number from 1 to 100,000,000")
    if workload.arrival != "closed" and workload.rate_rps == 0:
        raise AskError("--request-rate is 0; expected requests per second above 0")
    if workload.rate_rps and not 1e-9 <= workload.rate_rps <= 1e6:
        raise AskError(
            f"--request-rate is {workload.rate_rps:g}; expected requests per second above 0, "
            "at most 10^6"
        )
    if not 0 <= workload.prefix_hit_share < 1:
        raise AskError(
            f"--prefix-hit-share is {workload.prefix_hit_share}; expected a share below 1"
        )
    for name, cv in (("isl", workload.prompt_tokens_cv), ("osl", workload.output_tokens_cv)):
        if not 0 <= cv <= 100:
            raise AskError(f"--{name}-cv is {cv:g}; expected a coefficient from 0 to 100")
    if not 1 <= workload.turns <= 10_000 or not 0 <= workload.think_time_s <= 1e6:
        raise AskError(
            f"{workload.turns} turns with {workload.think_time_s:g} s between; expected 1 to "
            "10,000 turns and up to 10^6 s"
        )
    if not 1e-3 <= workload.burstiness <= 1e6:
        raise AskError(
            f"--burstiness is {workload.burstiness:g}; expected a number from 0.001 to 10^6"
        )


def check_deployment(deployment: Deployment) -> Deployment:
    """Raises AskError for settings that no engine accepts."""
    counts: Mapping[str, Any] = {
        "tensor-parallel": deployment.tensor_parallel,
        "pipeline-parallel": deployment.pipeline_parallel,
        "decode-context-parallel": deployment.decode_context_parallel,
        "max-num-seqs": deployment.max_num_seqs,
        "max-num-batched-tokens": deployment.max_num_batched_tokens,
        "max-model-len": deployment.max_model_len,
        "block-size": deployment.block_size,
        "replicas": deployment.replicas,
    }
    for name, value in counts.items():
        if value is not None and not 1 <= value <= 1_000_000_000:
            raise AskError(f"--{name} is {value}; expected a positive whole number")
    share = deployment.gpu_memory_utilization
    if share is not None and not 0 < share <= 1:
        raise AskError(f"--gpu-memory-utilization is {share}; expected a share above 0, at most 1")
    if not 0 <= deployment.num_speculative_tokens <= 64:
        raise AskError(
            f"--num-speculative-tokens is {deployment.num_speculative_tokens}; expected 0 to 64"
        )
    return deployment


# Suffixes by which publishers name checkpoints in a scheme.
_CHECKPOINT_SUFFIXES = {
    "fp8": ("-fp8", "-fp8-dynamic"), "w4a16": ("-awq", "-gptq-int4", "-int4"), "awq": ("-awq",),
    "w8a8": ("-w8a8", "-int8"), "nvfp4": ("-nvfp4",), "w4a8": ("-w4a8",),
}  # fmt: skip


def command_of(answer: Prediction, on_cpu: bool, asked: str = "") -> str:
    """The engine's exact command line for an answer, with the folder or file that was asked for.
    A weight scheme that the engine does not make while it loads is a checkpoint of its own: the
    bundled one, else a named placeholder."""
    d, model = answer.deployment, local_path(asked) or answer.model
    if own_checkpoint(d):
        model = _stored_in(answer.model, d.weight_quant)
        d = d.replace(weight_quant="checkpoint")
    kv_bytes = answer.memory.available_kv_bytes if on_cpu and answer.memory else None
    return command(model, d.replace(weight_quant=_plain(d.weight_quant)), kv_bytes)


def local_path(asked: str) -> str:
    """Where the checkpoint is, if it was named by a path: its folder or GGUF file. Else ""."""
    path = Path(asked).expanduser()
    if not asked or not path.exists():
        return ""
    return str(path.parent if path.suffix == ".json" else path)


def _plain(scheme: str) -> str:
    return "checkpoint" if scheme == "none" else scheme


def _stored_in(model: str, scheme: str) -> str:
    names = {name.lower(): name for name in bundled_names()}
    for suffix in _CHECKPOINT_SUFFIXES.get(scheme, (f"-{scheme}",)):
        found = names.get(model.lower() + suffix)
        if found:
            return found
    return f"{scheme}-checkpoint-of/{model.rsplit('/', 1)[-1]}"


def with_command(answer: Prediction, machine: Machine, asked: str = "") -> Prediction:
    """The answer with its command, if it would start."""
    if not answer.starts:
        return answer
    return answer.replace(command=command_of(answer, machine.hardware.kind == "cpu", asked))

