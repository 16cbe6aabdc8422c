"""Seconds of one engine iteration, from a model, a device, a deployment and coefficients.

A step is the sum over operation groups of a roofline: bytes over bandwidth against FLOPs over
peak, joined by a p-norm, since kernels hide the smaller of the two only in part. Collectives,
kernel gaps and host work come on top. Building does all per-layer sums once; a step is then a
dozen additions whatever the number of layers.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.model import Mixer, ModelSpec, State
from ..schema.prediction import Part
from ..schema.quantization import DTYPE_BITS
from .weights import bits_of

_KV_BYTES = {"fp8": 1.0, "int8": 1.0, "int4": 0.5, "nvfp4": 0.5625, "q8_0": 1.0625, "q4_0": 0.5625,
             "float32": 4.0, "fp32": 4.0}  # fmt: skip
_HALF = {"bfloat16": ("bf16", "fp16", "fp32"), "float16": ("fp16", "bf16", "fp32"),
         "float32": ("fp32", "bf16", "fp16")}  # fmt: skip
# FLOPs of a chunked scan per token and state element: outer product, decay, query, and the
# chunk's own quadratic part (Mamba-2 paper, section 6, at chunk 256).
_SCAN_FLOPS = 8.0
_INDEX_HEADS = 64  # DeepSeek-V3.2 and GLM-5: index_n_heads
_PCIE4_BYTES_PER_S = 32e9  # x16, where the data sheet is silent
_VECTOR_INT8 = 4.0  # int8 over fp32 in vector units: llama.cpp leaves AMX tiles alone
_ROLES = ("attention", "mlp", "experts", "shared_experts", "lm_head")


@dataclass(frozen=True, slots=True)
class Path:
    """How the products of one role run: at which rate, reading how many bits a weight."""

    flops_per_s: float
    bytes_per_s: float
    bits: float
    note: str = ""


class Matrix(NamedTuple):
    """Linear layers of one role on one rank."""

    name: str
    read_s: float
    token_s: float


class Experts(NamedTuple):
    """Routed experts of all layers that have the same shape."""

    num: int
    per_token: int
    read_s: float  # one expert of every such layer
    token_s: float  # one token through one expert of every such layer


class Attention(NamedTuple):
    """Score and value products of all layers that see the same span."""

    span_tokens: float  # most tokens that a query sees
    stride: float  # tokens that one cached entry stands for
    read_s: float  # one cached token of one decoding request
    decode_s: float  # multiplying with it
    prefill_s: float  # one pair of query and key in a prompt


def overlap_s(a: float, b: float, power: float) -> float:
    """Time of two resources that hide each other in part: max for power → ∞, sum for 1."""
    if a < b:
        a, b = b, a
    if b <= 0.0:
        return a
    return a * math.pow(1.0 + math.pow(b / a, power), 1.0 / power)


def touched_experts(num: int, per_token: int, tokens: float) -> float:
    """Distinct experts that `tokens` tokens reach when routing is even: E(1-(1-k/E)^T)."""
    return num * (1.0 - (1.0 - per_token / num) ** tokens)


def kv_element_bytes(model: ModelSpec, deployment: Deployment) -> float:
    """Bytes of one cached element; `auto` is the checkpoint's own, else the model dtype."""
    name = deployment.kv_cache_dtype
    if name == "auto":
        name = model.kv_cache_dtype
    if name in ("auto", "bfloat16", "float16", "bf16", "fp16", "f16"):
        return 2.0 if name != "auto" else DTYPE_BITS[model.dtype] / 8
    return next((size for key, size in _KV_BYTES.items() if name.startswith(key)), 1.0)


def resolve_path(
    model: ModelSpec, role: str, hardware: HardwareSpec, coefficients: Coefficients
) -> Path:
    """What multiplies a role's weights on this device.

    A format that the device lacks is unpacked to 16 bits (vLLM: Marlin), and 16 bits that it
    lacks fall back to the other 16-bit format or to fp32 (V100 and T4 have no bf16).
    """
    bits = bits_of(model, role)
    asked = model.quantization.compute.get(role, "")
    peaks = hardware.peak_flops_per_s
    if asked == "int8" and coefficients.engine == "llama.cpp" and "amx_int8" in hardware.isa:
        peaks = {**peaks, "int8": min(peaks["int8"], _VECTOR_INT8 * peaks["fp32"])}
    half = next(d for d in (*_HALF[model.dtype], *peaks) if d in peaks)
    native = asked in peaks and asked not in ("", "bf16", "fp16", "fp32")
    dtype = asked if native else half
    share = coefficients.matrix_share * coefficients.dtype_share.get(dtype, 1.0)
    if not native and bits < 16:
        share *= coefficients.unpack_share
    packed = coefficients.packed_share if bits < 16 else 1.0
    note = ""
    if asked and not native and asked not in ("bf16", "fp16"):
        note = f"{hardware.name} does not multiply {asked}: {role} weights are unpacked to {half}"
    elif dtype != _HALF[model.dtype][0] and not native:
        note = f"{hardware.name} has no {_HALF[model.dtype][0]} peak: {half} is used"
    return Path(
        flops_per_s=peaks[dtype] * share,
        bytes_per_s=hardware.bandwidth_bytes_per_s * coefficients.memory_share * packed,
        bits=bits,
        note=note,
    )


@dataclass(frozen=True, slots=True)
class Shape:
    """What the step time needs of a model's layers, summed once for all deployments."""

    params: dict[str, int]  # by role
    experts: tuple[tuple[int, int, int, int], ...]  # (layers, experts, per token, params of one)
    mixers: tuple[tuple[int, Mixer], ...]
    num_blocks: float  # decoder layers; one that is only mixer or only feed-forward counts half
    moe_layers: int
    state_layers: int
    active_params: int  # of all layers, for one token


def shape_of(model: ModelSpec) -> Shape:
    """Sums over layers; identical layers are looked at once."""
    params = dict.fromkeys(_ROLES, 0)
    params["lm_head"] = model.lm_head_params or model.embedding_params
    experts: Counter[tuple[int, int, int]] = Counter()
    mixers: Counter[Mixer] = Counter()
    blocks, active = 0.0, 0
    for layer, count in Counter(model.layers).items():
        ffn = layer.ffn
        mixed = sum(m.params for m in layer.mixers)
        params["attention"] += count * mixed
        params["mlp"] += count * ffn.dense_params
        params["shared_experts"] += count * ffn.shared_params
        params["experts"] += count * ffn.num_experts * ffn.expert_params
        active += count * (mixed + ffn.active_params)
        blocks += count * 0.5 * (bool(layer.mixers) + bool(ffn.total_params))
        mixers.update({m: count * layer.mixers.count(m) for m in set(layer.mixers)})
        if ffn.num_experts:
            experts[ffn.num_experts, ffn.experts_per_token, ffn.expert_params] += count
    return Shape(
        params=params,
        experts=tuple((count, *shape) for shape, count in experts.items()),
        mixers=tuple((count, mixer) for mixer, count in mixers.items()),
        num_blocks=blocks,
        moe_layers=sum(experts.values()),
        state_layers=sum(count for mixer, count in mixers.items() if mixer.state),
        active_params=active,
    )


class StepModel:
    """The step time of one replica as a pure function of its batch."""

    __slots__ = (
        "_activation_s", "_attentions", "_comm_latency_s", "_comm_token_s", "_data_ranks",
        "_eager", "_expert_half", "_experts", "_fixed_s", "_half", "_launch_s", "_matrices", "_pipeline",
        "_power", "_request_s", "_scan_token_s", "_state_s", "_step_s", "_token_s", "_head",
        "notes",
    )  # fmt: skip

    def __init__(
        self,
        model: ModelSpec,
        hardware: HardwareSpec,
        deployment: Deployment,
        coefficients: Coefficients,
        shape: Shape | None = None,
    ) -> None:
        """`shape` is `shape_of(model)`: pass it when many deployments of a model are built."""
        shape = shape or shape_of(model)
        c, tp = coefficients, deployment.tensor_parallel
        self._pipeline, self._data_ranks = deployment.pipeline_parallel, data_ranks(deployment)
        self._half, self._expert_half = c.matrix_half_tokens, c.expert_half_tokens
        self._power = c.overlap_power
        self._eager = deployment.enforce_eager
        paths = {
            role: resolve_path(model, role, hardware, c) for role in _ROLES if shape.params[role]
        }
        self.notes = tuple(dict.fromkeys(path.note for path in paths.values() if path.note))
        linear = {
            role: Matrix(
                role,
                shape.params[role] * path.bits / 8 / tp / path.bytes_per_s,
                2.0 * shape.params[role] / tp / path.flops_per_s,
            )
            for role, path in paths.items()
            if role != "experts"
        }
        self._head = linear.pop("lm_head", Matrix("lm_head", 0.0, 0.0))
        self._matrices = tuple(linear.values())
        self._experts = _experts(shape, paths.get("experts"), deployment, c)
        self._attentions = _attentions(shape, model, hardware, deployment, c)
        self._state_s, self._scan_token_s = _states(shape, model, hardware, tp, c)
        self._activation_s = _activation_bytes(shape, model.hidden_size, tp) / (
            hardware.bandwidth_bytes_per_s * c.memory_share
        )
        self._comm_latency_s, self._comm_token_s = _collectives(
            shape, model.hidden_size, hardware, deployment, c
        )
        self._fixed_s = (
            shape.num_blocks * c.layer_s
            + shape.moe_layers * c.expert_layer_s
            + shape.state_layers * c.state_layer_s
        )
        self._launch_s = shape.num_blocks * c.launch_s
        self._token_s = self._activation_s + self._comm_token_s
        self._step_s, self._request_s = c.step_s, c.request_step_s

    def step_s(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> float:
        """Seconds of one iteration.

        `prefill_tokens`: prompt tokens in this step, of all requests. `prefill_context_tokens`:
        how many tokens each of them sees, on average; half its length for a whole prompt,
        (a+b)/2 for the chunk from a to b. `num_decode`: requests that generate one token.
        `decode_context_tokens`: their mean context.
        """
        # `_terms` summed without building it: a plan asks a million times.
        decodes = num_decode
        if self._pipeline > 1:
            decodes = max(min(1.0, decodes), decodes / self._pipeline)
        power, half, share = self._power, self._half, self._data_ranks
        all_tokens = prefill_tokens + decodes
        tokens, prompt, decodes = all_tokens / share, prefill_tokens / share, decodes / share
        rows = tokens + half
        device_s = self._comm_latency_s + self._fixed_s + tokens * self._token_s
        for _, read_s, token_s in self._matrices:
            device_s += overlap_s(read_s, token_s * rows, power)
        for num, per_token, read_s, token_s in self._experts:
            touched = touched_experts(num, per_token, all_tokens)
            products = all_tokens * per_token + touched * self._expert_half
            device_s += overlap_s(touched * read_s, products * token_s, power)
        head_rows = decodes + (1.0 if prompt > 0.0 else 0.0) + half
        device_s += overlap_s(self._head[1], self._head[2] * head_rows, power)
        memory_s, compute_s = self._attention_s(
            prompt, prefill_context_tokens, decodes, decode_context_tokens
        )
        device_s += overlap_s(memory_s, compute_s, power)
        if self._state_s:
            device_s += overlap_s(decodes * self._state_s, prompt * self._scan_token_s, power)
        if self._eager or prompt > 0.0:
            device_s = overlap_s(device_s, self._launch_s, 4.0)
        return device_s + self._step_s + self._request_s * num_decode

    def parts(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> tuple[Part, ...]:
        """The same step, term by term; the seconds add up to `step_s`."""
        terms = self._terms(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        )
        parts = [Part(name=n, seconds=overlap_s(m, c, self._power)) for n, m, c in terms]
        parts.append(Part(name="collectives", seconds=self._comm_s(prefill_tokens + num_decode)))
        parts.append(Part(name="kernel gaps", seconds=self._fixed_s))
        device_s = math.fsum(part.seconds for part in parts)
        if self._eager or prefill_tokens > 0:
            exposed_s = overlap_s(device_s, self._launch_s, 4.0) - device_s
            parts.append(Part(name="kernel launches", seconds=exposed_s))
        host_s = self._step_s + self._request_s * num_decode
        parts.append(Part(name="scheduler", seconds=host_s))
        return tuple(part for part in parts if part.seconds > 0)

    def causes(
        self,
        prefill_tokens: float,
        prefill_context_tokens: float,
        num_decode: float,
        decode_context_tokens: float,
    ) -> dict[str, float]:
        """Seconds by what would have to be faster: memory, compute, kv, comm, overhead."""
        seconds = dict.fromkeys(("memory", "compute", "kv", "comm", "overhead"), 0.0)
        for name, memory_s, compute_s in self._terms(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        ):
            cause = "compute" if compute_s > memory_s else "memory"
            if cause == "memory" and name in ("attention over context", "states"):
                cause = "kv"
            seconds[cause] += overlap_s(memory_s, compute_s, self._power)
        seconds["comm"] = self._comm_s(prefill_tokens + num_decode)
        whole_s = self.step_s(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        )
        seconds["overhead"] = max(0.0, whole_s - math.fsum(seconds.values()))
        return seconds

    def _terms(
        self, prompt: float, prompt_context: float, decodes: float, context: float
    ) -> list[tuple[str, float, float]]:
        """(name, seconds of reading, seconds of multiplying) of each operation group."""
        if self._pipeline > 1:
            # The batch is cut into one part for each stage; a token passes all stages.
            decodes = max(min(1.0, decodes), decodes / self._pipeline)
        all_tokens = prompt + decodes
        share = self._data_ranks
        tokens, prompt, decodes = all_tokens / share, prompt / share, decodes / share
        rows = tokens + self._half
        terms = [(m.name, m.read_s, m.token_s * rows) for m in self._matrices]
        for e in self._experts:
            touched = touched_experts(e.num, e.per_token, all_tokens)
            products = all_tokens * e.per_token + touched * self._expert_half
            terms.append(("experts", touched * e.read_s, products * e.token_s))
        head_rows = decodes + (1.0 if prompt > 0 else 0.0) + self._half
        terms.append(("lm_head", self._head.read_s, self._head.token_s * head_rows))
        memory_s, compute_s = self._attention_s(prompt, prompt_context, decodes, context)
        terms.append(("attention over context", memory_s, compute_s))
        if self._state_s:
            terms.append(("states", decodes * self._state_s, prompt * self._scan_token_s))
        terms.append(("activations", tokens * self._activation_s, 0.0))
        return terms

    def _attention_s(
        self, prompt: float, prompt_context: float, decodes: float, context: float
    ) -> tuple[float, float]:
        memory_s = compute_s = 0.0
        for span, stride, read_s, decode_s, prefill_s in self._attentions:
            seen = context / stride
            seen = decodes * (seen if seen < span else span)
            memory_s += seen * read_s
            compute_s += seen * decode_s
            if prompt:
                seen = prompt_context / stride
                compute_s += prompt * (seen if seen < span else span) * prefill_s
        return memory_s, compute_s

    def _comm_s(self, tokens: float) -> float:
        return self._comm_latency_s + tokens / self._data_ranks * self._comm_token_s


def data_ranks(deployment: Deployment) -> int:
    """Copies of the attention layers that share one set of experts (DP attention with EP)."""
    if not deployment.expert_parallel:
        return 1
    return max(1, deployment.num_devices // deployment.devices_per_replica)


def _experts(
    shape: Shape, path: Path | None, deployment: Deployment, coefficients: Coefficients
) -> tuple[Experts, ...]:
    if path is None:
        return ()
    ranks = deployment.tensor_parallel * data_ranks(deployment)
    read = path.bytes_per_s * coefficients.expert_memory_share
    flops = path.flops_per_s * coefficients.expert_share
    busiest = coefficients.expert_imbalance if deployment.expert_parallel and ranks > 1 else 1.0
    return tuple(
        Experts(
            num=num,
            per_token=per_token,
            read_s=count * params * path.bits / 8 / ranks * busiest / read,
            token_s=count * 2.0 * params / ranks * busiest / flops,
        )
        for count, num, per_token, params in shape.experts
    )


def _half_flops_per_s(model: ModelSpec, hardware: HardwareSpec) -> float:
    """Peak of the format that attention multiplies in."""
    peaks = hardware.peak_flops_per_s
    return peaks[next(d for d in (*_HALF[model.dtype], *peaks) if d in peaks)]


def _attentions(
    shape: Shape,
    model: ModelSpec,
    hardware: HardwareSpec,
    deployment: Deployment,
    coefficients: Coefficients,
) -> tuple[Attention, ...]:
    element = kv_element_bytes(model, deployment)
    read = hardware.bandwidth_bytes_per_s * coefficients.kv_share
    flops = _half_flops_per_s(model, hardware) * coefficients.attention_share
    sums: dict[tuple[float, float], list[float]] = {}
    for count, mixer in shape.mixers:
        for span, stride, read_bytes, decode, prefill in _spans(
            mixer, element, deployment.tensor_parallel
        ):
            total = sums.setdefault((span, stride), [0.0, 0.0, 0.0])
            total[0] += count * read_bytes / read
            total[1] += count * decode / flops
            total[2] += count * prefill / flops
    return tuple(
        Attention(span, stride, read_s, decode_s, prefill_s)
        for (span, stride), (read_s, decode_s, prefill_s) in sums.items()
    )


def _spans(
    mixer: Mixer, element: float, tp: int
) -> list[tuple[float, float, float, float, float]]:
    """(span, stride, bytes read, decode FLOPs, prefill FLOPs) per query and key on one rank."""
    value_dim = mixer.v_head_dim or mixer.head_dim
    if mixer.kind in ("full", "sliding", "chunked"):
        kv_heads = max(1.0, mixer.num_kv_heads / tp)
        pair = 2.0 * mixer.num_heads / tp * (mixer.head_dim + value_dim)
        span = float(mixer.window_tokens or math.inf) if mixer.kind != "full" else math.inf
        # A chunk is half full on average.
        span = span / 2 if mixer.kind == "chunked" else span
        return [(span, 1.0, kv_heads * (mixer.head_dim + value_dim) * element, pair, pair)]
    if not mixer.kind.startswith("mla"):
        return []
    return _latent_spans(mixer, element, tp, value_dim)


def _latent_spans(
    mixer: Mixer, element: float, tp: int, value_dim: int
) -> list[tuple[float, float, float, float, float]]:
    # Decoding multiplies heads with the shared latent; a prompt expands keys and values.
    width = mixer.latent_dim + mixer.rope_dim
    heads = mixer.num_heads / tp
    decode = 2.0 * heads * (width + mixer.latent_dim)
    prefill = 2.0 * heads * ((mixer.head_dim or width) + (value_dim or mixer.latent_dim))
    latent = width * element
    if mixer.kind == "mla":
        return [(math.inf, 1.0, latent, decode, prefill)]
    if mixer.kind == "mla-compressed":
        ratio = float(mixer.compress_ratio or 1)
        near = (float(mixer.window_tokens or math.inf), 1.0, latent, decode, decode)
        far = (float(mixer.topk_tokens or math.inf), ratio, latent, decode, decode)
        return [near, far] if ratio > 1 else [near]
    # One fp8 key and its scale a token; every index head looks at every token.
    index = 2.0 * _INDEX_HEADS * mixer.index_dim / tp
    return [
        (float(mixer.topk_tokens or math.inf), 1.0, latent, decode, decode),
        (math.inf, 1.0, mixer.index_dim + 4.0, index / 2, index / 2),
    ]


def _state_elements(state: State, tp: int) -> tuple[float, float]:
    conv = max(state.conv_kernel - 1, 0) * (state.conv_dim + state.groups * state.group_dim) / tp
    return conv, state.rows / tp * state.row_elements


def _states(
    shape: Shape, model: ModelSpec, hardware: HardwareSpec, tp: int, coefficients: Coefficients
) -> tuple[float, float]:
    """Seconds to read and write one request's states, and to scan one prompt token."""
    num_bytes = flops = 0.0
    native = DTYPE_BITS[model.dtype] / 8
    for count, mixer in shape.mixers:
        if mixer.state is None:
            continue
        conv, recurrent = _state_elements(mixer.state, tp)
        dtype = mixer.state.recurrent_dtype
        wide = native if dtype == "auto" else DTYPE_BITS.get(dtype, 32) / 8
        num_bytes += count * 2.0 * (conv * native + recurrent * wide)
        flops += count * _SCAN_FLOPS * recurrent
    return (
        num_bytes / (hardware.bandwidth_bytes_per_s * coefficients.state_share),
        flops / (_half_flops_per_s(model, hardware) * coefficients.scan_share),
    )


def _activation_bytes(shape: Shape, hidden: int, tp: int) -> float:
    """Bytes that one token's activations move: residual and norms in full, products cut by tp.

    A product of P weights over width h has P/h outputs, written once and read once.
    """
    return 2.0 * (8.0 * shape.num_blocks * hidden + 2.0 * shape.active_params / hidden / tp)


def _collectives(
    shape: Shape,
    hidden: int,
    hardware: HardwareSpec,
    deployment: Deployment,
    coefficients: Coefficients,
) -> tuple[float, float]:
    """Seconds per step whatever its size, and per token, of all collectives and hand-overs."""
    tp, pp, data = deployment.tensor_parallel, deployment.pipeline_parallel, data_ranks(deployment)
    link = hardware.link
    bandwidth = link.bandwidth_bytes_per_s if link else hardware.pcie_bandwidth_bytes_per_s
    bandwidth = (bandwidth or _PCIE4_BYTES_PER_S) * coefficients.collective_share
    # Without a link the exchange is staged through the host.
    latency_s = coefficients.collective_s * (1.0 if link else 3.0)
    row_bytes = 2.0 * hidden
    fixed_s = token_s = 0.0
    if tp > 1:
        reduces = 2.0 * shape.num_blocks
        fixed_s += reduces * latency_s * math.log2(tp)
        token_s += reduces * row_bytes * 2.0 * (tp - 1) / tp / bandwidth
    if data > 1:
        # Dispatch and combine: every rank sends its tokens to the ranks of their experts.
        fixed_s += 2.0 * shape.moe_layers * latency_s * math.log2(tp * data)
        token_s += 2.0 * shape.moe_layers * row_bytes * (data - 1) / bandwidth
    if pp > 1:
        fixed_s += (pp - 1) * latency_s
        token_s += (pp - 1) * row_bytes / bandwidth
    return fixed_s, token_s
