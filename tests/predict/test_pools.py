"""Caches of llama.cpp, SGLang and TensorRT-LLM by hand and against public logs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.engines import find_profile
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.predict.pools import (
    llama_cpp_bytes,
    llama_cpp_cells,
    mixer_token_bytes,
    pool_tokens,
    sglang_capacity,
    trtllm_capacity,
)
from neoserve.schema.engine import Deployment
from neoserve.schema.model import ModelSpec
from neoserve.schema.prediction import KvCapacity

GIB, MIB = 2**30, 2**20
LLAMA = "meta-llama/Llama-3.1-8B"  # 32 layers x 2 x 8 heads x 128 x 2 B = 131,072 B a token
QWEN_NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct"
MAMBA = "tiiuae/falcon-mamba-7b"
TRTLLM = find_profile("tensorrt-llm")


def spec(model_id: str) -> ModelSpec:
    return find_model(model_id, online=False)


def sglang(model_id: str, available: int, length: int, **settings: object) -> KvCapacity:
    kv, refusal = sglang_capacity(spec(model_id), Deployment(**settings), available, length)
    assert refusal == ""
    return kv


# llama.cpp


@pytest.mark.parametrize(("tokens", "cells"), [(1, 256), (256, 256), (257, 512), (4096, 4096)])
def test_cells_are_padded_to_256(tokens: int, cells: int) -> None:
    assert llama_cpp_cells(tokens) == cells


# "KV self size" lines of llama.cpp for Llama-3-8B at n_ctx 8192: f16 1024 MiB, q8_0 544 MiB,
# and q4_0 288 MiB (18 bytes for 32 elements instead of 64)
@pytest.mark.parametrize(("kind", "mib"), [("f16", 1024), ("q8_0", 544), ("q4_0", 288)])
def test_llama_3_8b_at_8192_cells(kind: str, mib: int) -> None:
    assert llama_cpp_bytes(spec(LLAMA), 8192, kind, kind) == mib * MIB


def test_keys_and_values_may_differ() -> None:
    # half of 1024 MiB in 16 bits, half in 32
    assert llama_cpp_bytes(spec(LLAMA), 8192, "f16", "f32") == (512 + 1024) * MIB


@pytest.mark.parametrize(("k", "v"), [("q3_k", "f16"), ("f16", "fp8")])
def test_an_unknown_cache_type_is_refused_with_those_that_are_known(k: str, v: str) -> None:
    with pytest.raises(AskError, match="unknown; known: f16, bf16"):
        llama_cpp_bytes(spec(LLAMA), 8192, k, v)


def test_windows_hold_each_slots_window_and_a_micro_batch() -> None:
    # Gemma-3-4B: 5 full and 29 sliding layers of 2 x 4 heads x 256 x 2 B; window 1024.
    # llama.cpp prints "creating SWA KV cache, size = 1536 cells": 1024 + 512
    cell = 2 * 4 * 256 * 2
    model = spec("google/gemma-3-4b-it")
    assert llama_cpp_bytes(model, 32768) == cell * (5 * 32768 + 29 * 1536)
    assert llama_cpp_bytes(model, 32768, slots=4) == cell * (5 * 32768 + 29 * 4608)
    assert llama_cpp_bytes(model, 1024) == cell * 34 * 1024  # never more than the context


def test_latents_are_cached_once() -> None:
    # DeepSeek-V2-Lite: 27 layers of 512 latents and 64 rope values
    assert llama_cpp_bytes(spec("deepseek-ai/DeepSeek-V2-Lite"), 4096) == 27 * 576 * 2 * 4096


def test_states_are_fp32_for_every_slot() -> None:
    # Falcon-Mamba-7B: 64 layers of 8192 channels; 3 convolution columns and 16 states each
    one = 64 * (3 * 8192 + 16 * 8192) * 4
    model = spec(MAMBA)
    assert llama_cpp_bytes(model, 4096) == one == 38 * MIB
    assert llama_cpp_bytes(model, 65536, slots=3) == 3 * one


@given(st.integers(1, 100_000), st.integers(0, 100_000))
def test_longer_contexts_never_cost_less(context: int, more: int) -> None:
    model = spec("google/gemma-3-4b-it")
    assert llama_cpp_bytes(model, context) <= llama_cpp_bytes(model, context + more)


# one token in one layer


def test_a_token_by_attention_kind() -> None:
    llama = spec(LLAMA)
    (mixer,) = llama.layers[0].mixers
    assert mixer_token_bytes(mixer, llama, Deployment()) == 2 * 8 * 128 * 2
    assert mixer_token_bytes(mixer, llama, Deployment(kv_cache_dtype="fp8")) == 2 * 8 * 128
    assert mixer_token_bytes(mixer, llama, Deployment(tensor_parallel=8)) == 2 * 128 * 2
    assert mixer_token_bytes(mixer, llama, Deployment(tensor_parallel=16)) == 2 * 128 * 2


def test_sparse_latents_carry_the_indexers_key() -> None:
    # DeepSeek-V3.2: 576 values, and 128 fp8 + one fp32 scale for the indexer; fp8 packs to 656
    model = spec("deepseek-ai/DeepSeek-V3.2")
    (mixer,) = model.layers[0].mixers
    assert mixer_token_bytes(mixer, model, Deployment()) == 576 * 2 + 132
    assert mixer_token_bytes(mixer, model, Deployment(kv_cache_dtype="fp8")) == 656 + 132


def test_states_and_borrowed_caches_cost_no_tokens() -> None:
    mamba = spec(MAMBA)
    assert mixer_token_bytes(mamba.layers[0].mixers[0], mamba, Deployment()) == 0
    gemma = spec("google/gemma-3n-E4B-it")
    assert not gemma.layers[-1].mixers[0].caches
    assert mixer_token_bytes(gemma.layers[-1].mixers[0], gemma, Deployment()) == 0


# SGLang


def test_sglang_dense_by_hand() -> None:
    kv = sglang(LLAMA, 20 * GIB, 8192)
    assert kv.kv_tokens == 20 * GIB // 131072 == 163840
    assert kv.max_concurrency == 20.0
    assert kv.bytes_per_request == GIB
    assert (kv.block_size_tokens, kv.num_blocks) == (1, 163840)
    assert kv.longest_request_tokens == 131072  # the model's own limit


def test_sglang_window_slots_are_four_fifths_of_the_full_ones() -> None:
    # gpt-oss-20b: 12 full and 12 sliding layers of 2 x 8 heads x 64 x 2 B
    each = 12 * 2 * 8 * 64 * 2
    assert pool_tokens(spec("openai/gpt-oss-20b"), Deployment(), 8 * GIB) == int(
        8 * GIB / (each + 0.8 * each)
    )


def test_sglang_windows_alone_share_the_whole_pool() -> None:
    # starcoder2-7b: 32 sliding layers of 2 x 4 heads x 128 x 2 B
    model = spec("bigcode/starcoder2-7b")
    assert pool_tokens(model, Deployment(), 8 * GIB) == 8 * GIB // (32 * 2 * 4 * 128 * 2)


def test_sglang_hybrids_split_the_memory_between_states_and_tokens() -> None:
    # Qwen3-Next: 36 states of 1,097,728 B a request, 12 layers of 2 x 2 heads x 256 x 2 B.
    # For each byte of tokens 0.9 bytes of states, one of which stays empty
    tokens = 20 * GIB / 1.9
    requests = int((20 * GIB - tokens) / (36 * 1_097_728)) - 1
    long, short = sglang(QWEN_NEXT, 20 * GIB, 32768), sglang(QWEN_NEXT, 20 * GIB, 1024)
    assert long.state_bytes_per_request == 36 * 1_097_728
    assert long.kv_tokens == int(tokens / (12 * 2048))
    assert long.max_concurrency == pytest.approx(long.kv_tokens / 32768)  # tokens bind
    assert short.max_concurrency == requests == 256  # states bind
    assert short.kv_tokens / 1024 > requests


def test_sglang_states_alone_bind_requests_only() -> None:
    # Falcon-Mamba in 16 bits: 64 layers of (3 + 16) x 8192 values
    kv = sglang(MAMBA, GIB, 2048)
    states = GIB - GIB / 1.9
    assert kv.max_concurrency == int(states / (64 * 19 * 8192 * 2)) - 1
    assert kv.kv_tokens == 0
    assert kv.longest_request_tokens == spec(MAMBA).max_position_tokens


# TensorRT-LLM


def test_trtllm_blocks_by_hand() -> None:
    # 32 tokens of 131,072 B: 4 MiB a block
    kv, refusal = trtllm_capacity(spec(LLAMA), Deployment(), TRTLLM, 20 * GIB + 3 * MIB, 8192)
    assert refusal == ""
    assert (kv.block_size_tokens, kv.bytes_per_block) == (32, 4 * MIB)
    assert kv.num_blocks == 5120
    assert kv.kv_tokens == 163840
    assert kv.max_concurrency == 5120 / 256


def test_trtllm_rounds_a_request_up_to_whole_blocks() -> None:
    kv, _ = trtllm_capacity(spec(LLAMA), Deployment(block_size=64), TRTLLM, 20 * GIB, 8193)
    assert kv.max_concurrency == 2560 / 129


def test_trtllm_allocates_windows_in_full() -> None:
    kv, _ = trtllm_capacity(spec("openai/gpt-oss-20b"), Deployment(), TRTLLM, 8 * GIB, 131072)
    assert kv.bytes_per_token == 24 * 2 * 8 * 64 * 2


# both


@pytest.mark.parametrize("engine", ["sglang", "trtllm"])
@pytest.mark.parametrize(
    ("available", "said"),
    [
        (0, "no memory is left for the KV cache"),
        (-GIB, "no memory is left for the KV cache"),
        # 131,072 tokens x 131,072 B
        (15 * GIB, "one request of 131,072 tokens needs 16.0 GiB of KV cache and 15.0 GiB are"),
    ],
)
def test_shortages_are_refused(engine: str, available: int, said: str) -> None:
    if engine == "sglang":
        kv, refusal = sglang_capacity(spec(LLAMA), Deployment(), available, 131072)
    else:
        kv, refusal = trtllm_capacity(spec(LLAMA), Deployment(), TRTLLM, available, 131072)
    assert said in refusal
    assert kv.kv_tokens == max(0, available) // 131072


@given(
    st.sampled_from([LLAMA, "openai/gpt-oss-20b", QWEN_NEXT, "bigcode/starcoder2-7b"]),
    st.integers(64 * MIB, 64 * GIB), st.integers(0, 8 * GIB), st.integers(64, 8192),
    st.integers(0, 8192),
)  # fmt: skip
@settings(deadline=None, max_examples=60)
def test_more_memory_holds_more_and_longer_requests_fewer(
    model_id: str, available: int, more: int, length: int, longer: int
) -> None:
    model = spec(model_id)

    def both(have: int, tokens: int) -> list[KvCapacity]:
        return [
            sglang_capacity(model, Deployment(), have, tokens)[0],
            trtllm_capacity(model, Deployment(), TRTLLM, have, tokens)[0],
        ]

    few, many = both(available, length), both(available + more, length)
    long = both(available, length + longer)
    for small, large, stretched in zip(few, many, long, strict=True):
        assert large.kv_tokens >= small.kv_tokens
        assert large.max_concurrency >= small.max_concurrency >= stretched.max_concurrency
