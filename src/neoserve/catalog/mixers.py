"""Token mixers from config fields: what they cache and how many weights they have."""

from __future__ import annotations

from ..errors import AskError
from ..schema.model import Mixer, State
from .families import Family
from .fields import Config
from .layer_kinds import block_symbols


def layer_mixers(config: Config, family: Family, kind: str, layer: int) -> tuple[Mixer, ...]:
    """The mixers of one layer of a given kind, in the order in which they are registered."""
    if kind == "ffn":
        return ()
    if kind == "linear":
        return (_linear(config, family), *_ngram_tail(config, layer))
    if kind == "both":
        pair = (_attention(config, family, "full", layer), _linear(config, family))
        return pair if not family.mixer_first else pair[::-1]
    mixer = _attention(config, family, kind, layer)
    if family.looped:
        window = config.positive("loop_window_size")
        again = mixer.replace(kind="sliding", window_tokens=window, params=0, other_params=0)
        return (mixer, again)
    if family.convolved:
        return (mixer, _convolution_tail(config, mixer))
    if family.paired:
        return (mixer, mixer)
    # Ouro: the same weights run several times, each time with a cache of their own
    passes = config.positive("total_ut_steps", 1)
    return (mixer,) + (mixer.replace(params=0, other_params=0),) * (passes - 1)


def _ngram_tail(config: Config, layer: int) -> tuple[Mixer, ...]:
    """Qwen4: the n-gram embeddings of some layers pass a dilated convolution, held whole on every
    rank. vLLM sizes pages for its state even where no layer has one."""
    kernel = config.number("ple_conv_kernel_size", 0)
    owners = config.get("ple_layer_ids") or []  # counted from one
    if not kernel or layer + 1 not in (owners or [1]):
        return ()
    hidden = config.positive("hidden_size")
    width = hidden * config.positive("hc_count")
    dilated = (kernel - 1) * config.positive("ngram_size") + 1
    mixer = Mixer(
        kind="short-conv",
        # one group, which grows with the ranks: none of it is cut
        state=State(conv_kernel=dilated, groups=1, group_dim=width),
        caches=bool(owners),
    )
    if not owners:
        return (mixer,)
    # the tables themselves stay in host memory (vLLM, config/engram.py: cpu_offload)
    projections = config.positive("ple_embed_dim") * (width + hidden)
    return (mixer.replace(params=projections, other_params=width * (kernel + 3)),)


def _convolution_tail(config: Config, attention: Mixer) -> Mixer:
    """Inkling: the last inputs of four short convolutions (keys, values, both halves' outputs),
    kept like a window that no query reads (models/inkling/nvidia/sconv_swa_attn.py)."""
    kernel, hidden = config.positive("sconv_kernel_size", 4), config.positive("hidden_size")
    heads = attention.num_kv_heads
    width = 2 * attention.head_dim + 2 * (hidden // heads)
    return Mixer(
        kind="sliding",
        num_kv_heads=heads,
        head_dim=1 << (width - 1).bit_length(),
        window_tokens=kernel,
        other_params=kernel * heads * width,
    )


def _attention(config: Config, family: Family, kind: str, layer: int) -> Mixer:
    if config.get("compress_ratios") is not None:
        return _compressed(config, layer)
    if config.get("kv_lora_rank"):
        mixer = _latent(config, family, layer)
        return _expanded(mixer) if family.expanded_latent else mixer
    return _grouped(config, family, kind, layer)


def head_dim_of(config: Config) -> int:
    """Head width: stated, or hidden / heads."""
    for key in ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head"):
        if config.get(key) is not None:
            return config.positive(key)
    hidden, heads = config.positive("hidden_size"), config.positive("num_heads")
    if hidden % heads:
        raise AskError(
            f"{config.name}: hidden_size {hidden} is not divisible by {heads} heads and "
            "config.json gives no head_dim"
        )
    return hidden // heads


def kv_heads_of(config: Config, layer: int = 0) -> int:
    """KV heads of one layer; the number of heads where nothing is said."""
    if config.get("multi_query") and not config.get("new_decoder_architecture"):
        return 1
    if config.get("multi_query_attention") is False:
        return config.positive("num_heads")
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and layer < len(blocks):
        group = (blocks[layer].get("attention") or {}).get("n_heads_in_group")
        if group:
            return config.positive("num_heads") // int(group)
    value = config.get("num_kv_heads")
    if isinstance(value, list):
        return int(value[layer])
    return config.positive("num_kv_heads", config.positive("num_heads"))


def _grouped(config: Config, family: Family, kind: str, layer: int) -> Mixer:
    hidden = config.get("attention_hidden_size") or config.positive("hidden_size")
    heads, kv_heads, head_dim, v_dim = _geometry(config, kind, layer)
    if heads % kv_heads:
        raise AskError(f"{config.name}: {heads} query heads cannot share {kv_heads} KV heads")
    if head_dim * heads > 1 << 24:
        raise AskError(f"{config.name}: {heads} heads of {head_dim} are beyond any known model")
    q_width, k_width, v_width = heads * head_dim, kv_heads * head_dim, kv_heads * v_dim
    model_width = config.positive("hidden_size")
    value_matrix = 0 if _keys_are_values(config, kind) else v_width
    q_rank = int(config.get("share_q_dim") or 0)  # Step 3
    query = q_rank * (hidden + q_width) if q_rank else hidden * q_width
    params = query * (2 if family.query_gate else 1) + hidden * (k_width + value_matrix)
    params += heads * v_dim * model_width
    shared = reads_earlier_cache(config, layer)
    if shared:
        params -= hidden * (k_width + value_matrix)
    norms = {"": 0, "head": 2 * head_dim, "full": q_width + k_width}[family.qk_norm]
    if family.qkv_bias or family.all_bias or config.get("attention_bias"):
        norms += q_width + k_width + v_width + (model_width if family.all_bias else 0)
    index_dim, index_heads, topk = _block_indexer(config, layer)
    params += hidden * index_dim * (index_heads + 1)
    return Mixer(
        kind=kind,  # type: ignore[arg-type]
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        v_head_dim=v_dim if v_dim != head_dim else 0,
        window_tokens=_window(config, kind, layer),
        index_dim=index_dim,
        topk_tokens=topk,
        caches=not shared,
        params=params,
        other_params=norms,
    )


def _block_indexer(config: Config, layer: int) -> tuple[int, int, int]:
    """(key width, heads, tokens chosen) of a layer that picks blocks of tokens (MiniMax-M3)."""
    sparse = config.get("sparse_attention_config") or {}
    layers = sparse.get("sparse_attention_freq") or []
    if layer >= len(layers) or not layers[layer]:
        return 0, 0, 0
    chosen = int(sparse["sparse_topk_blocks"]) * int(sparse["sparse_block_size"])
    return int(sparse["sparse_index_dim"]), int(sparse["sparse_num_index_heads"]), chosen


def _geometry(config: Config, kind: str, layer: int) -> tuple[int, int, int, int]:
    """(heads, kv heads, key width, value width): some models give windowed layers their own."""
    heads = config.per_layer("num_attention_heads_per_layer", layer)
    heads = heads or config.positive("num_heads")
    kv_heads = kv_heads_of(config, layer)
    head_dim = head_dim_of(config)
    v_dim = int(config.get("v_head_dim") or head_dim)
    if kind == "full" and config.get("global_head_dim"):
        head_dim = v_dim = config.positive("global_head_dim")
        kv_heads = int(config.get("num_global_key_value_heads") or kv_heads)
    other = config.get("attention_other_setting")  # Step 3.5
    if kind == "sliding" and other and other["attention_type"] == "sliding_attention":
        heads, kv_heads = int(other["num_attention_heads"]), int(other["num_attention_groups"])
        head_dim = v_dim = int(other["head_dim"])
    if kind == "sliding" and config.get("swa_num_attention_heads"):  # MiMo-V2
        heads = config.positive("swa_num_attention_heads")
        kv_heads = config.positive("swa_num_key_value_heads", kv_heads)
        head_dim = config.positive("swa_head_dim", head_dim)
        v_dim = config.positive("swa_v_head_dim", v_dim)
    return heads, kv_heads, head_dim, v_dim


def _keys_are_values(config: Config, kind: str) -> bool:
    """Gemma 4: global layers reuse the key projection; the cache still stores both."""
    return kind == "full" and bool(config.get("attention_k_eq_v"))


def reads_earlier_cache(config: Config, layer: int) -> bool:
    """Whether a layer attends to the cache of an earlier one (Gemma 3n and 4)."""
    shared = int(config.get("num_kv_shared_layers") or 0)
    return shared > 0 and layer >= config.positive("num_layers") - shared


def _window(config: Config, kind: str, layer: int) -> int:
    if kind == "sliding":
        windows = config.get("sliding_window")
        if isinstance(windows, list):
            return int(windows[layer % len(windows)])
        return config.positive("sliding_window")
    if kind == "chunked":
        return config.positive("attention_chunk_size")
    return 0


def _latent(config: Config, family: Family, layer: int) -> Mixer:
    hidden, heads = config.positive("hidden_size"), config.positive("num_heads")
    latent, rope = config.positive("kv_lora_rank"), config.number("qk_rope_head_dim", 0)
    nope, v_dim = config.positive("qk_nope_head_dim"), config.positive("v_head_dim")
    q_rank = config.get("q_lora_rank")
    query = heads * (nope + rope)
    params = hidden * q_rank + q_rank * query if q_rank else hidden * query
    params += hidden * (latent + rope) + latent * heads * (nope + v_dim) + heads * v_dim * hidden
    params += hidden * heads * _latent_gate(config, v_dim)
    index_dim = config.number("index_head_dim", 0)
    if family.sparse_when_typed and not _typed_sparse(config, layer):
        index_dim = 0
    has_index = index_dim > 0 and _has_indexer(config, layer)
    if has_index:
        index_heads = config.positive("index_n_heads")
        params += q_rank * index_heads * index_dim + hidden * (index_dim + index_heads)
    return Mixer(
        kind="mla-sparse" if index_dim else "mla",
        num_heads=heads,
        num_kv_heads=1,
        head_dim=nope + rope,
        v_head_dim=v_dim,
        latent_dim=latent,
        rope_dim=rope,
        index_dim=index_dim if has_index else 0,
        topk_tokens=config.number("index_topk", 0) if index_dim else 0,
        params=params,
        other_params=latent + int(q_rank or 0) + 2 * index_dim * has_index,
    )


def _expanded(mixer: Mixer) -> Mixer:
    """The same projections, but every head's key and value are cached, values padded to keys."""
    return mixer.replace(
        kind="full", num_kv_heads=mixer.num_heads, v_head_dim=0, latent_dim=0, rope_dim=0
    )


def _latent_gate(config: Config, v_dim: int) -> int:
    """Outputs of a gate on each head's values: none, one, or one a value."""
    kind = config.get("gated_attention_proj_granularity_type")  # Ling 3
    if config.get("gated_mla"):  # HY-V4
        kind = config.get("gating_type")
    elif config.get("mla_use_output_gate"):  # Kimi K3
        kind = "elementwise"
    return {"head": 1, "elem": v_dim}.get(str(kind)[:4], 0)


def _typed_sparse(config: Config, layer: int) -> bool:
    types = config.get("layer_types") or []
    return layer < len(types) and ("sparse" in types[layer] or "indexed" in types[layer])


def _has_indexer(config: Config, layer: int) -> bool:
    """GLM 5.2: some layers share the selection of an earlier one."""
    types = config.get("indexer_types")
    return not isinstance(types, list) or layer >= len(types) or types[layer] != "shared"


def _compressed(config: Config, layer: int) -> Mixer:
    """DeepSeek-V4: grouped output projection, compressors and, at ratio 4, an indexer."""
    ratio = config.per_layer("compress_ratios", layer)
    hidden, heads = config.positive("hidden_size"), config.positive("num_heads")
    head_dim, q_rank = config.positive("head_dim"), config.positive("q_lora_rank")
    o_rank, o_groups = config.positive("o_lora_rank"), config.positive("o_groups")
    params = hidden * q_rank + q_rank * heads * head_dim + hidden * head_dim
    params += heads * head_dim * o_rank + o_groups * o_rank * hidden
    overlap = 2 if ratio == 4 else 1
    if ratio > 1:
        params += 2 * hidden * overlap * head_dim
    index_dim = config.number("index_head_dim", 0) if ratio == 4 else 0
    if index_dim:
        index_heads = config.positive("index_n_heads")
        params += q_rank * index_heads * index_dim + hidden * index_heads
        params += 2 * hidden * overlap * index_dim
    return Mixer(
        kind="mla-compressed",
        num_heads=heads,
        num_kv_heads=1,
        head_dim=head_dim,
        window_tokens=config.positive("sliding_window"),
        latent_dim=head_dim - config.number("qk_rope_head_dim", 0),
        rope_dim=config.number("qk_rope_head_dim", 0),
        index_dim=index_dim,
        topk_tokens=config.number("index_topk", 0),
        compress_ratio=ratio,
        params=params,
    )


def _linear(config: Config, family: Family) -> Mixer:
    readers = {
        "mamba1": _mamba1, "mamba2": _mamba2, "gated-delta": _gated_delta, "kda": _kda,
        "linear": _lightning, "short-conv": _short_conv,
    }  # fmt: skip
    if not family.linear_kind:
        raise AskError(
            f"{config.name}: config.json names linear-attention layers, but NeoServe does not know "
            "which kind this architecture has"
        )
    return readers[family.linear_kind](config)


def _mamba1(config: Config) -> Mixer:
    hidden = config.positive("hidden_size")
    expand = config.get("mamba_expand", config.get("expand", 2))
    inner = config.get("intermediate_size") if _pure_mamba(config) else None
    inner = int(inner or expand * hidden)
    size = int(config.get("mamba_d_state", config.get("state_size", 16)))
    kernel = int(config.get("mamba_d_conv", config.get("conv_kernel", 4)))
    rank = config.get("mamba_dt_rank", config.get("time_step_rank", "auto"))
    rank = -(-hidden // 16) if rank == "auto" else int(rank)
    return Mixer(
        kind="mamba1",
        state=State(conv_kernel=kernel, conv_dim=inner, rows=inner, row_elements=size),
        params=hidden * 2 * inner + inner * (rank + 2 * size) + rank * inner + inner * hidden,
        other_params=inner * (kernel + 1) + inner + inner * size + inner,
    )


def _pure_mamba(config: Config) -> bool:
    return not config.get("num_attention_heads")


def _mamba2(config: Config) -> Mixer:
    hidden = config.positive("hidden_size")
    heads, width = _mamba2_heads(config, hidden)
    inner = heads * width
    size = int(
        config.get("ssm_state_size", config.get("mamba_d_state", config.get("state_size", 128)))
    )
    spelled = config.get("mamba_n_groups", config.get("mamba_ngroups", 1))
    groups = int(config.get("n_groups", spelled))
    kernel = int(config.get("conv_kernel", config.get("mamba_d_conv", 4)))
    conv = inner + 2 * groups * size
    recurrent = "auto"
    if block_symbols(config):  # Nemotron-H: fp32 unless the config says otherwise
        recurrent = str(config.get("mamba_ssm_cache_dtype", "float32"))
    return Mixer(
        kind="mamba2",
        state=State(
            conv_kernel=kernel, conv_dim=inner, groups=groups, group_dim=2 * size,
            rows=heads, row_elements=width * size, recurrent_dtype=recurrent,
        ),
        params=hidden * (inner + conv + heads) + inner * hidden,
        other_params=conv * (kernel + 1) + 3 * heads + inner,
    )  # fmt: skip


def _mamba2_heads(config: Config, hidden: int) -> tuple[int, int]:
    """(heads, head width): every family has its own names."""
    inner = config.get("mamba_d_ssm")
    if inner is None:
        inner = config.get("mamba_expand", config.get("expand", 2)) * hidden
    width = config.get(
        "mamba_head_dim",
        config.get("mamba_d_head", config.get("mamba_headdim", config.get("hidden_size_per_head"))),
    )
    heads = config.get("mamba_num_heads", config.get("mamba_n_heads", config.get("n_mamba_heads")))
    if _pure_mamba(config):  # Mamba 2 proper
        width, heads = config.get("head_dim", 64), config.get("num_heads", heads)
    if isinstance(width, str):  # "auto" (Granite, Bamba)
        width = None
    if not heads and not width:
        raise AskError(f"{config.name}: config.json lacks mamba_num_heads and mamba_head_dim")
    heads = int(heads or inner // width)
    return heads, int(width or inner // heads)


def _gated_delta(config: Config) -> Mixer:
    hidden = config.positive("hidden_size")
    k_heads = config.positive("linear_num_key_heads")
    v_heads = config.positive("linear_num_value_heads")
    k_dim, v_dim = config.positive("linear_key_head_dim"), config.positive("linear_value_head_dim")
    kernel = config.positive("linear_conv_kernel_dim", 4)
    keys, values = k_heads * k_dim, v_heads * v_dim
    return Mixer(
        kind="gated-delta",
        state=State(
            conv_kernel=kernel,
            conv_dim=2 * keys + values,
            rows=v_heads,
            row_elements=v_dim * k_dim,
            recurrent_dtype=str(config.get("mamba_ssm_dtype", "auto")),
        ),
        params=hidden * (2 * keys + 2 * values) + values * hidden,
        other_params=hidden * 2 * v_heads + (2 * keys + values) * kernel + 2 * v_heads + v_dim,
    )  # fmt: skip


def _kda(config: Config) -> Mixer:
    linear = config.get("linear_attn_config")
    if linear is None:  # Ling 3: heads like those of its attention
        linear = {"num_heads": config.positive("num_heads"), "head_dim": head_dim_of(config),
                  "short_conv_kernel_size": config.positive("short_conv_kernel_size")}  # fmt: skip
    try:
        heads, width = int(linear["num_heads"]), int(linear["head_dim"])
        kernel = int(linear["short_conv_kernel_size"])
    except KeyError as error:
        raise AskError(f"{config.name}: linear_attn_config lacks {error.args[0]}") from None
    hidden, inner = config.positive("hidden_size"), heads * width
    # decay and output gate: of low rank, or whole matrices (the gate of Kimi K3, both of Ling 3)
    low, whole = (hidden + inner) * width, hidden * inner
    decay = whole if config.get("no_kda_lora") else low
    gate = whole if config.get("no_kda_lora") or linear.get("use_full_rank_gate") else low
    return Mixer(
        kind="kda",
        state=State(
            conv_kernel=kernel, conv_dim=3 * inner, rows=heads, row_elements=width * width,
            recurrent_dtype="float32",
        ),
        params=3 * hidden * inner + decay + gate + inner * hidden,
        other_params=hidden * heads + 3 * inner * kernel + inner + heads + width,
    )  # fmt: skip


def _lightning(config: Config) -> Mixer:
    hidden, heads = config.positive("hidden_size"), config.positive("num_heads")
    width = head_dim_of(config)
    inner = heads * width
    return Mixer(
        kind="linear",
        num_heads=heads,
        state=State(rows=heads, row_elements=width * width),
        params=hidden * 4 * inner + inner * hidden,
        other_params=inner,
    )


def _short_conv(config: Config) -> Mixer:
    hidden = config.positive("hidden_size")
    width = int(config.get("conv_dim") or hidden)
    kernel = config.positive("conv_L_cache", 3)
    return Mixer(
        kind="short-conv",
        state=State(conv_kernel=kernel, conv_dim=width),
        params=hidden * 3 * width + width * hidden,
        other_params=width * kernel,
    )
