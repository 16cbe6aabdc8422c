"""KV capacity of engines without vLLM's block groups: SGLang, llama.cpp, TensorRT-LLM."""

from __future__ import annotations

from ..errors import AskError
from ..schema.engine import Deployment, EngineProfile
from ..schema.model import Mixer, ModelSpec, State
from ..schema.prediction import KvCapacity
from ..units import show_bytes
from .cache import kv_dtype_of, kv_heads_per_rank, mla_token_bytes, state_bytes, token_head_bytes

# llama.cpp: bytes of an element in each cache type (ggml block size and scale).
GGML_BYTES = {"f16": 2.0, "bf16": 2.0, "f32": 4.0, "q8_0": 34 / 32, "q5_1": 24 / 32,
              "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32}  # fmt: skip
LLAMA_CPP_PAD = 256  # n_ctx is rounded up to it (llama-context.cpp)
SWA_POOL_SHARE = 0.8  # SGLang --swa-full-tokens-ratio: window slots for each full slot
STATE_POOL_RATIO = 0.9  # SGLang --mamba-full-memory-ratio: state memory for each KV byte


def mixer_token_bytes(mixer: Mixer, model: ModelSpec, deployment: Deployment) -> float:
    """Bytes of one token in one layer on one rank, without page rounding."""
    kv_dtype = kv_dtype_of(model, deployment)
    if mixer.state or not mixer.caches:
        return 0.0
    if mixer.latent_dim:
        index = mixer.index_dim + 4 * -(-mixer.index_dim // 128)
        return mla_token_bytes(mixer, kv_dtype) + index
    heads = kv_heads_per_rank(mixer.num_kv_heads, deployment.tensor_parallel)
    return heads * token_head_bytes(kv_dtype, mixer.head_dim, mixer.v_head_dim or mixer.head_dim)


def _split(model: ModelSpec, deployment: Deployment) -> tuple[float, float, float]:
    """(bytes a token in full layers, in windowed layers, state bytes a request)."""
    full = window = state = 0.0
    for layer in model.layers:
        for mixer in layer.mixers:
            if mixer.state:
                state += state_bytes(mixer.state, model, deployment)
            elif mixer.window_tokens:
                window += mixer_token_bytes(mixer, model, deployment)
            else:
                full += mixer_token_bytes(mixer, model, deployment)
    return full, window, state


def pool_tokens(model: ModelSpec, deployment: Deployment, available_bytes: float) -> int:
    """SGLang's token slots in a pool of so many bytes; window layers have a pool of their own."""
    full, window, _ = _split(model, deployment)
    return int(available_bytes / (full + SWA_POOL_SHARE * window if full else window or 1))


def sglang_capacity(
    model: ModelSpec, deployment: Deployment, available_bytes: int, max_model_len: int
) -> tuple[KvCapacity, str]:
    """Slots of one token; hybrids give STATE_POOL_RATIO of the memory to request states."""
    full, window, state = _split(model, deployment)
    kv_bytes = float(available_bytes)
    requests = float("inf")
    if state:
        kv_bytes = available_bytes / (1 + STATE_POOL_RATIO)
        requests = max(0, int((available_bytes - kv_bytes) / state) - 1)
    tokens = max(0, pool_tokens(model, deployment, kv_bytes)) if full or window else 0
    by_tokens = tokens / max_model_len if full or window else requests
    return _answer(
        model, full + window, state, tokens, min(by_tokens, requests), 1, max_model_len,
        available_bytes,
    )  # fmt: skip


def trtllm_capacity(
    model: ModelSpec,
    deployment: Deployment,
    profile: EngineProfile,
    available_bytes: int,
    max_model_len: int,
) -> tuple[KvCapacity, str]:
    """Blocks of `tokens_per_block` over all layers; windows are allocated in full.

    The states of max_num_seqs requests are set apart first.
    """
    full, window, state = _split(model, deployment)
    block = deployment.block_size or profile.default_block_size
    per_token, seqs = full + window, deployment.max_num_seqs or 1
    requests = min(seqs, int(max(0, available_bytes) // state)) if state else seqs
    left = max(0.0, available_bytes - requests * state)
    blocks = int(left // (block * per_token)) if per_token else 0
    concurrency = blocks / -(-max_model_len // block) if per_token else float(requests)
    return _answer(
        model, per_token, state, blocks * block, concurrency, block, max_model_len,
        available_bytes,
    )  # fmt: skip


def llama_cpp_cells(context_tokens: int) -> int:
    """n_ctx as llama.cpp rounds it."""
    return LLAMA_CPP_PAD * -(-context_tokens // LLAMA_CPP_PAD)


def llama_cpp_state_bytes(model: ModelSpec) -> int:
    """One request's recurrent and convolution states, in f32."""
    states = [m.state for layer in model.layers for m in layer.mixers if m.state]
    return 4 * sum(_state_elements(state) for state in states)


def _state_elements(state: State) -> int:
    inputs = state.conv_dim + state.groups * state.group_dim
    return state.rows * state.row_elements + max(0, state.conv_kernel - 1) * inputs


def llama_cpp_bytes(
    model: ModelSpec, context_tokens: int, type_k: str = "f16", type_v: str = "f16",
    micro_batch_tokens: int = 512, slots: int = 1,
) -> int:  # fmt: skip
    """Bytes of llama.cpp's cache, allocated in full at start. Raises AskError on a bad type.

    Windowed layers hold slots x window + one micro-batch cells (llama-kv-cache-iswa.cpp).
    """
    for kind in (type_k, type_v):
        if kind not in GGML_BYTES:
            raise AskError(f"cache type {kind!r} is unknown; known: {', '.join(GGML_BYTES)}")
    cells = llama_cpp_cells(context_tokens)
    total = float(slots * llama_cpp_state_bytes(model))
    for layer in model.layers:
        for mixer in layer.mixers:
            if mixer.state or not mixer.caches:
                continue
            held = cells
            if mixer.window_tokens:
                held = min(cells, llama_cpp_cells(slots * mixer.window_tokens + micro_batch_tokens))
            if mixer.latent_dim:
                total += held * (mixer.latent_dim + mixer.rope_dim) * GGML_BYTES[type_k]
                continue
            v_dim = mixer.v_head_dim or mixer.head_dim
            total += held * mixer.num_kv_heads * (
                mixer.head_dim * GGML_BYTES[type_k] + v_dim * GGML_BYTES[type_v])  # fmt: skip
    return int(total)


def _answer(
    model: ModelSpec, per_token: float, state: float, tokens: int, concurrency: float,
    block: int, max_model_len: int, available_bytes: int,
) -> tuple[KvCapacity, str]:  # fmt: skip
    kv = KvCapacity(
        bytes_per_token=per_token,
        state_bytes_per_request=int(state),
        block_size_tokens=block,
        num_blocks=tokens // block,
        kv_tokens=tokens,
        max_concurrency=concurrency,
        bytes_per_block=int(block * per_token),
        bytes_per_request=int(per_token * max_model_len + state),
        max_model_len=max_model_len,
        longest_request_tokens=min(tokens, model.max_position_tokens) if per_token
        else model.max_position_tokens,
    )  # fmt: skip
    if available_bytes <= 0:
        return kv, "no memory is left for the KV cache after weights and activations"
    if concurrency < 1:
        return kv, (
            f"one request of {max_model_len:,} tokens needs {show_bytes(kv.bytes_per_request)} of "
            f"KV cache and {show_bytes(available_bytes)} are available"
        )
    return kv, ""
