"""Model names as benchmark tables print them -> ModelSpec, stored as the row says."""

from __future__ import annotations

import re
from functools import lru_cache

from ..errors import AskError
from ..schema.model import ModelSpec
from ..schema.quantization import quantize
from .architectures import read_config
from .models import bundled_config, find_model
from .quantization import weight_scheme

# Storage suffixes: the format is in the row's own column.
_SUFFIX = re.compile(
    r"(?i)([-._ ](gguf|awq|fp8|bf16|f16|nvfp4|mxfp4|mxfp8|qat|ud|q\d\w*|quantized\.w\da\d+))+$"
)
_DETAIL = re.compile(r"\s*\(.*\)$")

# Names that say another model's shape, or a shape that no bundled config has.
_ALIASES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Llama-3.1-70B-Instruct",
    "meta/llama-3.3-70b-instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "nvidia/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3-8B-Instruct",
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen2-7B": "Qwen/Qwen2.5-7B-Instruct",
    "BAAI/Aquila-7B": "huggyllama/llama-7b",
    "NousResearch/Llama-2-7b-chat-hf": "meta-llama/Llama-2-7b-hf",
    "Llama-2-7B-chat": "meta-llama/Llama-2-7b-hf",
    "Llama-2-13B-chat": "meta-llama/Llama-2-13b-hf",
    "Mistral 7B": "mistralai/Mistral-7B-v0.1",
    "Mixtral 46.7B": "mistralai/Mixtral-8x7B-v0.1",
    "Falcon 7B": "tiiuae/falcon-7b",
    "Phi-4 14B": "microsoft/phi-4",
    "ggml-org/GLM-4.7-Flash": "zai-org/GLM-4.7-Flash",
    "GLM-4.7-Flash": "zai-org/GLM-4.7-Flash",
    "ggml-org/Qwen3-Coder-30B-A3B-Instruct": "Qwen/Qwen3-30B-A3B",
    "ggml-org/gemma-3-4b-it": "google/gemma-3-4b-it",
    "ggml-org/gpt-oss-120b": "openai/gpt-oss-120b",
    "ggml-org/gpt-oss-20b": "openai/gpt-oss-20b",
    "nvidia/Nemotron-Cascade-2-30B-A3B": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Nemotron Nano 30B": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "Nemotron3-Nano": "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "NVIDIA-Nemotron-3-Super-120B-A12B": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "Nemotron Super 49B": "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    "gemma-4-26B-A4B-it": "google/gemma-4-26B-A4B-it",
    "gemma-4-31B-it": "google/gemma-4-31B-it",
    "Qwen3.6-27B": "Qwen/Qwen3.6-27B",
    "Qwen3.6-35B-A3B": "Qwen/Qwen3.6-35B-A3B",
    "Qwen/Qwen3-Coder-Next": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "DeepSeek-Math-V2": "deepseek-ai/DeepSeek-V3.2",
    "MiniMax-M3": "MiniMaxAI/MiniMax-M3",
    "amd/GLM-5.2": "zai-org/GLM-5.2",
    "LiquidAI/LFM2.5-2.6B": "LiquidAI/LFM2-2.6B",
}

# Llama-shaped: (hidden, intermediate, layers, heads, KV heads, head dim, vocabulary, tied).
# DeciLM-7B varies its KV heads from 1 to 4 by layer; two is their mean.
_LLAMA_SHAPES = {
    "Deci/DeciLM-7B": (4096, 14336, 32, 32, 2, 128, 32000, False),
    "CodeLlama-34B": (8192, 22016, 48, 64, 8, 128, 32000, False),
    "CodeLlama 34B": (8192, 22016, 48, 64, 8, 128, 32000, False),
    "Phind CodeLlama 34B": (8192, 22016, 48, 64, 8, 128, 32000, False),
    "DeepSeek 33B": (7168, 19200, 62, 56, 8, 128, 32256, False),
    "internlm-20b": (5120, 13824, 60, 40, 40, 128, 103168, False),
    "ibm-granite/granite-4.1-8b": (4096, 12800, 40, 32, 8, 128, 100352, True),
    "Ministral-3-14B-Instruct-2512": (5120, 16384, 40, 32, 8, 128, 131072, False),
    "mistralai/Ministral-3-14B-Instruct-2512": (5120, 16384, 40, 32, 8, 128, 131072, False),
}
# Mistral-Small-4 has DeepSeek-V3's layers; its own config.json is not bundled.
_DEEPSEEK_SHAPES: dict[str, dict[str, object]] = {
    "mistralai/Mistral-Small-4-119B-2603": {
        "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 32, "q_lora_rank": 1024, "kv_lora_rank": 256,
        "qk_nope_head_dim": 64, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "n_routed_experts": 128, "num_experts_per_tok": 4, "moe_intermediate_size": 2048,
        "n_shared_experts": 1, "first_k_dense_replace": 0, "intermediate_size": 12288,
        "moe_layer_freq": 1, "vocab_size": 131072,
    },
}  # fmt: skip
# Qwen3.5 sizes that are not bundled: changes to the 4B's config.
_QWEN35_SMALL = {
    "Qwen/Qwen3.5-0.8B": {"hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
                          "num_attention_heads": 8, "num_key_value_heads": 2,
                          "linear_num_value_heads": 16},
    "Qwen/Qwen3.5-2B": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
                        "num_attention_heads": 8, "num_key_value_heads": 2,
                        "linear_num_value_heads": 16},
}  # fmt: skip


def bare_name(name: str) -> str:
    """The name without remarks and storage suffixes."""
    return _SUFFIX.sub("", _DETAIL.sub("", name.strip()))


@lru_cache(maxsize=1024)
def model_named(name: str) -> ModelSpec:
    """A model by the name that a benchmark prints. Raises AskError (CatalogMiss)."""
    bare = bare_name(name)
    if bare in _LLAMA_SHAPES:
        return _llama(bare)
    if bare in _DEEPSEEK_SHAPES:
        common = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
                  "max_position_embeddings": 262144, "torch_dtype": "bfloat16"}  # fmt: skip
        return read_config({**common, **_DEEPSEEK_SHAPES[bare]}, bare)
    if bare in _QWEN35_SMALL:
        return _qwen35(bare)
    for candidate in (name, _ALIASES.get(bare), bare):
        if candidate:
            try:
                return find_model(candidate, online=False)
            except AskError:
                continue
    return find_model(bare, online=False)


@lru_cache(maxsize=1024)
def stored_model(name: str, scheme: str, weight_dtype: str, engine: str) -> ModelSpec:
    """The model as a row stores it: its checkpoint's format unless the row names another."""
    model = model_named(name)
    if "gpt-oss" in name.lower():
        return _gpt_oss(model, engine)
    if engine == "llama.cpp":
        return quantize(model, weight_scheme(_ggml_type(name, weight_dtype)))
    if scheme in ("", "none"):
        return model
    # Qwen's own FP8 checkpoints scale by blocks; the tables just say fp8.
    blocks = scheme == "fp8" and name.startswith("Qwen/") and name.endswith("-FP8")
    asked = weight_scheme("fp8-block" if blocks else scheme)
    # A checkpoint in the same format says more: which layers it leaves alone.
    own = model.quantization.compute.get("experts", model.quantization.compute.get("mlp", ""))
    return model if own == asked.compute else quantize(model, asked)


def _ggml_type(name: str, weight_dtype: str) -> str:
    kind = weight_dtype.lower()
    if not kind:
        # ggml-org publishes its QAT models as Q4_0 and the others here as Q8_0.
        return "q4_0" if "qat" in name.lower() else "q8_0"
    return "gguf-f16" if kind in ("bf16", "f16", "fp16") else kind


def _gpt_oss(model: ModelSpec, engine: str) -> ModelSpec:
    # Its experts are MXFP4 in every distribution; GGUF files keep the rest in Q8_0.
    if engine != "llama.cpp":
        return model
    roles = ("attention", "lm_head", "experts")
    bits = {"attention": 8.5, "lm_head": 8.5, "experts": 4.25}
    return model.replace(
        quantization=model.quantization.replace(bits=bits, compute=dict.fromkeys(roles, "int8"))
    )


def _llama(name: str) -> ModelSpec:
    hidden, inner, layers, heads, kv_heads, head_dim, vocab, tied = _LLAMA_SHAPES[name]
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
        "tie_word_embeddings": tied, "max_position_embeddings": 32768, "torch_dtype": "bfloat16",
    }  # fmt: skip
    return read_config(config, name)


def _qwen35(name: str) -> ModelSpec:
    config = bundled_config("Qwen/Qwen3.5-4B")
    inner = {**config["text_config"], **_QWEN35_SMALL[name]}
    inner["layer_types"] = inner["layer_types"][: inner["num_hidden_layers"]]
    return read_config({**config, "text_config": inner}, name)
