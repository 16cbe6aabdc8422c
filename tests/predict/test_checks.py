"""What engines refuse before they count memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.engines import find_profile
from neoserve.catalog.models import find_model
from neoserve.predict.checks import refusal_of
from neoserve.schema.engine import Deployment
from neoserve.schema.model import ModelSpec

NEW, SGLANG = find_profile("vllm"), find_profile("sglang")
LLAMA = "meta-llama/Llama-3.1-8B"
BAICHUAN = "baichuan-inc/Baichuan2-7B-Chat"  # in vLLM until 0.23.0


def spec(model_id: str) -> ModelSpec:
    return find_model(model_id, online=False)


def refused(model: str | ModelSpec, profile=NEW, **settings: object) -> str:
    found = spec(model) if isinstance(model, str) else model
    return refusal_of(found, Deployment(**settings), profile)


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16, 32])
def test_llama_8b_starts_on_every_power_of_two(tp: int) -> None:
    # 32 heads are cut; 8 KV heads are cut up to 8 ranks and copied beyond
    assert refused(LLAMA, tensor_parallel=tp) == ""


@pytest.mark.parametrize(
    ("model_id", "tp", "said"),
    [
        (LLAMA, 3, "32 attention heads cannot be cut over tensor_parallel 3"),
        ("Qwen/Qwen2.5-7B-Instruct", 8, "28 attention heads cannot be cut over tensor_parallel 8"),
        # 40 heads divide by 4, 10 KV heads neither divide by it nor it by them
        ("microsoft/Phi-3-medium-4k-instruct", 4, "10 KV heads can be neither cut over nor copied"),
        # 112 heads and 7168 channels of state, 32 attention heads: 32 ranks do not divide 112
        ("Zyphra/Zamba2-7B-Instruct", 32, "the mamba2 state cannot be cut over tensor_parallel 32"),
        # 8 groups of B and C
        ("nvidia/Nemotron-H-8B-Base-8K", 16, "8 state groups cannot be cut over tensor_parallel"),
    ],
)
def test_what_does_not_divide_is_refused(model_id: str, tp: int, said: str) -> None:
    assert said in refused(model_id, tensor_parallel=tp)


def test_a_single_state_group_is_copied() -> None:
    # Bamba-9B has one group, 128 heads and 8192 channels
    model = spec("ibm-ai-platform/Bamba-9B-v1")
    assert refused(model, find_profile("vllm", "0.23.0"), tensor_parallel=8) == ""


def test_latents_are_copied_to_any_number_of_ranks() -> None:
    assert refused("deepseek-ai/DeepSeek-V3", tensor_parallel=16) == ""


def test_a_class_that_vllm_dropped_is_refused_with_the_last_version() -> None:
    assert "until 0.23.0 only; ask for it with --engine-version 0.23.0" in refused(BAICHUAN)
    assert refused(BAICHUAN, find_profile("vllm", "0.23.0")) == ""
    assert refused(BAICHUAN, find_profile("vllm", "0.9.0")) == ""


@pytest.mark.parametrize(
    ("version", "served"),
    [
        ("0.23.0", True), ("0.23.0rc2", True), ("0.23.0.post1", True), ("0.23", True),
        ("0.9.1", True), ("0.23.1", False), ("0.24.0", False), ("0.24.dev5", False),
        ("0.25.1", False), ("1.0", False),
    ],
)  # fmt: skip
def test_the_version_that_is_asked_for_decides(version: str, served: bool) -> None:
    # whatever span of versions the profile of memory rules covers
    assert (refused(BAICHUAN, NEW, engine_version=version) == "") is served


def test_a_class_that_vllm_never_had() -> None:
    never = spec(LLAMA).replace(vllm_until="0.0")
    assert refused(never) == "vLLM does not serve LlamaForCausalLM"


def test_vllms_own_refusal_of_a_config_is_passed_on() -> None:
    odd = spec(LLAMA).replace(vllm_refusal="rope scaling of type x is not supported")
    assert refused(odd) == "rope scaling of type x is not supported"


def test_other_engines_have_their_own_history() -> None:
    assert refused(BAICHUAN, SGLANG) == ""
    assert refused(spec(LLAMA).replace(vllm_refusal="no"), SGLANG) == ""
    assert "heads cannot be cut" in refused(LLAMA, SGLANG, tensor_parallel=3)


def test_drafting_needs_a_head_of_the_checkpoints_own() -> None:
    said = refused(LLAMA, num_speculative_tokens=1)
    assert said == f"{LLAMA} has no multi-token-prediction head of its own"
    assert refused("deepseek-ai/DeepSeek-V3", num_speculative_tokens=1) == ""


@pytest.mark.parametrize(
    ("model_id", "options", "said"),
    [
        ("Zyphra/Zamba2-7B-Instruct", {"pipeline_parallel": 2},
         "vLLM cannot cut Zamba2ForCausalLM into pipeline stages"),
        (LLAMA, {"block_size": 24}, "block_size 24 is not a multiple of 16"),
        ("nvidia/Nemotron-H-8B-Base-8K", {"disable_hybrid_kv_cache_manager": True},
         "refused for a model with request states"),
        ("deepseek-ai/DeepSeek-V3", {"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype fp8_e5m2"),
        ("deepseek-ai/DeepSeek-V3", {"kv_cache_dtype": "int8_per_token_head"}, "int8_per_token"),
        ("openai/gpt-oss-20b", {"decode_context_parallel": 2, "tensor_parallel": 16},
         "decode_context_parallel is refused for layers with a window"),
        # 8 KV heads on 8 ranks are not copied: there is nothing to share
        (LLAMA, {"decode_context_parallel": 2, "tensor_parallel": 8},
         "needs tensor_parallel of at least 16 for 8 KV heads; it is 8"),
        (LLAMA, {"decode_context_parallel": 4, "tensor_parallel": 16},
         "needs tensor_parallel of at least 32 for 8 KV heads; it is 16"),
    ],
)  # fmt: skip
def test_options_that_vllm_refuses_for_a_kind_of_layer(
    model_id: str, options: dict, said: str
) -> None:
    assert said in refused(model_id, **options)


@pytest.mark.parametrize(
    ("model_id", "options"),
    [
        (LLAMA, {"pipeline_parallel": 2}),
        (LLAMA, {"block_size": 32}),
        (LLAMA, {"kv_cache_dtype": "fp8_e5m2"}),
        ("google/gemma-3-27b-it", {"disable_hybrid_kv_cache_manager": True}),
        ("deepseek-ai/DeepSeek-V3", {"kv_cache_dtype": "fp8"}),
        (LLAMA, {"decode_context_parallel": 2, "tensor_parallel": 16}),  # 8 heads, copied twice
        ("deepseek-ai/DeepSeek-V3", {"decode_context_parallel": 8, "tensor_parallel": 8}),
        # states are not shared, and need not be
        ("tiiuae/falcon-mamba-7b", {"decode_context_parallel": 2, "tensor_parallel": 2}),
    ],
)  # fmt: skip
def test_the_same_options_are_taken_by_other_layers(model_id: str, options: dict) -> None:
    assert refused(model_id, **options) == ""


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 64))
@settings(deadline=None)
def test_attention_starts_exactly_where_every_rank_gets_whole_heads(
    groups: int, kv_heads: int, tp: int
) -> None:
    heads = groups * kv_heads
    model = spec(LLAMA)
    (mixer,) = model.layers[0].mixers
    layer = model.layers[0].replace(mixers=(mixer.replace(num_heads=heads, num_kv_heads=kv_heads),))
    starts = refused(model.replace(num_heads=heads, layers=(layer,)), tensor_parallel=tp) == ""
    # whole query heads, and each rank's KV heads are whole or one copied equally often
    copied = tp > kv_heads and tp % kv_heads == 0
    cut = tp <= kv_heads and kv_heads % tp == 0
    assert starts == (heads % tp == 0 and (cut or copied))
