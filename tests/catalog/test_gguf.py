"""GGUF headers: against the gguf package, against Hugging Face configs, and damaged."""

from __future__ import annotations

import math
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.architectures import read_config
from neoserve.catalog.families import FAMILIES
from neoserve.catalog.gguf import GgufHeader, gguf_model, read_gguf
from neoserve.catalog.gguf_header import Counted
from neoserve.catalog.gguf_names import ARCHITECTURES, FLOATS, MIXTURES, PERIODS, TENSOR_TYPES
from neoserve.errors import AskError, CatalogMiss
from neoserve.measure.engine.llamacpp import demo_model_path
from neoserve.schema.model import ModelSpec

gguf = pytest.importorskip("gguf")
np = pytest.importorskip("numpy")

Tensors = list[tuple[str, tuple[int, ...], str]]  # name, shape with the contiguous side first, type
SMOLLM2_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False,
    "hidden_size": 576, "intermediate_size": 1536, "max_position_embeddings": 8192,
    "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
    "rope_theta": 100000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "vocab_size": 49152,
}  # fmt: skip


def write(path: Path, arch: str, keys: dict[str, Any], tensors: Tensors) -> Path:
    """A GGUF file by the gguf package; its weights are a hole of the right length."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in keys.items():
        name = key if key.split(".")[0] in ("general", "tokenizer", "split") else f"{arch}.{key}"
        if key == "split.count":
            writer.add_uint16(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    total = 0
    for name, shape, kind in tensors:
        quant = gguf.GGMLQuantizationType[kind.upper()]
        block, block_bytes = gguf.GGML_QUANT_SIZES[quant]
        num_bytes = math.prod(shape) // block * block_bytes
        writer.add_tensor_info(name, shape[::-1], np.dtype(np.float32), num_bytes, quant)
        total = -(-total // 32) * 32 + num_bytes
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    size = path.stat().st_size
    with path.open("r+b") as stream:
        stream.truncate(-(-size // 32) * 32 + total if tensors else size)
    return path


def assert_same_model(model: ModelSpec, config: dict[str, Any], **changes: Any) -> None:
    """Layer for layer what config.json gives; name and stored formats aside."""
    expected = read_config(config, model.id).replace(
        quantization=model.quantization, safetensors_bytes=model.safetensors_bytes, **changes
    )
    for i, (ours, theirs) in enumerate(zip(model.layers, expected.layers, strict=True)):
        assert ours == theirs, f"layer {i}"
    assert model == expected


# ── names ─────────────────────────────────────────────────────────────────────────────────────


def test_tensor_types_are_those_of_the_gguf_package() -> None:
    expected = {
        int(kind): (kind.name.lower(), *gguf.GGML_QUANT_SIZES[kind])
        for kind in gguf.GGMLQuantizationType
    }
    assert {key: TENSOR_TYPES.get(key) for key in expected} == expected
    assert {name for name, _, _ in TENSOR_TYPES.values()} >= FLOATS


def test_mixtures_are_those_of_the_gguf_package() -> None:
    names = {int(f): f.name.removeprefix("MOSTLY_").lower() for f in gguf.LlamaFileType}
    assert {key: names[key] for key in MIXTURES} == MIXTURES


def test_architectures_are_known_on_both_sides() -> None:
    assert set(ARCHITECTURES) <= set(gguf.MODEL_ARCH_NAMES.values())
    assert set(ARCHITECTURES.values()) <= set(FAMILIES)
    assert set(PERIODS) <= set(ARCHITECTURES)


# ── the real file ─────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def smollm2() -> Path:
    return demo_model_path()  # importing its package would import an engine that is not used


def test_smollm2_header_equals_the_gguf_package_s(smollm2: Path) -> None:
    assert_reads_as_gguf_does(read_gguf(smollm2), smollm2)


def assert_reads_as_gguf_does(ours: GgufHeader, path: Path) -> None:
    theirs = gguf.GGUFReader(path)
    fields = {k: f for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert ours.version == theirs.fields["GGUF.version"].contents()
    assert list(ours.metadata) == list(fields)
    for key, value in ours.metadata.items():
        if isinstance(value, Counted):
            assert value.num_items == len(fields[key].data) > 2048
        else:
            assert value == fields[key].contents(), key
    assert ours.tensors == tuple(
        (t.name, tuple(int(n) for n in t.shape), t.tensor_type.name.lower(), t.n_bytes)
        for t in theirs.tensors
    )


def test_smollm2_is_the_model_of_its_hugging_face_config(smollm2: Path) -> None:
    model = gguf_model(smollm2)
    assert_same_model(model, SMOLLM2_CONFIG)
    assert model.total_params == 134_515_008
    assert (len(model.layers), model.num_heads, model.lm_head_params) == (30, 9, 0)
    mixer = model.layers[0].mixers[0]
    assert (mixer.num_kv_heads, mixer.head_dim, model.hidden_size) == (3, 64, 576)
    assert model.notes == ()


def test_smollm2_bits_are_those_of_its_tensors(smollm2: Path) -> None:
    model = gguf_model(smollm2)
    quantization = model.quantization
    assert quantization.scheme == "q4_1"
    assert quantization.bits == {"embedding": 8.5, "lm_head": 8.5, "attention": 5.0, "mlp": 5.0}
    assert set(quantization.compute.values()) == {"int8"}
    assert "embedding" not in quantization.compute
    # all of the file but its header (1,785,664 bytes)
    assert model.safetensors_bytes == smollm2.stat().st_size - 1_785_664


def test_smollm2_is_read_without_its_vocabulary_in_memory(smollm2: Path) -> None:
    tracemalloc.start()
    read_gguf(smollm2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # the header alone has 1.8 MB


# ── written headers of other families, at full size ───────────────────────────────────────────


def attention(i: int, hidden: int, heads: int, kv: int, dim: int, kind: str) -> Tensors:
    """Separate q, k, v and output projections."""
    sides = {"q": heads, "k": kv, "v": kv}
    made = [(f"blk.{i}.attn_{s}.weight", (hidden, n * dim), kind) for s, n in sides.items()]
    return [*made, (f"blk.{i}.attn_output.weight", (heads * dim, hidden), kind)]


def gated(i: int, hidden: int, width: int, kind: str, end: str = "", *stack: int) -> Tensors:
    """gate, up and down."""
    return [
        (f"blk.{i}.ffn_gate{end}.weight", (hidden, width, *stack), kind),
        (f"blk.{i}.ffn_up{end}.weight", (hidden, width, *stack), kind),
        (f"blk.{i}.ffn_down{end}.weight", (width, hidden, *stack), kind),
    ]


def ends(hidden: int, vocab: int, kind: str, *, tied: bool) -> Tensors:
    table: Tensors = [("token_embd.weight", (hidden, vocab), kind)]
    return table if tied else [*table, ("output.weight", (hidden, vocab), "q6_k")]


QWEN3_30B = {
    "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 48,
    "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "max_position_embeddings": 40960, "vocab_size": 151936,
    "tie_word_embeddings": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip


def qwen3_30b(path: Path, kind: str = "q4_k", layers: int = 48) -> Path:
    keys = {
        "general.file_type": 15, "block_count": layers, "context_length": 40960,
        "embedding_length": 2048, "feed_forward_length": 6144, "attention.head_count": 32,
        "attention.head_count_kv": 4, "attention.key_length": 128, "attention.value_length": 128,
        "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 768,
    }  # fmt: skip
    tensors = ends(2048, 151936, kind, tied=False)
    for i in range(layers):
        tensors += attention(i, 2048, 32, 4, 128, kind)
        tensors += gated(i, 2048, 768, kind, "_exps", 128)
        tensors.append((f"blk.{i}.ffn_gate_inp.weight", (2048, 128), "f32"))
    return write(path, "qwen3moe", keys, tensors)


def test_moe(tmp_path: Path) -> None:
    model = gguf_model(qwen3_30b(tmp_path / "Qwen3-30B-A3B-Q4_K_M.gguf"))
    assert_same_model(model, QWEN3_30B)
    assert model.id == "Qwen3-30B-A3B-Q4_K_M"
    assert model.layers[0].ffn.num_experts == 128
    assert model.quantization.scheme == "q4_k_m"
    assert model.quantization.bits == {
        "embedding": 4.5, "lm_head": 6.5625, "attention": 4.5, "experts": 4.5,
    }  # fmt: skip


def test_mixtral_has_its_experts_under_the_llama_architecture(tmp_path: Path) -> None:
    keys = {
        "block_count": 2, "context_length": 32768, "embedding_length": 512, "vocab_size": 320,
        "feed_forward_length": 1024, "attention.head_count": 8, "attention.head_count_kv": 2,
        "expert_count": 8, "expert_used_count": 2,
    }  # fmt: skip
    tensors: Tensors = [("output.weight", (512, 320), "f16")]
    for i in range(2):  # before the experts of a layer were merged into one tensor
        tensors.append((f"blk.{i}.ffn_gate_inp.weight", (512, 8), "f32"))
        for e in range(8):
            tensors += [(n.replace(".weight", f".{e}.weight"), s, k)
                        for n, s, k in gated(i, 512, 1024, "q8_0")]  # fmt: skip
    model = gguf_model(write(tmp_path / "x.gguf", "llama", keys, tensors))
    config = {
        "architectures": ["MixtralForCausalLM"], "hidden_size": 512, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1024,
        "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 320,
        "max_position_embeddings": 32768, "tie_word_embeddings": False,
    }  # fmt: skip
    assert_same_model(model, config, architecture="LlamaForCausalLM", notes=model.notes)
    assert model.quantization.bits["experts"] == 8.5
    assert model.quantization.compute == {"experts": "int8", "lm_head": "bf16"}


V2_LITE = {
    "architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 27,
    "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "q_lora_rank": None,
    "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
    "num_experts_per_tok": 6, "n_shared_experts": 2, "first_k_dense_replace": 1,
    "max_position_embeddings": 163840, "vocab_size": 102400, "tie_word_embeddings": False,
}  # fmt: skip


def v2_lite_keys(latent: bool) -> dict[str, Any]:
    """DeepSeek-V2-Lite as llama.cpp wrote it before and after it learnt to cache latents."""
    lengths = (
        {"attention.head_count_kv": 1, "attention.key_length": 576, "attention.value_length": 512,
         "attention.key_length_mla": 192, "attention.value_length_mla": 128}
        if latent else
        {"attention.head_count_kv": 16, "attention.key_length": 192, "attention.value_length": 128}
    )  # fmt: skip
    return {
        "block_count": 27, "context_length": 163840, "embedding_length": 2048,
        "feed_forward_length": 10944, "attention.head_count": 16, "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64, "leading_dense_block_count": 1, "expert_count": 64,
        "expert_used_count": 6, "expert_shared_count": 2, "expert_feed_forward_length": 1408,
    } | lengths  # fmt: skip


@pytest.mark.parametrize("latent", [True, False])
def test_latent_attention(tmp_path: Path, latent: bool) -> None:
    tensors = ends(2048, 102400, "q8_0", tied=False)
    for i in range(27):
        tensors += [
            (f"blk.{i}.attn_q.weight", (2048, 16 * 192), "q8_0"),
            (f"blk.{i}.attn_kv_a_mqa.weight", (2048, 576), "q8_0"),
            (f"blk.{i}.attn_output.weight", (16 * 128, 2048), "q8_0"),
        ]
        tensors += (
            [(f"blk.{i}.attn_k_b.weight", (128, 512, 16), "q8_0"),
             (f"blk.{i}.attn_v_b.weight", (512, 128, 16), "q8_0")]
            if latent else [(f"blk.{i}.attn_kv_b.weight", (512, 16 * 256), "q8_0")]
        )  # fmt: skip
        if not i:
            tensors += gated(i, 2048, 10944, "q8_0")
            continue
        tensors.append((f"blk.{i}.ffn_gate_inp.weight", (2048, 64), "f32"))
        tensors += gated(i, 2048, 1408, "q4_0", "_exps", 64)
        tensors += gated(i, 2048, 2816, "q5_0", "_shexp")
    model = gguf_model(write(tmp_path / "x.gguf", "deepseek2", v2_lite_keys(latent), tensors))
    assert_same_model(model, V2_LITE, notes=model.notes)
    assert [note.split()[1] for note in model.notes] == ([] if latent else ["caches"])
    assert model.family == "mla-moe"
    bits = model.quantization.bits
    assert (bits["experts"], bits["shared_experts"], bits["mlp"]) == (4.5, 5.5, 8.5)
    assert model.quantization.scheme == "q4_0"


GEMMA3_1B = {
    "architectures": ["Gemma3ForCausalLM"], "hidden_size": 1152, "num_hidden_layers": 26,
    "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256,
    "intermediate_size": 6912, "sliding_window": 512, "sliding_window_pattern": 6,
    "max_position_embeddings": 32768, "vocab_size": 262144,
}  # fmt: skip


@pytest.mark.parametrize(
    "pattern", [{}, {"attention.sliding_window_pattern": 6},
                {"attention.sliding_window_pattern": [i % 6 < 5 for i in range(26)]}]
)  # fmt: skip
def test_sliding_windows(tmp_path: Path, pattern: dict[str, Any]) -> None:
    keys = {
        "block_count": 26, "context_length": 32768, "embedding_length": 1152,
        "feed_forward_length": 6912, "attention.head_count": 4, "attention.head_count_kv": 1,
        "attention.key_length": 256, "attention.value_length": 256,
        "attention.sliding_window": 512,
    } | pattern  # fmt: skip
    tensors = ends(1152, 262144, "bf16", tied=True)
    for i in range(26):
        tensors += attention(i, 1152, 4, 1, 256, "bf16") + gated(i, 1152, 6912, "bf16")
    model = gguf_model(write(tmp_path / "x.gguf", "gemma3", keys, tensors))
    assert_same_model(model, GEMMA3_1B)
    assert [m.window_tokens for layer in model.layers for m in layer.mixers][:6] == [512] * 5 + [0]
    assert model.quantization.scheme == "none"
    assert set(model.quantization.compute.values()) == {"bf16"}
    assert set(model.quantization.bits.values()) == {16.0}


TINY: Tensors = [("output.weight", (64, 8), "f32")]
COMMON = {"block_count": 4, "context_length": 4096, "embedding_length": 64, "vocab_size": 512,
          "feed_forward_length": 256, "attention.head_count": 4}  # fmt: skip
HF_COMMON = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 512,
    "intermediate_size": 256, "max_position_embeddings": 4096, "tie_word_embeddings": False,
}  # fmt: skip

# architecture, GGUF keys, config.json keys: what its converter makes of the latter
FAMILIES_BY_KEYS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("gpt-oss",
     {"attention.head_count_kv": 2, "attention.key_length": 32, "attention.sliding_window": 128,
      "expert_count": 8, "expert_used_count": 2, "expert_feed_forward_length": 256},
     {"architectures": ["GptOssForCausalLM"], "num_key_value_heads": 2, "head_dim": 32,
      "sliding_window": 128, "num_local_experts": 8, "num_experts_per_tok": 2,
      "layer_types": ["sliding_attention", "full_attention"] * 2}),
    ("gemma2", {}, {"architectures": ["Gemma2ForCausalLM"], "sliding_window": 4096}),
    ("cohere2", {"attention.sliding_window": 64},
     {"architectures": ["Cohere2ForCausalLM"], "sliding_window": 64}),
    # llama.cpp attends to everything here
    ("phi3", {"attention.sliding_window": 64}, {"architectures": ["Phi3ForCausalLM"]}),
    ("llama4", {"interleave_moe_layer_step": 2, "expert_count": 4, "expert_used_count": 1,
                "expert_feed_forward_length": 128},
     {"architectures": ["Llama4ForCausalLM"], "model_type": "llama4_text",
      "attention_chunk_size": 8192, "interleave_moe_layer_step": 2, "num_local_experts": 4,
      "num_experts_per_tok": 1, "intermediate_size": 128, "intermediate_size_mlp": 256}),
    ("glm4moe", {"block_count": 5, "nextn_predict_layers": 1, "leading_dense_block_count": 1,
                 "expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
                 "expert_shared_count": 1},
     {"architectures": ["Glm4MoeForCausalLM"], "num_nextn_predict_layers": 1,
      "first_k_dense_replace": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "n_shared_experts": 1}),
    ("qwen2moe", {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 32,
                  "expert_shared_feed_forward_length": 96},
     {"architectures": ["Qwen2MoeForCausalLM"], "num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "shared_expert_intermediate_size": 96}),
    ("qwen3next",
     {"attention.key_length": 32, "ssm.conv_kernel": 4, "ssm.state_size": 16,
      "ssm.group_count": 2, "ssm.time_step_rank": 4, "ssm.inner_size": 64},
     {"architectures": ["Qwen3NextForCausalLM"], "head_dim": 32, "linear_num_key_heads": 2,
      "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
      "linear_conv_kernel_dim": 4, "num_nextn_predict_layers": 0}),
    ("jamba",
     {"attention.head_count_kv": [0, 0, 2, 0], "ssm.conv_kernel": 4, "ssm.state_size": 16,
      "ssm.time_step_rank": 8, "ssm.inner_size": 128},
     {"architectures": ["JambaForCausalLM"], "num_key_value_heads": 2, "attn_layer_period": 4,
      "attn_layer_offset": 2, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_dt_rank": 8,
      "mamba_expand": 2}),
    ("mamba2",
     {"attention.head_count": 0, "feed_forward_length": 0, "ssm.conv_kernel": 4,
      "ssm.inner_size": 128, "ssm.state_size": 32, "ssm.time_step_rank": 2, "ssm.group_count": 1},
     {"architectures": ["Mamba2ForCausalLM"], "num_attention_heads": None, "expand": 2,
      "intermediate_size": None, "head_dim": 64, "num_heads": 2, "mamba_num_heads": 2,
      "state_size": 32, "n_groups": 1, "conv_kernel": 4}),
    ("nemotron_h",
     {"attention.head_count_kv": [0, 0, 2, 0], "feed_forward_length": [0, 256, 0, 256],
      "attention.key_length": 16, "ssm.conv_kernel": 4, "ssm.inner_size": 128,
      "ssm.state_size": 32, "ssm.time_step_rank": 8, "ssm.group_count": 2},
     {"architectures": ["NemotronHForCausalLM"], "hybrid_override_pattern": "M-*-",
      "num_key_value_heads": 2, "head_dim": 16, "conv_kernel": 4, "mamba_num_heads": 8,
      "mamba_head_dim": 16, "ssm_state_size": 32, "n_groups": 2}),
    ("lfm2", {"attention.head_count_kv": [0, 2, 0, 2], "shortconv.l_cache": 3},
     {"architectures": ["Lfm2ForCausalLM"], "num_key_value_heads": 2, "conv_L_cache": 3,
      "layer_types": ["conv", "full_attention"] * 2}),
    ("kimi-linear",
     {"attention.head_count_kv": [0, 0, 0, 1], "attention.kv_lora_rank": 32,
      "attention.key_length_mla": 24, "attention.value_length_mla": 16, "kda.head_dim": 16,
      "rope.dimension_count": 8, "ssm.conv_kernel": 4},
     {"architectures": ["KimiLinearForCausalLM"], "kv_lora_rank": 32, "qk_nope_head_dim": 16,
      "qk_rope_head_dim": 8, "v_head_dim": 16,
      "linear_attn_config": {"full_attn_layers": [4], "num_heads": 4, "head_dim": 16,
                             "short_conv_kernel_size": 4}}),
    ("falcon-h1",
     {"attention.head_count_kv": 2, "ssm.conv_kernel": 4, "ssm.inner_size": 128,
      "ssm.state_size": 32, "ssm.time_step_rank": 8, "ssm.group_count": 1},
     {"architectures": ["FalconH1ForCausalLM"], "num_key_value_heads": 2, "mamba_d_ssm": 128,
      "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 32, "mamba_n_groups": 1,
      "mamba_d_conv": 4}),
    ("deci",
     {"attention.head_count_kv": [2, 0, 2, 1], "feed_forward_length": [256, 256, 0, 512]},
     {"architectures": ["DeciLMForCausalLM"], "block_configs": [
         {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 6.0}},
         {"attention": {"no_op": True}, "ffn": {"ffn_mult": 6.0}},
         {"attention": {"n_heads_in_group": 2}, "ffn": {"no_op": True}},
         {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 12.0}}]}),
    ("gemma4",
     {"attention.head_count_kv": [2, 1, 2, 1], "attention.key_length": 32,
      "attention.value_length": 32, "attention.key_length_swa": 16,
      "attention.value_length_swa": 16, "attention.sliding_window": 64,
      "attention.sliding_window_pattern": [True, False] * 2, "attention.shared_kv_layers": 2},
     {"architectures": ["Gemma4ForCausalLM"], "num_key_value_heads": 2, "head_dim": 16,
      "num_global_key_value_heads": 1, "global_head_dim": 32, "sliding_window": 64,
      "layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 2}),
    ("gemma3n",
     {"block_count": 25, "attention.sliding_window": 64, "embedding_length_per_layer_input": 16},
     {"architectures": ["Gemma3nForCausalLM"], "num_hidden_layers": 25, "sliding_window": 64,
      "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 5,
      "num_kv_shared_layers": 5, "hidden_size_per_layer_input": 16}),
    ("step35",
     {"attention.head_count": [4, 6, 4, 6], "attention.head_count_kv": 2,
      "attention.key_length": 16, "attention.value_length": 16, "attention.sliding_window": 64,
      "attention.sliding_window_pattern": [False, True] * 2},
     {"architectures": ["Step3p5ForCausalLM"], "num_attention_heads": 6, "head_dim": 16,
      "num_attention_heads_per_layer": [4, 6, 4, 6], "num_key_value_heads": 2,
      "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"] * 2}),
    ("mamba",
     {"attention.head_count": 0, "feed_forward_length": 0, "ssm.conv_kernel": 4,
      "ssm.inner_size": 128, "ssm.state_size": 16, "ssm.time_step_rank": 4},
     {"architectures": ["MambaForCausalLM"], "num_attention_heads": None, "expand": 2,
      "intermediate_size": 128, "state_size": 16, "conv_kernel": 4, "time_step_rank": 4}),
    ("gpt2", {}, {"architectures": ["GPT2LMHeadModel"]}),
    ("bloom", {"attention.head_count_kv": 4}, {"architectures": ["BloomForCausalLM"]}),
    ("minicpm3",
     {"attention.q_lora_rank": 48, "attention.kv_lora_rank": 32, "attention.key_length": 24,
      "rope.dimension_count": 8, "attention.head_count_kv": 4},
     {"architectures": ["MiniCPM3ForCausalLM"], "q_lora_rank": 48, "kv_lora_rank": 32,
      "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arch", "keys", "config"), FAMILIES_BY_KEYS, ids=[row[0] for row in FAMILIES_BY_KEYS]
)
def test_keys_give_the_layers_of_config_json(
    tmp_path: Path, arch: str, keys: dict[str, Any], config: dict[str, Any]
) -> None:
    model = gguf_model(write(tmp_path / "x.gguf", arch, COMMON | keys, TINY))
    assert_same_model(model, HF_COMMON | config, notes=model.notes)


def test_tensors_say_which_layers_are_recurrent_and_which_have_experts(tmp_path: Path) -> None:
    keys = COMMON | {
        "attention.head_count_kv": 2, "ssm.conv_kernel": 4, "ssm.inner_size": 128,
        "ssm.state_size": 32, "ssm.time_step_rank": 8, "ssm.group_count": 1, "expert_count": 4,
        "expert_used_count": 2, "feed_forward_length": 32,
    }  # fmt: skip
    tensors = list(TINY)
    for i in range(4):
        tensors.append((f"blk.{i}.{'attn_q' if i == 3 else 'ssm_in'}.weight", (64, 64), "f32"))
        tensors.append((f"blk.{i}.ffn_gate_inp.weight", (64, 4), "f32"))
        tensors += gated(i, 64, 96, "f32", "_shexp")
    model = gguf_model(write(tmp_path / "x.gguf", "granitehybrid", keys, tensors))
    kinds = [layer.mixers[0].kind for layer in model.layers]
    assert kinds == ["mamba2", "mamba2", "mamba2", "full"]
    assert model.layers[0].ffn.num_experts == 4
    assert model.layers[0].ffn.shared_params == 3 * 64 * 96
    assert model.notes  # most of its tensors are missing


def test_tensors_say_what_each_nemotron_layer_is(tmp_path: Path) -> None:
    keys = COMMON | {
        "attention.head_count_kv": [0, 0, 2, 0], "feed_forward_length": [0, 32, 0, 256],
        "attention.key_length": 16, "ssm.conv_kernel": 4, "ssm.inner_size": 128,
        "ssm.state_size": 32, "ssm.time_step_rank": 8, "ssm.group_count": 2, "expert_count": 4,
        "expert_used_count": 2, "expert_feed_forward_length": 32,
    }  # fmt: skip
    stems = ("ssm_in", "ffn_gate_inp", "attn_q", "ffn_up")
    tensors = TINY + [(f"blk.{i}.{stem}.weight", (64, 4), "f32") for i, stem in enumerate(stems)]
    model = gguf_model(write(tmp_path / "x.gguf", "nemotron_h_moe", keys, tensors))
    kinds = [[m.kind for m in layer.mixers] for layer in model.layers]
    assert kinds == [["mamba2"], [], ["full"], []]
    assert [layer.ffn.num_experts for layer in model.layers] == [0, 4, 0, 0]


def test_biases_are_seen(tmp_path: Path) -> None:
    tensors = [*TINY, ("blk.0.attn_q.bias", (64,), "f32")]
    model = gguf_model(write(tmp_path / "x.gguf", "llama", COMMON, tensors))
    config = HF_COMMON | {"architectures": ["LlamaForCausalLM"], "attention_bias": True}
    assert_same_model(model, config, notes=model.notes)


@pytest.mark.parametrize(
    ("kind", "dtype", "bits"), [("f16", "float16", 16.0), ("f32", "bfloat16", 32.0)]
)
def test_float_files(tmp_path: Path, kind: str, dtype: str, bits: float) -> None:
    tensors = attention(0, 64, 4, 4, 16, kind)
    model = gguf_model(write(tmp_path / "x.gguf", "llama", COMMON, tensors))
    assert (model.dtype, model.quantization.scheme) == (dtype, "none")
    assert model.quantization.bits == {"attention": bits}
    assert model.quantization.compute == {"attention": "bf16"}


# ── several parts ─────────────────────────────────────────────────────────────────────────────


def split(folder: Path, tensors: Tensors, stated: int) -> list[Path]:
    """A model in two files, the second without metadata of its own."""
    parts = []
    for i, (keys, held) in enumerate([(COMMON, tensors[:1]), ({}, tensors[1:])]):
        parts.append(folder / f"big-{i + 1:05}-of-00002.gguf")
        marks = {"split.no": i, "split.count": 2, "split.tensors.count": stated}
        write(parts[-1], "llama", keys | marks, held)
    return parts


def test_parts_are_summed_from_any_of_them(tmp_path: Path) -> None:
    tensors = attention(0, 64, 4, 4, 16, "f32")
    parts = split(tmp_path, tensors, 4)
    model = gguf_model(parts[0])
    assert model.safetensors_bytes == 4 * 4 * 64 * 64
    assert model.id == "big"
    assert gguf_model(parts[1]) == model


def test_missing_renamed_and_foreign_parts_are_refused(tmp_path: Path) -> None:
    parts = split(tmp_path, attention(0, 64, 4, 4, 16, "f32"), 5)
    with pytest.raises(AskError, match="expected 5 different ones"):
        gguf_model(parts[0])
    parts[1].rename(tmp_path / "other.gguf")
    with pytest.raises(AskError, match=r"00002-of-00002.*does not exist"):
        gguf_model(parts[0])
    with pytest.raises(AskError, match="one of 2 parts"):
        gguf_model(tmp_path / "other.gguf")


# ── what is refused ───────────────────────────────────────────────────────────────────────────


def assert_refused(path: Path, words: str = ".") -> None:
    with pytest.raises(AskError, match=words) as caught:
        gguf_model(path)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_unknown_architecture_names_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf", "qwen3mode", COMMON, TINY)
    with pytest.raises(CatalogMiss, match="qwen3mode") as caught:
        gguf_model(path)
    assert "qwen3moe" in caught.value.nearest


def test_not_gguf(tmp_path: Path) -> None:
    assert_refused(tmp_path, "is not a file")
    assert_refused(tmp_path / "none.gguf", "does not exist")
    path = tmp_path / "x.gguf"
    for data, words in {
        b"": "is empty", b"G": "begins with", b"GGUF": "more bytes", b"# hello\n": "begins with",
        b"GGUF" + struct.pack("<I", 1): "version 1", b"GGUF" + struct.pack(">I", 3): "big-endian",
        b"GGUF" + struct.pack("<I", 4): "version 4", b"GGUF" + struct.pack("<I", 0): "version 0",
    }.items():  # fmt: skip
        path.write_bytes(data)
        assert_refused(path, words)


def test_an_unreadable_file_gives_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "x.gguf", "llama", COMMON, TINY)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert_refused(path, "Permission denied")


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


def file_of(*keys: bytes, tensors: int = 0, rest: bytes = b"", count: int | None = None) -> bytes:
    counts = struct.pack("<IQQ", 3, tensors, len(keys) if count is None else count)
    return b"GGUF" + counts + b"".join(keys) + rest


HUGE = 10**18
ABSURD = {
    "tensors": file_of(tensors=HUGE, rest=bytes(64)),
    "keys": file_of(count=HUGE, rest=bytes(64)),
    "key length": file_of(struct.pack("<Q", HUGE) + bytes(64)),
    "string length": file_of(key(b"a", 8, struct.pack("<Q", HUGE) + bytes(64))),
    "numbers": file_of(key(b"a", 9, struct.pack("<IQ", 4, HUGE) + bytes(64))),
    "strings": file_of(key(b"a", 9, struct.pack("<IQ", 8, HUGE) + bytes(64))),
    "long string": file_of(
        key(b"a", 9, struct.pack("<IQ", 8, 3000) + struct.pack("<Q", HUGE) * 3000)
    ),
    "value type": file_of(key(b"a", 13, bytes(64))),
    "array type": file_of(key(b"a", 9, struct.pack("<IQ", 9, 1) + bytes(64))),
    "dimensions": file_of(tensors=1, rest=struct.pack("<QI", 0, 2**31) + bytes(64)),
    "shape": file_of(
        tensors=1, rest=struct.pack("<QIQQQQIQ", 0, 4, *[HUGE] * 4, 0, 0) + bytes(64)
    ),
    "tensor type": file_of(tensors=1, rest=struct.pack("<QIQIQ", 0, 1, 4, 4, 0) + bytes(64)),
    "half block": file_of(tensors=1, rest=struct.pack("<QIQIQ", 0, 1, 33, 2, 0) + bytes(64)),
    "offset": file_of(tensors=1, rest=struct.pack("<QIQIQ", 0, 1, 1, 0, 32) + bytes(64)),
    "alignment": file_of(key(b"general.alignment", 4, struct.pack("<I", 24))),
    "key twice": file_of(*[key(b"a", 0, b"\0")] * 2),
    "tensor twice": file_of(tensors=2, rest=struct.pack("<QIQIQ", 0, 1, 0, 0, 0) * 2),
}


@pytest.mark.parametrize("data", ABSURD.values(), ids=ABSURD)
def test_absurd_counts_allocate_nothing(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(AskError):
        read_gguf(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300_000  # buffers and the exception itself


def test_absurd_models(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    for keys, words in (
        ({"block_count": 2**31}, "layers; expected 1 to 2048"),
        ({"block_count": 0}, "lacks llama.block_count"),
        ({"block_count": "many"}, "expected a whole number"),
        ({"block_count": 2, "attention.head_count": [1]}, "for each of 2 layers"),
        ({"attention.head_count": -1.5}, "expected a whole number"),
        ({"attention.head_count": 0}, "lacks llama.attention.head_count"),
        ({"attention.head_count": 5}, "not divisible"),
        ({"vocab_size": 0}, "lacks llama.vocab_size"),
        ({"general.type": "adapter"}, "is a GGUF adapter"),
    ):
        path.unlink(missing_ok=True)
        assert_refused(write(path, "llama", COMMON | keys, TINY), words)
    path.unlink()
    assert_refused(write(path, "llama", COMMON, []), "holds no tensors")
    path.unlink()
    wrong: Tensors = [("token_embd.weight", (32, 512), "f32")]
    assert_refused(write(path, "llama", COMMON, wrong), "token_embd.weight is 32x512")


# ── damage ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole file of under 3 kB with every kind of key, and weights at its end."""
    keys = COMMON | {
        "attention.head_count_kv": [2, 2, 2, 2], "rope.freq_base": 1e4, "general.name": "s",
        "tokenizer.ggml.tokens": ["a", "bc"], "attention.sliding_window": 16, "expert_count": 2,
        "expert_used_count": 1,
    }  # fmt: skip
    tensors: Tensors = [
        ("token_embd.weight", (64, 2), "q8_0"), ("blk.0.attn_q.weight", (64, 4), "q4_0"),
    ]  # fmt: skip
    return write(tmp_path_factory.mktemp("gguf") / "small.gguf", "gemma3", keys, tensors)


def test_the_small_file_is_whole(small: Path) -> None:
    assert_reads_as_gguf_does(read_gguf(small), small)
    assert gguf_model(small).vocab_size == 2


def test_every_truncation_is_refused(small: Path, tmp_path: Path) -> None:
    data, path = small.read_bytes(), tmp_path / "x.gguf"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert_refused(path)


@settings(max_examples=400, deadline=None)
@given(flips=st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_never_crash(small: Path, flips: list[tuple[int, int]]) -> None:
    data = bytearray(small.read_bytes())
    for at, mask in flips:
        data[at % len(data)] ^= mask
    path = small.with_name("flipped.gguf")
    path.write_bytes(data)
    try:
        model = gguf_model(path)
    except AskError:
        return
    assert isinstance(model, ModelSpec)
    assert model.total_params >= 0
