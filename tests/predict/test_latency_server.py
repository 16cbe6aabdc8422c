"""The replica behind a truth row: its part of a socket, its cache, its plausibility."""

from __future__ import annotations

import pytest

from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.predict.latency_rows import Case, case_of
from neoserve.predict.latency_server import (
    computes_beyond_peak,
    cpu_slice,
    kv_tokens,
    stops_early,
    weights_bytes,
)
from neoserve.predict.step import shape_of

GIB = 2**30
H100 = find_machine("H100-SXM").hardware
GRAVITON = find_machine("graviton4").hardware
LLAMA = find_model("meta-llama/Llama-3.1-8B", online=False)
WEIGHTS = 8_030_261_248  # as published


def case(**changes: str) -> Case:
    row = {"id": "a", "engine": "vLLM", "arch": "dense", "num_devices": "1", "isl": "1000",
           "osl": "100", "concurrency": "8", "load_mode": "closed_loop"}  # fmt: skip
    return case_of({**row, **changes})


def held(**changes: str) -> float | None:
    return kv_tokens(case(**changes), LLAMA, shape_of(LLAMA), H100)


# a part of a socket


def test_a_quarter_of_the_cores_has_half_of_the_bandwidth() -> None:
    quarter = cpu_slice(GRAVITON, 24)
    assert (GRAVITON.cores, quarter.cores) == (96, 24)
    assert quarter.bandwidth_bytes_per_s == GRAVITON.bandwidth_bytes_per_s / 2
    for dtype, peak in GRAVITON.peak_flops_per_s.items():
        assert quarter.peak_flops_per_s[dtype] == peak / 4


def test_half_of_the_cores_fill_the_memory() -> None:
    half = cpu_slice(GRAVITON, 60)
    assert half.bandwidth_bytes_per_s == GRAVITON.bandwidth_bytes_per_s
    assert half.peak_flops_per_s["fp32"] == pytest.approx(
        GRAVITON.peak_flops_per_s["fp32"] * 60 / 96
    )


@pytest.mark.parametrize("threads", [0, 96, 192])
def test_all_cores_or_none_stated_are_the_socket(threads: int) -> None:
    assert cpu_slice(GRAVITON, threads) == GRAVITON


def test_threads_are_no_part_of_a_gpu() -> None:
    assert cpu_slice(H100, 1) == H100


# weights and cache


def test_weights_are_those_of_the_checkpoint() -> None:
    # norms, 266,240 of 8 billion, are not read as matrices
    assert weights_bytes(LLAMA, shape_of(LLAMA)) == 2 * (WEIGHTS - (2 * 32 + 1) * 4096)


def test_a_tied_embedding_is_counted_once() -> None:
    tied = find_model("HuggingFaceTB/SmolLM2-135M", online=False)
    norms = (2 * 30 + 1) * 576
    assert weights_bytes(tied, shape_of(tied)) == 2 * (134_515_008 - norms)


def test_the_cache_is_what_ninety_percent_leave() -> None:
    # 131,072 B a token; 4 GiB beside
    free = 0.9 * 80 * GIB - 2 * WEIGHTS - 4 * GIB
    assert held() == pytest.approx(free / 131_072, rel=1e-4)


def test_ranks_share_weights_and_heads() -> None:
    free = 0.9 * 80 * GIB - 2 * WEIGHTS / 4 - 4 * GIB
    assert held(num_devices="4", tensor_parallel="4") == pytest.approx(free / 32_768, rel=1e-4)


def test_fp8_halves_a_token() -> None:
    plain, packed = held(), held(kv_dtype="fp8")
    assert plain is not None
    assert packed == pytest.approx(2 * plain)


def test_what_ran_held_one_request() -> None:
    small = H100.replace(memory_bytes=GIB)
    assert kv_tokens(case(), LLAMA, shape_of(LLAMA), small) == 1000 + 100 / 2


def test_copies_of_attention_hold_a_cache_each() -> None:
    # eight copies of one rank each; the weights count once over all of them
    free = 0.9 * 80 * GIB - 2 * WEIGHTS / 8 - 4 * GIB
    copies = {"num_devices": "8", "tensor_parallel": "1", "data_parallel": "8"}
    assert held(**copies, expert_parallel="8") == pytest.approx(8 * free / 131_072, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "hardware"),
    [
        ({"concurrency": "3"}, H100),  # too few to fill any cache
        ({"engine": "llama.cpp"}, H100),  # reserves what it is told to
        ({}, GRAVITON),
    ],
)
def test_a_cache_that_does_not_bind(changes: dict[str, str], hardware) -> None:
    assert kv_tokens(case(**changes), LLAMA, shape_of(LLAMA), hardware) is None


# plausibility


@pytest.mark.parametrize(("share", "beyond"), [(0.55, False), (0.65, True)])
def test_more_than_a_device_sustains(share: float, beyond: bool) -> None:
    # prompts of 1,000 tokens x 2 x 7.50 billion operations, eight at a time, of 989.4 Tflop/s;
    # active: all but the embedding's 525,336,576
    operations = 8 * 1000 * 2 * (WEIGHTS - 525_336_576)
    cycle_s = operations / (share * 989.4e12)
    row = case(uses="ttft batched_tpot", ttft_ms=str(1e3 * cycle_s / 2),
               tpot_ms=str(1e3 * cycle_s / 2 / 99))  # fmt: skip
    assert computes_beyond_peak(row, LLAMA, H100) is beyond


def test_an_unknown_rate_is_no_evidence() -> None:
    assert computes_beyond_peak(case(uses="ttft", ttft_ms="0.001"), LLAMA, H100) is False


@pytest.mark.parametrize(("share", "early"), [(0.85, True), (0.95, False)])
def test_an_answer_faster_than_its_weights(share: float, early: bool) -> None:
    # 99 further tokens, each over 16 GB at 3.35 TB/s
    floor_s = 99 * 2 * WEIGHTS / 3.35e12
    row = case(uses="e2e_batched", e2e_ms=str(1e3 * share * floor_s))
    assert stops_early(row, LLAMA, shape_of(LLAMA), H100) is early
    sparse = case(uses="e2e_batched", e2e_ms=str(1e3 * share * floor_s), arch="moe")
    assert stops_early(sparse, LLAMA, shape_of(LLAMA), H100) is False
