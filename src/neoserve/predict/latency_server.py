"""The replica that a truth row describes: its part of a socket, what its cache holds."""

from __future__ import annotations

from ..schema.coefficients import Coefficients
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from .attention import spans
from .cache import kv_dtype_of
from .collectives import data_ranks
from .latency_rows import Case, ends_early, prompt_flops_share
from .server import Server, server_of
from .step import Shape, StepModel
from .weights import bits_of

SIZED = ("vllm", "sglang", "tensorrt-llm", "atom")  # engines that size a paged cache
OTHER_BYTES = 4 * 2**30  # activations, graphs, communication on one device
SUSTAINED_SHARE = 0.6  # of the peak: more than any engine computes while it decodes


def case_server(
    case: Case,
    model: ModelSpec,
    shape: Shape,
    hardware: HardwareSpec,
    coefficients: Coefficients,
    tokens: float | None,
) -> Server:
    """One replica of the row's deployment; `tokens` is `kv_tokens` of the same arguments."""
    step = StepModel(
        model, hardware, case.deployment, coefficients, shape, case.shared_cache
    )
    return server_of(step, hardware, case.deployment, coefficients, case.workload, tokens)


def cpu_slice(hardware: HardwareSpec, threads: int) -> HardwareSpec:
    """The part of a socket that so many threads use; half of them already fill its memory."""
    if hardware.kind != "cpu" or not 0 < threads < hardware.cores:
        return hardware
    share = threads / hardware.cores
    return hardware.replace(
        peak_flops_per_s={k: v * share for k, v in hardware.peak_flops_per_s.items()},
        bandwidth_bytes_per_s=hardware.bandwidth_bytes_per_s * min(1.0, 2.0 * share),
        cores=threads,
    )


def weights_bytes(model: ModelSpec, shape: Shape) -> float:
    """All weights, embedding included."""
    linear = sum(params * bits_of(model, role) / 8 for role, params in shape.params.items())
    return linear + 2.0 * model.embedding_params * bool(model.lm_head_params)


def kv_tokens(case: Case, model: ModelSpec, shape: Shape, hardware: HardwareSpec) -> float | None:
    """What 90 % of the memory leaves for the cache, in tokens of this workload's requests."""
    if case.workload.concurrency < 4 or hardware.kind == "cpu" or case.engine not in SIZED:
        return None
    d = case.deployment
    context = case.workload.prompt_tokens + case.workload.output_tokens / 2
    dtype = kv_dtype_of(model, d)
    request = sum(
        count * read_bytes * min(context / stride, span)
        for count, mixer in shape.mixers
        for span, stride, read_bytes, _, _ in spans(mixer, dtype, d.tensor_parallel)
    )
    ranks = d.tensor_parallel * d.pipeline_parallel * data_ranks(d)
    free = 0.9 * hardware.memory_bytes - weights_bytes(model, shape) / ranks - OTHER_BYTES
    # It ran, so one request fits; several attention copies hold a cache each.
    return max(free / max(request, 1.0), 1.0) * context * data_ranks(d)


def computes_beyond_peak(case: Case, model: ModelSpec, hardware: HardwareSpec) -> bool:
    """Whether the observed rate needs more than the device can compute: prompts were cached."""
    peaks, compute = hardware.peak_flops_per_s, model.quantization.compute
    dtype = compute.get("mlp", compute.get("experts", "bf16"))
    peak = peaks.get(dtype) or max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0), peaks["fp32"])
    return prompt_flops_share(case, model.active_params, peak) > SUSTAINED_SHARE


def holds_weights(case: Case, model: ModelSpec, shape: Shape, hardware: HardwareSpec) -> bool:
    """Whether the devices that a row states have room for the model at all."""
    d = case.deployment
    ranks = d.tensor_parallel * d.pipeline_parallel * data_ranks(d)
    return weights_bytes(model, shape) / ranks < 0.97 * hardware.memory_bytes


def stops_early(case: Case, model: ModelSpec, shape: Shape, hardware: HardwareSpec) -> bool:
    """Whether a dense model answered faster than its weights can be read once a token."""
    weights = weights_bytes(model, shape) if case.arch == "dense" else 0.0
    return ends_early(case, weights, hardware.bandwidth_bytes_per_s)
