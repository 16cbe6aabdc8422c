"""Which architectures there are, and where each departs from the common decoder.

The common decoder: grouped-query attention, a gated feed-forward of three matrices, RMS norms,
no biases, sliding windows from `layer_types` or `sliding_window`. An entry states only what
differs. Checked against the model classes of vLLM 0.32 (model_executor/models/*.py).
"""

from __future__ import annotations

from typing import Any, Literal

from ..schema.base import Document


class Family(Document, frozen=True):
    """How one architecture class reads its config.json."""

    gated: bool = True  # gate, up and down; else up and down
    linear_kind: Literal["", "mamba1", "mamba2", "gated-delta", "kda", "linear", "short-conv"] = ""
    every_layer_both: bool = False  # attention and state side by side in each layer (Falcon-H1)
    window: Literal["auto", "none", "even", "odd", "every", "pattern", "uniform"] = "auto"
    window_period: int = 0  # with "pattern": each n-th layer is full attention
    defaults: dict[str, Any] = {}  # the config class's defaults that real checkpoints omit
    qkv_bias: bool = False
    all_bias: bool = False  # every linear layer and norm has one (GPT-2, OPT, BLOOM ...)
    norms_per_layer: int = 2
    qk_norm: Literal["", "head", "full"] = ""
    query_gate: bool = False  # q_proj makes a gate beside the query (Qwen3-Next)
    positions_table: bool = False  # learnt positional embedding
    positions_offset: int = 0
    fixed_kv_dtype: bool = False  # the class does not hand the cache config to its attention
    tied: bool = False  # default of tie_word_embeddings
    half_intermediate: bool = False  # QWen v1 states the sum of gate and up
    head_bias: bool = False
    mixer_first: bool = True  # order in which a hybrid layer registers attention and state
    expanded_latent: bool = False  # latent attention that caches keys and values of every head
    sparse_when_typed: bool = False  # an indexer only where layer_types says sparse (HY-V4)
    wraps: bool = False  # vLLM builds the class that the text part of the config names
    convolved: bool = False  # keys, values and outputs pass short convolutions (Inkling)
    paired: bool = False  # two attentions and two dense feed-forwards in each layer (LongCat)
    looped: bool = False  # layers run twice, the second time over a window of their own
    refusal: str = ""  # why vLLM does not start it with its defaults
    note: str = ""


_LLAMA = Family()
_QWEN2 = Family(qkv_bias=True, window="uniform")
_QWEN3 = Family(qk_norm="head", window="uniform")
_WRAPPER = Family(wraps=True)
_GPT = Family(gated=False, all_bias=True)
_GEMMA = Family(tied=True)

_GEMMA3_TEXT = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "vocab_size": 262208, "max_position_embeddings": 131072, "sliding_window_pattern": 6,
    "tie_word_embeddings": True,
}  # fmt: skip

# transformers' LagunaConfig; its checkpoints state what differs.
_LAGUNA = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 48,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 100352, "sliding_window": 512,
    "max_position_embeddings": 131072, "num_experts": 256, "num_experts_per_tok": 8,
    "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_dense_layers": 1,
}  # fmt: skip

_NEMOTRON_H = Family(gated=False, linear_kind="mamba2", norms_per_layer=1)
_QWEN35 = Family(
    linear_kind="gated-delta", qk_norm="head", query_gate=True,
    defaults={"full_attention_interval": 4},
)  # fmt: skip
# Hyperconnections hold the norms.
_QWEN4 = Family(linear_kind="gated-delta", qk_norm="head", query_gate=True, norms_per_layer=0)

# transformers' defaults, where checkpoints state what differs.
_SOLAR_OPEN = {
    "head_dim": 128, "moe_intermediate_size": 1280, "n_routed_experts": 128,
    "n_shared_experts": 1, "num_experts_per_tok": 8,
}  # fmt: skip
_YOUTU = {
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}  # fmt: skip

FAMILIES: dict[str, Family] = {
    # dense
    "AfmoeForCausalLM": Family(qk_norm="head", norms_per_layer=4, query_gate=True),
    "ApertusForCausalLM": Family(gated=False, qk_norm="head"),
    "AquilaForCausalLM": _LLAMA,
    "AquilaModel": _LLAMA,
    "ArceeForCausalLM": Family(gated=False),
    "BaiChuanForCausalLM": _LLAMA,
    "BaichuanForCausalLM": _LLAMA,
    "BloomForCausalLM": Family(gated=False, all_bias=True, tied=True),
    "ChatGLMModel": Family(qkv_bias=True),
    "ChatGLMForConditionalGeneration": Family(qkv_bias=True),
    "CohereForCausalLM": Family(tied=True, norms_per_layer=1),
    "Cohere2ForCausalLM": Family(tied=True, norms_per_layer=1, window="pattern", window_period=4),
    "Cohere2VisionForConditionalGeneration": Family(
        tied=True, norms_per_layer=1, window="pattern", window_period=4
    ),
    "CwmForCausalLM": _LLAMA,
    "DeciLMForCausalLM": _LLAMA,
    "DogeForCausalLM": Family(qk_norm="head", norms_per_layer=4),
    "Ernie4_5ForCausalLM": Family(tied=True),
    "Ernie4_5_ForCausalLM": Family(tied=True),
    "ExaoneForCausalLM": _LLAMA,
    "Exaone4ForCausalLM": Family(qk_norm="head"),
    "FalconForCausalLM": Family(
        gated=False,
        tied=True,
        fixed_kv_dtype=True,
        norms_per_layer=1,
        defaults={"max_position_embeddings": 2048},
    ),
    "GemmaForCausalLM": Family(tied=True),
    "Gemma2ForCausalLM": Family(tied=True, window="even", norms_per_layer=4),
    "Gemma3ForCausalLM": Family(
        tied=True,
        norms_per_layer=4,
        qk_norm="head",
        window="pattern",
        window_period=6,
        defaults=_GEMMA3_TEXT,
    ),
    "Gemma3ForConditionalGeneration": Family(
        tied=True,
        norms_per_layer=4,
        qk_norm="head",
        window="pattern",
        window_period=6,
        defaults=_GEMMA3_TEXT,
    ),
    "Gemma3nForCausalLM": Family(tied=True, norms_per_layer=4, qk_norm="head"),
    "Gemma3nForConditionalGeneration": Family(tied=True, norms_per_layer=4, qk_norm="head"),
    "Gemma4ForCausalLM": Family(tied=True, norms_per_layer=4, qk_norm="head"),
    "Gemma4ForConditionalGeneration": Family(tied=True, norms_per_layer=4, qk_norm="head"),
    "Gemma4UnifiedForConditionalGeneration": Family(tied=True, norms_per_layer=4, qk_norm="head"),
    "GlmForCausalLM": Family(qkv_bias=True),
    "Glm4ForCausalLM": Family(qkv_bias=True, norms_per_layer=4),
    "GPT2LMHeadModel": Family(gated=False, all_bias=True, tied=True, positions_table=True),
    "GPTBigCodeForCausalLM": Family(gated=False, all_bias=True, tied=True, positions_table=True),
    "GPTJForCausalLM": Family(gated=False, norms_per_layer=1, head_bias=True),
    "GPTNeoXForCausalLM": _GPT,
    "GPTNeoXJapaneseForCausalLM": Family(gated=False),
    "CodeGenForCausalLM": Family(gated=False, norms_per_layer=1, head_bias=True),
    "GraniteForCausalLM": Family(tied=True),
    "GraniteSWAForCausalLM": Family(tied=True),
    "HrmTextForCausalLM": Family(norms_per_layer=0, query_gate=True),
    "HunYuanDenseV1ForCausalLM": Family(qk_norm="head", tied=True),
    "HyperCLOVAXForCausalLM": _LLAMA,
    "InternLMForCausalLM": Family(qkv_bias=True),
    "InternLM2ForCausalLM": _LLAMA,
    "InternLM3ForCausalLM": _LLAMA,
    "IQuestCoderForCausalLM": _LLAMA,
    "IQuestLoopCoderForCausalLM": Family(looped=True, defaults={"loop_window_size": 64}),
    "Jais2ForCausalLM": Family(gated=False, all_bias=True),
    "JAISLMHeadModel": Family(all_bias=True, tied=True),
    "LlamaForCausalLM": _LLAMA,
    "LLaMAForCausalLM": _LLAMA,
    "MiMoForCausalLM": _QWEN2,
    "MiniCPMForCausalLM": _LLAMA,
    "MistralForCausalLM": _LLAMA,
    "Ministral3ForCausalLM": _LLAMA,
    "Mistral3ForConditionalGeneration": _LLAMA,
    "MuseGlimmerForCausalLM": Family(norms_per_layer=4, query_gate=True),
    "MPTForCausalLM": Family(gated=False, tied=True),
    "MptForCausalLM": Family(gated=False, tied=True),
    "NemotronForCausalLM": Family(gated=False),
    "OlmoForCausalLM": Family(norms_per_layer=0),
    "Olmo2ForCausalLM": Family(qk_norm="full"),
    "Olmo3ForCausalLM": Family(qk_norm="full"),
    "OPTForCausalLM": Family(
        gated=False, all_bias=True, tied=True, positions_table=True, positions_offset=2
    ),
    "OrionForCausalLM": _LLAMA,
    "OuroForCausalLM": Family(norms_per_layer=4),
    "PanguEmbeddedForCausalLM": Family(qkv_bias=True),
    "PersimmonForCausalLM": Family(gated=False, all_bias=True, qk_norm="head"),
    "PhiForCausalLM": Family(gated=False, all_bias=True, norms_per_layer=1, head_bias=True),
    "Phi3ForCausalLM": _LLAMA,
    "Phi3SmallForCausalLM": _LLAMA,
    "Phi4MMForCausalLM": _LLAMA,
    "QWenLMHeadModel": Family(qkv_bias=True, half_intermediate=True),
    "Qwen2ForCausalLM": _QWEN2,
    "Qwen2VLForConditionalGeneration": _QWEN2,
    "Qwen2_5_VLForConditionalGeneration": _QWEN2,
    "Qwen3ForCausalLM": _QWEN3,
    "Qwen3VLForConditionalGeneration": _QWEN3,
    "Rnj1ForCausalLM": Family(
        norms_per_layer=4,
        qk_norm="head",
        refusal="its chunked attention needs --attention-backend TRITON_ATTN (vLLM 0.32, rnj1.py)",
    ),
    "SeedOssForCausalLM": Family(qkv_bias=True),
    "SmolLM3ForCausalLM": Family(tied=True),
    "SolarForCausalLM": _LLAMA,
    "StableLmForCausalLM": _LLAMA,
    "StableLMEpochForCausalLM": _LLAMA,
    "Starcoder2ForCausalLM": Family(gated=False, all_bias=True, tied=True),
    "Step1ForCausalLM": Family(
        refusal="its ALiBi needs --attention-backend TRITON_ATTN (vLLM 0.32, step1.py)"
    ),
    "TeleChatForCausalLM": _LLAMA,
    "TeleChat2ForCausalLM": _LLAMA,
    "TeleChat3ForCausalLM": _LLAMA,
    "TeleFLMForCausalLM": _LLAMA,
    "VaultGemmaForCausalLM": Family(tied=True, window="even"),
    "XverseForCausalLM": _LLAMA,
    "BioGptForCausalLM": Family(
        gated=False, all_bias=True, tied=True, positions_table=True, positions_offset=2
    ),
    "BitNetForCausalLM": Family(norms_per_layer=4),
    "HeliumForCausalLM": _LLAMA,
    "NanbeigeForCausalLM": _LLAMA,
    "NanoChatForCausalLM": Family(gated=False, norms_per_layer=0, qk_norm=""),
    "Plamo3ForCausalLM": Family(norms_per_layer=4, qk_norm="head"),
    # mixture of experts
    "ArcticForCausalLM": _LLAMA,
    "BailingMoeForCausalLM": _LLAMA,
    "BailingMoeV2ForCausalLM": Family(qk_norm="head"),
    "Cohere2MoeForCausalLM": Family(tied=True, norms_per_layer=1),
    "DbrxForCausalLM": _LLAMA,
    "DeepseekForCausalLM": _LLAMA,
    "Dots1ForCausalLM": Family(qk_norm="head"),
    "Ernie4_5_MoeForCausalLM": Family(tied=True),
    "ExaoneMoeForCausalLM": Family(qk_norm="head"),
    "ExaoneMoEForCausalLM": Family(qk_norm="head"),
    "FlexOlmoForCausalLM": Family(qk_norm="full"),
    "Glm4MoeForCausalLM": _QWEN2,
    "Glm4vMoeForConditionalGeneration": _QWEN2,
    "GptOssForCausalLM": Family(qkv_bias=True, window="even"),
    "GraniteMoeForCausalLM": Family(tied=True),
    "GraniteMoeSharedForCausalLM": Family(tied=True),
    "GraniteMoeSWAForCausalLM": Family(tied=True),
    "Grok1ModelForCausalLM": Family(norms_per_layer=4, tied=True),
    "Grok1ForCausalLM": Family(norms_per_layer=4, tied=True),
    "HunYuanMoEV1ForCausalLM": Family(qk_norm="head", tied=True),
    "HYV3ForCausalLM": Family(qk_norm="head"),
    "InklingForCausalLM": Family(qk_norm="head", convolved=True),
    "InklingForConditionalGeneration": Family(qk_norm="head", convolved=True),
    "K2HorizonForCausalLM": Family(qk_norm="full", query_gate=True),
    "LagunaForCausalLM": Family(qk_norm="head", defaults=_LAGUNA),
    "Llama4ForCausalLM": Family(window="none"),
    "Llama4ForConditionalGeneration": Family(window="none"),
    "MellumForCausalLM": Family(qk_norm="head"),
    "MiMoV2FlashForCausalLM": _LLAMA,
    "MiMoV2ForCausalLM": _LLAMA,
    "MiniMaxM2ForCausalLM": Family(qk_norm="full"),
    "MiniMaxM3SparseForCausalLM": Family(qk_norm="head"),
    "MiniMaxM3SparseForConditionalGeneration": Family(qk_norm="head"),
    "MixtralForCausalLM": _LLAMA,
    "OlmoeForCausalLM": Family(qk_norm="full"),
    "PanguProMoEV2ForCausalLM": Family(
        window="none",  # attention with static sinks keeps every token (openpangu.py)
        norms_per_layer=4,
    ),
    "Param2MoEForCausalLM": Family(qk_norm="head"),
    "PhiMoEForCausalLM": Family(all_bias=True),
    "PhimoeForCausalLM": Family(all_bias=True),
    "Qwen2MoeForCausalLM": _QWEN2,
    "Qwen3MoeForCausalLM": Family(qk_norm="head"),
    "Qwen3VLMoeForConditionalGeneration": Family(qk_norm="head"),
    "SarvamMoEForCausalLM": Family(qk_norm="head"),
    "SolarOpenForCausalLM": Family(defaults=_SOLAR_OPEN),
    "Step3TextForCausalLM": _LLAMA,
    "Step3p5ForCausalLM": Family(qk_norm="head"),
    "Step3p7ForConditionalGeneration": Family(qk_norm="head"),
    # latent attention
    "AXK1ForCausalLM": _LLAMA,
    "DeepseekV2ForCausalLM": _LLAMA,
    "DeepseekV3ForCausalLM": _LLAMA,
    "DeepseekV32ForCausalLM": _LLAMA,
    "DeepseekV4ForCausalLM": _LLAMA,
    "Glm4MoeLiteForCausalLM": _LLAMA,
    "GlmMoeDsaForCausalLM": _LLAMA,
    "HYV4ForCausalLM": Family(sparse_when_typed=True),
    "KimiK25ForConditionalGeneration": _LLAMA,
    "KimiVLForConditionalGeneration": _LLAMA,
    "LongcatFlashForCausalLM": Family(paired=True, norms_per_layer=4),
    "LongcatFlashNgramForCausalLM": Family(paired=True, norms_per_layer=4),
    "MiniCPM3ForCausalLM": Family(expanded_latent=True),
    "MistralLarge3ForCausalLM": _LLAMA,
    "PanguUltraMoEForCausalLM": Family(norms_per_layer=4),
    "SarvamMLAForCausalLM": _LLAMA,
    "YoutuForCausalLM": Family(tied=True, defaults=_YOUTU),
    # states
    "BailingMoeV2_5ForCausalLM": Family(linear_kind="linear"),
    "BailingMoeV3ForCausalLM": Family(linear_kind="kda"),
    "BambaForCausalLM": Family(linear_kind="mamba2"),
    "FalconH1ForCausalLM": Family(linear_kind="mamba2", every_layer_both=True),
    "FalconMambaForCausalLM": Family(linear_kind="mamba1", norms_per_layer=1),
    "GraniteMoeHybridForCausalLM": Family(linear_kind="mamba2", tied=True),
    "JambaForCausalLM": Family(linear_kind="mamba1"),
    "KimiLinearForCausalLM": Family(linear_kind="kda"),
    # two norms and two projections more, which read the outputs of earlier layers
    "KimiK3ForConditionalGeneration": Family(linear_kind="kda", norms_per_layer=6),
    "Lfm2ForCausalLM": Family(linear_kind="short-conv", qk_norm="head", tied=True),
    "Lfm2MoeForCausalLM": Family(linear_kind="short-conv", qk_norm="head", tied=True),
    "MambaForCausalLM": Family(linear_kind="mamba1", norms_per_layer=1, tied=True),
    "Mamba2ForCausalLM": Family(linear_kind="mamba2", norms_per_layer=1),
    "MiniMaxText01ForCausalLM": Family(linear_kind="linear"),
    "MiniMaxM1ForCausalLM": Family(linear_kind="linear"),
    "MiniMaxForCausalLM": Family(linear_kind="linear"),
    "NemotronHForCausalLM": _NEMOTRON_H,
    "NemotronHPuzzleForCausalLM": _NEMOTRON_H,
    "OlmoHybridForCausalLM": Family(linear_kind="gated-delta", qk_norm="full"),
    "Plamo2ForCausalLM": Family(linear_kind="mamba2", norms_per_layer=4, qk_norm="head"),
    "Qwen3NextForCausalLM": Family(
        linear_kind="gated-delta",
        qk_norm="head",
        query_gate=True,
        defaults={"full_attention_interval": 4, "num_nextn_predict_layers": 1},
    ),
    "Qwen3_5ForCausalLM": _QWEN35,
    "Qwen3_5ForConditionalGeneration": _QWEN35,
    "Qwen3_5MoeForCausalLM": _QWEN35,
    "Qwen3_5MoeForConditionalGeneration": _QWEN35,
    "Qwen4ExpForCausalLM": _QWEN4,
    "Qwen4ExpForConditionalGeneration": _QWEN4,
    "Zamba2ForCausalLM": Family(linear_kind="mamba2", tied=True, mixer_first=False),
}

# Models with an encoder before the text model (vLLM 0.32, registry.py: _MULTIMODAL_MODELS).
FAMILIES |= {
    **dict.fromkeys(
        (
            "AudioFlamingo3ForConditionalGeneration", "BagelForConditionalGeneration",
            "DotsOCRForCausalLM", "MiDashengLMModel", "MoonshotKimiaForCausalLM",
            "OpenCUAForConditionalGeneration", "Qwen2AudioForConditionalGeneration",
            "Qwen2_5OmniModel", "Qwen2_5OmniForConditionalGeneration",
        ),
        _QWEN2,
    ),
    **dict.fromkeys(
        (
            "FunAudioChatForConditionalGeneration", "IsaacForConditionalGeneration",
            "KeyeForConditionalGeneration", "KeyeVL1_5ForConditionalGeneration",
            "LlavaOnevision2ForConditionalGeneration", "Qwen3ASRForConditionalGeneration",
            "Qwen3OmniMoeForConditionalGeneration",
        ),
        _QWEN3,
    ),
    **dict.fromkeys(
        ("MiniCPMV4_6ForConditionalGeneration", "MiniCPMV4_7ForConditionalGeneration"), _QWEN35
    ),
    **dict.fromkeys(
        (
            "AriaForConditionalGeneration", "GlmAsrForConditionalGeneration",
            "Idefics3ForConditionalGeneration", "KananaVForConditionalGeneration", "MiniCPMO",
            "MiniCPMV", "Phi3VForCausalLM", "Phi4ForCausalLMV", "SmolVLMForConditionalGeneration",
        ),
        _LLAMA,
    ),
    **dict.fromkeys(
        (
            "Blip2ForConditionalGeneration", "DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM",
            "DeepseekVLV2ForCausalLM", "Eagle2_5_VLForConditionalGeneration",
            "GraniteSpeechForConditionalGeneration", "GraniteSpeechPlusForConditionalGeneration",
            "H2OVLChatModel", "HCXVisionV2ForCausalLM", "InternS1ForConditionalGeneration",
            "InternVLChatModel", "InternVLForConditionalGeneration",
            "Lfm2VlForConditionalGeneration", "LightOnOCRForConditionalGeneration",
            "LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration",
            "LlavaNextVideoForConditionalGeneration", "LlavaOnevisionForConditionalGeneration",
            "NVLM_D", "NemotronH_Nano_VL_V2", "NemotronH_Omni_Reasoning_V3", "Ovis", "Ovis2_5",
            "PaliGemmaForConditionalGeneration", "PixtralForConditionalGeneration",
            "QianfanOCRForConditionalGeneration", "SkyworkR1VChatModel",
            "Step3VLForConditionalGeneration", "UltravoxModel", "VoxtralForConditionalGeneration",
        ),
        _WRAPPER,
    ),
    "BailingMoeV3VLForConditionalGeneration": FAMILIES["BailingMoeV3ForCausalLM"],
    "DeepseekV4ForConditionalGeneration": FAMILIES["DeepseekV4ForCausalLM"],
    # names that collections of configs give these two; vLLM knows the classes above
    "MiniMaxM3ForCausalLM": FAMILIES["MiniMaxM3SparseForCausalLM"],
    "Step3p7FlashForCausalLM": FAMILIES["Step3p5ForCausalLM"],
    "DiffusionGemmaForBlockDiffusion": FAMILIES["Gemma4ForCausalLM"],
    "Exaone4_5_ForConditionalGeneration": FAMILIES["Exaone4ForCausalLM"],
    "Glm4vForConditionalGeneration": FAMILIES["Glm4ForCausalLM"],
    "GlmOcrForConditionalGeneration": Family(norms_per_layer=4),
    "MuseGlimmerForConditionalGeneration": FAMILIES["MuseGlimmerForCausalLM"],
    "OpenPanguVLForConditionalGeneration": FAMILIES["PanguEmbeddedForCausalLM"],
    "PaddleOCRVLForConditionalGeneration": FAMILIES["Ernie4_5ForCausalLM"],
}  # fmt: skip

# The class of a text part that names none, by its model_type.
TEXT_CLASSES: dict[str, str] = {
    "cohere2": "Cohere2ForCausalLM", "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM", "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM",
    "gpt_oss": "GptOssForCausalLM", "granite": "GraniteForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM", "internlm2": "InternLM2ForCausalLM",
    "lfm2": "Lfm2ForCausalLM", "lfm2_moe": "Lfm2MoeForCausalLM", "llama": "LlamaForCausalLM",
    "ministral3": "Ministral3ForCausalLM", "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM", "opt": "OPTForCausalLM", "nemotron_h": "NemotronHForCausalLM",
    "phi3": "Phi3ForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}  # fmt: skip

# transformers' defaults of text parts: the first LLaVA checkpoints state little else.
_LLAMA_7B = {
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 2048,
}  # fmt: skip
TEXT_DEFAULTS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": _LLAMA_7B,
    "MistralForCausalLM": {**_LLAMA_7B, "intermediate_size": 14336, "num_key_value_heads": 8},
}

# The last vLLM release that serves a class (model_executor/models/registry.py:
# _PREVIOUSLY_SUPPORTED_MODELS, vLLM 0.32). Those that vLLM then runs on transformers' own class
# (Dots1, Persimmon) are not here.
VLLM_UNTIL: dict[str, str] = {
    "JAISLMHeadModel": "0.22.0", "QWenLMHeadModel": "0.23.0", "InternLMForCausalLM": "0.23.0",
    "XverseForCausalLM": "0.23.0", "BambaForCausalLM": "0.23.0",
    "MiniMaxForCausalLM": "0.23.0", "MiniMaxText01ForCausalLM": "0.23.0",
    "MiniMaxM1ForCausalLM": "0.23.0", "BaiChuanForCausalLM": "0.23.0",
    "BaichuanForCausalLM": "0.23.0", "AquilaModel": "0.24.0", "AquilaForCausalLM": "0.24.0",
    "Grok1ModelForCausalLM": "0.24.0", "Grok1ForCausalLM": "0.24.0",
    "TeleChatForCausalLM": "0.25.0", "OuroForCausalLM": "0.26.0",
    "ArcticForCausalLM": "0.28.0", "Plamo2ForCausalLM": "0.26.0", "MPTForCausalLM": "0.28.0",
    "MptForCausalLM": "0.28.0", "StableLMEpochForCausalLM": "0.28.0",
    "Phi3SmallForCausalLM": "0.9.2", "CodeGenForCausalLM": "0.0",  # 0.0: never
}  # fmt: skip
