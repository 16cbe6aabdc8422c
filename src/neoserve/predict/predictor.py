"""One deployment under one workload: memory, capacity, latency, throughput and cost together.

`outcome` computes what ranking needs and builds no documents; `predict` tells all of it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec, Machine, Price
from ..schema.model import ModelSpec
from ..schema.prediction import (
    Cost,
    Fleet,
    KvCapacity,
    Latency,
    Memory,
    Percentiles,
    Prediction,
    Throughput,
)
from ..schema.spread import Spread
from ..schema.workload import Slo, Workload
from ..units import GIB, show_bytes, significant
from .checks import refusal_of
from .cost import COST_DIVISOR, cost_of, fleet_for, hourly_usd, price_basis, volume_rps
from .intervals import with_intervals
from .kv import Layout, blocks_per_request, capacity, in_flight_tokens, layout, num_blocks
from .memo import Memo, Setup, known_of
from .memory import Footprint, budget, footprint, resolved
from .pools import (
    LLAMA_CPP_PAD,
    llama_cpp_bytes,
    llama_cpp_cells,
    llama_cpp_state_bytes,
    sglang_capacity,
    trtllm_capacity,
)
from .serve import Point, Server, Serving, operating_point, report, server_of
from .server import limits_of
from .step import Shape, StepModel, shape_of

if TYPE_CHECKING:
    from .simulated import Simulation, Told
    from .simulation.requests import Draw


class Ask(Struct, frozen=True):
    """Everything one prediction needs, resolved."""

    model: ModelSpec
    machine: Machine
    deployment: Deployment
    workload: Workload
    profile: EngineProfile
    coefficients: Coefficients
    slo: Slo | None = None
    available_kv_bytes: int | None = None  # per rank; overrides the memory budget
    utilization_share: float = 1.0  # busy part of each hour, for cost
    output_tokens_per_month: float | None = None  # a volume to size a fleet for
    draw: Draw | None = None  # draws the schedule that is simulated; None: the formula's means
    num_requests: int | None = None  # measured ones of a simulation; None: its default
    spread: Spread | None = None  # None: no intervals are given


class Fit(Struct, frozen=True):
    """What a deployment has room for. `slots`: requests of the workload that KV holds at once."""

    memories: tuple[Memory, ...]  # of each pipeline stage
    slots: float
    refusal: str = ""
    pool: KvCapacity | None = None  # engines without block groups compute it on the way


class Run(NamedTuple):
    """One replica at its operating point, under its share of the workload."""

    server: Server
    workload: Workload  # of all replicas
    point: Point


class Outcome(NamedTuple):
    """What ranking needs. `run` is None where the engine would not start."""

    deployment: Deployment
    fit: Fit | None
    run: Run | None
    refusal: str


def outcome(ask: Ask, memo: Memo, explain: bool = True) -> Outcome:
    """Whether it starts and how it serves. Without `explain` a shortage is not put in figures."""
    deployment = memo.of_deployment("deployment", lambda: _completed(ask))
    refusal = impossible(ask, deployment, memo)
    if refusal:
        return Outcome(deployment, None, None, refusal)
    fit = _fit(ask, deployment, memo, explain)
    if fit.refusal:
        return Outcome(deployment, fit, None, fit.refusal)
    return Outcome(deployment, fit, _run(ask, deployment, fit.slots, memo), "")


def _completed(ask: Ask) -> Deployment:
    """The deployment with the engine's defaults, on this machine."""
    filled = resolved(ask.deployment, ask.model, ask.machine.hardware, ask.profile)
    return filled.replace(
        num_devices=ask.machine.num_devices, hardware=ask.machine.id, replicas=replicas_of(ask)
    )


def predict(ask: Ask, memo: Memo | None = None) -> Prediction:
    """The full answer. Raises AskError where the question has no answer."""
    memo = memo or Memo(of_deployment=known_of(Setup(ask)))
    found = outcome(ask, memo)
    memory = kv = None
    if found.fit is not None:
        memory = min(found.fit.memories, key=lambda m: m.available_kv_bytes)
        d, fit = found.deployment, found.fit
        kv = fit.pool or memo.of_deployment("capacity", lambda: _capacity(ask, d, fit, memo))
    if found.run is None:
        return _refused(ask, found, memory, kv)
    assert memory is not None
    assert kv is not None
    answer = _answer(ask, found, memory, kv, _told(ask, found, found.run, memo), memo)
    if ask.spread is None:
        return answer
    server, workload, _ = found.run
    return with_intervals(answer, ask.spread, ask.model, workload, ask.slo, server)


def impossible(ask: Ask, deployment: Deployment, memo: Memo) -> str:
    """Why this cannot be started, before memory is looked at. "" if it can."""
    model, devices = ask.model, ask.machine.num_devices
    if deployment.devices_per_replica > devices and ask.machine.hardware.kind != "cpu":
        return (
            f"tensor_parallel x pipeline_parallel = {deployment.devices_per_replica} devices; "
            f"{ask.machine.id} has {devices}"
        )
    if deployment.tensor_parallel % deployment.decode_context_parallel:
        return (
            f"decode_context_parallel {deployment.decode_context_parallel} does not divide "
            f"tensor_parallel {deployment.tensor_parallel}"
        )
    if deployment.pipeline_parallel > len(model.layers):
        return f"{deployment.pipeline_parallel} pipeline stages for {len(model.layers)} layers"
    length = deployment.max_model_len or 0
    if length > model.max_position_tokens:
        return (
            f"max_model_len {length:,} is beyond the model's {model.max_position_tokens:,} tokens"
        )
    need = ask.workload.prompt_tokens + ask.workload.output_tokens
    if need > length:
        return f"requests of {need:,} tokens are longer than max_model_len {length:,}"
    if ask.profile.rule == "vllm" and deployment.expert_parallel and not _has_experts(model):
        return "expert_parallel needs a model with experts"
    d = deployment
    key = (
        "refusal", id(model), d.tensor_parallel, d.pipeline_parallel, d.decode_context_parallel,
        d.kv_cache_dtype, d.block_size, d.disable_hybrid_kv_cache_manager,
        d.num_speculative_tokens, ask.profile.versions,
    )  # fmt: skip
    return memo.of_deployment(
        "refusal", lambda: memo.get(key, lambda: refusal_of(model, deployment, ask.profile))
    )


def _has_experts(model: ModelSpec) -> bool:
    return any(layer.ffn.num_experts for layer in model.layers)


def _footprint(ask: Ask, deployment: Deployment, memo: Memo) -> Footprint:
    d = deployment
    key = ("footprint", id(ask.model), d.tensor_parallel, d.pipeline_parallel, d.expert_parallel,
           d.num_speculative_tokens)  # fmt: skip
    return memo.get(key, lambda: footprint(ask.model, d))


def _budgets(ask: Ask, deployment: Deployment, memo: Memo) -> tuple[Memory, ...]:
    return memo.of_deployment(
        ("memories", deployment), lambda: _each_budget(ask, deployment, memo)
    )


def _each_budget(ask: Ask, deployment: Deployment, memo: Memo) -> tuple[Memory, ...]:
    need = _footprint(ask, deployment, memo)
    memories = tuple(
        budget(need, deployment, ask.profile, ask.machine.hardware, stage)
        for stage in range(deployment.pipeline_parallel)
    )
    if ask.available_kv_bytes is None:
        return memories
    return tuple(m.replace(available_kv_bytes=ask.available_kv_bytes) for m in memories)


def _fit(ask: Ask, deployment: Deployment, memo: Memo, explain: bool) -> Fit:
    memories = _budgets(ask, deployment, memo)
    refusal = _too_big(memories) if ask.available_kv_bytes is None else ""
    if ask.profile.rule != "vllm":
        return _pool_fit(ask, deployment, memories, refusal)
    plan = _layout(ask, deployment, memo)
    blocks = num_blocks(plan, _available(memories))
    if not refusal:
        refusal = memo.of_deployment(
            "shortage", lambda: _shortage(ask, deployment, plan, blocks, memories, explain)
        )
    return Fit(memories, _kv_slots(ask, deployment, plan, blocks), refusal)


def _available(memories: Sequence[Memory]) -> list[int]:
    return [m.available_kv_bytes for m in memories]


def _shortage(
    ask: Ask,
    deployment: Deployment,
    plan: Layout,
    blocks: int,
    memories: Sequence[Memory],
    explain: bool,
) -> str:
    """The engine's checks of the KV cache; the figures are worked out only where one fails."""
    need = blocks_per_request(
        plan, deployment, deployment.max_model_len or 0,
        in_flight_tokens(deployment, ask.profile, deployment.max_num_batched_tokens or 0),
    )  # fmt: skip
    if need > blocks - int(ask.profile.null_block) and plan.groups:
        if not explain:
            return "too little memory is left for the KV cache of one request"
        fit = Fit(tuple(memories), 0.0)
        return capacity(
            plan, ask.model, deployment, ask.profile, _available(fit.memories),
            deployment.max_model_len or 0, deployment.max_num_batched_tokens or 0,
        ).refusal  # fmt: skip
    has_state = any(g.caches[0][1].kind == "state" for g in plan.groups)
    if has_state and blocks < (deployment.max_num_seqs or 0):
        # v1/worker: max_num_seqs has to find a block for each sequence's state
        return (
            f"max_num_seqs {deployment.max_num_seqs} is more than the {blocks} blocks that hold "
            "request states; lower it"
        )
    return ""


def _capacity(ask: Ask, deployment: Deployment, fit: Fit, memo: Memo) -> KvCapacity:
    return capacity(
        _layout(ask, deployment, memo), ask.model, deployment, ask.profile,
        _available(fit.memories), deployment.max_model_len or 0,
        deployment.max_num_batched_tokens or 0,
    ).kv  # fmt: skip


def _layout(ask: Ask, deployment: Deployment, memo: Memo) -> Layout:
    return memo.of_deployment("layout", lambda: _shared_layout(ask, deployment, memo))


def _shared_layout(ask: Ask, deployment: Deployment, memo: Memo) -> Layout:
    """Groups do not depend on weights, batching or available bytes."""
    d = deployment
    key = (
        "layout", ask.machine.hardware.compute_capability, ask.machine.hardware.kind,
        d.tensor_parallel, d.pipeline_parallel, d.kv_cache_dtype, d.enable_prefix_caching,
        d.block_size, d.mamba_cache_dtype, d.mamba_ssm_cache_dtype, d.num_speculative_tokens,
        d.disable_hybrid_kv_cache_manager, ask.profile.versions,
    )  # fmt: skip
    return memo.get(key, lambda: layout(ask.model, d, ask.profile, ask.machine.hardware))


def _too_big(memories: Sequence[Memory]) -> str:
    for memory in memories:
        if memory.weights_bytes > memory.usable_bytes:
            return (
                f"weights alone take {show_bytes(memory.weights_bytes)} of each device's usable "
                f"{show_bytes(memory.usable_bytes)}"
            )
    return ""


def _kv_slots(ask: Ask, deployment: Deployment, plan: Layout, blocks: int) -> float:
    """Requests of the workload's mean length that the pool holds at once, beside the prefix that
    they share."""
    w, batch = ask.workload, deployment.max_num_batched_tokens or 0
    shared = int(w.prompt_tokens * w.prefix_hit_share) if deployment.enable_prefix_caching else 0
    if shared:
        blocks -= blocks_per_request(plan, deployment, shared, batch)
    length = max(1, w.prompt_tokens - shared + w.output_tokens // 2)
    need = blocks_per_request(plan, deployment, length, batch)
    return max(0, blocks) / need if need else math.inf


def _pool_fit(ask: Ask, deployment: Deployment, memories: tuple[Memory, ...], refusal: str) -> Fit:
    """Engines without block groups."""
    available, length = min(_available(memories)), deployment.max_model_len or 0
    if ask.profile.rule == "llama.cpp":
        kv, shortage, slots = _llama_cpp(ask, deployment, available)
        return Fit(memories, slots, refusal or shortage, kv)
    if ask.profile.rule == "trtllm":
        kv, shortage = trtllm_capacity(ask.model, deployment, ask.profile, available, length)
    else:
        kv, shortage = sglang_capacity(ask.model, deployment, available, length)
    mean = max(1, ask.workload.prompt_tokens + ask.workload.output_tokens // 2)
    slots = kv.max_concurrency * length / mean if kv.kv_tokens else kv.max_concurrency
    return Fit(memories, slots, refusal or shortage, kv)


def _llama_cpp(ask: Ask, deployment: Deployment, available: int) -> tuple[KvCapacity, str, float]:
    """llama.cpp allocates n_ctx cells for all slots at start."""
    slots, length = deployment.max_num_seqs or 1, deployment.max_model_len or 0
    cells = llama_cpp_cells(slots * length)
    kind = "q8_0" if deployment.kv_cache_dtype.startswith(("fp8", "int8")) else "f16"
    num_bytes = llama_cpp_bytes(ask.model, cells, kind, kind, slots=slots)
    more = llama_cpp_bytes(ask.model, cells + LLAMA_CPP_PAD, kind, kind, slots=slots)
    kv = KvCapacity(
        bytes_per_token=(more - num_bytes) / LLAMA_CPP_PAD,
        state_bytes_per_request=llama_cpp_state_bytes(ask.model), block_size_tokens=1,
        num_blocks=cells, kv_tokens=cells, max_concurrency=float(slots), bytes_per_block=0,
        bytes_per_request=num_bytes // slots, max_model_len=length, longest_request_tokens=length,
    )  # fmt: skip
    shortage = ""
    if num_bytes > available:
        shortage = (
            f"{slots} slots of {length:,} tokens need {show_bytes(num_bytes)} of KV cache and "
            f"{show_bytes(max(0, available))} are free; lower max_model_len or max_num_seqs"
        )
    return kv, shortage, float(slots)


def _run(ask: Ask, deployment: Deployment, slots: float, memo: Memo) -> Run:
    """The operating point of one replica, which sees its share of the load."""
    d, workload = deployment, ask.workload
    step_key = (
        "step", ask.machine.id, id(ask.model), d.tensor_parallel, d.pipeline_parallel,
        d.expert_parallel, d.kv_cache_dtype, d.enforce_eager,
    )  # fmt: skip
    context = workload.prompt_tokens + workload.output_tokens / 2
    kv_tokens = None if math.isinf(slots) else slots * context
    limits = limits_of(d, ask.machine.hardware, context, kv_tokens)
    caching = d.enable_prefix_caching and workload.prefix_hit_share > 0
    server = memo.get(
        ("server", *step_key, limits, caching),
        lambda: server_of(
            _step(ask, d, step_key, memo), ask.machine.hardware, d, ask.coefficients, workload,
            kv_tokens,
        ),
    )  # fmt: skip
    in_flight, rate_rps = workload.concurrency / d.replicas, workload.rate_rps / d.replicas
    if workload.arrival == "closed":  # slots beyond the requests in flight change nothing
        limits = limits._replace(slots=min(limits.slots, in_flight))
    point = memo.get(
        ("point", *step_key, limits, caching, in_flight, rate_rps),
        lambda: operating_point(server, workload, d.replicas),
    )
    return Run(server, workload, point)


def _step(ask: Ask, deployment: Deployment, key: Hashable, memo: Memo) -> StepModel:
    def built() -> StepModel:
        shape: Shape = memo.get(("shape", id(ask.model)), lambda: shape_of(ask.model))
        return StepModel(ask.model, ask.machine.hardware, deployment, ask.coefficients, shape)

    return memo.of_deployment("step", lambda: memo.get(key, built))


def replicas_of(ask: Ask) -> int:
    """Copies of the model that the rented machine holds; a bare device list holds one."""
    if ask.deployment.replicas > 1:
        return ask.deployment.replicas
    if ask.machine.id == ask.machine.hardware.id or ask.machine.hardware.kind == "cpu":
        return 1
    return max(1, ask.machine.num_devices // ask.deployment.devices_per_replica)


def usd_per_hour(ask: Ask, deployment: Deployment) -> float | None:
    """An instance is rented whole, devices by the piece. None without a price."""
    price, priced = ask.machine.price, ask.machine.priced_devices
    if price is None:
        return None
    if ask.machine.hardware.kind == "cpu":  # its ranks are NUMA nodes of one machine
        return price.usd_per_hour * deployment.replicas
    devices = deployment.devices_per_replica * deployment.replicas
    if ask.machine.id == ask.machine.hardware.id:
        return price.usd_per_hour * devices / priced
    return hourly_usd(price, devices, priced)


def _told(ask: Ask, found: Outcome, run: Run, memo: Memo) -> tuple[Serving, Latency, float | None]:
    """How one replica serves, its latencies and its goodput: simulated where asked."""
    simulated = simulate(ask, found, run, memo) if ask.draw else None
    served = simulated.served if simulated else report(*run, ask.slo)
    latency = simulated.latency if simulated else None
    if latency is None:
        latency = Latency(
            ttft_s=_mean(served.ttft_s), tpot_s=_mean(served.tpot_s), e2e_s=_mean(served.e2e_s)
        )
    if simulated:
        return served, latency, simulated.goodput_rps
    return served, latency, (served.request_rate_rps if served.meets_slo else 0.0)


def simulate(ask: Ask, found: Outcome, run: Run, memo: Memo) -> Told:
    """One replica's share of the load, request by request; `ask` has a `draw`."""
    from .simulated import told

    return told(simulation_of(ask, found, run, memo), share_of(run, found), run.point, ask.slo)


def simulation_of(ask: Ask, found: Outcome, run: Run, memo: Memo) -> Simulation:
    """A replica to run under this load and others."""
    from .simulated import NUM_REQUESTS, Setting, Simulation

    assert ask.draw is not None
    assert found.fit is not None
    d, draw = found.deployment, ask.draw
    block, slots = d.block_size or ask.profile.default_block_size, found.fit.slots
    num = ask.num_requests or NUM_REQUESTS
    # The memo holds the server: its id is nobody else's.
    key = ("simulation", id(run.server), d.max_num_seqs, slots, block, id(draw), num)
    return memo.get(key, lambda: Simulation(Setting(run.server, d, slots, block, draw, num)))


def share_of(run: Run, found: Outcome) -> Workload:
    """What one replica sees of the load."""
    copies = found.deployment.replicas
    return run.workload.replace(
        rate_rps=run.workload.rate_rps / copies,
        concurrency=max(1, round(run.workload.concurrency / copies)),
    )


def _answer(
    ask: Ask,
    found: Outcome,
    memory: Memory,
    kv: KvCapacity,
    spoken: tuple[Serving, Latency, float | None],
    memo: Memo,
) -> Prediction:
    served, latency, goodput_rps = spoken
    copies = found.deployment.replicas
    return Prediction(
        model=ask.model.id,
        deployment=found.deployment,
        memory=memory,
        kv=kv,
        latency=latency,
        throughput=Throughput(
            output_tokens_per_s=served.output_tokens_per_s * copies,
            total_tokens_per_s=served.total_tokens_per_s * copies,
            goodput_rps=(goodput_rps or 0.0) * copies if ask.slo else None,
            max_rate_rps=served.max_rate_rps * copies,
        ),
        cost=_cost(ask, found, served),
        fleet=_fleet(ask, found.deployment, served.max_rate_rps * copies),
        bound=served.bound,
        next_bound=served.next_bound,
        decode_parts=served.decode_parts,
        meets_slo=served.meets_slo,
        assumptions=assumptions(ask, served),
        advice=memo.of_deployment(
            "advice", lambda: advice(ask, found.deployment, memory, kv, memo)
        ),
    )


def _mean(seconds: float) -> Percentiles:
    return Percentiles(mean=seconds if math.isfinite(seconds) else None)


def _cost(ask: Ask, found: Outcome, served: Serving) -> Cost | None:
    price, usd = ask.machine.price, usd_per_hour(ask, found.deployment)
    if price is None or usd is None or served.output_tokens_per_s <= 0:
        return None
    copies = found.deployment.replicas
    return cost_of(
        usd, price_basis(price), served.output_tokens_per_s * copies,
        (served.total_tokens_per_s - served.output_tokens_per_s) * copies, ask.utilization_share,
    )  # fmt: skip


def _fleet(ask: Ask, deployment: Deployment, max_rate_rps: float) -> Fleet | None:
    """What carries the rate or the volume that was asked for; None if neither was."""
    w, rate_rps = ask.workload, 0.0
    if ask.output_tokens_per_month is not None:
        rate_rps = volume_rps(ask.output_tokens_per_month, w.output_tokens, ask.utilization_share)
    elif w.arrival != "closed":
        rate_rps = w.rate_rps
    if rate_rps <= 0.0 or max_rate_rps <= 0.0:
        return None
    return fleet_for(rate_rps, max_rate_rps, usd_per_hour(ask, deployment))


def own_checkpoint(deployment: Deployment) -> bool:
    """Whether the weight scheme is one that the engine does not make while it loads."""
    made = ("fp8",) if deployment.engine in ("vllm", "sglang") else ()
    return deployment.weight_quant not in ("checkpoint", "none", *made)


def assumptions(ask: Ask, served: Serving) -> tuple[str, ...]:
    """Everything the answer rests on that was not given."""
    notes = [*ask.model.notes, *ask.machine.notes, *served.assumptions]
    if ask.coefficients.calibration:
        notes.append(ask.coefficients.calibration)
    if math.isinf(served.ttft_s):
        notes.append(
            f"the load of {ask.workload.rate_rps:g} requests/s is more than the capacity of "
            f"{significant(served.saturation_rps)}: requests wait ever longer"
        )
    if own_checkpoint(ask.deployment):
        notes.append(
            f"{ask.deployment.weight_quant} weights are a checkpoint of their own: find or make it"
        )
    if ask.workload.prefix_hit_share:
        notes.append("the cached part of the prompts is one prefix, which all requests share")
    if ask.model.vision_params:
        notes.append(
            "images are not modelled: the encoder's weights are counted, its profiling peak is not"
        )
    hardware = ask.machine.hardware
    if hardware.kind != "cpu" and not hardware.reported_memory_bytes:
        notes.append(
            f"the driver's figure for {hardware.id} is not known: 98.5 % of the nominal "
            f"{hardware.memory_bytes / GIB:.0f} GiB is taken"
        )
    if ask.deployment.kv_cache_dtype == "auto" and ask.model.kv_cache_dtype != "auto":
        notes.append(f"KV cache in {ask.model.kv_cache_dtype}: the checkpoint carries its scales")
    if ask.machine.price is not None:
        notes.append(COST_DIVISOR)
    return tuple(dict.fromkeys(notes))


def advice(
    ask: Ask, deployment: Deployment, memory: Memory, kv: KvCapacity, memo: Memo
) -> tuple[str, ...]:
    """Which setting frees how much, largest first."""
    seqs, tokens = deployment.max_num_seqs or 2, deployment.max_num_batched_tokens or 1024
    others = [
        deployment.replace(max_num_seqs=max(1, seqs // 4)),
        deployment.replace(max_num_batched_tokens=max(512, tokens // 2)),
    ]
    names = [f"max_num_seqs {others[0].max_num_seqs}",
             f"max_num_batched_tokens {others[1].max_num_batched_tokens}"]  # fmt: skip
    if ask.profile.graph_memory_reserved and not deployment.enforce_eager:
        others.append(deployment.replace(enforce_eager=True))
        names.append("enforce_eager (slower decoding)")
    lines = []
    if ask.available_kv_bytes is None:
        freed = [
            min(_available(_budgets(ask, d, memo))) - memory.available_kv_bytes for d in others
        ]
        floor = 0.02 * max(1, memory.available_kv_bytes)
        worth = sorted(zip(freed, names, strict=True), reverse=True)
        lines = [f"{name} frees {show_bytes(b)} a device" for b, name in worth if b > floor]
    used = sum(
        g.num_layers * (g.page_bytes - g.padding_bytes) * g.blocks_per_request for g in kv.groups
    )
    wasted = 1 - used / kv.bytes_per_request if kv.groups and kv.bytes_per_request else 0.0
    if wasted > 0.05:
        lines.append(
            f"{wasted:.0%} of a long request's KV memory is padding between its kinds of layers"
        )
    return tuple(lines)


def _refused(ask: Ask, found: Outcome, memory: Memory | None, kv: KvCapacity | None) -> Prediction:
    return Prediction(
        model=ask.model.id,
        deployment=found.deployment,
        memory=memory,
        kv=kv,
        bound="memory",
        meets_slo=False if ask.slo else None,
        starts=False,
        refusal=found.refusal,
        assumptions=tuple(dict.fromkeys((*ask.model.notes, *ask.machine.notes))),
        advice=_starting_ranks(ask, found.deployment),
    )


def _starting_ranks(ask: Ask, deployment: Deployment) -> tuple[str, ...]:
    """How many devices it takes: the least tensor_parallel that starts, if the machine has it."""
    if ask.machine.hardware.kind == "cpu" or ask.available_kv_bytes is not None:
        return ()
    ranks = 2 * deployment.tensor_parallel
    while ranks * deployment.pipeline_parallel <= ask.machine.num_devices:
        wider = replace(ask, deployment=ask.deployment.replace(tensor_parallel=ranks))
        if outcome(wider, Memo(), explain=False).run is not None:
            return (f"it starts with tensor_parallel {ranks}",)
        ranks *= 2
    return (f"no tensor_parallel that {ask.machine.id} has room for starts it",)


def given_price(machine: Machine, usd: float) -> Machine:
    """The machine at a price of the user's, for the thing named: one device, or the instance."""
    whole = machine.id != machine.hardware.id
    return machine.replace(
        price=Price(usd_per_hour=usd, kind="given"),
        priced_devices=machine.priced_devices if whole else 1,
    )


def with_memory(hardware: HardwareSpec, memory_bytes: int) -> HardwareSpec:
    """The device with another amount of memory."""
    return hardware.replace(memory_bytes=memory_bytes, reported_memory_bytes=memory_bytes)
