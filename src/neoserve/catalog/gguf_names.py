"""What llama.cpp calls things: tensor types, mixtures, architectures, metadata keys.

Names and numbers follow llama.cpp: gguf-py/gguf/constants.py (gguf 0.19) for keys, tensors and
types, src/llama-model.cpp:load_hparams for windows. tests/catalog/test_gguf.py compares them with
the gguf package.
"""

from __future__ import annotations

from difflib import get_close_matches

from ..errors import CatalogMiss

# id -> (name, weights a block, bytes a block)
TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("f32", 1, 4), 1: ("f16", 1, 2), 2: ("q4_0", 32, 18), 3: ("q4_1", 32, 20),
    6: ("q5_0", 32, 22), 7: ("q5_1", 32, 24), 8: ("q8_0", 32, 34), 9: ("q8_1", 32, 40),
    10: ("q2_k", 256, 84), 11: ("q3_k", 256, 110), 12: ("q4_k", 256, 144), 13: ("q5_k", 256, 176),
    14: ("q6_k", 256, 210), 15: ("q8_k", 256, 292), 16: ("iq2_xxs", 256, 66),
    17: ("iq2_xs", 256, 74), 18: ("iq3_xxs", 256, 98), 19: ("iq1_s", 256, 50),
    20: ("iq4_nl", 32, 18), 21: ("iq3_s", 256, 110), 22: ("iq2_s", 256, 82),
    23: ("iq4_xs", 256, 136), 24: ("i8", 1, 1), 25: ("i16", 1, 2), 26: ("i32", 1, 4),
    27: ("i64", 1, 8), 28: ("f64", 1, 8), 29: ("iq1_m", 256, 56), 30: ("bf16", 1, 2),
    34: ("tq1_0", 256, 54), 35: ("tq2_0", 256, 66), 39: ("mxfp4", 32, 17), 40: ("nvfp4", 64, 36),
    41: ("q1_0", 128, 18),
}  # fmt: skip
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})

# general.file_type of mixtures, which no single tensor type names
MIXTURES = {
    11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s",
    17: "q5_k_m", 21: "q2_k_s", 22: "iq3_xs", 27: "iq3_m", 29: "iq2_m",
}  # fmt: skip

# general.architecture -> the class that serves it
ARCHITECTURES = {
    "afmoe": "AfmoeForCausalLM", "apertus": "ApertusForCausalLM", "arcee": "ArceeForCausalLM",
    "baichuan": "BaichuanForCausalLM", "bailingmoe": "BailingMoeForCausalLM",
    "bailingmoe2": "BailingMoeV2ForCausalLM", "bloom": "BloomForCausalLM",
    "chatglm": "ChatGLMModel", "cohere2": "Cohere2ForCausalLM", "command-r": "CohereForCausalLM",
    "dbrx": "DbrxForCausalLM", "deci": "DeciLMForCausalLM", "deepseek": "DeepseekForCausalLM",
    "deepseek2": "DeepseekV3ForCausalLM", "dots1": "Dots1ForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM", "ernie4_5-moe": "Ernie4_5_MoeForCausalLM",
    "exaone": "ExaoneForCausalLM", "exaone-moe": "ExaoneMoEForCausalLM",
    "exaone4": "Exaone4ForCausalLM", "falcon": "FalconForCausalLM",
    "falcon-h1": "FalconH1ForCausalLM", "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM", "gemma3n": "Gemma3nForCausalLM", "gemma4": "Gemma4ForCausalLM",
    "glm-dsa": "GlmMoeDsaForCausalLM", "glm4": "Glm4ForCausalLM", "glm4moe": "Glm4MoeForCausalLM",
    "gpt-oss": "GptOssForCausalLM", "gpt2": "GPT2LMHeadModel", "gptj": "GPTJForCausalLM",
    "gptneox": "GPTNeoXForCausalLM", "granite": "GraniteForCausalLM",
    "granitehybrid": "GraniteMoeHybridForCausalLM", "granitemoe": "GraniteMoeForCausalLM",
    "grok": "Grok1ForCausalLM", "hunyuan-dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan-moe": "HunYuanMoEV1ForCausalLM", "internlm2": "InternLM2ForCausalLM",
    "jais": "JAISLMHeadModel", "jamba": "JambaForCausalLM",
    "kimi-linear": "KimiLinearForCausalLM", "lfm2": "Lfm2ForCausalLM",
    "lfm2moe": "Lfm2MoeForCausalLM", "llama": "LlamaForCausalLM", "llama4": "Llama4ForCausalLM",
    "mamba": "MambaForCausalLM", "mamba2": "Mamba2ForCausalLM", "mimo2": "MiMoV2FlashForCausalLM",
    "minicpm": "MiniCPMForCausalLM", "minicpm3": "MiniCPM3ForCausalLM",
    "minimax-m2": "MiniMaxM2ForCausalLM", "mistral3": "Ministral3ForCausalLM",
    "mistral4": "MistralLarge3ForCausalLM", "mpt": "MPTForCausalLM",
    "nemotron": "NemotronForCausalLM", "nemotron_h": "NemotronHForCausalLM",
    "nemotron_h_moe": "NemotronHForCausalLM", "olmo": "OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM", "olmoe": "OlmoeForCausalLM", "orion": "OrionForCausalLM",
    "pangu-embedded": "PanguEmbeddedForCausalLM", "phi2": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM", "phimoe": "PhiMoEForCausalLM", "plamo2": "Plamo2ForCausalLM",
    "plamo3": "Plamo3ForCausalLM", "qwen": "QWenLMHeadModel", "qwen2": "Qwen2ForCausalLM",
    "qwen2moe": "Qwen2MoeForCausalLM", "qwen2vl": "Qwen2VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM", "qwen35": "Qwen3_5ForCausalLM",
    "qwen35moe": "Qwen3_5MoeForCausalLM", "qwen3moe": "Qwen3MoeForCausalLM",
    "qwen3next": "Qwen3NextForCausalLM", "qwen3vl": "Qwen3VLForConditionalGeneration",
    "qwen3vlmoe": "Qwen3VLMoeForConditionalGeneration", "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM", "stablelm": "StableLmForCausalLM",
    "starcoder": "GPTBigCodeForCausalLM", "starcoder2": "Starcoder2ForCausalLM",
    "step35": "Step3p5ForCausalLM", "xverse": "XverseForCausalLM",
}  # fmt: skip

# Every n-th layer is full attention where the file itself states no pattern (set_swa_pattern).
# llama.cpp ignores the window of architectures that are not here, such as phi3.
PERIODS = {
    "afmoe": 4, "cohere2": 4, "exaone-moe": 4, "exaone4": 4, "gemma2": 2, "gemma3": 6,
    "gemma3n": 5, "gpt-oss": 2, "llama4": 4, "olmo2": 4, "plamo3": 8,
}  # fmt: skip

RENAMED = {
    "attention.indexer.head_count": "index_n_heads",
    "attention.indexer.key_length": "index_head_dim",
    "attention.indexer.top_k": "index_topk",
    "attention.kv_lora_rank": "kv_lora_rank",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.shared_kv_layers": "num_kv_shared_layers",
    "embedding_length_per_layer_input": "hidden_size_per_layer_input",
    "expert_count": "num_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "expert_used_count": "num_experts_per_tok",
    "full_attention_interval": "full_attention_interval",
    "interleave_moe_layer_step": "interleave_moe_layer_step",
    "leading_dense_block_count": "first_k_dense_replace",
    "moe_latent_size": "moe_latent_size",
    "shortconv.l_cache": "conv_L_cache",
}  # fmt: skip


def class_of(arch: str) -> str:
    """The Hugging Face class of a general.architecture. Raises CatalogMiss."""
    if arch in ARCHITECTURES:
        return ARCHITECTURES[arch]
    near = get_close_matches(arch, ARCHITECTURES, n=3, cutoff=0.5)
    raise CatalogMiss(
        "GGUF architecture", arch[:60], near,
        "NeoServe does not guess its layers: give a GGUF file of an architecture that it knows",
    )  # fmt: skip
