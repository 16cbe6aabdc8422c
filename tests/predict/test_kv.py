"""Grouping and block arithmetic: hand-computed cases and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.predict.cache import Cache, unify_pages
from neoserve.predict.kv import (
    blocks_of,
    blocks_per_request,
    capacity,
    in_flight_tokens,
    layout,
    longest_request,
)
from neoserve.schema.engine import Deployment

H100 = find_machine("H100-SXM").hardware
NEW = find_profile("vllm")
GIB = 2**30


def capacity_of(model_id: str, available: int, length: int, batched: int = 8192, **settings):
    model = find_model(model_id, online=False)
    deployment = Deployment(max_model_len=length, **settings)
    return capacity(
        layout(model, deployment, NEW, H100), model, deployment, NEW,
        [available] * deployment.pipeline_parallel, length, batched,
    )  # fmt: skip


def test_llama_8b_by_hand() -> None:
    # 32 layers x 2 x 8 heads x 128 x 2 B = 131,072 B a token; 2 MiB a block of 16
    kv = capacity_of("meta-llama/Llama-3.1-8B", 20 * GIB, 131072).kv
    assert kv.bytes_per_token == 131072
    assert kv.bytes_per_block == 2 * 2**20
    assert kv.num_blocks == 20 * 1024 // 2
    assert kv.max_concurrency == pytest.approx(10240 / 8192)
    assert kv.kv_tokens == 163840


def test_deepseek_v3_latents_are_replicated_over_ranks() -> None:
    alone = capacity_of("deepseek-ai/DeepSeek-V3", 40 * GIB, 32768).kv
    eight = capacity_of("deepseek-ai/DeepSeek-V3", 40 * GIB, 32768, tensor_parallel=8).kv
    assert alone.bytes_per_token == eight.bytes_per_token == 61 * 576 * 2


def test_kv_heads_are_replicated_once_ranks_outnumber_them() -> None:
    # Qwen2.5-3B has 2 KV heads
    two = capacity_of("Qwen/Qwen2.5-3B", 10 * GIB, 32768, tensor_parallel=2).kv
    eight = capacity_of("Qwen/Qwen2.5-3B", 10 * GIB, 32768, tensor_parallel=8).kv
    assert two.bytes_per_token == eight.bytes_per_token == 36 * 2 * 128 * 2


def test_qwen3_next_blocks_grow_until_a_state_fits() -> None:
    # 1,097,728 B of state / 2,048 B a token, up to a multiple of 16 (planning reference, 7.4)
    kv = capacity_of("Qwen/Qwen3-Next-80B-A3B-Instruct", 20 * GIB, 32768).kv
    assert kv.block_size_tokens == 544


@pytest.mark.parametrize(("caching", "blocks"), [(True, 3), (False, 1)])
def test_prefix_caching_costs_state_blocks(caching: bool, blocks: int) -> None:
    kv = capacity_of("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 20 * GIB, 32768,
                     enable_prefix_caching=caching).kv  # fmt: skip
    assert {g.blocks_per_request for g in kv.groups if g.kind == "state"} == {blocks}


def test_a_window_keeps_what_is_in_flight() -> None:
    cache = Cache("sliding", 16, 1, 1, window_tokens=128)
    # cd(127 + 16384, 16) + 1
    assert blocks_of(cache, 131072, 2 * 8192) == 1033
    assert blocks_of(cache, 64, 2 * 8192) == 5  # never more than the request


def test_versions_reserve_one_batch_or_two() -> None:
    deployment = Deployment()
    assert in_flight_tokens(deployment, find_profile("vllm", "0.32.0"), 8192) == 16384
    assert in_flight_tokens(deployment, find_profile("vllm", "0.25.1"), 8192) == 8192
    sync = Deployment(async_scheduling=False)
    assert in_flight_tokens(sync, NEW, 8192) == 8192
    staged = Deployment(pipeline_parallel=4)
    assert in_flight_tokens(staged, NEW, 100) == 500  # PP + 1 on the newest runner


def test_log_definition_changed_at_0_20_1() -> None:
    assert find_profile("vllm", "0.20.0").log_definition == "blocks-per-group"
    assert find_profile("vllm", "0.20.1").log_definition == "concurrency-x-length"


def test_a_request_that_does_not_fit_is_refused_with_the_length_that_does() -> None:
    answer = capacity_of("meta-llama/Llama-3.1-8B", 5 * GIB, 131072)
    assert "one request of 131,072 tokens needs 16.0 GiB" in answer.refusal
    # 2,560 blocks, one of them held back
    assert answer.kv.longest_request_tokens == 2559 * 16


def test_pipeline_stages_hold_their_own_layers() -> None:
    one = capacity_of("meta-llama/Llama-3.1-8B", 20 * GIB, 8192).kv
    two = capacity_of("meta-llama/Llama-3.1-8B", 20 * GIB, 8192, pipeline_parallel=2).kv
    assert two.num_blocks == 2 * one.num_blocks


def test_decode_context_parallel_shares_a_request() -> None:
    one = capacity_of("deepseek-ai/DeepSeek-V3", 40 * GIB, 65536, tensor_parallel=8).kv
    four = capacity_of("deepseek-ai/DeepSeek-V3", 40 * GIB, 65536, tensor_parallel=8,
                       decode_context_parallel=4).kv  # fmt: skip
    assert four.max_concurrency == pytest.approx(4 * one.max_concurrency)


def test_latents_beside_a_page_that_no_multiple_fits_are_refused() -> None:
    with pytest.raises(AskError, match="cannot be padded"):
        unify_pages([Cache("mla", 16, 100, 100), Cache("full", 16, 150, 150)])


def test_padding_and_scaling_of_pages() -> None:
    small = Cache("full", 16, 50, 50)
    odd = Cache("sliding", 16, 70, 70, window_tokens=8)
    big = Cache("full", 16, 100, 100)
    scaled, padded, kept = unify_pages([small, odd, big])
    assert (scaled.block_tokens, scaled.page_bytes) == (32, 100)
    assert (padded.block_tokens, padded.page_bytes, padded.content_bytes) == (16, 100, 70)
    assert kept is big


MODELS = [
    "meta-llama/Llama-3.1-8B", "google/gemma-3-27b-it", "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite", "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "deepseek-ai/DeepSeek-V4-Pro",
    "moonshotai/Kimi-Linear-48B-A3B-Instruct",
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(MODELS), st.integers(1, 120) , st.integers(1, 4096), st.booleans(),
    st.sampled_from(["auto", "fp8"]), st.sampled_from([1, 2, 4]),
)  # fmt: skip
def test_more_memory_never_holds_less(model, gib, more_mib, caching, dtype, tp) -> None:
    settings = {"enable_prefix_caching": caching, "kv_cache_dtype": dtype, "tensor_parallel": tp}
    small = capacity_of(model, gib * GIB, 4096, **settings)
    large = capacity_of(model, gib * GIB + more_mib * 2**20, 4096, **settings)
    assert large.kv.num_blocks >= small.kv.num_blocks
    assert large.kv.longest_request_tokens >= small.kv.longest_request_tokens
    assert small.kv.num_blocks * small.kv.bytes_per_block <= gib * GIB
    assert not (small.refusal == "" and large.refusal)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), st.integers(2, 3000), st.integers(1, 30000))
def test_the_longest_request_fits_and_one_token_more_does_not(model_id, blocks, in_flight) -> None:
    model = find_model(model_id, online=False)
    deployment = Deployment()
    plan = layout(model, deployment, NEW, H100)
    limit = 200_000
    longest = longest_request(plan, deployment, blocks, limit, in_flight)
    assert 0 <= longest <= limit
    if longest:
        assert blocks_per_request(plan, deployment, longest, in_flight) <= blocks
    if longest < limit:
        assert blocks_per_request(plan, deployment, longest + 1, in_flight) > blocks


@given(st.sampled_from(MODELS), st.booleans())
@settings(deadline=None)
def test_every_layer_is_in_exactly_one_group(model_id: str, caching: bool) -> None:
    model = find_model(model_id, online=False)
    plan = layout(model, Deployment(enable_prefix_caching=caching), NEW, H100)
    held: dict[int, int] = {}
    for group in plan.groups:
        for layer, _ in group.caches:
            held[layer] = held.get(layer, 0) + 1
    expected = {i for i, layer in enumerate(model.layers) if any(m.caches for m in layer.mixers)}
    assert set(held) == expected
    pages = {c.page_bytes for g in plan.groups for _, c in g.caches}
    assert len(pages) == 1 or model.family in ("dsv4", "mla-dsa")
    assert not math.isnan(plan.block_tokens)


def test_a_real_vllm_on_a_cpu_made_the_same_blocks() -> None:
    """vLLM 0.32 on x86-64 with VLLM_CPU_KVCACHE_SPACE=1 logged "CPU KV cache size: 46,592 tokens,
    Maximum concurrency for 2,048 tokens per request: 22.75x" for SmolLM2-135M."""
    from neoserve.faces.ask import answer_predict
    from neoserve.schema.ask import PredictAsk

    kv = answer_predict(
        PredictAsk(
            model="HuggingFaceTB/SmolLM2-135M-Instruct", on="c8g.4xlarge", online=False,
            deployment=Deployment(max_model_len=2048, max_num_seqs=8),
            available_kv_bytes=2**30,
        )
    ).kv  # fmt: skip
    assert kv is not None
    assert (kv.kv_tokens, kv.max_concurrency, kv.block_size_tokens) == (46_592, 22.75, 128)
