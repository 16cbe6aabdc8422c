"""Reading config.json: one name per quantity, whatever the checkpoint calls it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..errors import AskError

# Names in the order in which vLLM tries them (transformers_utils/model_arch_config_convertor.py).
NAMES: dict[str, tuple[str, ...]] = {
    "num_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_pairs": ("num_layers",),  # LongCat, whose num_hidden_layers counts the attentions
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_kv_heads": (
        "n_head_kv", "num_kv_heads", "num_key_value_heads", "multi_query_group_num",
        "num_attention_groups", "kv_n_heads",
    ),
    "intermediate_size": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "dense_intermediate": ("intermediate_size_mlp", "dense_intermediate_size"),
    "v_head_dim": ("v_head_dim", "v_channels"),
    "sliding_window": ("interleaved_sliding_window", "sliding_window", "sliding_window_size"),
    "sconv_kernel_size": ("sconv_kernel_size", "conv_kernel_size"),
    "moe_latent_size": ("moe_latent_size", "routed_expert_hidden_size"),
    "full_attention_interval": ("full_attention_interval", "layer_group_size"),
    "vocab_size": ("padded_vocab_size", "vocab_size"),
    "num_experts": (
        "num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts",
    ),
    "experts_per_token": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts",
        "moe_topk", "moe_top_k", "moe_k", "num_selected_experts",
    ),
    "expert_intermediate": (
        "moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size",
    ),
    "num_shared_experts": (
        "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
    ),
    "shared_intermediate": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
        "share_expert_dim", "shared_intermediate_size",
    ),
    "num_draft_layers": (
        "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "mtp_num_layers",
    ),
}  # fmt: skip

# The smallest of those present bounds the context (derive_max_model_len_and_key).
LENGTHS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip

# Where a wrapper (vision, audio) keeps its text model.
TEXT_PARTS = ("text_config", "llm_config", "language_config")
_NESTED = (*TEXT_PARTS, "thinker_config", "attn_config", "ffn_config")


class Config:
    """A config.json, its text part flattened, with the family's defaults beneath."""

    def __init__(self, raw: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> None:
        self.raw = raw
        self.name = name
        self._values = {**defaults, **_flatten(raw)}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a quantity, by any of its names; nulls count as absent."""
        for name in NAMES.get(key, (key,)):
            value = self._values.get(name)
            if value is not None:
                return value
        return default

    def at_layer(self, layer: int) -> Config:
        """The values of one layer: those of `per_layer_config` (transformers' heterogeneous
        configs) over the common ones."""
        stated = self._values.get("per_layer_config")
        if not isinstance(stated, Mapping):
            return self
        own = next((v for k, v in stated.items() if int(k) == layer), None)
        if not isinstance(own, Mapping):
            return self
        return Config(own, self.name, self._values)

    def number(self, key: str, default: int | None = None) -> int:
        """A non-negative whole number. Raises AskError where it is absent or absurd."""
        value = self.get(key, default)
        if isinstance(value, list) and value and len(set(map(str, value))) == 1:
            value = value[0]
        if value is None:
            names = " or ".join(NAMES.get(key, (key,)))
            raise AskError(
                f"{self.name}: config.json lacks {names}; "
                f"the memory and speed of this architecture depend on it"
            )
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
            raise AskError(f"{self.name}: {key} is {value!r}; expected a whole number")
        if isinstance(value, float) and math.isinf(value):
            raise AskError(f"{self.name}: {key} is {value!r}; expected a finite whole number")
        if value < 0 or value != int(value) or value > 1e12:
            shown = value if abs(value) < 1e30 else "beyond 10^30"
            raise AskError(f"{self.name}: {key} is {shown}; expected a sensible whole number")
        return int(value)

    def positive(self, key: str, default: int | None = None) -> int:
        """A number above zero."""
        value = self.number(key, default)
        if value == 0:
            raise AskError(f"{self.name}: {key} is 0; expected a positive number")
        return value

    def per_layer(self, key: str, layer: int, default: int = 0) -> int:
        """A number that may be stated once or layer by layer."""
        value = self.get(key, default)
        if isinstance(value, list):
            value = value[layer] if layer < len(value) else (value[-1] if value else default)
        return int(value or 0)


def _flatten(raw: Mapping[str, Any]) -> dict[str, Any]:
    flat = {k: v for k, v in raw.items() if k not in _NESTED}
    for key in _NESTED:
        inner = raw.get(key)
        if isinstance(inner, Mapping):
            flat.update({k: v for k, v in _flatten(inner).items() if v is not None})
    return flat
