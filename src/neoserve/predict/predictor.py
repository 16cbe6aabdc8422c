"""One deployment under one workload: memory, capacity, latency, throughput and cost together."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec, Machine, Price
from ..schema.model import ModelSpec
from ..schema.prediction import (
    Cost,
    KvCapacity,
    Latency,
    Memory,
    Percentiles,
    Prediction,
    Throughput,
)
from ..schema.workload import Slo, Workload
from ..units import GIB, show_bytes
from .checks import refusal_of
from .cost import COST_DIVISOR, cost_of, hourly_usd, price_basis
from .kv import Layout, blocks_per_request, capacity, in_flight_tokens, layout
from .memory import budget, resolved
from .pools import llama_cpp_bytes, llama_cpp_cells, sglang_capacity, trtllm_capacity
from .serve import Server, Serving, serve, server_of
from .step import Shape, StepModel, shape_of


@dataclass(frozen=True, slots=True)
class Ask:
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


@dataclass(slots=True)
class Memo:
    """Intermediate results that many candidates of one plan share."""

    values: dict[Hashable, Any] = field(default_factory=dict)

    def get(self, key: Hashable, make: Any) -> Any:
        """The value under a key, made on first use."""
        found = self.values.get(key)
        if found is None:
            found = self.values[key] = make()
        return found


def predict(ask: Ask, memo: Memo | None = None) -> Prediction:
    """The full answer. Raises AskError where the question has no answer."""
    memo = memo or Memo()
    hardware = ask.machine.hardware
    deployment = resolved(ask.deployment, ask.model, hardware, ask.profile)
    deployment = deployment.replace(num_devices=ask.machine.num_devices, hardware=ask.machine.id)
    refusal = impossible(ask, deployment)
    if refusal:
        return _refused(ask, deployment, refusal)
    memory, kv, refusal, slots = _fit(ask, deployment, memo)
    if refusal:
        return _refused(ask, deployment, refusal, memory, kv)
    served = _served(ask, deployment, slots, memo)
    return _answer(ask, deployment, memory, kv, served)


def impossible(ask: Ask, deployment: Deployment) -> str:
    """Why this cannot be started, before memory is looked at. "" if it can."""
    model, devices = ask.model, ask.machine.num_devices
    if deployment.devices_per_replica > devices and ask.machine.hardware.kind != "cpu":
        return (
            f"tensor_parallel x pipeline_parallel = {deployment.devices_per_replica} devices; "
            f"{ask.machine.id} has {devices}"
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
    return refusal_of(model, deployment, ask.profile)


def _has_experts(model: ModelSpec) -> bool:
    return any(layer.ffn.num_experts for layer in model.layers)


def _fit(
    ask: Ask, deployment: Deployment, memo: Memo
) -> tuple[Memory, KvCapacity, str, float]:
    """(memory, capacity, refusal, requests of this workload that the KV cache holds)."""
    hardware, model = ask.machine.hardware, ask.model
    stages = [
        budget(model, deployment, ask.profile, hardware, stage)
        for stage in range(deployment.pipeline_parallel)
    ]
    memory = min(stages, key=lambda m: m.available_kv_bytes)
    available = [m.available_kv_bytes for m in stages]
    if ask.available_kv_bytes is not None:
        available = [ask.available_kv_bytes] * len(stages)
        memory = memory.replace(available_kv_bytes=ask.available_kv_bytes)
    if ask.profile.rule != "vllm":
        return (memory, *_pool_fit(ask, deployment, min(available), memory))
    plan = _layout(ask, deployment, memo)
    length = deployment.max_model_len or 0
    batched = deployment.max_num_batched_tokens or 0
    fit = capacity(plan, model, deployment, ask.profile, available, length, batched)
    refusal = _too_big(memory) or fit.refusal or _state_shortage(fit.kv, deployment)
    return memory, fit.kv, refusal, _kv_slots(ask, deployment, plan, fit.kv.num_blocks)


def _layout(ask: Ask, deployment: Deployment, memo: Memo) -> Layout:
    """Groups do not depend on weights, batching or available bytes."""
    d = deployment
    key = (
        "layout", ask.machine.hardware.compute_capability, ask.machine.hardware.kind,
        d.tensor_parallel, d.pipeline_parallel, d.kv_cache_dtype, d.enable_prefix_caching,
        d.block_size, d.mamba_cache_dtype, d.mamba_ssm_cache_dtype, d.num_speculative_tokens,
        d.disable_hybrid_kv_cache_manager, ask.profile.versions,
    )  # fmt: skip
    made: Layout = memo.get(key, lambda: layout(ask.model, d, ask.profile, ask.machine.hardware))
    return made


def _too_big(memory: Memory) -> str:
    if memory.weights_bytes <= memory.usable_bytes:
        return ""
    return (
        f"weights alone take {show_bytes(memory.weights_bytes)} of each device's usable "
        f"{show_bytes(memory.usable_bytes)}"
    )


def _state_shortage(kv: KvCapacity, deployment: Deployment) -> str:
    """vLLM refuses more sequences than there are blocks for their states."""
    if not kv.state_bytes_per_request or not deployment.max_num_seqs:
        return ""
    if kv.num_blocks >= deployment.max_num_seqs:
        return ""
    return (
        f"max_num_seqs {deployment.max_num_seqs} is more than the {kv.num_blocks} blocks that hold "
        "request states; lower it"
    )


def _kv_slots(ask: Ask, deployment: Deployment, plan: Layout, num_blocks: int) -> float:
    """Requests of the workload's mean length that the pool holds at once."""
    length = ask.workload.prompt_tokens + ask.workload.output_tokens // 2
    batched = deployment.max_num_batched_tokens or 0
    in_flight = min(in_flight_tokens(deployment, ask.profile, batched), batched)
    need = blocks_per_request(plan, deployment, length, in_flight)
    return num_blocks / need if need else math.inf


def _pool_fit(
    ask: Ask, deployment: Deployment, available: int, memory: Memory
) -> tuple[KvCapacity, str, float]:
    """Engines without block groups."""
    length = deployment.max_model_len or 0
    mean = max(1, ask.workload.prompt_tokens + ask.workload.output_tokens // 2)
    if ask.profile.rule == "llama.cpp":
        return _llama_cpp_fit(ask, deployment, available)
    if ask.profile.rule == "trtllm":
        kv, refusal = trtllm_capacity(ask.model, deployment, ask.profile, available, length)
    else:
        kv, refusal = sglang_capacity(ask.model, deployment, available, length)
    slots = kv.max_concurrency * length / mean if kv.kv_tokens else kv.max_concurrency
    return kv, _too_big(memory) or refusal, slots


def _llama_cpp_fit(
    ask: Ask, deployment: Deployment, available: int
) -> tuple[KvCapacity, str, float]:
    """llama.cpp allocates n_ctx cells for all slots at start."""
    slots, length = deployment.max_num_seqs or 4, deployment.max_model_len or 0
    cells = llama_cpp_cells(slots * length)
    types = {"fp8": "q8_0", "int8": "q8_0"}.get(deployment.kv_cache_dtype, "f16")
    num_bytes = llama_cpp_bytes(ask.model, cells, types, types, slots=slots)
    kv = KvCapacity(
        bytes_per_token=num_bytes / cells, state_bytes_per_request=0, block_size_tokens=1,
        num_blocks=cells, kv_tokens=cells, max_concurrency=float(slots), bytes_per_block=0,
        bytes_per_request=num_bytes // slots, max_model_len=length, longest_request_tokens=length,
    )  # fmt: skip
    refusal = ""
    if num_bytes > available:
        refusal = (
            f"{slots} slots of {length:,} tokens need {show_bytes(num_bytes)} of KV cache and "
            f"{show_bytes(max(0, available))} are free; lower max_model_len or max_num_seqs"
        )
    return kv, refusal, float(slots)


def _served(ask: Ask, deployment: Deployment, slots: float, memo: Memo) -> Serving:
    """The operating point of one replica, which sees its share of the load."""
    d, copies = deployment, replicas_of(ask)
    workload = ask.workload
    if copies > 1:
        workload = workload.replace(
            rate_rps=workload.rate_rps / copies,
            concurrency=max(1, round(workload.concurrency / copies)),
        )
    step_key = (
        "step", ask.machine.id, id(ask.model), d.tensor_parallel, d.pipeline_parallel,
        d.expert_parallel, d.kv_cache_dtype, d.enforce_eager,
    )  # fmt: skip
    shape: Shape = memo.get(("shape", id(ask.model)), lambda: shape_of(ask.model))
    step: StepModel = memo.get(
        step_key,
        lambda: StepModel(ask.model, ask.machine.hardware, d, ask.coefficients, shape),
    )
    context = workload.prompt_tokens + workload.output_tokens / 2
    kv_tokens = None if math.isinf(slots) else slots * context
    server: Server = server_of(
        step, ask.machine.hardware, d, ask.coefficients, workload, kv_tokens
    )
    key = (*step_key, server.limits, server.new_tokens, workload.rate_rps, workload.concurrency)
    served: Serving = memo.get(key, lambda: serve(server, workload, ask.slo))
    return served


def replicas_of(ask: Ask) -> int:
    """Copies of the model that the rented machine holds; a bare device list holds one."""
    if ask.deployment.replicas > 1:
        return ask.deployment.replicas
    if ask.machine.priced_devices <= 1 or ask.machine.price is None:
        return 1
    if ask.machine.id == ask.machine.hardware.id:
        return 1
    return max(1, ask.machine.num_devices // ask.deployment.devices_per_replica)


def _answer(
    ask: Ask, deployment: Deployment, memory: Memory, kv: KvCapacity, served: Serving
) -> Prediction:
    replicas = replicas_of(ask)
    rate = served.request_rate_rps * replicas
    return Prediction(
        model=ask.model.id,
        deployment=deployment.replace(replicas=replicas),
        memory=memory,
        kv=kv,
        latency=Latency(
            ttft_s=Percentiles(mean=served.ttft_s),
            tpot_s=Percentiles(mean=served.tpot_s),
            e2e_s=Percentiles(mean=served.e2e_s),
        ),
        throughput=Throughput(
            output_tokens_per_s=served.output_tokens_per_s * replicas,
            total_tokens_per_s=served.total_tokens_per_s * replicas,
            goodput_rps=(rate if served.meets_slo else 0.0) if ask.slo else None,
            max_rate_rps=served.max_rate_rps * replicas,
        ),
        cost=_cost(ask, deployment, served, replicas),
        bound=served.bound,
        next_bound=served.next_bound,
        decode_parts=served.decode_parts,
        meets_slo=served.meets_slo,
        assumptions=assumptions(ask, deployment, served),
        advice=advice(ask, deployment, memory, kv),
    )


def _cost(ask: Ask, deployment: Deployment, served: Serving, replicas: int) -> Cost | None:
    price = ask.machine.price
    if price is None or served.output_tokens_per_s <= 0:
        return None
    devices = deployment.devices_per_replica * replicas
    priced = ask.machine.priced_devices
    whole = ask.machine.id != ask.machine.hardware.id
    hourly = hourly_usd(price, devices, priced) if whole else price.usd_per_hour * devices / priced
    prompt_rate = served.request_rate_rps * ask.workload.prompt_tokens * replicas
    return cost_of(
        hourly, price_basis(price), served.output_tokens_per_s * replicas, prompt_rate,
        ask.utilization_share,
    )  # fmt: skip


def assumptions(ask: Ask, deployment: Deployment, served: Serving) -> tuple[str, ...]:
    """Everything the answer rests on that was not given."""
    notes = [*ask.model.notes, *ask.machine.notes, *served.assumptions]
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
    ask: Ask, deployment: Deployment, memory: Memory, kv: KvCapacity
) -> tuple[str, ...]:
    """Which setting frees how much, largest first."""
    options: list[tuple[int, str]] = []
    if ask.profile.graph_memory_reserved and not deployment.enforce_eager and memory.graph_bytes:
        options.append((memory.graph_bytes, "enforce_eager (slower decoding)"))
    smaller = deployment.replace(max_num_seqs=max(1, (deployment.max_num_seqs or 2) // 4))
    freed = _freed(ask, smaller, memory)
    if freed > 0:
        options.append((freed, f"max_num_seqs {smaller.max_num_seqs}"))
    fewer = deployment.replace(
        max_num_batched_tokens=max(512, (deployment.max_num_batched_tokens or 1024) // 2)
    )
    freed = _freed(ask, fewer, memory)
    if freed > 0:
        options.append((freed, f"max_num_batched_tokens {fewer.max_num_batched_tokens}"))
    lines = [
        f"{name} frees {show_bytes(b)} a device" for b, name in sorted(options, reverse=True)
        if b > 0.02 * max(1, memory.available_kv_bytes)
    ]  # fmt: skip
    wasted = sum(g.padding_bytes * g.num_layers * g.blocks_per_request for g in kv.groups)
    share = wasted / kv.bytes_per_request if kv.bytes_per_request else 0
    if share > 0.05:
        lines.append(f"{share:.0%} of a long request's KV memory is padding between layer types")
    return tuple(lines)


def _freed(ask: Ask, other: Deployment, memory: Memory) -> int:
    changed = budget(ask.model, other, ask.profile, ask.machine.hardware)
    return changed.available_kv_bytes - memory.available_kv_bytes


def _refused(
    ask: Ask,
    deployment: Deployment,
    reason: str,
    memory: Memory | None = None,
    kv: KvCapacity | None = None,
) -> Prediction:
    return Prediction(
        model=ask.model.id,
        deployment=deployment,
        memory=memory,
        kv=kv,
        bound="memory",
        meets_slo=False if ask.slo else None,
        starts=False,
        refusal=reason,
        assumptions=tuple(dict.fromkeys((*ask.model.notes, *ask.machine.notes))),
    )


def given_price(machine: Machine, usd_per_hour: float) -> Machine:
    """The machine at a price of the user's."""
    whole = machine.id != machine.hardware.id
    return machine.replace(
        price=Price(usd_per_hour=usd_per_hour, kind="given"),
        priced_devices=machine.priced_devices if whole else 1,
    )


def with_memory(hardware: HardwareSpec, memory_bytes: int) -> HardwareSpec:
    """The device with another amount of memory."""
    return hardware.replace(memory_bytes=memory_bytes, reported_memory_bytes=memory_bytes)
