"""Truth rows as documents, and error tables."""

from __future__ import annotations

import math
from typing import Any

import pytest
from coefficient_values import REAL

from neoserve.predict.latency_rows import (
    Case,
    case_of,
    ends_early,
    engine_of,
    left_out,
    number,
    plain_flags,
    prompt_flops_share,
    scheme_of,
    series,
)
from neoserve.predict.latency_truth import (
    Comparison,
    flags_of,
    predictions,
    rate_mean_tpot_s,
    summary,
    table,
)
from neoserve.predict.serve import Server, server_of
from neoserve.predict.simulation.requests import Drawn
from neoserve.predict.step import StepModel
from neoserve.schema.coefficients import Coefficients
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.model import Ffn, Layer, Mixer, ModelSpec
from neoserve.schema.workload import Workload

ROW = {
    "id": "a", "source": "s", "engine": "vLLM", "engine_version": "0.12.0", "model": "m",
    "arch": "dense", "gpu_or_cpu": "H100", "num_devices": "1", "tensor_parallel": "1",
    "weight_dtype": "fp8", "load_mode": "closed_loop", "isl": "1000", "osl": "101",
    "concurrency": "8", "ttft_ms": "100", "ttft_stat": "median", "tpot_ms": "10",
    "output_tok_s_total": "700", "uses": "batched_tpot ttft ~tput256 throughput",
}  # fmt: skip


def row(**changes: str) -> dict[str, str]:
    return {**ROW, **changes}


def build(case: Case) -> Server:
    hardware = HardwareSpec(
        id="x", name="x", vendor="nvidia", kind="gpu", memory_bytes=80 * 10**9,
        bandwidth_bytes_per_s=1e12, peak_flops_per_s={"bf16": 1e14},
    )  # fmt: skip
    mixer = Mixer(kind="full", num_heads=8, num_kv_heads=8, head_dim=64, params=10**8)
    model = ModelSpec(
        id="m", architecture="M", family="dense", hidden_size=512, vocab_size=1000, num_heads=8,
        max_position_tokens=4096, dtype="bfloat16", lm_head_params=512_000,
        layers=(Layer(mixers=(mixer,), ffn=Ffn(dense_params=10**8)),) * 4,
    )  # fmt: skip
    values = Coefficients(**REAL)
    step = StepModel(
        model, hardware, case.deployment, values, shared_cache=case.shared_cache
    )
    return server_of(step, hardware, case.deployment, values, case.workload)


def errors(**changes: str) -> dict[str, Comparison]:
    case = case_of(row(**changes))
    said = predictions(case, build(case))
    return {f: Comparison(case, f, value, said[f]) for f, value in flags_of(case)}


def test_a_row_becomes_documents() -> None:
    case = case_of(row())
    assert (case.deployment.engine, case.deployment.engine_version) == ("vllm", "0.12.0")
    assert (case.workload.prompt_tokens, case.workload.output_tokens) == (1000, 101)
    assert case.workload.concurrency == 8
    assert case.scheme == "fp8"
    assert case.observed == {"batched_tpot": 0.01, "ttft": 0.1, "throughput": 700.0}
    assert series(case) == ("s", "vllm", "0.12.0", "m")


def test_only_plain_flags_count() -> None:
    assert plain_flags(row()) == ("batched_tpot", "ttft", "throughput")
    assert plain_flags({}) == ()
    assert number({"isl": "x"}, "isl", 3.0) == 3.0


@pytest.mark.parametrize(
    ("engine", "version", "year", "wanted"),
    [
        ("vLLM", "", "2024", ("vllm", "0.5.0")), ("vLLM", "", "2026", ("vllm", "")),
        ("vLLM (nm-vllm)", "0.3.0", "2024", ("vllm", "0.3.0")),
        ("vLLM", "0.9.2.dev364 (V0 engine)", "2025", ("vllm", "0.7.3")),
        ("NVIDIA NIM (TensorRT-LLM)", "NIM 1.8.0", "2025", ("tensorrt-llm", "")),
        ("llama.cpp Vulkan", "build 9187", "2026", ("llama.cpp", "")),
        ("IBM TGIS (fork)", "2023-10", "2023", ("tgi", "")),
        ("PyTorch gpt-fast", "", "2024", ("compiled", "")),
    ],
)  # fmt: skip
def test_engines(engine: str, version: str, year: str, wanted: tuple[str, str]) -> None:
    assert engine_of({"engine": engine, "engine_version": version, "measured_year": year}) == wanted


@pytest.mark.parametrize(
    ("engine", "dtype", "wanted"),
    [
        ("vLLM", "BF16 (bfloat16)", "none"), ("vLLM", "fp8_block", "fp8-block"),
        ("vLLM", "int8 w8a16", "w8a16"), ("vLLM", "int8 w8a8", "w8a8"),
        ("vLLM", "int4 AWQ (QuantTrio)", "awq"), ("vLLM", "int4 w4a16", "w4a16"),
        ("vLLM", "mxfp4 (checkpoint)", "mxfp4"), ("vLLM", "nvfp4 (nvidia)", "nvfp4"),
        ("llama.cpp", "Q4_K_M", "gguf"), ("vLLM", "unspecified (BF16 checkpoint)", "none"),
        ("vLLM", "", ""), ("MLC-LLM", "4-bit", "w4a16"),
    ],
)  # fmt: skip
def test_schemes(engine: str, dtype: str, wanted: str) -> None:
    assert scheme_of({"engine": engine, "weight_dtype": dtype}) == wanted


def test_regimes_left_out() -> None:
    assert left_out(row()) == ""
    assert "separate" in left_out(row(engine="SGLang (disaggregated)"))
    assert "speculative" in left_out(row(spec_decode="yes"))
    assert flags_of(case_of(row(uses="~ttft"))) == []


def test_replicas_share_the_load() -> None:
    case = case_of(row(num_devices="8", tensor_parallel="2"))
    assert (case.deployment.replicas, case.deployment.num_devices) == (4, 2)
    assert case.workload.concurrency == 2


def test_attention_copies_with_expert_parallel_are_one_replica() -> None:
    case = case_of(row(num_devices="8", expert_parallel="8", data_parallel="8"))
    assert (case.deployment.replicas, case.deployment.num_devices) == (1, 8)
    assert case.deployment.expert_parallel
    tensor = case_of(row(num_devices="4", tensor_parallel="4", expert_parallel="4"))
    assert tensor.deployment.num_devices == 4


def test_the_start_of_a_closed_loop_is_a_burst_that_a_median_does_not_see() -> None:
    assert case_of(row(num_prompts="80")).burst_share == 0.0
    assert case_of(row(num_prompts="80", ttft_stat="mean")).burst_share == pytest.approx(0.1)
    assert case_of(row(ttft_stat="not stated")).burst_share == pytest.approx(0.1)
    assert case_of(row(load_mode="open_loop", ttft_stat="mean")).burst_share == 0.0
    assert errors(ttft_stat="mean", num_prompts="16")["ttft"].predicted > (
        errors()["ttft"].predicted
    )


def test_an_offline_suite_submits_everything() -> None:
    notes = "throughput note=output_only; request_count 200; suite F"
    case = case_of(row(concurrency="4", notes=notes))
    assert (case.load_mode, case.workload.concurrency) == ("offline", 200)


def test_unstated_lengths_are_shared_chat_or_the_benchs_own() -> None:
    assert case_of(row(isl="", osl="")).workload.prompt_tokens == 220
    bench = case_of(row(isl="", osl="", engine="llama.cpp", notes="tg128; pp512 at depth"))
    assert (bench.workload.prompt_tokens, bench.bench_prompt_tokens) == (128, 512)


def test_threads_are_read() -> None:
    assert case_of(row(notes="one process, 48 threads; x")).threads == 48


@pytest.mark.parametrize(
    ("engine", "version", "year", "notes", "wanted"),
    [("llama.cpp", "llama.cpp_ea02c75", "2024-2025", "", True),
     ("llama.cpp", "", "2024", "flash attention on", False), ("llama.cpp", "", "2026", "", False),
     ("llama.cpp (Ampere optimized)", "ampere_optimized_llama.cpp_r2.0.0", "2024-2025", "", True),
     ("llama.cpp (Ampere optimized)", "ampere_optimized_llama.cpp_r3.4.0", "2025", "", False),
     ("vLLM", "0.5.0", "2024", "", False)],
)  # fmt: skip
def test_early_llama_cpp_kept_one_cache_for_all(
    engine: str, version: str, year: str, notes: str, wanted: bool
) -> None:
    made = row(engine=engine, engine_version=version, measured_year=year, notes=notes)
    assert case_of(made).shared_cache is wanted


def test_a_shared_cache_is_seen_by_every_prompt_of_a_batch() -> None:
    made = row(engine="llama.cpp", engine_version="", measured_year="2024", concurrency="8",
               load_mode="static_batch", uses="prefill_rate batch_prefill", prefill_tok_s="1")
    shared = case_of(made)
    apart = case_of({**made, "measured_year": "2026"})
    rate = {case.shared_cache: predictions(case, build(case)) for case in (shared, apart)}
    for flag in ("prefill_rate", "throughput"):
        assert rate[True][flag] < rate[False][flag]
    assert rate[True]["batch_prefill"] > rate[False]["batch_prefill"]
    one = shared.workload.replace(concurrency=1)
    alone = [case._replace(workload=one) for case in (shared, apart)]
    said = [predictions(case, build(case))["prefill_rate"] for case in alone]
    assert said[0] == pytest.approx(said[1])


def test_a_source_whose_rates_count_prompts() -> None:
    made = row(source="OpenVINO Model Server LLM benchmark", uses="throughput",
               output_tok_s_total="79.24")
    assert "total_rate" in case_of(made).observed
    assert "total_rate" not in case_of({**made, "source": "x"}).observed


def test_static_rows() -> None:
    uses = "batched_tpot batch_prefill e2e_batched throughput prefill_rate"
    found = errors(load_mode="static_batch", uses=uses, e2e_ms="2000", prefill_tok_s="9000")
    assert set(found) == set(uses.split())
    batch = found["batch_prefill"].predicted
    assert found["prefill_rate"].predicted == pytest.approx(8000 / batch, rel=0.05)
    decode = found["e2e_batched"].predicted - batch
    assert found["batched_tpot"].predicted == pytest.approx(decode / 100, rel=1e-6)
    assert found["throughput"].predicted == pytest.approx(808 / found["e2e_batched"].predicted)


def test_one_over_a_mean_rate_is_less_than_the_mean() -> None:
    # Half a second and one and a half: even between, the mean rate is ln(3) a second.
    assert rate_mean_tpot_s(0.5, 1.0) == pytest.approx(1.0 / math.log(3.0))
    assert rate_mean_tpot_s(0.5, 0.5) == 0.5
    base = {"load_mode": "static_batch", "isl": "9000", "uses": "batched_tpot ttft"}
    plain = errors(**base)["batched_tpot"].predicted
    rates = errors(**base, tpot_stat="1000 / mean per-request decode tok/s")["batched_tpot"]
    assert rates.predicted < plain


def test_a_rate_may_count_prompts_or_leave_prefill_out() -> None:
    base = {"load_mode": "static_batch", "uses": "throughput"}
    plain = errors(**base)["throughput"].predicted
    total = errors(**base, output_tok_s_total="", total_tok_s="9000")["throughput"].predicted
    decode = errors(**base, notes="total is the decode-phase total")["throughput"].predicted
    assert total == pytest.approx(plain * 1101 / 101)
    assert decode > plain


def test_bench_prefill_behind_a_context() -> None:
    base = {"load_mode": "single_stream", "concurrency": "1", "uses": "prefill_rate",
            "prefill_tok_s": "5000", "notes": "tg32 @ depth; pp512 at the same depth"}  # fmt: skip
    deep, shallow = (errors(**base, isl=isl)["prefill_rate"].predicted for isl in ("30000", "0"))
    assert deep < shallow
    closed = errors(**{**base, "load_mode": "closed_loop", "notes": ""})["prefill_rate"]
    assert closed.predicted > 0


def test_open_loop_rows() -> None:
    found = errors(
        load_mode="open_loop", request_rate="2", e2e_ms="1500", concurrency="",
        uses="openloop_tpot openloop_ttft openloop_e2e throughput",
    )  # fmt: skip
    assert found["throughput"].predicted == pytest.approx(202.0)
    assert found["openloop_e2e"].predicted == pytest.approx(
        found["openloop_ttft"].predicted + 100 * found["openloop_tpot"].predicted
    )


def test_prompts_that_nobody_could_have_computed() -> None:
    # 8 requests in 0.1 + 100 x 0.01 s, 1,000 prompt tokens each, on 1e9 weights.
    share = prompt_flops_share(case_of(row()), 10**9, 1e14)
    assert share == pytest.approx(8 / 1.1 * 1000 * 2e9 / 1e14)
    assert prompt_flops_share(case_of(row(ttft_ms="")), 10**9, 1e14) == 0.0
    assert prompt_flops_share(case_of(row(load_mode="static_batch")), 10**9, 1e14) == 0.0


def test_an_answer_faster_than_its_weights_ended_early() -> None:
    case = case_of(row(uses="e2e_single", e2e_ms="500"))
    assert ends_early(case, 1e10, 1e12)  # 100 steps of 10 ms
    assert not ends_early(case, 1e9, 1e12)
    assert not ends_early(case_of(row()), 1e10, 1e12)


def comparison(source: str, observed: float, predicted: float, **changes: Any) -> Comparison:
    return Comparison(case_of(row(source=source, **changes)), "ttft", observed, predicted)


def test_a_summary_by_hand() -> None:
    found = summary(
        [comparison("a", 1.0, 1.1), comparison("a", 1.0, 0.7), comparison("b", 1.0, 1.5)]
    )
    assert (found["n"], found["sources"], found["devices"]) == (3, 2, 1)
    assert found["mape"] == pytest.approx(0.3)
    assert found["median_ape"] == pytest.approx(0.3)
    assert found["bias"] == pytest.approx(0.1)
    assert found["source_median_ape"] == pytest.approx((0.2 + 0.5) / 2)


def test_tables_by_a_key() -> None:
    found = table([comparison("a", 1.0, 2.0), comparison("b", 1.0, 1.0)], lambda c: c.case.source)
    assert list(found) == ["ttft"]
    assert {name: s["median_ape"] for name, s in found["ttft"].items()} == {"a": 1.0, "b": 0.0}
    assert math.isclose(found["ttft"]["a"]["p90_ape"], 1.0)


INFERENCEX = "aiconfigurator silicon_sample (InferenceX export)"


def test_published_scripts_fill_in_what_a_row_leaves_out() -> None:
    case = case_of(
        row(source=INFERENCEX, engine="TensorRT-LLM", model="meta-llama/Llama-3.1-70B",
            gpu_or_cpu="NVIDIA H200 SXM", isl="1024", osl="1024", tensor_parallel="2",
            num_devices="2", kv_dtype="")
    )  # fmt: skip
    assert (case.workload.prompt_tokens, case.workload.output_tokens) == (922, 922)
    assert case.deployment.kv_cache_dtype == "fp8"
    assert case.deployment.max_num_batched_tokens == 16384
    assert case.wait_steps == 20
    eight = row(source=INFERENCEX, engine="TensorRT-LLM", model="Llama-3.1-70B", isl="1024",
                osl="1024", tensor_parallel="8", num_devices="8")  # fmt: skip
    assert case_of(eight).wait_steps == 0
    assert case_of(row(model="Llama-3.1-70B")).workload.prompt_tokens == 1000


def test_a_stated_kv_dtype_outweighs_the_script() -> None:
    stated = row(source=INFERENCEX, model="Llama-3.1-70B", kv_dtype="bf16")
    assert case_of(stated).deployment.kv_cache_dtype == "auto"


@pytest.mark.parametrize(
    ("engine", "year", "notes", "wanted"),
    [("vLLM", "2025", "measured=2025-10-29", "0.11.0"), ("vLLM", "2025", "measured=2026-02-01", ""),
     ("TensorRT-LLM", "2024", "", "0.9.0"), ("SGLang", "2024", "", "0.4.0"),
     ("TensorRT-LLM", "2025", "", ""), ("llama.cpp", "2024", "", "2024.1"),
     ("llama.cpp", "2025", "measured=2025-02", "2024.1"), ("llama.cpp", "2025", "", "")],
)  # fmt: skip
def test_a_row_without_a_version_has_that_of_its_time(
    engine: str, year: str, notes: str, wanted: str
) -> None:
    got = engine_of({"engine": engine, "engine_version": "", "measured_year": year, "notes": notes})
    assert got[1] == wanted


def test_prompts_held_back_on_purpose_wait_that_many_steps() -> None:
    changes = {"source": INFERENCEX, "engine": "TensorRT-LLM", "model": "Llama-3.1-70B",
               "isl": "1024", "osl": "1024"}  # fmt: skip
    held = case_of(row(**changes))
    server = build(held)
    at_once = predictions(held._replace(wait_steps=0), server)["ttft"]
    later = predictions(held, server)["ttft"] - at_once
    bare_s = server.step.step_s(0.0, 0.0, 8.0, 1383.0)
    assert later == pytest.approx(20 * bare_s, rel=0.05)


def test_an_open_load_over_capacity_is_answered_for_as_many_as_were_sent() -> None:
    def draw(workload: Workload, num: int) -> Drawn:
        gaps = [(i + 1) / workload.rate_rps for i in range(num)]
        return Drawn(gaps, [workload.prompt_tokens] * num, [workload.output_tokens] * num)

    changes = {"load_mode": "open_loop", "request_rate": "1000", "concurrency": "", "ttft_ms": "1",
               "uses": "openloop_ttft openloop_tpot"}  # fmt: skip
    endless = case_of(row(**changes))
    assert math.isinf(predictions(endless, build(endless), draw)["openloop_ttft"])
    few, many = (case_of(row(**changes, num_prompts=n)) for n in ("100", "400"))
    waits = [predictions(case, build(case), draw)["openloop_ttft"] for case in (few, many)]
    assert 0 < waits[0] < waits[1] < math.inf
