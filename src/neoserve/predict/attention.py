"""Attention over a context and recurrent states: bytes and FLOPs of a query on one rank."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.model import Mixer, ModelSpec, State
from ..schema.quantization import DTYPE_BITS
from .cache import element_bytes, kv_dtype_of, kv_heads_per_rank, mla_token_bytes, token_head_bytes
from .formats import cores_share, half_flops_per_s
from .shape import Shape

# FLOPs of a chunked scan per token and state element: outer product, decay, query, and the
# chunk's own quadratic part (Mamba-2 paper, section 6, at chunk 256).
_SCAN_FLOPS = 8.0
_INDEX_HEADS = 64  # DeepSeek-V3.2 and GLM-5: index_n_heads


class Attention(NamedTuple):
    """Score and value products of all layers that see the same span."""

    span_tokens: float  # most tokens that a query sees
    stride: float  # tokens that one cached entry stands for
    read_s: float  # one cached token of one decoding request
    decode_s: float  # multiplying with it
    prefill_s: float  # one pair of query and key in a prompt


def attentions(
    shape: Shape,
    model: ModelSpec,
    hardware: HardwareSpec,
    deployment: Deployment,
    coefficients: Coefficients,
) -> tuple[Attention, ...]:
    kv_dtype = kv_dtype_of(model, deployment)
    read = hardware.bandwidth_bytes_per_s * coefficients.kv_share
    if is_packed(kv_dtype):
        read *= coefficients.kv_packed_share
    flops = half_flops_per_s(model, hardware) * coefficients.attention_share
    flops *= cores_share(hardware, coefficients)
    sums: dict[tuple[float, float], list[float]] = {}
    for count, mixer in shape.mixers:
        for span, stride, read_bytes, decode, prefill in spans(
            mixer, kv_dtype, deployment.tensor_parallel
        ):
            total = sums.setdefault((span, stride), [0.0, 0.0, 0.0])
            total[0] += count * read_bytes / read
            total[1] += count * decode / flops
            total[2] += count * prefill / flops
    return tuple(
        Attention(span, stride, read_s, decode_s, prefill_s)
        for (span, stride), (read_s, decode_s, prefill_s) in sums.items()
    )


def is_packed(kv_dtype: str) -> bool:
    """Whether keys and values are stored in fewer than 16 bits."""
    return element_bytes(kv_dtype) < 2.0


def spans(mixer: Mixer, kv_dtype: str, tp: int) -> list[tuple[float, float, float, float, float]]:
    """(span, stride, bytes read, decode FLOPs, prefill FLOPs) per query and key on one rank."""
    value_dim = mixer.v_head_dim or mixer.head_dim
    if mixer.kind in ("full", "sliding", "chunked"):
        read = kv_heads_per_rank(mixer.num_kv_heads, tp) * token_head_bytes(
            kv_dtype, mixer.head_dim, value_dim
        )
        pair = 2.0 * mixer.num_heads / tp * (mixer.head_dim + value_dim)
        span = float(mixer.window_tokens or math.inf) if mixer.kind != "full" else math.inf
        # A chunk is half full on average.
        span = span / 2 if mixer.kind == "chunked" else span
        return [(span, 1.0, float(read), pair, pair)]
    if not mixer.kind.startswith("mla"):
        return []
    return _latent_spans(mixer, kv_dtype, tp, value_dim)


def _latent_spans(
    mixer: Mixer, kv_dtype: str, tp: int, value_dim: int
) -> list[tuple[float, float, float, float, float]]:
    # Decoding multiplies heads with the shared latent; a prompt expands keys and values.
    width = mixer.latent_dim + mixer.rope_dim
    heads = mixer.num_heads / tp
    decode = 2.0 * heads * (width + mixer.latent_dim)
    prefill = 2.0 * heads * ((mixer.head_dim or width) + (value_dim or mixer.latent_dim))
    latent = float(mla_token_bytes(mixer, kv_dtype))
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


def states(
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
        flops / (half_flops_per_s(model, hardware) * coefficients.scan_share),
    )
