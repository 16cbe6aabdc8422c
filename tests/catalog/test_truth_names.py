"""Names that benchmark tables print."""

from __future__ import annotations

import pytest

from neoserve.catalog.truth_names import bare_name, model_named, stored_model
from neoserve.errors import CatalogMiss


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("Qwen3.6-35B-A3B-UD-Q4_K_XL", "Qwen3.6-35B-A3B"),
        ("ggml-org/gemma-3-4b-it-qat-GGUF", "ggml-org/gemma-3-4b-it"),
        ("RedHatAI/Llama-8B-quantized.w4a16", "RedHatAI/Llama-8B"),
        ("Meta-Llama-3-8B-Instruct.Q8R16", "Meta-Llama-3-8B-Instruct"),
        ("meta-llama/Llama-3.1-70B (as printed)", "meta-llama/Llama-3.1-70B"),
        ("Mistral 7B AWQ", "Mistral 7B"),
        ("openai/gpt-oss-120b", "openai/gpt-oss-120b"),
    ],
)  # fmt: skip
def test_storage_suffixes_are_no_part_of_the_model(name: str, bare: str) -> None:
    assert bare_name(name) == bare


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Llama-3.2-1B-Instruct-Q4_K_M", 1.24), ("Deci/DeciLM-7B", 7.04), ("CodeLlama-34B", 33.7),
        ("Qwen/Qwen3.5-0.8B", 0.75), ("Qwen/Qwen3.5-2B", 1.88), ("LLaMA 7B", 6.74),
        ("mistralai/Mistral-Small-4-119B-2603-NVFP4", 119.0), ("Mixtral 46.7B AWQ", 46.7),
        ("ibm-granite/granite-4.1-8b", 8.4), ("Nemotron3-Nano", 31.6),
    ],
)  # fmt: skip
def test_a_name_has_its_size(name: str, billions: float) -> None:
    assert model_named(name).total_params / 1e9 == pytest.approx(billions, rel=0.02)


def stored(name: str, scheme: str, dtype: str = "", engine: str = "vllm") -> tuple[float, str]:
    found = stored_model(name, scheme, dtype, engine).quantization
    role = "experts" if "oss" in name or "MiniMax" in name else "mlp"
    return found.bits.get(role, 16.0), found.compute.get(role, "")


def test_the_row_says_how_it_is_stored() -> None:
    assert stored("meta-llama/Llama-3.1-8B-Instruct", "none") == (16.0, "")
    assert stored("meta-llama/Llama-3.1-8B-Instruct", "") == (16.0, "")
    assert stored("meta-llama/Llama-3.1-8B-Instruct", "fp8") == (8, "fp8")
    assert stored("Qwen/Qwen3.6-27B-FP8", "fp8") == (pytest.approx(8.002, abs=1e-3), "fp8")
    assert stored("MiniMaxAI/MiniMax-M2.5", "fp8")[1] == "fp8"
    assert stored("MiniMaxAI/MiniMax-M2.5", "nvfp4") == (4.5, "fp4")


def test_gguf_types_come_from_the_column_or_the_publisher() -> None:
    llama = "Llama-3.2-1B-Instruct-Q4_K_M"
    assert stored(llama, "gguf", "Q4_K_M", "llama.cpp") == (4.85, "int8")
    assert stored(llama, "gguf", "BF16", "llama.cpp")[0] == 16
    assert stored("ggml-org/gemma-3-4b-it-qat-GGUF", "", "", "llama.cpp")[0] == 4.5
    assert stored("ggml-org/GLM-4.7-Flash-GGUF", "", "", "llama.cpp")[0] == 8.5


def test_gpt_oss_experts_are_mxfp4_everywhere() -> None:
    assert stored("openai/gpt-oss-120b", "nvfp4")[0] == 4.25
    assert stored("ggml-org/gpt-oss-20b-GGUF", "gguf", "MXFP4", "llama.cpp") == (4.25, "int8")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(CatalogMiss):
        model_named("Nobody/Nothing-1B")
