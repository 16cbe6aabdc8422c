"""Which mixer each layer has, from the many ways in which a config.json says it."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import AskError
from .families import Family
from .fields import Config

# What the checkpoints write -> our words. "linear" stands for the family's own state mixer.
_WORDS = {
    "attention": "full", "full_attention": "full", "deepseek_sparse_attention": "full",
    "global": "full", "full": "full", "indexed_attention": "full",
    "sliding_attention": "sliding", "sliding_window": "sliding", "local": "sliding",
    "swa": "sliding", "sliding": "sliding", "hybrid_sliding": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear", "mamba": "linear", "mamba2": "linear", "conv": "linear",
    "recurrent": "linear", "hybrid": "both", "mlp": "ffn", "moe": "ffn", "M": "linear",
    "*": "full", "-": "ffn", "E": "ffn", "L": "sliding", "G": "full",
}  # fmt: skip


def layer_kinds(config: Config, family: Family, num_layers: int) -> list[str]:
    """full, sliding, chunked, linear, both or ffn (no mixer) for each layer."""
    kinds = _stated(config, num_layers)
    if kinds is None:
        kinds = _by_period(config, family, num_layers)
    if len(kinds) != num_layers:
        raise AskError(
            f"{config.name}: {len(kinds)} layer types are given for {num_layers} layers; "
            "one is needed for each"
        )
    if not family.linear_kind:  # Inkling's word for attention beside convolutions
        kinds = ["full" if kind == "both" else kind for kind in kinds]
    uniform = family.window == "uniform" and config.get("max_window_layers") == num_layers
    if uniform and len(set(kinds)) > 1:
        return ["full"] * num_layers  # vLLM, qwen2.py: no window of single layers
    if not config.get("sliding_window") or family.window == "none":
        kinds = ["full" if kind == "sliding" else kind for kind in kinds]
    return kinds


def block_symbols(config: Config) -> str:
    """Nemotron-H's one letter a layer: M state, * attention, - feed-forward, E experts.

    Such a layer is a mixer or a feed-forward, never both. "" for other models.
    """
    pattern = config.get("hybrid_override_pattern")
    if pattern:
        return str(pattern)
    words = config.get("layers_block_type")
    if config.get("model_type") != "nemotron_h" or not isinstance(words, list):
        return ""
    letters = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E",
               "linear_attention": "M", "full_attention": "*"}  # fmt: skip
    return "".join(letters.get(str(word), "?") for word in words)


def _translate(config: Config, words: Sequence[str]) -> list[str]:
    unknown = sorted({w for w in words if w not in _WORDS})
    if unknown:
        raise AskError(f"{config.name}: unknown layer type {unknown[0]!r} in config.json")
    return [_WORDS[w] for w in words]


def _stated(config: Config, num_layers: int) -> list[str] | None:
    """A list, a string or an index set that names every layer."""
    symbols = block_symbols(config)
    if symbols:
        return _translate(config, symbols)
    for key in ("layers_block_type", "layer_types"):
        words = config.get(key)
        if isinstance(words, list) and words:
            return _translate(config, words[:num_layers])
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and blocks:
        return ["ffn" if _block_without_attention(b) else "full" for b in blocks]
    if config.get("attn_type_list"):
        return ["full" if t == 1 else "linear" for t in config.get("attn_type_list")]
    linear = config.get("linear_attn_config")
    if isinstance(linear, dict) and "full_attn_layers" in linear:
        full = set(linear["full_attn_layers"])  # counted from one
        return ["full" if i + 1 in full else "linear" for i in range(num_layers)]
    local = config.get("local_layer_ids")
    if isinstance(local, list):
        return ["sliding" if i in local else "full" for i in range(num_layers)]
    for key in ("attn_layer_indices", "full_attn_idxs"):
        if config.get(key) is not None:
            full = set(config.get(key))
            return ["full" if i in full else "linear" for i in range(num_layers)]
    if config.get("hybrid_layer_pattern") is not None:  # MiMo-V2: 1 is a window
        return ["sliding" if t else "full" for t in config.get("hybrid_layer_pattern")]
    return None


def _block_without_attention(block: dict[str, object]) -> bool:
    attention = block.get("attention")
    return isinstance(attention, dict) and bool(
        attention.get("no_op") or attention.get("replace_with_linear")
    )


def _by_period(config: Config, family: Family, num_layers: int) -> list[str]:
    """Every n-th layer is different."""
    if family.linear_kind:
        return _linear_periods(config, family, num_layers)
    chunk = config.get("attention_chunk_size")
    if chunk or config.get("no_rope_layers") is not None:
        flags = config.get("no_rope_layers") or []
        every = int(config.get("no_rope_layer_interval", 4))
        # 1 marks a layer with rope, which is a chunked one (Llama 4)
        uses_rope = [bool(flags[i]) if flags else (i + 1) % every != 0 for i in range(num_layers)]
        return ["chunked" if rope and chunk else "full" for rope in uses_rope]
    return _window_periods(config, family, num_layers)


def _linear_periods(config: Config, family: Family, num_layers: int) -> list[str]:
    if family.every_layer_both:
        return ["both"] * num_layers
    period = config.get("attn_layer_period")
    if period:
        offset = config.number("attn_layer_offset", 0)
        return ["full" if i % period == offset else "linear" for i in range(num_layers)]
    interval = config.get("full_attention_interval")
    if interval:
        return ["linear" if (i + 1) % interval else "full" for i in range(num_layers)]
    step = config.get("mamba_step")
    if step:  # PLaMo 2: one attention layer in the middle of each `mamba_step`
        return ["full" if i % step == step // 2 else "linear" for i in range(num_layers)]
    if config.get("num_attention_heads") and config.get("num_key_value_heads"):
        raise AskError(
            f"{config.name}: config.json does not say which layers are attention; "
            "give layer_types, layers_block_type or attn_layer_period"
        )
    return ["linear"] * num_layers


def _window_periods(config: Config, family: Family, num_layers: int) -> list[str]:
    window = config.get("sliding_window")
    if not window or family.window == "none" or config.get("use_sliding_window") is False:
        return ["full"] * num_layers
    if isinstance(window, list):  # openPangu, PLaMo 3: a window or null for each layer
        return ["sliding" if window[i % len(window)] else "full" for i in range(num_layers)]
    pattern = config.get("sliding_window_pattern", config.get("_sliding_window_pattern"))
    if isinstance(pattern, str):  # EXAONE 4: "LLLG"; the last layer is always global
        words = (pattern * num_layers)[: num_layers - 1] + "G"
        return _translate(config, words)
    period = int(pattern or family.window_period)
    if family.window in ("even", "odd"):
        first = family.window == "odd"
        return ["sliding" if i % 2 == first else "full" for i in range(num_layers)]
    if period > 1:
        return ["full" if (i + 1) % period == 0 else "sliding" for i in range(num_layers)]
    if config.get("use_sliding_window") and config.get("max_window_layers"):
        # Qwen2: layers below max_window_layers are full
        first_window = config.number("max_window_layers")
        return ["full" if i < first_window else "sliding" for i in range(num_layers)]
    return ["sliding"] * num_layers
