"""Pages and groups that no bundled case shows: by hand."""

from __future__ import annotations

import pytest

from neoserve.catalog.architectures import read_config
from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.predict.cache import (
    Cache,
    attention_block,
    kv_dtype_of,
    layer_caches,
    unify_pages,
)
from neoserve.predict.kv import Capacity, blocks_per_request, capacity, layout
from neoserve.schema.engine import Deployment
from neoserve.schema.model import ModelSpec

GIB = 2**30
H100 = find_machine("H100-SXM").hardware
NEW = find_profile("vllm")
LLAMA = "meta-llama/Llama-3.1-8B"
GEMMA = "google/gemma-3-27b-it"


def spec(model_id: str) -> ModelSpec:
    return find_model(model_id, online=False)


def held(
    model_id: str, length: int, batched: int = 8192, profile=NEW, gib: int = 80, **settings
) -> Capacity:
    model, deployment = spec(model_id), Deployment(**settings)
    plan = layout(model, deployment, profile, H100)
    return capacity(plan, model, deployment, profile, [gib * GIB], length, batched)


def test_an_unknown_cache_dtype_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(AskError, match="'fp7' is unknown; known: auto, bfloat16"):
        kv_dtype_of(spec(LLAMA), Deployment(kv_cache_dtype="fp7"))


def test_a_block_that_the_kernel_cannot_read_is_refused() -> None:
    with pytest.raises(AskError, match="block_size 24 is no multiple of the attention kernel's 16"):
        attention_block(spec(LLAMA), Deployment(block_size=24), NEW, H100)
    assert attention_block(spec(LLAMA), Deployment(block_size=32), NEW, H100) == (32, 16)


def test_a_small_state_is_padded_to_a_larger_page() -> None:
    state, full = Cache("state", 0, 100, 100, state_blocks=1), Cache("full", 16, 150, 150)
    padded, kept = unify_pages([state, full])
    assert (padded.block_tokens, padded.content_bytes, padded.page_bytes) == (0, 100, 150)
    assert kept is full


@pytest.mark.parametrize(
    ("dtype", "per_token"),
    [
        # 32 layers x 2 x 8 heads of 128 elements
        ("auto", 32 * 2 * 8 * 128 * 2),
        ("float32", 32 * 2 * 8 * 128 * 4),
        ("fp8", 32 * 2 * 8 * 128),
        ("fp8_e5m2", 32 * 2 * 8 * 128),
        ("int8_per_token_head", 32 * 2 * 8 * (128 + 4)),  # and one fp32 scale
        ("int4_per_token_head", 32 * 2 * 8 * (64 + 4)),
        ("nvfp4", 32 * 2 * 8 * (64 + 128 // 16)),  # and an fp8 scale for 16
    ],
)
def test_bytes_of_a_token_scale_with_the_cache_dtype(dtype: str, per_token: int) -> None:
    assert held(LLAMA, 8192, kv_cache_dtype=dtype).kv.bytes_per_token == per_token


# Gemma-3-27B at 131,072 tokens: 10 full layers, 52 with a window of 1024, of 8,192 B a token:
# one group of full layers and six of windows, ten layers wide
@pytest.mark.parametrize(("version", "in_flight"), [("0.25.1", 8192), ("0.32.0", 16384)])
def test_gemma_3_keeps_what_is_in_flight(version: str, in_flight: int) -> None:
    window = -(-(1023 + in_flight) // 16) + 1
    found = held(GEMMA, 131072, profile=find_profile("vllm", version)).kv
    assert found.bytes_per_request == (131072 // 16 + 6 * window) * 10 * 16 * 8192
    # planning reference, 7.4: 15.28 and 19.30 GB
    assert found.bytes_per_request / 1e9 == pytest.approx(
        {8192: 15.28, 16384: 19.30}[in_flight], abs=0.01
    )


def test_without_the_hybrid_manager_windows_keep_every_token() -> None:
    # planning reference, 7.4: 66.6 GB
    found = held(GEMMA, 131072, disable_hybrid_kv_cache_manager=True).kv
    assert found.bytes_per_request == 62 * 8192 * 131072
    assert found.bytes_per_request / 1e9 == pytest.approx(66.6, abs=0.05)
    (group,) = found.groups
    assert group.kind == "full"


def test_without_the_hybrid_manager_chunks_keep_every_token_too() -> None:
    # Llama-4-Scout: 48 layers of 2 x 8 heads x 128 x 2 B, three in four of them chunked
    model = "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic"
    found = held(model, 65536, disable_hybrid_kv_cache_manager=True).kv
    assert found.bytes_per_request == 48 * 2 * 8 * 128 * 2 * 65536
    assert held(model, 65536).kv.bytes_per_request < found.bytes_per_request


def test_windows_alone_stay_windows_whoever_manages_them() -> None:
    # starcoder2-7b: all 32 layers have a window of 4096
    plain = held("bigcode/starcoder2-7b", 16384, batched=1024).kv
    managed = held("bigcode/starcoder2-7b", 16384, 1024, disable_hybrid_kv_cache_manager=True).kv
    assert plain == managed
    assert plain.groups[0].blocks_per_request == -(-(4095 + 2 * 1024) // 16) + 1


def test_gpt_oss_needs_what_vllm_said_it_needs() -> None:
    # vLLM issue 27508: 131,072 tokens at max_num_batched_tokens 1024 need 4.54 GiB
    found = held("openai/gpt-oss-120b", 131072, 1024, find_profile("vllm", "0.11.0")).kv
    assert found.bytes_per_request / GIB == pytest.approx(4.54, abs=0.005)


def test_compressed_latents_without_an_indexer_share_nothing() -> None:
    # DeepSeek-V4 with windows of 128 and every 128th latent only: three kinds of pages, none of
    # which stands beside another size, so each kind is one group
    flash = spec("deepseek-ai/DeepSeek-V4-Flash")
    ratios = {layer.mixers[0].compress_ratio: layer for layer in flash.layers}
    plain, coarse = ratios[0], ratios[128]
    model = flash.replace(layers=(plain, plain, coarse, coarse, coarse), draft_layers=())
    plan = layout(model, Deployment(), NEW, H100)
    held_by = sorted((len(g.caches), g.caches[0][1].kind, g.block_tokens) for g in plan.groups)
    assert held_by == [(3, "mla", 256), (3, "sliding-mla", 8), (5, "sliding-mla", 64)]
    # 640 tokens: 3 blocks of 256; a window of 127 + 1 in flight; the same for the sums
    by_hand = 3 + (-(-128 // 64) + 1) + (-(-128 // 8) + 1)
    assert blocks_per_request(plan, Deployment(), 640, 1) == by_hand


def test_an_indexer_beside_heads_keeps_a_key_for_each_token() -> None:
    # Llama-3.1-8B with an indexer of 128: its key is copied to every rank, in the model's dtype
    plain = spec(LLAMA)
    (mixer,) = plain.layers[0].mixers
    layer = plain.layers[0].replace(mixers=(mixer.replace(index_dim=128),))
    model = plain.replace(layers=(layer,) * 32)
    for tp in (1, 2):
        plan = layout(model, Deployment(tensor_parallel=tp), NEW, H100)
        assert plan.block_tokens == 128  # what it attends to at once
        assert plan.bytes_per_block == (128 * 32 * (2 * 8 // tp * 128 * 2 + 128 * 2),)


@pytest.mark.parametrize("tp", [1, 2])
def test_inputs_of_convolutions_are_cached_in_blocks_of_their_kernel(tp: int) -> None:
    # Inkling: 4 tokens of 8 heads x 2,048 values of 2 B; keys and values 128, outputs 512 wide
    # each, make 1,280, up to a power of two
    config = {
        "architectures": ["InklingForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 2, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 128256, "max_position_embeddings": 8192,
    }  # fmt: skip
    caches = layer_caches(read_config(config, "m"), Deployment(tensor_parallel=tp), NEW, H100)
    full, tail = caches[0]
    assert full.page_bytes == 16 * 2 * 8 // tp * 128 * 2
    assert (tail.kind, tail.block_tokens, tail.window_tokens) == ("sliding", 4, 4)
    assert tail.page_bytes == tail.content_bytes == 4 * 8 // tp * 2048 * 2
