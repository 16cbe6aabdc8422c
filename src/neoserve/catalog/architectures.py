"""config.json -> ModelSpec. An architecture that is not known is refused, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import AskError, CatalogMiss
from ..schema.model import Ffn, Layer, Mixer, ModelSpec
from .checkpoint import checkpoint_scheme
from .families import FAMILIES, TEXT_CLASSES, TEXT_DEFAULTS, VLLM_UNTIL, Family
from .ffn import layer_ffn
from .fields import LENGTHS, TEXT_PARTS, Config
from .files import nearest
from .layer_kinds import block_symbols, layer_kinds
from .mixers import layer_mixers

NO_LENGTH = "{name} states no context length: 2,048 tokens are taken, as vLLM does"
MAX_LAYERS = 2048  # beyond any model; guards against absurd input


def read_config(raw: Mapping[str, Any], name: str) -> ModelSpec:
    """Everything memory and time depend on, from a Hugging Face config.json.

    Raises AskError naming the field that is missing or absurd, CatalogMiss for an unknown
    architecture.
    """
    try:
        return _read(raw, name)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # A field of the wrong kind can surface anywhere below; the user's file is what is wrong.
        reason = " ".join(str(error).split())
        raise AskError(f"{name}: config.json holds a value of the wrong kind: {reason}") from None


def _read(raw: Mapping[str, Any], name: str) -> ModelSpec:
    architecture = architecture_of(raw, name)
    family = FAMILIES[architecture]
    defaults = family.defaults
    if family.wraps:
        text = _text_class(raw, name)
        family = FAMILIES[text]
        defaults = {**TEXT_DEFAULTS.get(text, {}), **family.defaults}
    config = Config(raw, name, defaults)
    num_layers = len(block_symbols(config)) or config.positive(
        "num_pairs" if family.paired else "num_layers"
    )
    if num_layers > MAX_LAYERS:
        raise AskError(f"{name}: {num_layers} layers; expected at most {MAX_LAYERS}")
    kinds = layer_kinds(config, family, num_layers)
    dtype = dtype_of(raw, name)
    layers = _layers(config, family, kinds)
    quantization, kv_dtype = checkpoint_scheme(raw, dtype, kinds, name)
    if family.fixed_kv_dtype:
        kv_dtype = dtype
    embedding, head, final = _ends(config, family)
    return ModelSpec(
        id=name,
        architecture=architecture,
        family=family_name(layers),
        hidden_size=config.positive("hidden_size"),
        vocab_size=config.positive("vocab_size"),
        num_heads=_query_heads(config, layers),
        max_position_tokens=max_position(config),
        dtype=dtype,
        layers=layers,
        draft_layers=_draft_layers(config, family, layers),
        embedding_params=embedding,
        lm_head_params=head,
        final_params=final,
        vision_params=_tower_params(raw),
        quantization=quantization,
        kv_cache_dtype=kv_dtype,
        fixed_kv_dtype=family.fixed_kv_dtype,
        vllm_until=VLLM_UNTIL.get(architecture, ""),
        vllm_refusal=family.refusal or _vllm_refusal(config, num_layers),
        notes=() if _stated_lengths(config) else (NO_LENGTH.format(name=name),),
    )


def architecture_of(raw: Mapping[str, Any], name: str) -> str:
    """The class that serves this checkpoint."""
    if not isinstance(raw, Mapping):
        raise AskError(f"{name}: config.json is not a JSON object")
    listed = raw.get("architectures") or (raw.get("text_config") or {}).get("architectures") or []
    if not isinstance(listed, list) or not listed:
        raise AskError(f"{name}: config.json lacks architectures, the class that serves the model")
    for architecture in listed:
        if architecture in FAMILIES:
            return str(architecture)
    near = nearest(str(listed[0]), FAMILIES, n=3, cutoff=0.6)
    raise CatalogMiss(
        "architecture", str(listed[0]), near,
        "NeoServe does not guess its layers; `neoserve catalog architectures` lists those it knows",
    )  # fmt: skip


def _text_class(raw: Mapping[str, Any], name: str) -> str:
    """The class that vLLM builds for the text part: the one it names, else its model_type's."""
    parts = (raw.get(key) for key in TEXT_PARTS)
    text: Mapping[str, Any] = next((part for part in parts if isinstance(part, Mapping)), {})
    named = text.get("architectures")
    for architecture in named if isinstance(named, list) else ():
        if architecture in FAMILIES:
            return str(architecture)
    kind = str(text.get("model_type"))
    if kind not in TEXT_CLASSES:
        raise AskError(f"{name}: config.json names no known text model inside: {kind!r}")
    return TEXT_CLASSES[kind]


def dtype_of(raw: Mapping[str, Any], name: str) -> str:
    """The dtype that vLLM's `--dtype auto` picks: float32 checkpoints are served in bfloat16."""
    text = raw.get("text_config") or {}
    found = (
        raw.get("dtype") or raw.get("torch_dtype") or text.get("dtype") or text.get("torch_dtype")
    )
    dtype = str(found or "bfloat16").removeprefix("torch.")
    if raw.get("model_type") in ("gemma", "gemma2", "gemma3", "gemma3_text") and dtype == "float16":
        return "bfloat16"
    if dtype in ("float32", "auto"):
        return "bfloat16"
    if dtype not in ("bfloat16", "float16"):
        raise AskError(f"{name}: dtype {dtype!r} is not known; expected bfloat16 or float16")
    return dtype


def _stated_lengths(config: Config) -> list[int]:
    return [config.positive(key) for key in LENGTHS if config.get(key)]


def max_position(config: Config) -> int:
    """The longest context: the smallest stated length, times a linear or dynamic rope factor.

    YaRN and Llama-3 scaling leave max_position_embeddings already scaled (vLLM 0.32,
    config/model.py:_get_and_verify_max_len).
    """
    length = min(_stated_lengths(config), default=2048)
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if isinstance(rope, dict) and "gemma3" not in str(config.get("model_type")):
        kind = rope.get("rope_type") or rope.get("type")
        factor = rope.get("factor")
        if kind in ("linear", "dynamic") and isinstance(factor, (int, float)) and factor > 0:
            length = int(length * factor)
    return length


def _layers(config: Config, family: Family, kinds: list[str]) -> tuple[Layer, ...]:
    """One object for each distinct layer, so that later passes can tell repeats by identity."""
    symbols = block_symbols(config)
    norm = family.norms_per_layer * config.positive("hidden_size")
    if family.all_bias:
        norm *= 2
    reused = _reused(config, kinds)
    made: dict[Layer, Layer] = {}
    layers = []
    for i, kind in enumerate(kinds):
        symbol = symbols[i] if symbols else ""
        layer = Layer(
            mixers=layer_mixers(config.at_layer(i), family, kind, i),
            ffn=_ffn_of(config.at_layer(i), family, i, symbol, kind),
            norm_params=norm + _beside(config, kind),
        )
        if i in reused:
            layer = _without_weights(layer)
        layers.append(made.setdefault(layer, layer))
    return tuple(layers)


def _reused(config: Config, kinds: list[str]) -> frozenset[int]:
    """Layers that run on the weights of earlier ones, with caches of their own."""
    stored = 2 * config.number("num_layers_per_stack", 0)
    if stored:  # HRM: two stacks that run in turns
        return frozenset(range(stored, len(kinds)))
    blocks = config.number("num_mem_blocks", 0)
    if blocks:  # Zamba 2: hybrid layers take turns in a few blocks of weights
        hybrid = [i for i, kind in enumerate(kinds) if kind == "both"]
        return frozenset(hybrid[blocks:])
    return frozenset()


def _without_weights(layer: Layer) -> Layer:
    """Weights are counted where they stand first; states of hybrids have their own."""
    mixers = tuple(m if m.state else m.replace(params=0, other_params=0) for m in layer.mixers)
    return Layer(mixers=mixers, norm_params=layer.norm_params)


def _beside(config: Config, kind: str) -> int:
    """What a layer holds beside mixer, feed-forward and their norms."""
    hidden = config.positive("hidden_size")
    # Qwen4: several residual streams, mixed at low rank before mixer and feed-forward
    streams, rank = config.number("hc_count", 0), config.number("hc_lowrank", 0)
    mixing = 2 * streams * hidden * (2 * rank + streams + 1) if rank else 0
    # Gemma 3n and 4: the layer's own embedding, gated; Gemma 3n: a low-rank bypass
    own = config.number("hidden_size_per_layer_input", 0) + config.number("laurel_rank", 0)
    bypass = 0
    if kind == "both" and config.get("num_mem_blocks"):
        # Zamba 2: a matrix into the state mixer, and an adapter to the shared feed-forward
        rank = config.number("adapter_rank", 0)
        bypass = hidden * hidden + rank * (hidden + 2 * config.positive("intermediate_size"))
    return mixing + bypass + 2 * hidden * own


def _ffn_of(config: Config, family: Family, layer: int, symbol: str, kind: str) -> Ffn:
    recurrent = family.linear_kind in ("mamba1", "mamba2")
    pure_state = recurrent and not config.get("num_attention_heads")
    zamba = config.get("model_type") == "zamba2" and kind == "linear"
    if pure_state or zamba:
        return Ffn()
    return layer_ffn(config, family, layer, symbol)


def _query_heads(config: Config, layers: tuple[Layer, ...]) -> int:
    """The number that tensor parallelism is checked against."""
    heads = config.get("num_heads")
    if isinstance(heads, list):
        heads = heads[0]
    if heads:
        return int(heads)
    return next((m.num_heads for layer in layers for m in layer.mixers if m.num_heads), 0)


def _vllm_refusal(config: Config, num_layers: int) -> str:
    """What vLLM's model classes refuse in a config that other engines take."""
    first_window = config.get("max_window_layers")
    windowed = config.get("use_sliding_window") and not config.get("layer_types")
    if windowed and first_window is not None and 0 < int(first_window) < num_layers:
        return f"vLLM has no sliding window for layers {first_window} to {num_layers} only"
    return ""


def _ends(config: Config, family: Family) -> tuple[int, int, int]:
    """(embedding, separate head, the rest) in parameters."""
    hidden, vocab = config.positive("hidden_size"), config.positive("vocab_size")
    width = int(config.get("word_embed_proj_dim") or hidden)
    tied = config.get("tie_word_embeddings")
    tied = family.tied if tied is None else bool(tied)
    final = hidden * (2 if family.all_bias else 1)
    if family.positions_table:
        positions = max(config.positive(k) for k in LENGTHS if config.get(k))
        final += (positions + family.positions_offset) * hidden
    if width != hidden:
        final += 2 * width * hidden
    per_layer = int(config.get("hidden_size_per_layer_input") or 0)
    if per_layer:  # Gemma 3n and 4: one small embedding for each layer
        layers = config.positive("num_layers")
        rows = int(config.get("vocab_size_per_layer_input") or vocab)
        final += rows * per_layer * layers + hidden * per_layer * layers
    final += _ngram_params(config, hidden, vocab)
    head = 0 if tied else vocab * hidden
    if family.head_bias:
        final += vocab
    return vocab * width, head, final


def _ngram_params(config: Config, hidden: int, vocab: int) -> int:
    """LongCat: hashed tables of token n-grams, and a projection from each to the hidden size."""
    rows = config.number("ngram_vocab_size_ratio", 0) * vocab
    if not rows:
        return 0
    tables = config.positive("emb_split_num") * (config.positive("emb_neighbor_num") - 1)
    return tables * (rows + tables + hidden) * (hidden // tables)


def _draft_layers(config: Config, family: Family, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The multi-token-prediction head: one more attention layer and a projection of two
    hidden states into one. vLLM loads one module and runs it again for each draft token."""
    if not int(config.get("num_draft_layers") or 0):
        return ()
    hidden = config.positive("hidden_size")
    attention = [layer for layer in layers if layer.mixers and layer.mixers[0].state is None]
    if not attention:
        return ()
    model = attention[-1]
    ffn = max((layer.ffn for layer in layers), key=lambda f: f.total_params)
    mixer = model.mixers[0]
    if block_symbols(config):
        mixer = _full(config, family)
    return (
        Layer(
            mixers=(mixer,),
            ffn=ffn,
            norm_params=model.norm_params + 3 * hidden + 2 * hidden * hidden,
        ),
    )


def _full(config: Config, family: Family) -> Mixer:
    return layer_mixers(config, family, "full", 0)[0]


def family_name(layers: tuple[Layer, ...]) -> str:
    """A short name for the kinds of layers: dense, moe, mla-moe, swa-mix, gdn-hybrid-moe ..."""
    kinds = {m.kind for layer in layers for m in layer.mixers}
    moe = any(layer.ffn.num_experts for layer in layers)
    if "mla-compressed" in kinds:
        return "dsv4"
    if "mla-sparse" in kinds:
        return "mla-dsa"
    names = {"gated-delta": "gdn", "kda": "kda", "mamba2": "mamba2", "mamba1": "mamba1",
             "linear": "linear", "short-conv": "short-conv"}  # fmt: skip
    states = [names[k] for k in sorted(kinds) if k in names]
    rest = kinds - set(names)
    if states:
        mid = "-mla" if "mla" in rest else ""
        return states[0] + mid + ("-hybrid" if rest else "") + ("-moe" if moe else "")
    if "mla" in kinds:
        return "mla-moe" if moe else "mla"
    if "chunked" in kinds:
        return "chunked" + ("-moe" if moe else "")
    if "sliding" in kinds:
        return ("swa-mix" if "full" in kinds else "swa-uniform") + ("-moe" if moe else "")
    return "moe" if moe else "dense"


def _tower_params(raw: Mapping[str, Any]) -> int:
    """Encoder weights from their own sizes: plain transformers of the stated width and depth."""
    part = raw.get("thinker_config")
    outer = part if isinstance(part, Mapping) else raw
    return sum(_encoder(outer.get(key)) for key in ("vision_config", "audio_config"))


def _encoder(tower: Any) -> int:
    if not isinstance(tower, Mapping):
        return 0
    width = _first(tower, "embed_dim", "hidden_size", "width", "d_model")
    depth = _first(tower, "num_hidden_layers", "depth", "layers", "encoder_layers")
    if not width or not depth:
        return 0
    inner = _first(tower, "intermediate_size", "encoder_ffn_dim") or 4 * width
    if tower.get("model_type") in ("glm4v_vision", "glm4v_moe_vision"):
        inner = _first(tower, "out_hidden_size") or inner  # glm4_1v.py: the other is the merger's
    gated = tower.get("hidden_act") in ("silu", "quick_silu")
    matrices = 3 if gated or tower.get("model_type") == "gemma4_vision" else 2
    return depth * (4 * width * width + matrices * width * inner) + _merger(tower, width)


def _merger(tower: Mapping[str, Any], width: int) -> int:
    """Qwen-VL: two layers that join neighbouring patches, and one more pair for each depth that
    feeds the text model directly."""
    side, out = _first(tower, "spatial_merge_size"), _first(tower, "out_hidden_size")
    if not str(tower.get("model_type")).startswith("qwen") or not side or not out:
        return 0
    joined = width * side * side
    deep = tower.get("deepstack_visual_indexes")
    count = 1 + (len(deep) if isinstance(deep, list) else 0)
    return count * joined * (joined + out)


def _first(values: Mapping[str, Any], *names: str) -> int:
    """The first of these that is a whole number; 0 where none is."""
    return next((values[n] for n in names if isinstance(values.get(n), int)), 0)
