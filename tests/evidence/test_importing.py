import json
from pathlib import Path

import numpy
import pytest

from neoserve.errors import AskError
from neoserve.evidence import ledger
from neoserve.evidence.importing.read import read_results, refuse_mixed
from neoserve.schema.imported import Imported

RESULTS = Path(__file__).parent.parent / "data/results"
VLLM = json.loads((RESULTS / "vllm.json").read_bytes())
GUIDELLM = json.loads((RESULTS / "guidellm.json").read_bytes())
AIPERF = json.loads((RESULTS / "aiperf/profile_export_aiperf.json").read_bytes())
LIFECYCLE = json.loads((RESULTS / "inference_perf_stage_1.json").read_bytes())
GENAI = json.loads((RESULTS / "genai_bench.json").read_bytes())
ARRAYS = ("input_lens", "output_lens", "ttfts", "itls", "errors", "start_times", "latencies")


def load(name):
    return read_results(RESULTS / name)


def changed(tmp_path, data, **changes):
    """One load of a result object with some fields changed, None: without them."""
    path = tmp_path / "result.json"
    kept = {name: value for name, value in (data | changes).items() if value is not None}
    path.write_text(json.dumps(kept))
    return read_results(path)[0]


def approx(value):
    return pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.name)
def test_every_metric_comes_with_its_definition_and_reads_back(path):
    for found in read_results(path):
        assert found.metrics.keys() == found.definitions.keys() >= {"ttft_s", "tpot_s", "e2e_s"}
        assert found.source == f"sha256:{ledger.digest(path.read_bytes())}"
        assert found.basis == "measured"
        assert found.cache_state == "unknown"
        assert Imported.parse_json(found.to_json(), "imported") == found
        for values in found.metrics.values():
            assert 0 < values["p50"] <= values["p99"] < 5


def test_vllm_arrays_give_what_vllm_computed():
    [found] = load("vllm.json")
    assert (found.tool, found.model, found.arrival, found.open_loop) == (
        "vllm bench serve", "smollm2", "poisson", True,
    )  # fmt: skip
    assert (found.request_rate_rps, found.max_concurrency) == (20.0, None)
    assert (found.num_requests, found.num_failed) == (12, 0)
    assert set(found.recomputed) == set(found.metrics) == {"ttft_s", "tpot_s", "itl_s", "e2e_s"}
    names = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
    for metric, name in names.items():
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            assert found.metrics[metric][statistic] == approx(VLLM[f"{statistic}_{name}_ms"] / 1e3)
    assert found.throughput["output_tokens_per_s"] == VLLM["output_throughput"]
    assert found.throughput["goodput_rps"] == VLLM["request_goodput"]
    assert found.rows[1].sent_s == approx(VLLM["start_times"][1] - VLLM["start_times"][0])
    assert [row.ttft_s for row in found.rows] == VLLM["ttfts"]
    assert len(found.faults) == 1
    assert "latency counts from sending" in found.faults[0]


def test_vllm_appended_results_are_several_loads_with_failures():
    first, second = load("vllm_append.json")
    assert (first.max_concurrency, second.max_concurrency) == (2, 3)
    assert (first.arrival, first.open_loop, first.request_rate_rps) == ("closed", False, None)
    assert (first.num_requests, first.num_failed) == (6, 3)
    assert first.recomputed == ("e2e_s",)  # of `latencies`; nothing else is in the file
    lines = (RESULTS / "vllm_append.json").read_text().splitlines()
    served = [value for value in json.loads(lines[0])["latencies"] if value]
    assert first.metrics["e2e_s"]["p95"] == approx(float(numpy.percentile(served, 95)))
    assert "p95" not in first.metrics["ttft_s"]  # was not asked for, so it is not there
    assert first.rows == ()


def test_vllm_failed_requests_have_no_latency(tmp_path):
    errors = ["Bad gateway", *[""] * 11]
    found = changed(tmp_path, VLLM, errors=errors, ttfts=[0.0, *VLLM["ttfts"][1:]], failed=None)
    assert found.num_failed == 1
    assert (found.rows[0].ttft_s, found.rows[0].error) == (None, "Bad gateway")
    assert found.metrics["ttft_s"]["p50"] == approx(float(numpy.median(VLLM["ttfts"][1:])))


def test_vllm_figures_that_its_arrays_do_not_give_are_a_fault(tmp_path):
    found = changed(tmp_path, VLLM, mean_ttft_ms=80.0)
    assert any("says ttft_s is 0.08 on average; its arrays give 0.047" in x for x in found.faults)


@pytest.mark.parametrize(
    ("fields", "arrival", "open_loop"),
    [
        ({"request_rate": "inf"}, "at once", True),
        ({"burstiness": 0.5}, "gamma", True),
        ({"ramp_up_strategy": "linear"}, "ramp", True),
        ({"max_concurrency": 4}, "poisson", False),
        ({"request_rate": "trace"}, "trace", True),
        ({"request_rate": float("inf"), "max_concurrency": 4}, "closed", False),
    ],
)
def test_vllm_arrivals(tmp_path, fields, arrival, open_loop):
    found = changed(tmp_path, VLLM, **fields)
    assert (found.arrival, found.open_loop) == (arrival, open_loop)
    capped = any("wait in the client, so the loop is not open" in fault for fault in found.faults)
    assert capped == (fields == {"max_concurrency": 4})


def test_vllm_without_arrays_and_with_the_clients_queue(tmp_path):
    without = dict.fromkeys(ARRAYS)
    found = changed(
        tmp_path, VLLM, **without, failed=None, mean_e2el_including_client_queue_ms=90.0,
        steady_state={},
    )  # fmt: skip
    assert (found.recomputed, found.rows, found.tool) == ((), (), "vllm-bench")
    assert found.metrics["e2e_arrival_s"] == {"mean": 0.09}
    assert found.definitions["e2e_arrival_s"] == "from the intended arrival to the last token"
    assert found.faults == ()
    assert (found.num_requests, found.num_failed) == (12, 0)  # of num_prompts
    assert changed(tmp_path, VLLM, **without, failed=None, num_prompts=None).num_requests is None


def test_sglang_writes_other_names_and_infinity(tmp_path):
    """Fields of sglang/benchmark/metrics.py, values of the vLLM run."""
    path = tmp_path / "sglang.jsonl"
    renamed = {
        "backend": "sglang", "dataset_name": "random", "request_rate": float("inf"),
        "max_concurrency": None, "duration": VLLM["duration"], "completed": 11,
        "request_throughput": 2.0, "input_throughput": 3.0, "output_throughput": 4.0,
        "total_throughput": 7.0, "accept_length": None,
        **{name: VLLM[name] for name in VLLM if name.endswith(("ttft_ms", "itl_ms", "tpot_ms"))},
        **{name.replace("e2el", "e2e_latency"): VLLM[name] for name in VLLM if "e2el" in name},
        **{name: VLLM[name] for name in ("input_lens", "output_lens", "ttfts", "itls")},
        "errors": ["", "boom", *[""] * 10], "generated_texts": [""] * 12,
    }  # fmt: skip
    path.write_text((json.dumps(renamed) + "\n") * 2)
    found, again = read_results(path)
    assert found == again
    assert (found.tool, found.arrival) == ("sglang bench_serving", "at once")
    assert (found.num_requests, found.num_failed) == (12, 1)
    assert found.throughput == {
        "input_tokens_per_s": 3.0, "output_tokens_per_s": 4.0, "total_tokens_per_s": 7.0,
        "served_rps": 2.0,
    }  # fmt: skip
    assert found.rows[0].e2e_s == approx(VLLM["latencies"][0])
    assert found.rows[0].sent_s is None


def test_vllm_one_token_answers_have_no_tpot(tmp_path):
    lens = [1, *VLLM["output_lens"][1:]]
    assert changed(tmp_path, VLLM, output_lens=lens).rows[0].tpot_s is None


def test_a_list_of_results_as_sweeps_write_it(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps([VLLM | {"run_number": i} for i in range(3)]))
    assert len(read_results(path)) == 3


def test_guidellm_takes_the_latency_between_tokens_as_tpot():
    found, second = load("guidellm.json")
    assert (found.tool_version, found.model) == ("0.8.0.dev18", "e2e-mock-model")
    assert (found.request_rate_rps, second.request_rate_rps) == (2.0, 4.0)
    served = GUIDELLM["benchmarks"][0]["metrics"]["inter_token_latency_ms"]["successful"]
    other = GUIDELLM["benchmarks"][0]["metrics"]["time_per_output_token_ms"]["successful"]
    assert found.metrics["tpot_s"]["mean"] == approx(served["mean"] / 1e3)
    assert found.metrics["tpot_s"]["mean"] < other["mean"] / 1e3 / 2  # counts the first token
    assert found.metrics["tpot_s"]["p99.9"] == approx(served["percentiles"]["p999"] / 1e3)
    assert (found.num_requests, found.num_failed, found.warm_up) == (2, 0, "none")
    assert (found.open_loop, found.arrival) == (True, "constant")


def guidellm(tmp_path, strategy, **fields):
    benchmark = GUIDELLM["benchmarks"][0]
    config = benchmark["config"] | {"strategy": strategy}
    data = GUIDELLM | {"benchmarks": [benchmark | {"config": config} | fields]}
    return changed(tmp_path, data)


def test_guidellm_poisson_of_many_workers_is_marked(tmp_path):
    many = guidellm(tmp_path, {"type_": "poisson", "rate": 2.0, "worker_count": 10})
    assert "poisson with 10 workers" in many.faults[0]
    one = guidellm(tmp_path, {"type_": "poisson", "rate": 2.0, "worker_count": 1})
    assert (one.arrival, one.open_loop, len(one.faults)) == ("poisson", True, 1)


def test_guidellm_closed_loops_warm_ups_warnings_and_unknown_strategies(tmp_path):
    found = guidellm(
        tmp_path, {"type_": "concurrent", "streams": 8}, warmup_duration=3.0,
        cooldown_duration=1.5, warnings=[{"code": "late", "message": "roots were late"}],
    )  # fmt: skip
    assert (found.arrival, found.open_loop, found.max_concurrency) == ("closed", False, 8)
    assert found.warm_up == "warmup of 3 s left out, cooldown of 1.5 s left out"
    assert "guidellm warns: roots were late" in found.faults
    odd = guidellm(tmp_path, {"type_": "incremental"}, metrics={})
    assert (odd.arrival, odd.open_loop, odd.num_failed) == ("incremental", None, None)
    assert odd.metrics == {}


def test_guidellm_requests(tmp_path):
    served = {"time_to_first_token_ms": 11.5, "inter_token_latency_ms": 1.25,
              "request_latency": 0.02, "prompt_tokens": 32, "output_tokens": 8}  # fmt: skip
    requests = {"successful": [served], "errored": [{}], "incomplete": None}
    found = guidellm(tmp_path, {"type_": "constant"}, requests=requests)
    good, bad = found.rows
    assert (good.ttft_s, good.tpot_s, good.e2e_s) == (approx(0.0115), approx(0.00125), 0.02)
    assert (good.prompt_tokens, good.output_tokens, good.error) == (32, 8, "")
    assert (bad.ttft_s, bad.error) == (None, "errored")


def test_guidellm_latency_from_the_intended_arrival(tmp_path):
    metrics = GUIDELLM["benchmarks"][0]["metrics"]
    scheduled = {"request_scheduled_latency": metrics["request_latency"]}
    found = guidellm(tmp_path, {"type_": "constant"}, metrics=metrics | scheduled)
    assert found.metrics["e2e_arrival_s"] == found.metrics["e2e_s"]
    assert found.faults == ()


def test_guidellm_of_another_version_is_refused(tmp_path):
    with pytest.raises(AskError, match="format version 1 is not 2"):
        changed(tmp_path, GUIDELLM, metadata=GUIDELLM["metadata"] | {"version": 1})


def test_aiperf_figures_follow_from_its_records():
    [found] = load("aiperf/profile_export_aiperf.json")
    assert (found.tool_version, found.arrival, found.open_loop) == ("0.13.0", "poisson", True)
    assert (found.num_requests, found.num_failed, found.request_rate_rps) == (12, 2, 10.0)
    assert found.duration_s == AIPERF["benchmark_duration"]["avg"]
    served = [row for row in found.rows if not row.error]
    assert (len(found.rows), len(served), {row.error for row in found.rows}) == (
        12, 10, {"", "busy"},
    )  # fmt: skip
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        values = [getattr(row, metric) for row in served]
        for p in (50, 90, 95, 99):
            assert found.metrics[metric][f"p{p}"] == approx(float(numpy.percentile(values, p)))
        assert found.metrics[metric]["mean"] == approx(float(numpy.mean(values)))
    row = served[0]
    assert row.tpot_s == approx((row.e2e_s - row.ttft_s) / (row.output_tokens - 1))
    assert found.rows[0].sent_s == 0.0


@pytest.mark.parametrize(
    ("phase", "arrival", "open_loop", "num_faults"),
    [
        ({"type": "concurrency", "concurrency": 4}, "closed", False, 1),
        ({"type": "poisson", "rate": 2.0, "concurrency": 4}, "poisson", False, 2),
        ({"type": "fixed_schedule"}, "fixed_schedule", None, 1),
    ],
)
def test_aiperf_loads(tmp_path, phase, arrival, open_loop, num_faults):
    phases = [{"kind": "warmup"}, phase | {"kind": "profiling"}]
    config = AIPERF["input_config"] | {"phases": phases}
    found = changed(tmp_path, AIPERF, input_config=config, warmup_metrics={"x": {}})
    assert (found.arrival, found.open_loop, len(found.faults)) == (arrival, open_loop, num_faults)
    assert (found.warm_up, found.rows) == ("a warm-up phase, left out", ())


def test_aiperf_reads_units_and_refuses_what_is_none(tmp_path):
    ttft = AIPERF["time_to_first_token"]
    microseconds = {name: value * 1e3 for name, value in ttft.items() if name != "unit"}
    found = changed(tmp_path, AIPERF, time_to_first_token=microseconds | {"unit": "us"})
    assert found.metrics["ttft_s"]["p95"] == approx(ttft["p95"] / 1e3)
    assert "itl_s" not in changed(tmp_path, AIPERF, inter_chunk_latency=None).metrics
    with pytest.raises(AskError, match="time_to_first_token is in 'ticks'; expected one of ms, ns"):
        changed(tmp_path, AIPERF, time_to_first_token=ttft | {"unit": "ticks"})
    with pytest.raises(AskError, match="output_token_throughput is in 'tokens/min'"):
        changed(tmp_path, AIPERF, output_token_throughput={"unit": "tokens/min", "avg": 1.0})


def test_aiperf_incomplete_runs_are_refused_and_cancelled_ones_marked(tmp_path):
    with pytest.raises(AskError, match=r"incomplete \(stalled\).*run it again"):
        changed(tmp_path, AIPERF, is_complete=False, incomplete_reason="stalled")
    found = changed(tmp_path, AIPERF, was_cancelled=True, request_count=None)
    assert "the run was cancelled before its end" in found.faults
    assert found.num_requests is None


def test_inference_perf_is_in_seconds_already():
    [stage] = load("inference_perf_stage_1.json")
    assert (stage.request_rate_rps, stage.num_requests, stage.num_failed) == (37.97, 2278, 0)
    assert stage.metrics["e2e_s"]["p95"] == 0.6094937447982375
    assert stage.metrics["ttft_s"]["p50"] == 0.030646827479358763
    assert stage.throughput["output_tokens_per_s"] == 2366.1706737582767
    assert (stage.open_loop, stage.arrival) == (True, "")  # the file does not name the law
    assert "the generator has no seed" in stage.faults[0]
    [summary] = load("inference_perf_summary.json")
    assert (summary.open_loop, summary.request_rate_rps) == (None, None)


def test_inference_perf_closed_stages_and_loads_without_a_success(tmp_path):
    concurrent = LIFECYCLE["load_summary"] | {"concurrency": 16}
    found = changed(tmp_path, LIFECYCLE, load_summary=concurrent)
    assert (found.open_loop, found.arrival, found.max_concurrency) == (False, "closed", 16)
    assert not any("seed" in fault for fault in found.faults)
    nothing = {"count": 0, "latency": {"request_latency": None}}
    none = changed(tmp_path, LIFECYCLE, successes=nothing)
    assert (none.metrics, none.throughput) == ({}, {})


def test_genai_bench_reads_its_time_unit(tmp_path):
    [found] = load("genai_bench.json")
    assert (found.open_loop, found.arrival, found.max_concurrency) == (False, "closed", 1)
    assert (found.num_requests, found.num_failed) == (32, 0)
    assert found.metrics["ttft_s"]["p99"] == 0.47234579389914955
    assert found.throughput["served_rps"] == approx(31.9995250891596 / 60)
    in_ms = changed(tmp_path, GENAI, _time_unit="ms")
    assert in_ms.metrics["ttft_s"]["p99"] == approx(0.00047234579389914955)
    totals = GENAI["aggregated_metrics"] | {"requests_per_second": 2.5, "requests_per_minute": None}
    failed = {"error_code": 429, "error_message": None, "ttft": None}
    newer = changed(
        tmp_path, GENAI, aggregated_metrics=totals, individual_request_metrics=[failed]
    )
    assert newer.throughput["served_rps"] == 2.5
    assert (newer.rows[0].error, newer.rows[0].ttft_s) == ("429", None)
    with pytest.raises(AskError, match="is in 'h'"):
        changed(tmp_path, GENAI, _time_unit="h")


def test_genai_bench_early_versions_divided_by_all_tokens(tmp_path):
    [found] = load("genai_bench.json")
    row = found.rows[0]
    assert row.tpot_s == approx((row.e2e_s - row.ttft_s) / row.output_tokens)
    assert found.definitions["tpot_s"].endswith("over all its output tokens")
    request = GENAI["individual_request_metrics"][0]
    later = request | {"tpot": request["output_latency"] / (request["num_output_tokens"] - 1)}
    again = changed(tmp_path, GENAI, individual_request_metrics=[later])
    assert again.definitions["tpot_s"].endswith("over its output tokens less one")
    with pytest.raises(AskError, match="tpot_s is not comparable"):
        refuse_mixed(found, again)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[1]", "not json", '{"a":1}\nnot json', '"text"', '{"duration": 1}']
)
def test_a_file_of_no_tool_is_refused_by_naming_the_five(tmp_path, text):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(AskError, match=r"vllm bench serve .*, AIPerf, inference-perf, genai"):
        read_results(path)


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("guidellm.json", "benchmarks"),
        ("genai_bench.json", None),
        ("vllm.json", None),
    ],
)
def test_a_damaged_file_is_refused_in_a_sentence(tmp_path, name, without):
    data = json.loads((RESULTS / name).read_bytes())
    if without:
        del data[without]
    elif name == "vllm.json":
        data["itls"] = data["itls"][1:]
    else:
        data["individual_request_metrics"] = 7
    with pytest.raises(AskError, match="looks like a result file but is not whole"):
        changed(tmp_path, data)


def test_no_file(tmp_path):
    with pytest.raises(AskError, match="cannot be read: No such file"):
        read_results(tmp_path / "none.json")


def test_figures_of_two_definitions_are_not_compared():
    [vllm], [aiperf] = load("vllm.json"), load("aiperf/profile_export_aiperf.json")
    refuse_mixed(vllm, aiperf)
    [genai], [lifecycle] = load("genai_bench.json"), load("inference_perf_stage_1.json")
    with pytest.raises(AskError, match=r"e2e_s is not comparable: vllm bench serve measures it "
                       r"from sending .* last token, genai-bench from .* end of the answer"):
        refuse_mixed(vllm, genai)
    refuse_mixed(vllm, genai, ["ttft_s"])
    refuse_mixed(lifecycle, genai, ["e2e_s", "ttft_s"])
    with pytest.raises(AskError, match="itl_s is not comparable"):
        refuse_mixed(vllm, lifecycle, ["itl_s"])
