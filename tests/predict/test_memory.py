"""The memory budget: every item by hand, and against what engines reported."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.predict.memory import (
    activation_bytes,
    budget,
    default_batch,
    footprint,
    graph_bytes,
    non_torch_bytes,
    resolved,
    total_bytes,
)
from neoserve.schema.engine import Deployment
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.model import ModelSpec
from neoserve.schema.prediction import Memory

GIB = 2**30
MIB = 2**20
LLAMA = "meta-llama/Llama-3.1-8B"
NEW = find_profile("vllm")


def device(name: str) -> HardwareSpec:
    return find_machine(name).hardware


H100, L4 = device("H100-SXM"), device("L4")


def spec(model_id: str) -> ModelSpec:
    return find_model(model_id, online=False)


def activation(model_id: str, tokens: int, seqs: int, **settings: object) -> int:
    deployment = Deployment(max_num_batched_tokens=tokens, max_num_seqs=seqs, **settings)
    return activation_bytes(footprint(spec(model_id), deployment), deployment, NEW)


def memory(hardware: HardwareSpec = H100, model_id: str = LLAMA, profile=NEW, **settings) -> Memory:
    model = spec(model_id)
    deployment = resolved(Deployment(**settings), model, hardware, profile)
    return budget(footprint(model, deployment), deployment, profile, hardware)


def test_the_driver_reports_less_than_the_data_sheet() -> None:
    # 79.19 GiB of an H100-80GB and 22.03 of an L4, as vLLM's logs print them
    assert total_bytes(H100) / GIB == pytest.approx(79.19, abs=0.01)
    assert total_bytes(L4) / GIB == pytest.approx(22.03, abs=0.01)


def test_an_unknown_driver_figure_is_taken_as_98_5_percent() -> None:
    unknown = H100.replace(reported_memory_bytes=0)
    assert total_bytes(unknown) == int(80 * GIB * 0.985)


def test_a_cpu_has_its_hosts_memory() -> None:
    assert total_bytes(device("c8g.4xlarge")) == 32 * GIB


# vLLM's defaults of an API server: planning reference, section 7.5
@pytest.mark.parametrize(
    ("name", "tokens", "seqs"),
    [
        ("B200", 16384, 1024),  # 178 GiB
        ("H200", 8192, 1024),  # 139.8 GiB
        ("H100-SXM", 8192, 1024),
        ("A100-SXM-80GB", 2048, 256),  # 79 GiB, but an A100
        ("L40S", 2048, 256),
        ("L4", 2048, 256),
    ],
)
def test_batching_defaults_follow_the_devices_memory(name: str, tokens: int, seqs: int) -> None:
    assert default_batch(device(name)) == (tokens, seqs)


def test_batching_defaults_of_a_cpu_grow_with_its_ranks() -> None:
    assert default_batch(device("graviton4")) == (2048, 128)
    assert default_batch(device("graviton4"), world_size=2) == (4096, 256)


def test_defaults_are_filled_in_and_settings_kept() -> None:
    model = spec(LLAMA)
    filled = resolved(Deployment(), model, H100, NEW)
    assert (filled.max_model_len, filled.gpu_memory_utilization) == (131072, 0.92)
    asked = Deployment(
        max_model_len=4096, max_num_seqs=7, max_num_batched_tokens=512, gpu_memory_utilization=0.5
    )
    assert resolved(asked, model, H100, NEW) == asked


def test_older_versions_use_less_by_default() -> None:
    old = resolved(Deployment(), spec(LLAMA), H100, find_profile("vllm", "0.19.0"))
    assert old.gpu_memory_utilization == 0.9


def test_many_sequences_are_warmed_up_on_the_whole_vocabulary() -> None:
    # 15.5 bytes for each of 1024 x 128256 logits
    assert activation(LLAMA, 8192, 1024) == int(15.5 * 1024 * 128256) == 2_035_679_232


def test_few_sequences_leave_the_forward_pass() -> None:
    # 3 x 14336 inside the MLP, 2 x 4096 + 2 x 1024 projections less wide, and 5 x 4096 beside it
    widest = 3 * 14336 + 5 * 4096
    assert activation(LLAMA, 8192, 16) == 8192 * 2 * widest == 1_040_187_392


def test_ranks_share_the_widest_layer_but_not_the_residual() -> None:
    widest = 3 * 14336 / 4 + 5 * 4096
    assert activation(LLAMA, 8192, 16, tensor_parallel=4) == 8192 * 2 * widest


def test_draft_tokens_are_sampled_too() -> None:
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    plain = activation(model, 1, 1024)
    drafted = activation(model, 1, 1024, num_speculative_tokens=2)
    assert drafted - plain == pytest.approx(15.5 * 2 * 1024 * 151936, abs=1)


@pytest.mark.parametrize("expert_parallel", [True, False])
def test_experts_keep_their_workspace(expert_parallel: bool) -> None:
    # Mixtral on two ranks: two experts a token with 7168 of 14336 each, or one with all;
    # gate and up outputs (2 x inner) and the gated product (inner) for each
    rows = 2 * 3 * 7168
    assert rows == 1 * 3 * 14336
    sampler = 15.5 * 1024 * 32000
    found = activation(
        "mistralai/Mixtral-8x7B-v0.1", 8192, 1024,
        tensor_parallel=2, expert_parallel=expert_parallel,
    )  # fmt: skip
    assert found == pytest.approx(sampler + 8192 * 2 * rows, abs=1)


def test_small_experts_still_gather_whole_rows() -> None:
    # Qwen3-30B-A3B: 8 experts of 768, whose doubled 1536 is narrower than the 2048 of a row
    found = activation("Qwen/Qwen3-30B-A3B", 8192, 1024)
    assert found == pytest.approx(15.5 * 1024 * 151936 + 8192 * 2 * 8 * (2048 + 768), abs=1)


# Peaks that vLLM 0.19 reported on one H100 (llm-d-planner's report of 49 runs), GiB
@pytest.mark.parametrize(
    ("model_id", "gib"),
    [
        (LLAMA, 1.89),
        ("Qwen/Qwen3-8B", 2.21),
        ("Qwen/Qwen2.5-7B-Instruct", 2.21),
        ("microsoft/phi-4", 1.52),
        ("google/gemma-3-27b-it", 3.94),
        ("google/gemma-2-9b-it", 3.65),
        ("Qwen/Qwen3-30B-A3B", 2.68),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 1.93),
        ("Qwen/Qwen1.5-MoE-A2.7B-Chat", 2.47),
    ],
)
def test_activation_peaks_are_near_the_reported_ones(model_id: str, gib: float) -> None:
    assert activation(model_id, 8192, 1024) / GIB == pytest.approx(gib, rel=0.15)


def test_graphs_by_hand() -> None:
    # sizes 1, 2, 4, 8, 16 ... 256 by 8, then to 512 by 16: 3 + 32 + 16
    deployment = Deployment(max_num_seqs=256, max_num_batched_tokens=8192)
    need = footprint(spec(LLAMA), deployment)
    widest = 3 * 14336 + 5 * 4096
    by_hand = 512 * 2 * widest + 51 * 32 * 0.2 * MIB
    assert graph_bytes(need, deployment) == int(by_hand)
    # vLLM logged 0.43 GiB for this model
    assert graph_bytes(need, deployment) / GIB == pytest.approx(0.43, rel=0.15)


def test_few_sequences_capture_few_sizes() -> None:
    deployment = Deployment(max_num_seqs=8, max_num_batched_tokens=8192)
    need = footprint(spec(LLAMA), deployment)
    widest = 3 * 14336 + 5 * 4096
    # up to 16: 1, 2, 4, 8, 16
    assert graph_bytes(need, deployment) == int(16 * 2 * widest + 5 * 32 * 0.2 * MIB)


def test_eager_mode_captures_nothing() -> None:
    deployment = Deployment(enforce_eager=True)
    assert graph_bytes(footprint(spec(LLAMA), deployment), deployment) == 0


def test_memory_outside_torch_grows_once_ranks_talk() -> None:
    alone = non_torch_bytes(Deployment(), NEW, H100)
    assert 0.24 <= alone / GIB <= 0.27  # the report of 49 runs
    two = non_torch_bytes(Deployment(tensor_parallel=2), NEW, H100)
    staged = non_torch_bytes(Deployment(pipeline_parallel=2), NEW, H100)
    assert two == staged > alone
    assert non_torch_bytes(Deployment(), find_profile("llama.cpp"), device("graviton4")) == 0


def test_vllm_on_a_cpu_keeps_what_it_said_it_would() -> None:
    """vLLM 0.32 on x86-64, SmolLM2-135M in bf16, --gpu-memory-utilization 0.5: "Auto set
    (3.74/9.21) GiB for KV cache on node 0 ... 0.87 GiB memory was consumed by non-kv usages"."""
    node = device("graviton4").replace(memory_bytes=int(9.21 * GIB), numa_nodes_per_socket=1)
    m = memory(
        node, "HuggingFaceTB/SmolLM2-135M-Instruct", find_profile("vllm", "0.32", "cpu"),
        gpu_memory_utilization=0.5, max_model_len=2048, max_num_seqs=8,
        max_num_batched_tokens=2048,
    )  # fmt: skip
    assert m.available_kv_bytes / GIB == pytest.approx(3.74, rel=0.01)


def test_the_items_add_up_to_what_may_be_used() -> None:
    m = memory()
    assert m.usable_bytes == int(m.total_bytes * 0.92)
    assert m.usable_bytes == (
        m.weights_bytes + m.activation_bytes + m.graph_bytes + m.non_torch_bytes
        + m.available_kv_bytes
    )  # fmt: skip


def test_versions_before_0_20_did_not_reserve_graphs() -> None:
    m = memory(profile=find_profile("vllm", "0.19.0"))
    assert m.graph_bytes > 0
    assert m.usable_bytes == (
        m.weights_bytes + m.activation_bytes + m.non_torch_bytes + m.available_kv_bytes
    )


def test_a_cpu_keeps_no_graphs_and_shares_nodes_between_ranks() -> None:
    cpu_profile = find_profile("vllm", "", "cpu")
    socket = device("graviton4").replace(numa_nodes_per_socket=2)
    two = memory(socket, profile=cpu_profile, tensor_parallel=2)
    assert two.graph_bytes == 0
    assert two.total_bytes == socket.memory_bytes // 2
    whole = socket.replace(numa_nodes_per_socket=1)
    assert memory(whole, profile=cpu_profile).total_bytes == socket.memory_bytes


def test_each_stage_counts_its_own_weights() -> None:
    model = spec(LLAMA)
    deployment = resolved(Deployment(pipeline_parallel=2), model, H100, NEW)
    need = footprint(model, deployment)
    first, last = (budget(need, deployment, NEW, H100, stage) for stage in (0, 1))
    assert first.weights_bytes + last.weights_bytes == 2 * 8_030_261_248
    norm = 2 * 4096  # the last norm stands on the last stage; table and head are equally large
    assert last.weights_bytes - first.weights_bytes == norm
    assert first.available_kv_bytes - last.available_kv_bytes == norm


@given(
    st.floats(0.1, 1.0), st.floats(0.0, 0.5), st.integers(1, 2048), st.integers(64, 16384),
    st.sampled_from([1, 2, 4, 8]),
)  # fmt: skip
@settings(deadline=None, max_examples=50)
def test_a_larger_share_never_leaves_less(share, more, seqs, tokens, tp) -> None:
    settings = {"max_num_seqs": seqs, "max_num_batched_tokens": tokens, "tensor_parallel": tp}
    small = memory(gpu_memory_utilization=share, **settings)
    large = memory(gpu_memory_utilization=min(1.0, share + more), **settings)
    assert large.available_kv_bytes >= small.available_kv_bytes
    assert large.weights_bytes == small.weights_bytes


@given(st.integers(1, 1024), st.integers(1, 1024), st.integers(64, 8192), st.integers(0, 8192))
@settings(deadline=None, max_examples=50)
def test_more_batching_never_leaves_more(seqs, more_seqs, tokens, more_tokens) -> None:
    few = memory(max_num_seqs=seqs, max_num_batched_tokens=tokens)
    many = memory(max_num_seqs=seqs + more_seqs, max_num_batched_tokens=tokens + more_tokens)
    assert many.available_kv_bytes <= few.available_kv_bytes


@given(st.sampled_from([LLAMA, "mistralai/Mixtral-8x7B-v0.1", "google/gemma-3-27b-it"]),
       st.sampled_from([2, 4, 8]))  # fmt: skip
@settings(deadline=None, max_examples=12)
def test_more_ranks_leave_more_on_each(model_id: str, tp: int) -> None:
    fewer = memory(model_id=model_id, tensor_parallel=tp // 2 if tp > 2 else 2)
    more = memory(model_id=model_id, tensor_parallel=tp * 2)
    assert more.available_kv_bytes > fewer.available_kv_bytes


# other engines: Llama-3.1-8B has 8,030,261,248 weights of 2 B


def test_sglangs_pool_is_its_share_without_what_is_loaded() -> None:
    # mem_fraction_static: activations live in the rest
    m = memory(profile=find_profile("sglang"), gpu_memory_utilization=0.8)
    loaded = 2 * 8_030_261_248 + non_torch_bytes(Deployment(), NEW, H100)
    assert m.available_kv_bytes == pytest.approx(0.8 * total_bytes(H100) - loaded, abs=1)
    less = memory(profile=find_profile("sglang"), gpu_memory_utilization=0.8, max_num_seqs=8)
    assert less.available_kv_bytes == m.available_kv_bytes


def test_tensorrt_llms_pool_is_a_share_of_what_is_free() -> None:
    # kv_cache_free_gpu_memory_fraction
    profile = find_profile("tensorrt-llm")
    m = memory(profile=profile, gpu_memory_utilization=0.8, max_num_seqs=64)
    taken = 2 * 8_030_261_248 + non_torch_bytes(Deployment(), NEW, H100) + m.activation_bytes
    assert m.activation_bytes > GIB // 2
    assert m.available_kv_bytes == pytest.approx(0.8 * (total_bytes(H100) - taken), abs=4)
    assert m.usable_bytes == total_bytes(H100)
