"""What each layer registers with vLLM's KV cache manager: block sizes and page bytes.

Follows vLLM 0.32: v1/kv_cache_interface.py (specs), platforms/interface.py
(update_block_size_for_backend), model_executor/layers/mamba/mamba_utils.py (states).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ..errors import AskError
from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec
from ..schema.model import Layer, Mixer, ModelSpec, State

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp8": 1, "int8": 1}

KV_DTYPES = (
    "auto", "bfloat16", "float16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2",
    "int8_per_token_head", "fp8_per_token_head", "int4_per_token_head", "nvfp4",
)  # fmt: skip

SPARSE_FP8_BYTES = 656  # fp8_ds_mla: 512 fp8 latents, 16 B of scales, 64 bf16 rope values
COMPRESSED_BYTES = 584  # DeepSeek-V4: 448 fp8, 128 B rope, 8 B scales
COMPRESSED_ALIGN_BYTES = 576  # the decode kernel's row stride

# Models whose states are prefilled by FlashKDA, which exports a checkpoint like the kinds that
# the profile names (models/kimi_k3/nvidia/kda.py; Kimi Linear has another kernel).
FLASH_KDA = ("KimiK3ForConditionalGeneration",)


class Cache(Struct, frozen=True):
    """One layer's cache, on one rank."""

    kind: str  # full, mla, sliding, sliding-mla, chunked, state
    block_tokens: int
    content_bytes: int  # of one page, before padding
    page_bytes: int
    window_tokens: int = 0
    shape: tuple[int | str, ...] = ()  # what else has to be equal in one group
    state_blocks: int = 0  # blocks a request holds, for states

    @property
    def full_like(self) -> bool:
        """Needs a slot for every token."""
        return self.kind in ("full", "mla")


def kv_dtype_of(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's number format: the flag, else the checkpoint's scheme, else the model dtype."""
    asked = deployment.kv_cache_dtype
    if asked not in KV_DTYPES:
        raise AskError(f"kv_cache_dtype {asked!r} is unknown; known: {', '.join(KV_DTYPES)}")
    if asked == "auto" or model.fixed_kv_dtype:
        return model.kv_cache_dtype if model.kv_cache_dtype != "auto" else model.dtype
    return asked


def element_bytes(kv_dtype: str) -> float:
    """Bytes of one cached element, scales left out."""
    if kv_dtype in ("nvfp4", "int4_per_token_head"):
        return 0.5
    if kv_dtype.startswith(("fp8", "int8")):
        return 1.0
    return float(DTYPE_BYTES[kv_dtype])


def token_head_bytes(kv_dtype: str, k_dim: int, v_dim: int) -> int:
    """Bytes of one token's key and value in one head."""
    data = (k_dim + v_dim) * element_bytes(kv_dtype)
    if kv_dtype.endswith("_per_token_head"):
        data += 4 * ((k_dim > 0) + (v_dim > 0))  # one fp32 scale a side
    elif kv_dtype == "nvfp4":
        data += (k_dim + v_dim) / 16  # one fp8 scale per 16 elements
    return int(data)


def kv_heads_per_rank(num_kv_heads: int, tp: int) -> int:
    """KV heads are cut over the ranks, and replicated once there are more ranks than heads."""
    return max(1, num_kv_heads // tp)


def state_bytes(state: State, model: ModelSpec, deployment: Deployment) -> int:
    """Bytes of one request's state in one layer, on one rank."""
    tp = deployment.tensor_parallel
    conv_dtype = _or(deployment.mamba_cache_dtype, model.dtype)
    asked = _or(deployment.mamba_ssm_cache_dtype, state.recurrent_dtype)
    groups = state.groups if state.groups % tp == 0 else tp
    channels = (state.conv_dim + groups * state.group_dim) // tp
    # one more row for each draft token that may be rolled back
    conv_rows = state.conv_kernel - 1 + deployment.num_speculative_tokens
    conv = conv_rows * channels if state.conv_kernel else 0
    recurrent = state.rows // tp * state.row_elements
    return conv * DTYPE_BYTES[conv_dtype] + recurrent * DTYPE_BYTES[_or(asked, conv_dtype)]


def _or(dtype: str, fallback: str) -> str:
    return fallback if dtype == "auto" else dtype


def mla_token_bytes(mixer: Mixer, kv_dtype: str) -> int:
    """Bytes of one token's latent; replicated over ranks."""
    if mixer.kind == "mla-sparse" and kv_dtype.startswith("fp8"):
        return SPARSE_FP8_BYTES
    return token_head_bytes(kv_dtype, mixer.latent_dim + mixer.rope_dim, 0)


def attention_block(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec
) -> tuple[int, int]:
    """(block, alignment): what the attention kernel of this device takes, in tokens."""
    kinds = {m.kind for layer in model.layers for m in layer.mixers}
    kv_dtype = kv_dtype_of(model, deployment)
    capability = hardware.compute_capability.split(".")[0]
    if "mla-compressed" in kinds:
        natural, kernel = 256, 256
    elif "mla-sparse" in kinds:
        natural, kernel = 64, 64  # the indexer's kernel reads pages of 64
    elif "mla" in kinds:
        sizes = profile.mla_blocks.get(capability, (16, 16))
        natural = kernel = sizes[kv_dtype.startswith("fp8")]
    elif any(m.index_dim for layer in model.layers for m in layer.mixers):
        natural, kernel = 128, 128  # MiniMax-M3 attends to blocks of 128 (sparse_attention.py)
    elif capability == "9" and kv_dtype in ("fp8", "fp8_e4m3") and _has_head_dim(model, 512):
        natural, kernel = 64, 64  # FlashAttention 4 reads fp8 pages of 64 at head size 512
    else:
        natural, kernel = profile.default_block_size, 32 if profile.device == "cpu" else 16
    block = deployment.block_size or natural
    if block % kernel:
        raise AskError(f"block_size {block} is no multiple of the attention kernel's {kernel}")
    return block, kernel


def _has_head_dim(model: ModelSpec, head_dim: int) -> bool:
    return any(m.head_dim == head_dim for layer in model.layers for m in layer.mixers)


def primary_attention(model: ModelSpec) -> Mixer | None:
    """The attention that vLLM's model-wide getters describe: the first one with a cache."""
    for layer in model.layers:
        for mixer in layer.mixers:
            if mixer.state is None and mixer.caches:
                return mixer
    return None


def aligned_block(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec
) -> tuple[int, int]:
    """(block_tokens, state_page_bytes): attention pages grown until a state fits in one.

    platforms/interface.py:_align_hybrid_block_size. A state page of 0 means no states.
    """
    states = [m.state for layer in model.layers for m in layer.mixers if m.state]
    block, kernel = attention_block(model, deployment, profile, hardware)
    state_page = max((state_bytes(s, model, deployment) for s in states), default=0)
    attention = primary_attention(model)
    if not states or attention is None:
        return block, state_page
    kv_dtype = kv_dtype_of(model, deployment)
    per_token = _attention_token_bytes(attention, kv_dtype, deployment.tensor_parallel)
    step = max(kernel, block)
    if attention.latent_dim:
        step = max(step, 128)  # TRT-LLM's MLA decode kernel wants 128-token multiples
    aligned = step * -(-state_page // (step * per_token))
    aligned = kernel * -(-aligned // kernel)
    block = max(block, aligned)
    return block, block * per_token


def _attention_token_bytes(mixer: Mixer, kv_dtype: str, tp: int) -> int:
    if mixer.latent_dim:
        return mla_token_bytes(mixer, kv_dtype)
    per_head = token_head_bytes(kv_dtype, mixer.head_dim, mixer.v_head_dim or mixer.head_dim)
    return kv_heads_per_rank(mixer.num_kv_heads, tp) * per_head


def layer_caches(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec
) -> list[list[Cache]]:
    """The caches of every layer, in order; the draft head's layers last."""
    block, state_page = aligned_block(model, deployment, profile, hardware)
    layers = list(model.layers)
    if deployment.num_speculative_tokens:
        layers += model.draft_layers
    made: dict[int, list[Cache]] = {}  # layers repeat the same objects
    rows = []
    for layer in layers:
        key = id(layer)
        if key not in made:
            made[key] = _caches_of(layer, model, deployment, profile, block, state_page)
        rows.append(made[key])
    return rows


def _caches_of(
    layer: Layer,
    model: ModelSpec,
    deployment: Deployment,
    profile: EngineProfile,
    block: int,
    state_page: int,
) -> list[Cache]:
    kv_dtype = kv_dtype_of(model, deployment)
    tp = deployment.tensor_parallel
    caches: list[Cache] = []
    for mixer in layer.mixers:
        if not mixer.caches:
            continue
        if mixer.state:
            caches.append(_state_cache(mixer, model, deployment, profile, state_page))
        elif mixer.kind == "mla-compressed":
            caches += _compressed_caches(mixer, block)
        elif mixer.window_tokens and not mixer.num_heads:
            caches.append(_tail_cache(mixer, model, tp))
        elif mixer.latent_dim:
            caches += _mla_caches(mixer, kv_dtype, block)
        else:
            caches.append(_attention_cache(mixer, kv_dtype, tp, block))
            if mixer.index_dim:  # one key a token on every rank, in the model's dtype
                page = block * mixer.index_dim * DTYPE_BYTES[model.dtype]
                caches.append(Cache("mla", block, page, page, shape=("index",)))
    return caches


def _attention_cache(mixer: Mixer, kv_dtype: str, tp: int, block: int) -> Cache:
    page = block * _attention_token_bytes(mixer, kv_dtype, tp)
    heads = kv_heads_per_rank(mixer.num_kv_heads, tp)
    return Cache(
        kind=mixer.kind,
        block_tokens=block,
        content_bytes=page,
        page_bytes=page,
        window_tokens=mixer.window_tokens,
        shape=(heads, mixer.head_dim, mixer.v_head_dim),
    )


def _tail_cache(mixer: Mixer, model: ModelSpec, tp: int) -> Cache:
    """Inputs of convolutions, in blocks as long as their kernel and in the model's dtype."""
    heads = kv_heads_per_rank(mixer.num_kv_heads, tp)
    window = mixer.window_tokens
    page = window * heads * mixer.head_dim * DTYPE_BYTES[model.dtype]
    shape = (heads, mixer.head_dim, "tail")
    return Cache("sliding", window, page, page, window_tokens=window, shape=shape)


def _mla_caches(mixer: Mixer, kv_dtype: str, block: int) -> list[Cache]:
    page = block * mla_token_bytes(mixer, kv_dtype)
    caches = [Cache("mla", block, page, page, shape=(1, mixer.latent_dim + mixer.rope_dim))]
    if mixer.index_dim:
        # fp8 key plus one fp32 scale per 128 elements
        index_page = block * (mixer.index_dim + 4 * -(-mixer.index_dim // 128))
        caches.insert(0, Cache("mla", block, index_page, index_page, shape=("index",)))
    return caches


def _compressed_caches(mixer: Mixer, block: int) -> list[Cache]:
    """DeepSeek-V4: latents of a window, latents of every `compress_ratio` tokens, an indexer
    beside the finer ones, and the fp32 sums that are still being compressed."""
    ratio = mixer.compress_ratio
    caches = [_packed("sliding-mla", 64, 64 * COMPRESSED_BYTES, mixer.window_tokens, "window")]
    if ratio <= 1:
        return caches
    entries = block // ratio
    caches.append(_packed("mla", block, entries * COMPRESSED_BYTES, 0, f"c{ratio}"))
    overlap = 2 if ratio == 4 else 1
    state_block = {4: 4, 128: 8}[ratio]
    width = 2 * overlap * mixer.head_dim * 4
    if mixer.index_dim:
        caches.append(_packed("mla", block, entries * (mixer.index_dim + 4), 0, "index"))
        index_width = 2 * overlap * mixer.index_dim * 4
        caches.append(
            _packed(
                "sliding-mla", state_block, state_block * index_width, overlap * ratio, "istate"
            )
        )
    caches.append(
        _packed("sliding-mla", state_block, state_block * width, overlap * ratio, "state")
    )
    return caches


def _packed(kind: str, block: int, content: int, window: int, name: str) -> Cache:
    page = COMPRESSED_ALIGN_BYTES * -(-content // COMPRESSED_ALIGN_BYTES)
    return Cache(kind, block, content, page, window_tokens=window, shape=(name,))


def _state_cache(
    mixer: Mixer, model: ModelSpec, deployment: Deployment, profile: EngineProfile, page: int
) -> Cache:
    assert mixer.state is not None
    content = state_bytes(mixer.state, model, deployment)
    blocks = 1 + deployment.num_speculative_tokens
    if deployment.enable_prefix_caching:
        # "align" mode: the running state, the last block boundary's, and for kernels that
        # export it mid-prefill one checkpoint more
        kinds = profile.state_checkpoint_kinds
        exports = mixer.kind in kinds or (bool(kinds) and model.architecture in FLASH_KDA)
        blocks += 1 + exports
    return Cache(
        kind="state",
        block_tokens=0,
        content_bytes=content,
        page_bytes=max(page, content),
        shape=(mixer.kind, content),
        state_blocks=blocks,
    )


def unify_pages(caches: list[Cache]) -> list[Cache]:
    """One page size for all layers: smaller blocks are scaled, else pages are padded.

    v1/core/kv_cache_utils.py:unify_kv_cache_spec_page_size. Raises AskError where vLLM does.
    """
    largest = max(c.page_bytes for c in caches)
    return [c if c.page_bytes == largest else _grow(c, largest) for c in caches]


def _grow(cache: Cache, page: int) -> Cache:
    if cache.kind == "state":
        return replace(cache, page_bytes=page)
    if page % cache.page_bytes == 0:
        ratio = page // cache.page_bytes
        return replace(
            cache,
            block_tokens=cache.block_tokens * ratio,
            content_bytes=cache.content_bytes * ratio,
            page_bytes=page,
        )
    if cache.kind in ("mla", "sliding-mla"):
        raise AskError(
            "latent-attention pages cannot be padded to the largest page of this model; "
            "the engine refuses this combination of layers"
        )
    return replace(cache, page_bytes=page)
