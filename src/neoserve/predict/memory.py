"""The memory of one device, item by item: what is left is the KV cache.

available_kv = total x utilization - weights - activations - non-torch - graphs, as vLLM's
gpu_worker.determine_available_memory subtracts them. Each item is computed from its cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec
from ..schema.model import Layer, ModelSpec
from ..schema.prediction import Memory
from ..schema.quantization import DTYPE_BITS
from ..units import GIB, MIB
from .weights import stage_weights

# Share of the nominal capacity that the driver reports where no log told it: 39 devices with a
# known figure lie in 0.965..1.0, median 0.99.
REPORTED_SHARE = 0.985

# Beside torch's own pool: library workspaces, and NCCL's buffers once ranks talk
# (planning report of vLLM 0.19 on H100, 49 runs: 0.24-0.27 GiB alone, about 2.1 GiB at tp >= 2).
NON_TORCH_BYTES = int(0.25 * GIB)
COLLECTIVE_BYTES = int(0.45 * GIB)
# A vLLM CPU worker's resident memory beside the weights: 0.87 GiB with 0.25 GiB of them (vLLM
# 0.32 on x86-64, 2026-11-30: "0.87 GiB memory was consumed by non-kv usages").
CPU_PROCESS_BYTES = int(0.6 * GIB)

# vLLM's defaults by device memory (engine/arg_utils.py:get_batch_defaults, API server).
LARGE_DEVICE_BYTES = 70 * GIB
# NVML does not tell the size of memory shared with a CPU (Orin, Thor, GB10), so that vLLM takes
# such a device for a small one.
UNIFIED_CAPABILITIES = ("8.7", "11.0", "12.1")


def total_bytes(hardware: HardwareSpec) -> int:
    """Memory as the driver reports it."""
    if hardware.kind == "cpu":
        return hardware.memory_bytes
    return hardware.reported_memory_bytes or int(hardware.memory_bytes * REPORTED_SHARE)


def default_batch(
    hardware: HardwareSpec, world_size: int = 1, huge_batch_bytes: int = 160 * GIB
) -> tuple[int, int]:
    """(max_num_batched_tokens, max_num_seqs) that vLLM picks for an API server."""
    if hardware.kind == "cpu":
        return 2048 * world_size, 128 * world_size
    total = total_bytes(hardware)
    if hardware.compute_capability in UNIFIED_CAPABILITIES:
        total = 0
    if huge_batch_bytes and total >= huge_batch_bytes:
        return 16384, 1024
    if total >= LARGE_DEVICE_BYTES and not hardware.id.startswith("A100"):
        return 8192, 1024
    return 2048, 256


def resolved(deployment: Deployment, model: ModelSpec, hardware: HardwareSpec,
             profile: EngineProfile) -> Deployment:  # fmt: skip
    """The deployment with the engine's defaults filled in."""
    tokens, seqs = default_batch(
        hardware, deployment.tensor_parallel, profile.huge_batch_bytes
    )  # fmt: skip
    tokens = profile.default_max_num_batched_tokens or tokens
    seqs = profile.default_max_num_seqs or seqs
    return deployment.replace(
        engine=profile.engine,  # an alias has been understood
        max_model_len=deployment.max_model_len or model.max_position_tokens,
        max_num_batched_tokens=deployment.max_num_batched_tokens or tokens,
        max_num_seqs=deployment.max_num_seqs or seqs,
        gpu_memory_utilization=deployment.gpu_memory_utilization or profile.default_utilization,
    )


class Footprint(Struct, frozen=True):
    """What a model needs on one rank whatever the batching: made once for many deployments."""

    weights_bytes: tuple[int, ...]  # of each pipeline stage
    dense_elements: float  # a token in flight inside the widest dense layer
    expert_elements: float  # a token spread over its experts' workspaces
    element_bytes: int
    vocab_size: int
    num_layers: int


def footprint(model: ModelSpec, deployment: Deployment) -> Footprint:
    """Depends on parallelism and number formats only."""
    stages = range(deployment.pipeline_parallel)
    weights = [round(sum(stage_weights(model, deployment, s).values())) for s in stages]
    if model.safetensors_bytes and len(weights) == 1:
        weights = [_by_file_size(model, deployment, weights[0])]
    return Footprint(
        weights_bytes=tuple(weights),
        dense_elements=_widest_layer(model, deployment.tensor_parallel),
        expert_elements=_expert_rows(model, deployment),
        element_bytes=DTYPE_BITS[model.dtype] // 8,
        vocab_size=model.vocab_size,
        num_layers=len(model.layers),
    )


def _by_file_size(model: ModelSpec, deployment: Deployment, computed: int) -> int:
    """Where the files' size is known it replaces the sum over roles, cut over the ranks alike."""
    alone = sum(stage_weights(model, deployment.replace(tensor_parallel=1), 0).values())
    return round(model.safetensors_bytes * computed / alone) if alone else computed


def _widest_layer(model: ModelSpec, tp: int) -> float:
    """Elements a token in flight inside the widest dense layer: the intermediates of its
    feed-forward or its projections, a residual, and attention's inputs and outputs."""
    hidden = model.hidden_size
    widest = 0.0
    for layer in distinct(model.layers):
        dense = (layer.ffn.dense_params + layer.ffn.shared_params) / hidden
        # a mixer's projections are as wide as its weights per hidden unit; a recurrent one works
        # in fp32 beside them
        mixers = max((m.params / hidden * (3 if m.state else 1) for m in layer.mixers), default=0)
        widest = max(widest, dense / tp, mixers / tp)
    return widest + 5 * hidden


def _expert_rows(model: ModelSpec, deployment: Deployment) -> float:
    """Elements of gathered rows and intermediates for each of a token's experts (fused_moe)."""
    tp = deployment.tensor_parallel
    rows = 0.0
    for layer in distinct(model.layers):
        ffn = layer.ffn
        if ffn.num_experts:
            inner = ffn.expert_intermediate / (1 if deployment.expert_parallel else tp)
            chosen = ffn.experts_per_token / (tp if deployment.expert_parallel else 1)
            rows = max(rows, chosen * (max(2 * inner, model.hidden_size) + inner))
    return rows


def distinct(layers: Sequence[Layer]) -> list[Layer]:
    """Each different layer once; equal layers are the same object."""
    return list({id(layer): layer for layer in layers}.values())


def activation_bytes(need: Footprint, deployment: Deployment, profile: EngineProfile) -> int:
    """Peak of the profiling pass on one rank: a forward pass of max_num_batched_tokens, and the
    sampler's warm-up on max_num_seqs x vocab. They do not overlap, so the larger one counts;
    the experts' workspace stays."""
    tokens, seqs = deployment.max_num_batched_tokens or 0, deployment.max_num_seqs or 0
    forward = tokens * need.element_bytes * need.dense_elements
    rows = seqs * (1 + deployment.num_speculative_tokens)
    sampler = profile.sampler_bytes_per_logit * rows * need.vocab_size
    return int(max(forward, sampler) + tokens * need.element_bytes * need.expert_elements)


def graph_bytes(need: Footprint, deployment: Deployment) -> int:
    """CUDA graphs: a private pool of one batch's activations at the largest captured size, and
    some megabytes a captured size.

    Logged: 0.43 GiB (Llama-8B), 0.5-0.65 (Qwen2-7B), 0.65 (Gemma-3-4B), 1.88 (gpt-oss-120b TP 4),
    mean 1.04 over 49 runs of vLLM 0.19.
    """
    if deployment.enforce_eager:
        return 0
    largest = min(512, 2 * (deployment.max_num_seqs or 256))
    sizes = 3 + largest // 8 if largest <= 256 else 35 + (largest - 256) // 16
    pool = largest * need.element_bytes * (need.dense_elements + need.expert_elements)
    return int(pool + sizes * need.num_layers * 0.2 * MIB)


def non_torch_bytes(deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec) -> int:
    """Memory that torch does not know of."""
    if hardware.kind == "cpu":
        return CPU_PROCESS_BYTES if profile.rule == "vllm" else 0
    ranks = deployment.tensor_parallel * deployment.pipeline_parallel
    return NON_TORCH_BYTES + (COLLECTIVE_BYTES if ranks > 1 else 0)


def budget(
    need: Footprint,
    deployment: Deployment,
    profile: EngineProfile,
    hardware: HardwareSpec,
    stage: int = 0,
) -> Memory:
    """All items for one rank of a pipeline stage; `deployment` has its defaults filled in."""
    weights = need.weights_bytes[stage]
    total = total_bytes(hardware)
    if hardware.kind == "cpu" and hardware.numa_nodes_per_socket > 1:
        total //= deployment.tensor_parallel  # one rank a NUMA node
    usable = int(total * (deployment.gpu_memory_utilization or profile.default_utilization))
    activations = activation_bytes(need, deployment, profile)
    graphs = graph_bytes(need, deployment) if hardware.kind != "cpu" else 0
    other = non_torch_bytes(deployment, profile, hardware)
    taken = weights + other + (graphs if profile.graph_memory_reserved else 0)
    available = usable - taken - activations
    if profile.rule == "sglang":  # what stays free for activations is the share not used
        available = usable - taken
    elif profile.rule == "trtllm":  # a share of what is free once a batch has run
        usable, share = total, usable / total
        available = int(share * (total - taken - activations))
    return Memory(
        total_bytes=total,
        usable_bytes=usable,
        weights_bytes=weights,
        activation_bytes=activations,
        graph_bytes=graphs,
        non_torch_bytes=other,
        available_kv_bytes=available,
    )
