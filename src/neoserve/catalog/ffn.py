"""Feed-forward halves from config fields: dense widths, experts, shared experts."""

from __future__ import annotations

from ..schema.model import Ffn
from .families import Family
from .fields import Config
from .mixers import reads_earlier_cache


def layer_ffn(config: Config, family: Family, layer: int, symbol: str = "") -> Ffn:
    """The feed-forward of one layer. `symbol` is Nemotron-H's letter where it has one."""
    if symbol in ("M", "*"):
        return Ffn()
    if symbol == "E" or (not symbol and is_sparse(config, layer)):
        return _experts(config, family, layer)
    return Ffn(**_dense(config, family, layer))


def _matrices(family: Family) -> int:
    return 3 if family.gated else 2


def num_experts(config: Config) -> int:
    """Routed experts; 0 for a dense model."""
    value = config.get("num_experts", 0)
    if isinstance(value, list):
        value = max(value, default=0)
    return int(value or 0)


def is_sparse(config: Config, layer: int) -> bool:
    """Whether a layer has experts, by the rule that its config states."""
    if num_experts(config) <= 1:
        return False
    types = config.get("mlp_layer_types")
    if isinstance(types, list) and layer < len(types):
        return bool(types[layer] == "sparse")
    if layer in (config.get("mlp_only_layers") or []):
        return False
    for key in ("moe_layers", "moe_layers_enum"):
        listed = config.get(key)
        if isinstance(listed, str):
            listed = [int(x) for x in listed.split(",") if x.strip()]
        if isinstance(listed, list):
            return layer in listed
    frequency = config.get("moe_layer_freq")
    if isinstance(frequency, list):
        return bool(frequency[layer]) if layer < len(frequency) else True
    first_dense = config.get("num_dense_layers", config.get("dense_mlp_idx", 0))
    first_dense = config.get("first_k_dense_replace", first_dense)
    if layer < int(first_dense or 0):
        return False
    start, end = config.get("moe_layer_start_index"), config.get("moe_layer_end_index")
    if start is not None:
        start = min(start) if isinstance(start, list) else start
        end = max(end) if isinstance(end, list) else end
        last = config.positive("num_layers") - 1 if end in (None, -1) else int(end)
        if not int(start) <= layer <= last:
            return False
    return _on_period(config, layer)


def _on_period(config: Config, layer: int) -> bool:
    if config.get("expert_layer_period"):
        return layer % config.positive("expert_layer_period") == config.number(
            "expert_layer_offset", 0
        )
    step = config.get("decoder_sparse_step", config.get("interleave_moe_layer_step"))
    step = step or config.get("moe_layer_interval", config.get("moe_layer_freq", 1))
    return (layer + 1) % int(step or 1) == 0


def _dense(config: Config, family: Family, layer: int) -> dict[str, int]:
    hidden = config.positive("hidden_size")
    width = _dense_width(config, family, layer, hidden)
    bias = width * (_matrices(family) - 1) + hidden if _has_bias(config, family) else 0
    return {"dense_params": _matrices(family) * hidden * width, "other_params": bias}


def _has_bias(config: Config, family: Family) -> bool:
    return family.all_bias or bool(config.get("mlp_bias"))


def _dense_width(config: Config, family: Family, layer: int, hidden: int) -> int:
    blocks = config.get("block_configs")
    if isinstance(blocks, list) and layer < len(blocks):
        return _block_width(blocks[layer].get("ffn") or {}, hidden)
    if num_experts(config) <= 1 and config.get("model_type") == "granitemoehybrid":
        return config.positive("shared_intermediate_size")
    width = config.get("dense_intermediate")  # Llama 4, MiniMax-M3: the dense layers' own
    if width is None and config.get("ffn_config") is None:
        width = config.get("intermediate_size")
    if isinstance(width, list):
        width = width[layer]
    if width is None and config.get("expansion_ratio"):
        width = config.get("expansion_ratio") * hidden
    if not width and family.gated and not config.get("block_ff_dim"):
        config.positive("intermediate_size")  # says which field is missing
    width = int(width) if width else 4 * hidden  # GPT-2, GPT-J, BLOOM, Falcon
    if config.get("use_double_wide_mlp") and reads_earlier_cache(config, layer):
        width *= 2  # Gemma 4: layers without keys of their own spend them here
    if config.get("block_auto_adjust_ff_dim") and config.get("block_ff_dim"):
        width = _lfm2_width(config)
    return width // 2 if family.half_intermediate else width


def _lfm2_width(config: Config) -> int:
    """LFM2 scales by 2/3 and rounds up (Lfm2MLP)."""
    width = int(2 * config.positive("block_ff_dim") / 3)
    if config.get("block_ffn_dim_multiplier") is not None:
        width = int(float(config.get("block_ffn_dim_multiplier")) * width)
    multiple = config.positive("block_multiple_of", 256)
    return multiple * -(-width // multiple)


def _block_width(ffn: dict[str, float], hidden: int) -> int:
    """Nemotron-NAS: 2/3 of ffn_mult x hidden x 2, rounded up to 256."""
    if ffn.get("no_op") or ffn.get("replace_with_linear"):
        return 0
    width = int(2 * ffn.get("ffn_mult", 4.0) * hidden / 3)
    return 256 * -(-width // 256)


def _experts(config: Config, family: Family, layer: int) -> Ffn:
    hidden = config.positive("hidden_size")
    experts = num_experts(config)
    width = expert_width(config, layer)
    # Nemotron 3 Super, Kimi K3: experts work on a narrower latent
    latent = int(config.get("moe_latent_size") or 0)
    inner = latent or hidden
    shared = _shared_params(config, family, layer, hidden)
    extra = 2 * hidden * latent
    dense = _dense(config, family, layer) if config.get("enable_moe_block") else {}
    if config.get("residual_mlp") or config.get("parallel_attn_mlp_res"):  # Arctic
        dense = _dense(config, family, layer)
    if family.paired:
        dense = {"dense_params": 2 * _dense(config, family, layer)["dense_params"]}
    return Ffn(
        dense_params=dense.get("dense_params", 0),
        shared_params=shared + extra,
        num_experts=experts,
        experts_per_token=config.per_layer("experts_per_token", layer, 1),
        expert_params=_matrices(family) * inner * width,
        expert_intermediate=width,
        router_params=hidden * (experts + config.number("zero_expert_num", 0)),
        other_params=experts,
    )


def expert_width(config: Config, layer: int) -> int:
    """Intermediate width of one routed expert."""
    width = config.per_layer("expert_intermediate", layer)
    if width:
        return width
    if config.get("intermediate_size") is None and config.get("ffn_hidden_size"):
        return config.positive("ffn_hidden_size")  # DBRX
    return config.per_layer("intermediate_size", layer) or config.positive("intermediate_size")


def _shared_params(config: Config, family: Family, layer: int, hidden: int) -> int:
    stated = config.per_layer("shared_intermediate", layer)
    count = config.per_layer("num_shared_experts", layer)
    if config.get("model_type") in ("llama4", "llama4_text"):
        stated = config.positive("intermediate_size")  # one, always there
    if not stated and count:
        stated = count * expert_width(config, layer)
    gate = hidden if config.get("shared_expert_intermediate_size") else 0
    return _matrices(family) * hidden * stated + gate if stated else 0
