"""Shares of a load, copies and their bills, and what a plan compares: figures by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asking import LLAMA, predicted

from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.faces.ask import answer_plan, grid_of
from neoserve.schema.ask import PlanAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Latency, Plan, Prediction, Throughput
from neoserve.schema.workload import Workload
from neoserve.units import show_bytes

GIB, MIB = 2**30, 2**20
GEMMA = "google/gemma-3-27b-it"
MAMBA = "tiiuae/falcon-mamba-7b"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"


def planned(on: tuple[str, ...], model: str = LLAMA, **given: object) -> Plan:
    return answer_plan(PlanAsk(model=model, on=on, online=False, keep=10_000, **given))


def figures(answer: Prediction) -> tuple[Throughput, Latency]:
    assert answer.throughput is not None
    assert answer.latency is not None
    return answer.throughput, answer.latency


# shares of a load


@pytest.mark.parametrize("in_flight", [1, 2, 5])
def test_fewer_requests_than_copies_are_so_many_streams(in_flight: int) -> None:
    # Little's law: n requests in flight finish n times in one end-to-end time
    answer = predicted(on="p5.48xlarge", workload=Workload(concurrency=in_flight))
    rates, latency = figures(answer)
    _, alone = figures(predicted())
    assert answer.deployment.replicas == 8
    assert latency.e2e_s.mean == pytest.approx(alone.e2e_s.mean)
    assert rates.output_tokens_per_s == pytest.approx(in_flight * 128 / alone.e2e_s.mean)


def test_eight_requests_on_eight_copies_are_eight_streams() -> None:
    eight, _ = figures(predicted(on="p5.48xlarge", workload=Workload(concurrency=8)))
    one, _ = figures(predicted())
    assert eight.output_tokens_per_s == pytest.approx(8 * one.output_tokens_per_s)


def test_replicas_of_a_cpu_multiply_the_bill() -> None:
    cost = predicted(on="c8g.4xlarge", deployment={"replicas": 3}, usd_per_hour=1.0).cost
    assert cost is not None
    assert cost.usd_per_hour == 3.0
    assert cost.usd_per_month == pytest.approx(3.0 * 730)


def test_a_rate_is_priced_whatever_the_workload_says() -> None:
    # 20 requests/s x 128 tokens = 2,560 a second, 9.216 million an hour
    answer = planned(("L4",), rate_rps=20.0)
    assert answer.candidates
    for candidate in answer.candidates:
        rates, cost = figures(candidate)[0], candidate.cost
        assert cost is not None
        assert rates.output_tokens_per_s == pytest.approx(2560)
        assert cost.usd_per_mtok_output == pytest.approx(cost.usd_per_hour / 9.216)
    assert answer.best is not None
    assert "serves 20 requests/s" in answer.summary


def test_beyond_saturation_no_mean_wait_exists() -> None:
    answer = predicted(on="L4", workload=Workload(arrival="poisson", rate_rps=500.0))
    rates, latency = figures(answer)
    assert latency.ttft_s.mean is latency.e2e_s.mean is None
    assert rates.max_rate_rps is not None
    assert rates.max_rate_rps < 500
    assert rates.output_tokens_per_s == pytest.approx(rates.max_rate_rps * 128, rel=1e-3)
    (note,) = (n for n in answer.assumptions if "500 requests/s" in n)
    assert "more than the capacity" in note
    assert "wait ever longer" in note


def test_below_saturation_nothing_is_noted() -> None:
    answer = predicted(on="L4", workload=Workload(arrival="poisson", rate_rps=0.5))
    assert figures(answer)[1].ttft_s.mean is not None
    assert not any("wait ever longer" in note for note in answer.assumptions)


# what is compared


def test_what_has_a_price_ranks_before_what_has_none() -> None:
    answer = planned(("A30", "L4"), tensor_parallel=(1, 2))  # nobody in the catalog rents an A30
    priced = [c.cost is not None for c in answer.candidates]
    assert set(priced) == {True, False}
    assert priced == sorted(priced, reverse=True)
    assert all(answer.candidates[i].cost is not None for i in answer.pareto)
    assert answer.best is not None
    assert answer.best.deployment.hardware == "L4"


def test_dollars_are_not_compared_with_device_seconds(tmp_path: Path) -> None:
    # at $10 million an hour a token costs more dollars than seconds on an unpriced card
    file = tmp_path / "dear.yaml"
    file.write_text("instances: [{id: dear, hardware: L4, prices: [{usd_per_hour: 1.0e+7}]}]")
    answer = planned(("A30", "dear"), tensor_parallel=(1,), catalog=str(file))
    priced = [c.deployment.hardware == "dear" for c in answer.candidates]
    assert set(priced) == {True, False}
    assert priced == sorted(priced, reverse=True)
    assert {answer.candidates[i].deployment.hardware for i in answer.pareto} == {"dear"}


def test_where_no_rate_meets_the_slo_the_fastest_is_named() -> None:
    answer = planned(("L4",), rate_rps=20.0, slo="tpot<10us")
    assert answer.best is None
    assert "the fastest that starts is" in answer.summary
    assert "cheapest" not in answer.summary
    tpots = [figures(c)[1].tpot_s.mean for c in answer.candidates]
    assert tpots[0] == pytest.approx(min(tpots))


@pytest.mark.parametrize(
    "name", ["weight_quant", "pipeline_parallel", "expert_parallel", "enforce_eager"]
)
def test_an_empty_list_is_refused(name: str) -> None:
    with pytest.raises(AskError, match="is an empty list"):
        planned(("L4",), **{name: ()})


@pytest.mark.parametrize(
    "name",
    ["kv_cache_dtype", "tensor_parallel", "max_num_seqs", "max_num_batched_tokens",
     "enable_prefix_caching"],
)  # fmt: skip
def test_every_empty_list_is_refused(name: str) -> None:
    with pytest.raises(AskError, match="empty"):
        planned(("L4",), **{name: ()})


def test_hybrids_are_tried_with_fewer_requests_too() -> None:
    machine = find_machine("H100-SXM")

    def seqs(model: str, **given: object) -> tuple:
        request = PlanAsk(model=model, on=("H100-SXM",), **given)
        return tuple(grid_of(request, find_model(model, online=False), [machine]).axes[
            "max_num_seqs"])  # fmt: skip

    assert seqs("nvidia/Nemotron-H-8B-Base-8K") == (None, 128)
    assert seqs(MAMBA) == (None, 128)
    assert seqs(LLAMA) == (None,)
    assert seqs(MAMBA, max_num_seqs=(64,)) == (64,)


def test_schemes_are_tried_where_they_belong() -> None:
    answer = planned(("L4", "c8g.4xlarge"), "Qwen/Qwen3-8B")
    tried = {(c.deployment.hardware, c.deployment.weight_quant) for c in answer.candidates}
    tried |= {(r.deployment.hardware, r.deployment.weight_quant) for r in answer.rejected}
    assert tried == {
        ("L4", "checkpoint"), ("L4", "fp8"), ("L4", "w4a16"),
        ("c8g.4xlarge", "checkpoint"), ("c8g.4xlarge", "w8a8"), ("c8g.4xlarge", "w4a8"),
    }  # fmt: skip


def test_a_list_of_schemes_is_tried_everywhere() -> None:
    answer = planned(("L4", "c8g.4xlarge"), "Qwen/Qwen3-8B", weight_quant=("fp8", "w8a8"))
    tried = [c.deployment for c in answer.candidates] + [r.deployment for r in answer.rejected]
    assert {(d.hardware, d.weight_quant) for d in tried} == {
        ("L4", "fp8"), ("L4", "w8a8"), ("c8g.4xlarge", "fp8"), ("c8g.4xlarge", "w8a8"),
    }  # fmt: skip


def test_context_ranks_that_do_not_divide_drop_only_those_candidates() -> None:
    answer = planned(
        ("16xH100-SXM",), deployment=Deployment(decode_context_parallel=2),
        tensor_parallel=(1, 16), weight_quant=("checkpoint",), kv_cache_dtype=("auto",),
    )  # fmt: skip
    assert [c.deployment.tensor_parallel for c in answer.candidates] == [16]
    (dropped,) = answer.rejected
    assert dropped.reason == "decode_context_parallel 2 does not divide tensor_parallel 1"
    alone = predicted(deployment={"tensor_parallel": 4, "decode_context_parallel": 3})
    assert alone.refusal == "decode_context_parallel 3 does not divide tensor_parallel 4"


# advice


def test_advice_is_about_the_tightest_stage() -> None:
    # Mixtral's 32 layers of 2.9 GB over five stages: 6, 6, 7, 7 and 6
    settings = {"pipeline_parallel": 5, "max_num_batched_tokens": 16384}
    before = predicted(MIXTRAL, deployment=settings)
    assert before.memory is not None
    lines = [line for line in before.advice if "frees" in line]
    assert lines
    for line in lines:
        found = re.fullmatch(r"(\w+) (?:(\d+)|\(.+\)) frees (.+) a device", line)
        assert found is not None
        change = {found[1]: int(found[2]) if found[2] else True}
        after = predicted(MIXTRAL, deployment={**settings, **change}).memory
        assert after is not None
        freed = after.available_kv_bytes - before.memory.available_kv_bytes
        assert show_bytes(freed) == found[3]


def test_given_bytes_cannot_be_freed() -> None:
    assert predicted(GEMMA).advice
    given = predicted(GEMMA, available_kv_bytes=20 * GIB).advice
    assert not any("frees" in line for line in given)


def test_narrow_groups_waste_the_rest_of_their_pages() -> None:
    # 10 full and 52 windowed layers in groups of ten: 70 places, eight of them empty. At 8,192
    # tokens a window of 1,024 and a batch of 8,192 in flight keep every token too: 8 / 70 = 11 %
    told = [line for line in predicted(GEMMA).advice if "padding" in line]
    assert told == ["11% of a long request's KV memory is padding between its kinds of layers"]
    assert round(8 / 70, 2) == 0.11


# other engines


def test_falcon_mamba_on_tensorrt_llm_runs_as_many_as_it_is_told() -> None:
    settings = {"engine": "tensorrt-llm", "max_num_seqs": 16, "max_model_len": 2048}
    answer = predicted(MAMBA, deployment=settings)
    assert answer.starts
    assert answer.kv is not None
    assert answer.kv.max_concurrency == 16
    # 64 layers of 8,192 channels: three inputs and sixteen states each, 2 B
    assert answer.kv.state_bytes_per_request == 64 * (3 + 16) * 8192 * 2


def test_llama_cpp_tells_what_one_more_token_costs() -> None:
    # Gemma-3n-E4B: 20 of 35 layers have a cache of 2 x 2 heads x 256 x 2 B; four of them are full
    settings = {"engine": "llama.cpp", "max_num_seqs": 1}
    kv = predicted("google/gemma-3n-E4B-it", "L4", settings).kv
    assert kv is not None
    assert kv.bytes_per_request == (4 * 16 + 16 * 2) * MIB == 96 * MIB
    assert kv.bytes_per_token == 4 * 2048  # windows do not grow


def test_llama_cpp_counts_states() -> None:
    settings = {"engine": "llama.cpp", "max_num_seqs": 2, "max_model_len": 2048}
    kv = predicted(MAMBA, "L4", settings).kv
    assert kv is not None
    assert kv.state_bytes_per_request == kv.bytes_per_request == 38 * MIB
    assert kv.bytes_per_token == 0


@pytest.mark.parametrize("name", ["trtllm", "tensorrt-llm", "TensorRT-LLM"])
def test_every_spelling_of_an_engine_has_a_command(name: str) -> None:
    command = predicted(deployment={"engine": name}).command
    assert command.startswith(f"trtllm-serve {LLAMA} ")


@pytest.mark.parametrize(
    ("version", "starts"), [("0.23.0", True), ("0.24.0", False), ("0.25.1", False)]
)
def test_a_class_is_served_until_the_version_that_is_asked_for(version: str, starts: bool) -> None:
    answer = predicted(
        "baichuan-inc/Baichuan2-7B-Chat",
        deployment={"engine_version": version, "max_model_len": 2048},
    )
    assert answer.starts is starts
    assert ("until 0.23.0 only" in answer.refusal) is not starts
