"""GGUF metadata and tensor shapes -> the config.json that they amount to."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from ..errors import AskError
from .architectures import MAX_LAYERS
from .families import FAMILIES, Family
from .gguf_header import Value
from .gguf_names import PERIODS, RENAMED, class_of

_MAX_NUMBER = 1 << 40  # of anything but weights


class GgufKeys:
    """Metadata of one architecture and the shapes of its tensors."""

    def __init__(
        self, metadata: Mapping[str, Value], shapes: Mapping[str, tuple[int, ...]], name: str
    ) -> None:
        self._metadata, self.shapes, self.name = metadata, shapes, name
        self.arch = str(metadata.get("general.architecture", ""))
        self.layers = 1
        self.draft_layers = self.number("nextn_predict_layers")
        # llama.cpp counts a multi-token-prediction head among the blocks
        self.layers = self.need("block_count") - self.draft_layers
        if not 0 < self.layers <= MAX_LAYERS:
            raise AskError(f"{name}: {self.layers} layers; expected 1 to {MAX_LAYERS}")
        self.blocks: list[set[str]] = [set() for _ in range(self.layers)]
        for tensor in shapes:
            head, _, rest = tensor.partition(".")
            index, _, stem = rest.partition(".")
            if head == "blk" and index.isdecimal() and len(index) < 5 and int(index) < self.layers:
                self.blocks[int(index)].add(stem)
        self.complete = all(self.blocks)

    def series(self, key: str) -> list[int]:
        """A number for each layer; [] where the file says nothing. Raises AskError if absurd."""
        value = self._metadata.get(f"{self.arch}.{key}")
        if value is None:
            return []
        numbers: list[Any] = value if isinstance(value, list) else [value] * self.layers
        if len(numbers) < self.layers or not all(map(_is_count, numbers)):
            raise AskError(
                f"{self.name}: {self.arch}.{key} is {str(value)[:60]}; expected a whole number, "
                f"or one for each of {self.layers} layers"
            )
        return [int(number) for number in numbers[: self.layers]]

    def number(self, key: str) -> int:
        """The number of the first layer that has one; 0 where the file says nothing."""
        return next(filter(None, self.series(key)), 0)

    def need(self, key: str) -> int:
        """A number above zero. Raises AskError where it is absent."""
        value = self.number(key)
        if not value:
            raise AskError(f"{self.name}: lacks {self.arch}.{key}; expected a positive number")
        return value

    def stated(self, key: str) -> Any:
        """What the file says, unchecked."""
        return self._metadata.get(f"{self.arch}.{key}")

    def has(self, stem: str) -> bool:
        """Whether any layer has a tensor of this name, `attn_q.bias` say."""
        return any(stem in block for block in self.blocks)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _MAX_NUMBER


def hf_config(keys: GgufKeys, dtype: str) -> dict[str, Any]:
    """The config.json that a GGUF file amounts to. Raises AskError and CatalogMiss."""
    architecture = class_of(keys.arch)
    family = FAMILIES[architecture]
    hidden = keys.need("embedding_length")
    config: dict[str, Any] = {
        "architectures": [architecture],
        "dtype": dtype,
        "hidden_size": hidden,
        "num_hidden_layers": keys.layers,
        "num_nextn_predict_layers": keys.draft_layers,
        # rope scaling is left out: llama.cpp's context is this number, scaled or not
        "max_position_embeddings": keys.need("context_length"),
        "vocab_size": _vocabulary(keys, hidden),
        "tie_word_embeddings": "output.weight" not in keys.shapes,
        "attention_bias": keys.has("attn_q.bias") or keys.has("attn_qkv.bias"),
        "mlp_bias": keys.has("ffn_up.bias"),
    }
    for key, renamed in RENAMED.items():
        if keys.stated(key) is not None:
            config[renamed] = keys.number(key)
    config |= _attention(keys, hidden)
    config |= _feed_forward(keys)
    config |= _state(keys, family, hidden, pure="num_attention_heads" not in config)
    config |= _layers(keys, family)
    return config | _departures(keys, hidden)


def _vocabulary(keys: GgufKeys, hidden: int) -> int:
    """Rows of the embedding table: the tokenizer may name fewer."""
    shape = keys.shapes.get("token_embd.weight")
    if shape is None:
        return keys.need("vocab_size")
    if len(shape) != 2 or shape[0] != hidden:
        raise AskError(
            f"{keys.name}: token_embd.weight is {'x'.join(map(str, shape))}; "
            f"expected rows of {hidden}, its {keys.arch}.embedding_length"
        )
    return shape[1]


def _uniform(numbers: list[int]) -> int | list[int]:
    """One number where all layers that have one agree."""
    distinct = set(numbers) - {0}
    return distinct.pop() if len(distinct) == 1 else numbers


def _attention(keys: GgufKeys, hidden: int) -> dict[str, Any]:
    heads, kv_heads = keys.series("attention.head_count"), keys.series("attention.head_count_kv")
    if not any(heads):
        if keys.number("ssm.inner_size"):
            return {}  # nothing but states
        raise AskError(f"{keys.name}: lacks {keys.arch}.attention.head_count")
    most = max(heads)
    config: dict[str, Any] = {"num_attention_heads": most}
    if isinstance(_uniform(heads), list):
        config["num_attention_heads_per_layer"] = heads
    if any(kv_heads):
        config["num_key_value_heads"] = _uniform(kv_heads)
    return config | _widths(keys, hidden // most)


def _widths(keys: GgufKeys, even: int) -> dict[str, Any]:
    """Head widths; `even` is the hidden size over the heads, llama.cpp's default."""
    key, value = keys.number("attention.key_length"), keys.number("attention.value_length")
    if keys.number("attention.kv_lora_rank"):
        rope = keys.need("rope.dimension_count")
        if keys.number("attention.indexer.key_length"):
            keys.need("attention.q_lora_rank")  # the indexer's query is made of it
        key = keys.number("attention.key_length_mla") or key or even
        value = keys.number("attention.value_length_mla") or value or even
        return {"qk_rope_head_dim": rope, "qk_nope_head_dim": key - rope, "v_head_dim": value}
    narrow = keys.number("attention.key_length_swa")
    if narrow and narrow != key:  # Gemma 4: windowed layers have narrower heads
        return {"head_dim": narrow, "global_head_dim": key}
    named = {"head_dim": key, "v_head_dim": value}
    return {name: width for name, width in named.items() if width}


def _feed_forward(keys: GgufKeys) -> dict[str, Any]:
    config: dict[str, Any] = {}
    width = keys.series("feed_forward_length")
    if any(width):
        config["intermediate_size"] = _uniform(width)
    shared = keys.number("expert_shared_feed_forward_length") or next(
        (s[0] for n, s in keys.shapes.items() if n.endswith("ffn_down_shexp.weight")), 0
    )
    if shared:
        gated = keys.arch.startswith("qwen")  # a sigmoid gate weighs the shared expert
        config["shared_expert_intermediate_size" if gated else "shared_intermediate_size"] = shared
    if keys.complete and keys.number("expert_count") > 1:
        config["mlp_layer_types"] = [
            "sparse" if "ffn_gate_inp.weight" in block else "dense" for block in keys.blocks
        ]
    return config


def _state(keys: GgufKeys, family: Family, hidden: int, pure: bool) -> dict[str, Any]:
    """A recurrent mixer's sizes under the names of its kind."""
    kind = family.linear_kind
    if kind in ("", "short-conv"):
        return {}
    kernel = keys.need("ssm.conv_kernel")
    if kind == "kda":
        heads, width = keys.need("attention.head_count"), keys.need("kda.head_dim")
        sizes = {"num_heads": heads, "head_dim": width, "short_conv_kernel_size": kernel}
        return {"linear_attn_config": sizes}
    inner, rank = keys.need("ssm.inner_size"), keys.need("ssm.time_step_rank")
    size, groups = keys.need("ssm.state_size"), keys.number("ssm.group_count")
    if kind == "gated-delta":
        return {
            "linear_num_key_heads": groups, "linear_key_head_dim": size,
            "linear_num_value_heads": rank, "linear_value_head_dim": inner // rank,
            "linear_conv_kernel_dim": kernel,
        }  # fmt: skip
    if kind == "mamba1":
        config = {"mamba_d_conv": kernel, "mamba_d_state": size, "mamba_dt_rank": rank,
                  "mamba_expand": Fraction(inner, hidden)}  # fmt: skip
        return config | ({"intermediate_size": inner} if pure else {})
    config = {"conv_kernel": kernel, "ssm_state_size": size, "mamba_d_ssm": inner,
              "mamba_num_heads": rank, "mamba_head_dim": inner // rank}  # fmt: skip
    config |= {"n_groups": groups} if groups else {}
    return config | ({"head_dim": inner // rank} if pure else {})


def _layers(keys: GgufKeys, family: Family) -> dict[str, Any]:
    """The mixer of each layer, from its tensors or, without them, from its number of KV heads."""
    if family.every_layer_both or not keys.number("attention.head_count"):
        return {}
    if not family.linear_kind and keys.arch != "deci":
        return _windows(keys, ["full_attention"] * keys.layers)
    words = [_mixer_word(block) for block in keys.blocks]
    if not keys.complete:
        kv_heads = keys.series("attention.head_count_kv") or [1] * keys.layers
        if family.linear_kind and all(kv_heads):
            return {}  # the family's own period
        other = "linear_attention" if family.linear_kind else "mlp"
        words = ["full_attention" if count else other for count in kv_heads]
    if keys.arch.startswith("nemotron_h"):
        return {"hybrid_override_pattern": _symbols(keys, words)}
    return _windows(keys, words)


def _mixer_word(stems: set[str]) -> str:
    if any(stem.startswith(("ssm_", "shortconv.")) for stem in stems):
        return "linear_attention"
    attends = any(stem.startswith(("attn_q", "attn_kv")) for stem in stems)
    return "full_attention" if attends else "mlp"


def _symbols(keys: GgufKeys, words: list[str]) -> str:
    """Nemotron-H: one letter a layer, a mixer or a feed-forward."""
    widths = keys.series("feed_forward_length") or [0] * keys.layers
    letters = ""
    for block, word, width in zip(keys.blocks, words, widths, strict=True):
        if word == "full_attention":
            letters += "*"
        elif word == "linear_attention" and (keys.complete or not width):
            letters += "M"
        else:
            letters += "E" if "ffn_gate_inp.weight" in block else "-"
    return letters


def _windows(keys: GgufKeys, words: list[str]) -> dict[str, Any]:
    window, pattern = keys.number("attention.sliding_window"), _pattern(keys)
    narrow = {"sliding_window": window}
    word = "sliding_attention"
    if keys.arch == "llama4" and keys.stated("attention.sliding_window") != 0:
        window, word = 8192, "chunked_attention"  # llama.cpp knows no other chunk
        narrow = {"attention_chunk_size": window}
    if keys.arch == "gemma2" and not window:
        window = narrow["sliding_window"] = 4096
    if not window or not any(pattern):
        return {"layer_types": words}
    cut = zip(words, pattern, strict=True)
    return {"layer_types": [word if w == "full_attention" and p else w for w, p in cut]} | narrow


def _pattern(keys: GgufKeys) -> list[bool]:
    """Whether each layer has a window."""
    stated = keys.stated("attention.sliding_window_pattern")
    if isinstance(stated, list):
        return [bool(flag) for flag in keys.series("attention.sliding_window_pattern")]
    period = keys.number("attention.sliding_window_pattern") or PERIODS.get(keys.arch, 1)
    return [i % period < period - 1 for i in range(keys.layers)]


def _departures(keys: GgufKeys, hidden: int) -> dict[str, Any]:
    """What llama.cpp's code says about single architectures and no key does."""
    if keys.arch == "llama4" and keys.number("expert_count"):
        return {"n_shared_experts": 1}
    if keys.arch == "gemma3n" and not keys.number("attention.shared_kv_layers"):
        return {"num_kv_shared_layers": max(0, keys.layers - 20)}  # n_layer_kv_from_start
    if keys.arch == "gemma4":
        reused = any("attn_k.weight" in b and "attn_v.weight" not in b for b in keys.blocks)
        return {"attention_k_eq_v": reused, "enable_moe_block": keys.number("expert_count") > 1}
    if keys.arch == "deci":
        return {"block_configs": _deci_blocks(keys, hidden)}
    return {}


def _deci_blocks(keys: GgufKeys, hidden: int) -> list[dict[str, Any]]:
    """Nemotron-NAS: each layer has its own KV heads and width, or none."""
    heads = keys.need("attention.head_count")
    kv_heads = keys.series("attention.head_count_kv") or [heads] * keys.layers
    widths = keys.series("feed_forward_length") or [0] * keys.layers
    return [
        {
            "attention": {"n_heads_in_group": max(1, heads // kv)} if kv else {"no_op": True},
            "ffn": {"ffn_mult": 1.5 * width / hidden} if width else {"no_op": True},
        }
        for kv, width in zip(kv_heads, widths, strict=True)
    ]
