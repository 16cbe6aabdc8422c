"""quantization_config of a checkpoint: stored bits and multiplying dtype, by role."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Any

from ..errors import AskError
from ..schema.model import Quantization
from ..schema.quantization import DTYPE_BITS

# A module of each role as checkpoints name it, `{i}` the layer.
_MODULES = {
    "attention": ("layers.{i}.self_attn.q_proj", "layers.{i}.self_attn.o_proj"),
    "mlp": ("layers.{i}.mlp.gate_proj", "layers.{i}.mlp.down_proj"),
    "experts": ("layers.{i}.mlp.experts.0.gate_proj", "layers.{i}.mlp.experts.0.down_proj"),
    "shared_experts": ("layers.{i}.mlp.shared_expert.gate_proj",
                       "layers.{i}.mlp.shared_experts.gate_proj"),
    "lm_head": ("lm_head",),
}  # fmt: skip
_LINEAR_MODULES = ("layers.{i}.linear_attn.in_proj_qkvz", "layers.{i}.mixer.in_proj")


def checkpoint_scheme(
    raw: Mapping[str, Any], dtype: str, kinds: list[str], name: str
) -> tuple[Quantization, str]:
    """(weights, KV dtype) that a config.json's quantization_config asks for."""
    config = _quantization_config(raw)
    if not config:
        return Quantization(), "auto"
    bits, compute = _format(config, name)
    native = float(DTYPE_BITS[dtype])
    kept = Kept(_patterns(config))
    shares = {role: _kept_share(role, config, kinds, kept) for role in _MODULES}
    if _only_experts(config):
        shares = {role: float(role != "experts") for role in shares}
    return (
        Quantization(
            scheme=_scheme_name(bits, compute),
            method=str(config.get("quant_method", "")),
            bits={r: share * native + (1 - share) * bits for r, share in shares.items()},
            compute={r: compute for r, share in shares.items() if share < 0.5},
        ),
        kv_scheme(config),
    )


def _quantization_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    text = raw.get("text_config") or {}
    config = (
        raw.get("quantization_config")
        or raw.get("compression_config")
        or text.get("quantization_config")
        or {}
    )
    # An unquantized ModelOpt or compressed-tensors file states a method and no groups.
    return dict(config)


def kv_scheme(config: Mapping[str, Any]) -> str:
    """fp8 where the checkpoint carries scales for the KV cache, else auto."""
    scheme = config.get("kv_cache_scheme")
    if isinstance(scheme, Mapping) and scheme.get("num_bits") == 8:
        return "fp8"
    algo = config.get("kv_cache_quant_algo") or (config.get("quantization") or {}).get(
        "kv_cache_quant_algo"
    )
    return "fp8" if str(algo).upper() == "FP8" else "auto"


def _format(config: Mapping[str, Any], name: str) -> tuple[float, str]:
    """(stored bits with scales, multiplying dtype)."""
    method = str(config.get("quant_method", "")).lower().replace("_", "-")
    groups = config.get("config_groups") or (config.get("quantization") or {}).get("config_groups")
    if groups and not str(config.get("quant_algo", "")).upper().startswith("FP8"):
        return _grouped_format(next(iter(groups.values())))
    algo = str(
        config.get("quant_algo") or (config.get("quantization") or {}).get("quant_algo") or ""
    ).upper()
    if algo:
        return _modelopt_format(algo, name)
    if method in ("fp8", "fbgemm-fp8", "deepseek-v4-fp8"):
        return 8 + _block_scale_bits(config), "fp8"
    if method in ("awq", "gptq", "awq-marlin", "gptq-marlin", "auto-round", "intel/auto-round",
                  "auto-gptq"):  # fmt: skip
        return _integer_format(config)
    if method in ("mxfp4", "gpt-oss-mxfp4"):
        return 4.25, "bf16"  # one 8-bit exponent per 32
    if method in ("bitsandbytes", "bnb"):
        return (4.127, "bf16") if config.get("load_in_4bit") else (8.0, "bf16")
    for key in ("bits", "w_bit", "num_bits", "weight_bits"):
        if isinstance(config.get(key), (int, float)):
            return float(config[key]), "bf16"
    raise AskError(
        f"{name}: quantization method {method or config!r} is not known; "
        "give the unquantized model with --weight-quant"
    )


def _block_scale_bits(config: Mapping[str, Any]) -> float:
    block = config.get("weight_block_size")
    return 32 / (block[0] * block[1]) if block else 0.0


def _integer_format(config: Mapping[str, Any]) -> tuple[float, str]:
    bits = float(config.get("bits") or config.get("w_bit") or 4)
    group = int(config.get("group_size") or config.get("q_group_size") or 128)
    # fp16 scale and a zero point of the same width as the weights, each group
    return bits + ((16 + bits) / group if group > 0 else 0), "bf16"


def _grouped_format(group: Mapping[str, Any]) -> tuple[float, str]:
    """compressed-tensors: weights and, where they are quantized too, activations."""
    weights = group.get("weights") or {}
    activations = group.get("input_activations") or {}
    bits, kind = float(weights.get("num_bits") or 8), weights.get("type", "int")
    size = weights.get("group_size") or 0
    scale = (8 if kind == "float" and bits == 4 else 16) / size if size and size > 0 else 0
    if activations.get("num_bits") == 4:
        return bits + scale, "fp4"
    if activations.get("num_bits") == 8:
        return bits + scale, "fp8" if activations.get("type") == "float" else "int8"
    return bits + scale, "bf16"


def _modelopt_format(algo: str, name: str) -> tuple[float, str]:
    formats = {
        "NVFP4": (4.5, "fp4"),  # one fp8 scale per 16
        "W4A16_NVFP4": (4.5, "bf16"), "NVFP4_AWQ": (4.5, "fp4"),
        "MIXED_PRECISION": (4.5, "fp4"), "MXFP4": (4.25, "bf16"), "MXFP8": (8.25, "fp8"),
        "W4A8_AWQ": (4.125, "fp8"), "W4A16_AWQ": (4.125, "bf16"), "W8A16": (8.0, "bf16"),
        "INT8_SQ": (8.0, "int8"), "W8A8_SQ_PER_CHANNEL": (8.0, "int8"),
    }  # fmt: skip
    if algo.startswith("FP8"):
        return 8.0, "fp8"
    if algo not in formats:
        raise AskError(f"{name}: ModelOpt scheme {algo!r} is not known")
    return formats[algo]


def _scheme_name(bits: float, compute: str) -> str:
    activations = {"bf16": 16, "fp8": 8, "int8": 8, "fp4": 4}[compute]
    return f"w{round(bits - 0.3)}a{activations}" + ("" if compute == "bf16" else f"-{compute}")


def _only_experts(config: Mapping[str, Any]) -> bool:
    return str(config.get("quant_method", "")) in ("mxfp4", "experts_int8", "moe_wna16")


def _patterns(config: Mapping[str, Any]) -> list[str]:
    inner = config.get("quantization") or {}
    listed = (
        config.get("ignore")
        or config.get("modules_to_not_convert")
        or config.get("exclude_modules")
        or config.get("ignored_layers")
        or inner.get("exclude_modules")
        or []
    )
    return [str(p) for p in listed]


def _kept_share(role: str, config: Mapping[str, Any], kinds: list[str], kept: Kept) -> float:
    """Share of a role's modules that the checkpoint leaves unquantized."""
    if role == "lm_head":
        # AWQ, GPTQ and fp8 leave the head alone unless they say that they do not.
        method = str(config.get("quant_method", ""))
        untouched = not config.get("lm_head", False) and method != "modelopt"
        return 1.0 if untouched or kept.holds("lm_head") else 0.0
    if kept.empty:
        return 0.0
    names = []
    for i, kind in enumerate(kinds):
        linear = role == "attention" and kind == "linear"
        templates = _LINEAR_MODULES if linear else _MODULES[role]
        names += [t.format(i=i) for t in templates]
    return sum(map(kept.holds, names)) / len(names)


# Checkpoints prefix their modules differently.
_PREFIXES = ("model.language_model.", "language_model.model.", "model.", "backbone.", "")


class Kept:
    """A checkpoint's list of modules that stay unquantized: names, words, globs and regexes."""

    def __init__(self, patterns: list[str]) -> None:
        bare = [_strip(p) for p in patterns if not p.startswith("re:")]
        self.empty = not patterns
        self._names = {p for p in bare if "*" not in p}
        globs = [translate(p) for p in bare if "*" in p]
        regexes = [p[3:] for p in patterns if p.startswith("re:")]
        self._globs = _any_of(globs)
        self._regexes = _any_of(regexes)

    def holds(self, module: str) -> bool:
        """Whether a module such as ``layers.3.self_attn.q_proj`` is on the list."""
        parts = module.split(".")
        # a name covers what lies beneath it; a plain word matches anywhere in the path, as
        # transformers' modules_to_not_convert does
        if any(".".join(parts[: i + 1]) in self._names for i in range(len(parts))):
            return True
        if any(part in self._names for part in parts):
            return True
        if self._globs and self._globs.match(module):
            return True
        regexes = self._regexes
        return bool(regexes) and any(regexes.match(p + module) for p in _PREFIXES)  # type: ignore[union-attr]


def _any_of(expressions: list[str]) -> re.Pattern[str] | None:
    valid = []
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error:
            continue  # an engine would ignore it as well: no module matches
        valid.append(f"(?:{expression})")
    return re.compile("|".join(valid)) if valid else None


def _strip(pattern: str) -> str:
    for prefix in _PREFIXES:
        if prefix and pattern.startswith(prefix):
            return pattern[len(prefix) :]
    return pattern
