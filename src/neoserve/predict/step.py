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

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.model import Ffn, Layer, Mixer, ModelSpec, State
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


@dataclass(frozen=True, slots=True)
class Path:
    """How the products of one role run: at which rate, reading how many bits a weight."""

    flops_per_s: float
    bytes_per_s: float
    bits: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Linear layers of one role on one rank."""

    name: str
    read_s: float
    token_s: float


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of all layers that have the same shape."""

    num: int
    per_token: int
    read_s: float  # one expert of every such layer
    token_s: float  # one token through one expert of every such layer


@dataclass(frozen=True, slots=True)
class Attention:
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
    return float(a * (1.0 + (b / a) ** power) ** (1.0 / power))


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


class StepModel:
    """The step time of one replica as a pure function of its batch."""

    __slots__ = (
        "_activation_s", "_attentions", "_comm_latency_s", "_comm_token_s", "_data_ranks",
         "_eager", "_experts", "_fixed_s", "_half", "_head", "_launch_s",
        "_matrices", "_pipeline", "_power", "_request_s", "_scan_token_s", "_state_s", "_step_s",
        "notes",
    )  # fmt: skip

    def __init__(
        self,
        model: ModelSpec,
        hardware: HardwareSpec,
        deployment: Deployment,
        coefficients: Coefficients,
    ) -> None:
        tp, pp = deployment.tensor_parallel, deployment.pipeline_parallel
        self._pipeline = pp
        self._data_ranks = data_ranks(deployment)
        self._half = coefficients.matrix_half_tokens
        self._power = coefficients.overlap_power
        self._eager = deployment.enforce_eager
        paths = {
            role: resolve_path(model, role, hardware, coefficients)
            for role in ("attention", "mlp", "experts", "shared_experts", "lm_head")
        }
        used = {role: path for role, path in paths.items() if _params(model, role)}
        self.notes = tuple(dict.fromkeys(path.note for path in used.values() if path.note))
        self._matrices = tuple(
            _matrix(role, _params(model, role), path, tp)
            for role, path in used.items()
            if role not in ("experts", "lm_head")
        )
        self._head = _matrix("lm_head", _params(model, "lm_head"), paths["lm_head"], tp)
        ranks = tp * self._data_ranks
        busiest = coefficients.expert_imbalance if deployment.expert_parallel else 1.0
        self._experts = _experts(model, paths["experts"], ranks, busiest if ranks > 1 else 1.0)
        self._attentions = _attentions(model, hardware, deployment, coefficients)
        self._state_s, self._scan_token_s = _states(model, hardware, tp, coefficients)
        self._activation_s = _activation_bytes(model, tp) / (
            hardware.bandwidth_bytes_per_s * coefficients.memory_share
        )
        self._comm_latency_s, self._comm_token_s = _collectives(
            model, hardware, deployment, coefficients
        )
        blocks = num_blocks(model)
        moe_layers = sum(1 for layer in model.layers if layer.ffn.num_experts)
        self._fixed_s = blocks * coefficients.layer_s + moe_layers * coefficients.expert_layer_s
        self._launch_s = blocks * coefficients.launch_s
        self._step_s = coefficients.step_s
        self._request_s = coefficients.request_step_s

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
        power = self._power
        device_s = 0.0
        for _, memory_s, compute_s in self._terms(
            prefill_tokens, prefill_context_tokens, num_decode, decode_context_tokens
        ):
            device_s += overlap_s(memory_s, compute_s, power)
        device_s += self._comm_s(prefill_tokens + num_decode) + self._fixed_s
        if self._eager or prefill_tokens > 0:
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
            products = all_tokens * e.per_token + touched * self._half
            terms.append(("experts", touched * e.read_s, products * e.token_s))
        head_rows = decodes + (1.0 if prompt > 0 else 0.0) + self._half
        terms.append(("lm_head", self._head.read_s, self._head.token_s * head_rows))
        memory_s = compute_s = 0.0
        for a in self._attentions:
            seen = decodes * min(context / a.stride, a.span_tokens)
            memory_s += seen * a.read_s
            compute_s += seen * a.decode_s
            if prompt:
                compute_s += prompt * min(prompt_context / a.stride, a.span_tokens) * a.prefill_s
        terms.append(("attention over context", memory_s, compute_s))
        if self._state_s:
            terms.append(("states", decodes * self._state_s, prompt * self._scan_token_s))
        terms.append(("activations", tokens * self._activation_s, 0.0))
        return terms

    def _comm_s(self, tokens: float) -> float:
        return self._comm_latency_s + tokens / self._data_ranks * self._comm_token_s


def data_ranks(deployment: Deployment) -> int:
    """Copies of the attention layers that share one set of experts (DP attention with EP)."""
    if not deployment.expert_parallel:
        return 1
    return max(1, deployment.num_devices // deployment.devices_per_replica)


def num_blocks(model: ModelSpec) -> float:
    """Decoder layers; a layer that is only a mixer or only a feed-forward counts half."""
    return sum(
        0.5 * bool(layer.mixers) + 0.5 * bool(layer.ffn.total_params) for layer in model.layers
    )


def _params(model: ModelSpec, role: str) -> int:
    if role == "lm_head":
        return model.lm_head_params or model.embedding_params
    if role == "attention":
        return sum(m.params for layer in model.layers for m in layer.mixers)
    field = {"mlp": "dense_params", "shared_experts": "shared_params"}.get(role)
    if field is None:
        return sum(layer.ffn.num_experts * layer.ffn.expert_params for layer in model.layers)
    return sum(int(getattr(layer.ffn, field)) for layer in model.layers)


def _matrix(name: str, params: int, path: Path, ranks: int) -> Matrix:
    return Matrix(
        name=name,
        read_s=params * path.bits / 8 / ranks / path.bytes_per_s,
        token_s=2.0 * params / ranks / path.flops_per_s,
    )


def _experts(model: ModelSpec, path: Path, ranks: int, busiest: float) -> tuple[Experts, ...]:
    shapes = Counter(
        (f.num_experts, f.experts_per_token, f.expert_params)
        for f in (layer.ffn for layer in model.layers)
        if f.num_experts
    )
    return tuple(
        Experts(
            num=num,
            per_token=per_token,
            read_s=count * params * path.bits / 8 / ranks * busiest / path.bytes_per_s,
            token_s=count * 2.0 * params / ranks * busiest / path.flops_per_s,
        )
        for (num, per_token, params), count in shapes.items()
    )


def _attentions(
    model: ModelSpec, hardware: HardwareSpec, deployment: Deployment, coefficients: Coefficients
) -> tuple[Attention, ...]:
    element = kv_element_bytes(model, deployment)
    peaks = hardware.peak_flops_per_s
    half = next(d for d in (*_HALF[model.dtype], *peaks) if d in peaks)
    read = hardware.bandwidth_bytes_per_s * coefficients.kv_share
    flops = peaks[half] * coefficients.attention_share
    sums: dict[tuple[float, float], list[float]] = {}
    for mixer, count in Counter(m for layer in model.layers for m in layer.mixers).items():
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
    model: ModelSpec, hardware: HardwareSpec, tp: int, coefficients: Coefficients
) -> tuple[float, float]:
    """Seconds to read and write one request's states, and to scan one prompt token."""
    num_bytes = flops = 0.0
    native = DTYPE_BITS[model.dtype] / 8
    for mixer in (m for layer in model.layers for m in layer.mixers if m.state):
        assert mixer.state is not None
        conv, recurrent = _state_elements(mixer.state, tp)
        dtype = mixer.state.recurrent_dtype
        wide = native if dtype == "auto" else DTYPE_BITS.get(dtype, 32) / 8
        num_bytes += 2.0 * (conv * native + recurrent * wide)
        flops += _SCAN_FLOPS * recurrent
    peaks = hardware.peak_flops_per_s
    half = next(d for d in (*_HALF[model.dtype], *peaks) if d in peaks)
    return (
        num_bytes / (hardware.bandwidth_bytes_per_s * coefficients.kv_share),
        flops / (peaks[half] * coefficients.attention_share),
    )


def _activation_bytes(model: ModelSpec, tp: int) -> float:
    """Bytes that one token's activations move: residual and norms in full, products cut by tp.

    A product of P weights over width h has P/h outputs, written once and read once.
    """
    hidden = model.hidden_size
    total = 0.0
    for layer in model.layers:
        active = layer.ffn.active_params + sum(m.params for m in layer.mixers)
        total += _residual_passes(layer) * hidden + 2.0 * active / hidden / tp
    return 2.0 * total


def _residual_passes(layer: Layer) -> float:
    return 4.0 * (bool(layer.mixers) + bool(_has_ffn(layer.ffn)))


def _has_ffn(ffn: Ffn) -> bool:
    return ffn.total_params > 0


def _collectives(
    model: ModelSpec, hardware: HardwareSpec, deployment: Deployment, coefficients: Coefficients
) -> tuple[float, float]:
    """Seconds per step whatever its size, and per token, of all collectives and hand-overs."""
    tp, pp, data = deployment.tensor_parallel, deployment.pipeline_parallel, data_ranks(deployment)
    link = hardware.link
    bandwidth = link.bandwidth_bytes_per_s if link else hardware.pcie_bandwidth_bytes_per_s
    bandwidth = (bandwidth or 16e9) * coefficients.collective_share
    latency_s = coefficients.collective_s * (1.0 if link else 3.0)  # host-staged without a link
    row_bytes = 2.0 * model.hidden_size
    reduces = sum(bool(layer.mixers) + _has_ffn(layer.ffn) for layer in model.layers)
    moe_layers = sum(1 for layer in model.layers if layer.ffn.num_experts)
    fixed_s = token_s = 0.0
    if tp > 1:
        fixed_s += reduces * latency_s * math.log2(tp)
        token_s += reduces * row_bytes * 2.0 * (tp - 1) / tp / bandwidth
    if data > 1:
        # Dispatch and combine: every rank sends its tokens to the ranks of their experts.
        fixed_s += 2.0 * moe_layers * latency_s * math.log2(tp * data)
        token_s += 2.0 * moe_layers * row_bytes * (data - 1) / bandwidth
    if pp > 1:
        fixed_s += (pp - 1) * latency_s
        token_s += (pp - 1) * row_bytes / bandwidth
    return fixed_s, token_s
