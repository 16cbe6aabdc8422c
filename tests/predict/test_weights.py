"""Weight bytes by hand, against published checkpoints and against what engines logged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.models import find_model
from neoserve.catalog.quantization import weight_scheme
from neoserve.predict.memory import footprint
from neoserve.predict.weights import bits_of, layer_bytes, pipeline_stages, stage_weights
from neoserve.schema.engine import Deployment
from neoserve.schema.model import ModelSpec
from neoserve.schema.quantization import quantize

GIB = 2**30
LOGS = Path(__file__).parents[1] / "data" / "kv_capacity.jsonl"
LLAMA = "meta-llama/Llama-3.1-8B"

# Llama-3.1-8B: hidden 4096, 32 heads and 8 KV heads of 128, 14336 inner, 128256 words, 32 layers
LLAMA_ATTENTION = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024)  # q and o, k and v
LLAMA_MLP = 32 * 3 * 4096 * 14336
LLAMA_TABLE = 128256 * 4096
LLAMA_NORMS = 32 * 2 * 4096


def spec(model_id: str) -> ModelSpec:
    return find_model(model_id, online=False)


def stage(model: ModelSpec, number: int = 0, **settings: object) -> dict[str, float]:
    return stage_weights(model, Deployment(**settings), number)


def total(model: ModelSpec, **settings: object) -> float:
    stages = int(settings.get("pipeline_parallel", 1))
    return sum(sum(stage(model, i, **settings).values()) for i in range(stages))


def test_llama_8b_role_by_role() -> None:
    roles = stage(spec(LLAMA))
    assert roles["attention"] == 2 * LLAMA_ATTENTION == 2 * 1_342_177_280
    assert roles["mlp"] == 2 * LLAMA_MLP == 2 * 5_637_144_576
    assert roles["embedding"] == roles["lm_head"] == 2 * LLAMA_TABLE
    assert roles["other"] == 2 * LLAMA_NORMS
    assert roles["final"] == 2 * 4096
    assert roles["experts"] == roles["shared_experts"] == roles["vision"] == 0


# Parameters as published: safetensors metadata on the Hugging Face hub; 2 bytes each.
@pytest.mark.parametrize(
    ("model_id", "parameters"),
    [
        (LLAMA, 8_030_261_248),
        ("Qwen/Qwen3-32B", 32_762_123_264),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
        ("google/gemma-7b-it", 8_537_680_896),
        ("microsoft/phi-4", 14_659_507_200),
    ],
)
def test_16_bit_weights_are_two_bytes_a_published_parameter(model_id: str, parameters: int) -> None:
    assert total(spec(model_id)) == pytest.approx(2 * parameters, rel=1e-5)


# Checkpoint sizes of the gpt-oss model card (arXiv 2508.10925, table 1): MXFP4 experts.
@pytest.mark.parametrize(
    ("model_id", "gib"), [("openai/gpt-oss-20b", 12.8), ("openai/gpt-oss-120b", 60.8)]
)
def test_gpt_oss_checkpoints_are_as_large_as_their_model_card_says(
    model_id: str, gib: float
) -> None:
    assert total(spec(model_id)) / GIB == pytest.approx(gib, rel=0.005)


def test_deepseek_v3s_draft_head_has_11_5_billion_parameters_of_its_own() -> None:
    # README_WEIGHTS.md of DeepSeek-V3: 11.5B unique parameters, stored in 8 bits
    model = spec("deepseek-ai/DeepSeek-V3")
    draft = total(model, num_speculative_tokens=1) - total(model)
    assert draft == pytest.approx(11.5e9, rel=0.03)


# "Model loading took ... GiB" of public logs beside the model that they loaded.
LOADED = {
    "dl22-qwen2-7b-tp1-a100-80g-u0.5": "Qwen/Qwen2-7B-Instruct",
    "dl22-qwen2-7b-tp2-a100-80g-u0.5": "Qwen/Qwen2-7B-Instruct",
    "djr-nemotron3-nano4b-bf16-gb10": "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16",
    "djr-qwen36-35b-bf16-gb10": "Qwen/Qwen3.6-35B-A3B",
    "jethac-gemma4-26b-bf16-gb10": "google/gemma-4-26B-A4B-it",
    "abinav-llama31-8b-l4": LLAMA,
    "kolyan-qwen3-30b-h100": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "sukrit-dsv2lite-gb10": "deepseek-ai/DeepSeek-V2-Lite",
    "idx9297248278-gemma3-27b": "google/gemma-3-27b-it",
    "rtx6k-minimax-m25-fp8-tp4": "MiniMaxAI/MiniMax-M2.5",
    "rtx6k-glm51-dcp1-mtp0": "nvidia/GLM-5.1-NVFP4",
}


@pytest.mark.parametrize("case", LOADED)
def test_weights_are_within_two_percent_of_what_vllm_logged(case: str) -> None:
    rows = {row["id"]: row for row in map(json.loads, LOGS.read_text().splitlines())}
    row = rows[case]
    loaded = total(spec(LOADED[case]), tensor_parallel=row["tensor_parallel"] or 1)
    assert loaded / GIB == pytest.approx(row["model_weights_gib"], rel=0.02)


@pytest.mark.parametrize(
    ("scheme", "bits"),
    [
        ("fp8", 8.0),
        ("w8a8", 8.0),
        ("awq", 4 + (16 + 4) / 128),  # an fp16 scale and a 4-bit zero point for 128 weights
        ("w4a16", 4 + 16 / 128),
        ("nvfp4", 4 + 8 / 16),
        ("mxfp4", 4 + 8 / 32),
    ],
)
def test_schemes_shrink_the_linear_layers_and_leave_the_tables(scheme: str, bits: float) -> None:
    linear = LLAMA_ATTENTION + LLAMA_MLP
    rest = 2 * LLAMA_TABLE + LLAMA_NORMS + 4096
    model = quantize(spec(LLAMA), weight_scheme(scheme))
    assert total(model) == pytest.approx(linear * bits / 8 + rest * 2)


def test_ggml_quantizes_the_head_too() -> None:
    model = quantize(spec(LLAMA), weight_scheme("q8_0"))
    roles = stage(model)
    assert roles["lm_head"] == LLAMA_TABLE * 34 / 32  # 34 bytes for 32 weights
    assert roles["embedding"] == LLAMA_TABLE * 2


def test_roles_that_no_scheme_names_stay_in_the_model_dtype() -> None:
    model = spec("openai/gpt-oss-20b")
    assert bits_of(model, "experts") == 4 + 8 / 32
    assert bits_of(model, "attention") == bits_of(model, "embedding") == 16
    assert bits_of(spec(LLAMA).replace(dtype="float32"), "mlp") == 32


def test_experts_are_cut_over_their_own_ranks() -> None:
    # Mixtral: 8 experts of 3 x 4096 x 14336, a router of 8 x 4096
    model = spec("mistralai/Mixtral-8x7B-v0.1")
    roles = layer_bytes(model, model.layers[0], tp=2, expert_ranks=8)
    assert roles["experts"] == 8 * 3 * 4096 * 14336 * 2 / 8
    assert roles["attention"] == (2 * 4096 * 4096 + 2 * 4096 * 1024) * 2 / 2
    assert roles["other"] >= (8 * 4096 + 2 * 4096) * 2  # the router and norms, uncut


MODELS = [
    LLAMA, "Qwen/Qwen2.5-3B", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V2-Lite",
    "google/gemma-3-27b-it", "nvidia/Nemotron-H-8B-Base-8K", "Qwen/Qwen3-Next-80B-A3B-Instruct",
]  # fmt: skip
REPLICATED = ("other", "final", "vision")


@given(st.sampled_from(MODELS), st.sampled_from([2, 4, 8, 16]))
@settings(deadline=None, max_examples=30)
def test_ranks_together_hold_the_model_and_copies_of_what_is_not_cut(
    model_id: str, ranks: int
) -> None:
    model = spec(model_id)
    each = stage(model, tensor_parallel=ranks)
    copies = sum(each[role] for role in REPLICATED)
    assert ranks * sum(each.values()) - (ranks - 1) * copies == pytest.approx(total(model))


@given(st.integers(1, 200), st.integers(1, 16))
def test_stages_are_cut_as_vllm_cuts_them(layers: int, stages: int) -> None:
    ranges = pipeline_stages(layers, stages)
    assert [i for r in ranges for i in r] == list(range(layers))
    sizes = list(map(len, ranges))
    assert max(sizes) - min(sizes) <= 1
    assert sizes[-1] == layers // stages  # the last stage holds the head beside its layers
    assert sizes[:-1] == sorted(sizes[:-1])  # the rest goes from the last but one backwards


def test_62_layers_on_four_stages() -> None:
    assert list(map(len, pipeline_stages(62, 4))) == [15, 16, 16, 15]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_of_an_untied_model_add_up_to_it(stages: int) -> None:
    model = spec(LLAMA)
    assert total(model, pipeline_parallel=stages) == pytest.approx(total(model))
    first = stage(model, 0, pipeline_parallel=stages)
    last = stage(model, stages - 1, pipeline_parallel=stages)
    assert "lm_head" not in first
    assert "embedding" not in last
    if stages > 2:
        middle = stage(model, 1, pipeline_parallel=stages)
        assert {"embedding", "lm_head", "final", "vision"}.isdisjoint(middle)


def test_a_tied_head_is_loaded_again_on_the_last_stage() -> None:
    # Qwen2.5-3B ties 151936 x 2048 words
    model = spec("Qwen/Qwen2.5-3B")
    extra = total(model, pipeline_parallel=2) - total(model)
    assert extra == pytest.approx(2 * 151936 * 2048)


def test_draft_layers_stand_on_the_last_stage() -> None:
    model = spec("deepseek-ai/DeepSeek-V3")
    plain = [sum(stage(model, i, pipeline_parallel=2).values()) for i in range(2)]
    drafting = [
        sum(stage(model, i, pipeline_parallel=2, num_speculative_tokens=1).values())
        for i in range(2)
    ]
    assert drafting[0] == plain[0]
    assert drafting[1] - plain[1] == pytest.approx(11.5e9, rel=0.03)


def test_a_vision_encoder_is_copied_to_every_rank() -> None:
    model = spec("Qwen/Qwen2.5-VL-7B-Instruct")
    alone, four = (stage(model, tensor_parallel=tp)["vision"] for tp in (1, 4))
    assert alone == four == 2 * model.vision_params > 0


def test_the_files_size_replaces_the_sum_where_it_is_known() -> None:
    model = spec(LLAMA).replace(safetensors_bytes=20 * GIB)
    assert footprint(model, Deployment()).weights_bytes == (20 * GIB,)
    # two ranks share it as they share the computed bytes: half, and a copy of the norms
    norms = 2 * (LLAMA_NORMS + 4096)
    alone = 2 * 8_030_261_248
    each = (alone - norms) / 2 + norms
    (half,) = footprint(model, Deployment(tensor_parallel=2)).weights_bytes
    assert half == pytest.approx(20 * GIB * each / alone, abs=1)
    # with stages the file does not say which holds what: the roles are summed
    stages = footprint(model, Deployment(pipeline_parallel=2)).weights_bytes
    assert sum(stages) == alone


def test_a_model_without_weights_has_none_whatever_its_file() -> None:
    hollow = spec(LLAMA).replace(
        layers=(), embedding_params=0, lm_head_params=0, final_params=0, safetensors_bytes=GIB
    )
    assert footprint(hollow, Deployment()).weights_bytes == (0,)
