"""config.json -> ModelSpec: parameter counts against public totals and vLLM's own model classes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.architectures import read_config
from neoserve.catalog.families import FAMILIES
from neoserve.catalog.models import bundled_config, bundled_names, find_model
from neoserve.errors import AskError, CatalogMiss

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip

# Parameters of published checkpoints: safetensors metadata on the Hugging Face hub, read
# 2026-10/11. None of them was computed here.
PUBLISHED = {
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Meta-Llama-3.1-70B": 70_553_706_496,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "google/gemma-7b": 8_537_680_896,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "microsoft/phi-4": 14_659_507_200,
}


@pytest.mark.parametrize(("name", "params"), PUBLISHED.items())
def test_parameters_equal_the_published_checkpoint(name: str, params: int) -> None:
    spec = find_model(name, online=False)
    # attention biases and norms of single layers are the only things not always modelled
    assert spec.total_params == pytest.approx(params, rel=2e-4)


def test_deepseek_v3_activates_37_billion() -> None:
    spec = find_model("deepseek-ai/DeepSeek-V3", online=False)
    assert spec.total_params == pytest.approx(671.0e9, rel=1e-3)  # technical report, abstract
    assert spec.active_params == pytest.approx(37.0e9, rel=0.02)


def test_every_bundled_model_of_a_known_architecture_is_read() -> None:
    read = []
    for name in bundled_names():
        try:
            spec = find_model(name, online=False)
        except CatalogMiss:
            assert bundled_config(name)["architectures"][0] not in FAMILIES
            continue
        assert spec.total_params > 1e6
        assert spec.active_params > 0
        read.append(name)
    assert len(read) >= 320


def test_families_of_the_catalog_cover_every_kind_of_layer() -> None:
    kinds = set()
    for name in bundled_names():
        try:
            spec = find_model(name, online=False)
        except CatalogMiss:
            continue
        kinds |= {m.kind for layer in spec.layers for m in layer.mixers}
    assert kinds == {
        "full", "sliding", "chunked", "mla", "mla-sparse", "mla-compressed", "mamba1", "mamba2",
        "gated-delta", "kda", "linear", "short-conv",
    }  # fmt: skip


def test_an_unknown_architecture_is_refused_by_name() -> None:
    with pytest.raises(CatalogMiss, match=r"LlamaForCausalLMX.*does not guess"):
        read_config({**LLAMA, "architectures": ["LlamaForCausalLMX"]}, "m")


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"]
)
def test_a_missing_field_is_named(field: str) -> None:
    config = {k: v for k, v in LLAMA.items() if k != field}
    with pytest.raises(AskError, match=field):
        read_config(config, "m")


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_size", float("nan")), ("hidden_size", -4096), ("num_hidden_layers", 10**9),
     ("vocab_size", "many"), ("num_attention_heads", 0), ("hidden_size", 1e300),
     ("num_key_value_heads", [1, 2]), ("head_dim", 2**40), ("num_hidden_layers", True),
     ("layer_types", ["full_attention"]), ("layer_types", ["quantum"] * 32),
     ("torch_dtype", "float8"), ("hidden_size", 4097)],
)  # fmt: skip
def test_absurd_values_are_refused_in_one_sentence(field: str, value: object) -> None:
    with pytest.raises(AskError) as caught:
        read_config({**LLAMA, field: value}, "m")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "raw", [{}, {"architectures": []}, {"architectures": "Llama"}, [], 3, None]
)
def test_what_is_no_config_is_refused(raw: object) -> None:
    with pytest.raises(AskError):
        read_config(raw, "m")  # type: ignore[arg-type]


junk = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(), st.text(max_size=5),
    st.lists(st.integers(-5, 5), max_size=4), st.dictionaries(st.text(max_size=3), st.integers()),
)  # fmt: skip


SAMPLES = ("Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b")
FIELDS = sorted({k for n in (*SAMPLES, "Qwen/Qwen3.5-35B-A3B") for k in bundled_config(n)})


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(FIELDS), junk, st.sampled_from(SAMPLES))
def test_no_value_of_any_field_makes_a_traceback(key: str, value: object, name: str) -> None:
    config = {**bundled_config(name), key: value}
    reason = ""
    try:
        assert math.isfinite(read_config(config, "m").total_params)
    except AskError as error:
        reason = str(error)
    assert "\n" not in reason


def test_gemma3_alternates_five_to_one() -> None:
    spec = find_model("google/gemma-3-27b-it", online=False)
    kinds = [layer.mixers[0].kind for layer in spec.layers]
    assert kinds.count("full") == 10
    assert kinds.count("sliding") == 52
    assert kinds[5] == "full"


def test_longrope_and_linear_factors() -> None:
    linear = {**LLAMA, "max_position_embeddings": 4096,
              "rope_scaling": {"type": "linear", "factor": 4.0}}  # fmt: skip
    yarn = {**LLAMA, "max_position_embeddings": 4096,
            "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}  # fmt: skip
    assert read_config(linear, "m").max_position_tokens == 16384
    assert read_config(yarn, "m").max_position_tokens == 4096  # stated lengths are scaled already


def test_a_qwen2_window_on_some_layers_is_refused_by_vllm_only() -> None:
    config = {**bundled_config("Qwen/Qwen2.5-7B-Instruct"), "use_sliding_window": True,
              "sliding_window": 4096, "max_window_layers": 20}  # fmt: skip
    spec = read_config(config, "m")
    assert [layer.mixers[0].kind for layer in spec.layers] == ["full"] * 20 + ["sliding"] * 8
    assert "no sliding window for layers 20 to 28 only" in spec.vllm_refusal


@pytest.mark.parametrize(
    ("name", "bits", "compute", "kv"),
    [
        ("Qwen/Qwen3-32B-FP8", 8.0, "fp8", "auto"),
        ("Qwen/Qwen3-32B-AWQ", 4 + 20 / 128, "bf16", "auto"),
        ("nvidia/Kimi-K2.5-NVFP4", 4.5, "fp4", "fp8"),
        ("openai/gpt-oss-120b", 4.25, "bf16", "auto"),
    ],
)
def test_quantized_checkpoints(name: str, bits: float, compute: str, kv: str) -> None:
    spec = find_model(name, online=False)
    role = "experts" if any(layer.ffn.num_experts for layer in spec.layers) else "mlp"
    assert spec.quantization.bits[role] == pytest.approx(bits, abs=0.01)
    assert spec.quantization.compute[role] == compute
    assert spec.kv_cache_dtype == kv


def test_only_experts_of_gpt_oss_are_quantized() -> None:
    bits = find_model("openai/gpt-oss-120b", online=False).quantization.bits
    assert bits["attention"] == bits["lm_head"] == 16
    # the published checkpoint has 63.4 GB (openai/gpt-oss-120b model card: fits 80 GB)
    spec = find_model("openai/gpt-oss-120b", online=False)
    experts = sum(layer.ffn.num_experts * layer.ffn.expert_params for layer in spec.layers)
    assert experts * bits["experts"] / 8 == pytest.approx(60.9e9, rel=0.02)


def test_folder_with_index(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert find_model(str(tmp_path)).safetensors_bytes == 16_060_522_496


def test_folder_with_safetensors_headers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    header = json.dumps({"__metadata__": {}, "w": {"data_offsets": [0, 40]}}).encode()
    file = tmp_path / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(40))
    assert find_model(str(tmp_path)).safetensors_bytes == 40
    file.write_bytes((10**15).to_bytes(8, "little"))
    with pytest.raises(AskError, match="truncated"):
        find_model(str(tmp_path))


@pytest.mark.parametrize("content", ["", "{", "[]", "\x00\xff", "nul", "{" * 5000])
def test_a_broken_config_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(AskError) as caught:
        find_model(str(file))
    assert "\n" not in str(caught.value)


def test_a_config_of_a_hundred_megabytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as handle:
        handle.truncate(100 * 2**20)
    with pytest.raises(AskError, match="100 MiB"):
        find_model(str(file))


def test_nearest_names_are_offered() -> None:
    with pytest.raises(CatalogMiss) as caught:
        find_model("Qwen/Qwen3-32", online=False)
    assert "Qwen/Qwen3-32B" in caught.value.nearest


@pytest.mark.parametrize("spelling", ["qwen3-32b", "QWEN/QWEN3-32B", "Qwen3-32B"])
def test_spellings_are_forgiven(spelling: str) -> None:
    assert find_model(spelling, online=False).id == "Qwen/Qwen3-32B"
