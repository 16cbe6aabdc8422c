import json
from datetime import UTC, datetime

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmd_benchmark_report.schema_v0_2 import BenchmarkReportV02

from neoserve.evidence.exporting import to_benchmark_report, to_vllm
from neoserve.evidence.importing.read import read_results
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Workload

from .sample import trial

AT = datetime(2026, 11, 30, 12, 0, 1, tzinfo=UTC)
OPEN = trial(workload=Workload(arrival="poisson", rate_rps=2.0, prompt_tokens_cv=0.3))
GAPS = st.lists(st.floats(1e-3, 0.2), min_size=1, max_size=6)


def served(due_s, late_s, ttft_s, gaps, **fields):
    sent_s = due_s + late_s
    return RequestRow(
        due_s=due_s, sent_s=sent_s, first_token_s=sent_s + ttft_s,
        last_token_s=sent_s + ttft_s + sum(gaps), prompt_tokens=5, output_tokens=len(gaps) + 1,
        itl_s=tuple(gaps), **fields,
    )  # fmt: skip


ROWS = st.lists(
    st.builds(served, st.floats(0, 9), st.floats(0, 0.1), st.floats(1e-3, 2), GAPS),
    min_size=1, max_size=20,
)  # fmt: skip
SOME = [
    served(0.0, 0.0, 0.9, [0.1], phase="warmup"),
    served(1.0, 0.5, 0.1, [0.02, 0.04]),
    served(2.0, 0.0, 0.3, [0.06]),
    RequestRow(due_s=2.5, sent_s=2.5, first_token_s=2.6, last_token_s=2.7, status="truncated",
               itl_s=(0.1,), prompt_tokens=5, output_tokens=2),
    RequestRow(due_s=3.0, sent_s=3.0, status="http", error="HTTP 503"),
    RequestRow(due_s=3.0, sent_s=3.1, status="cancelled"),
    RequestRow(due_s=4.0, status="unsent"),
]  # fmt: skip


def read_back(data, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(data))
    [found] = read_results(path)
    return found


@given(rows=ROWS)
def test_what_is_exported_to_vllm_reads_back_as_the_same_figures(rows, tmp_path_factory):
    data = to_vllm(OPEN, rows, AT, "0.1.0")
    found = read_back(data, tmp_path_factory.mktemp("export"))
    assert (found.tool, found.tool_version, found.num_failed) == ("neoserve", "0.1.0", 0)
    assert (found.arrival, found.open_loop, found.num_requests) == ("poisson", True, len(rows))
    expected = {
        "ttft_s": [row.first_token_s - row.sent_s for row in rows],
        "tpot_s": [row.tpot_s for row in rows],
        "itl_s": [gap for row in rows for gap in row.itl_s],
        "e2e_s": [row.last_token_s - row.sent_s for row in rows],
    }
    for metric, values in expected.items():
        figures = found.metrics[metric]
        assert figures["mean"] == pytest.approx(float(numpy.mean(values)), rel=1e-6)
        for p in (50, 90, 95, 99):
            q = float(numpy.percentile(values, p))
            assert figures[f"p{p}"] == pytest.approx(q, rel=1e-6)
            name = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}[metric]
            assert data[f"p{p}_{name}_ms"] == pytest.approx(q * 1e3, rel=1e-6)
    assert not any("its arrays give" in fault for fault in found.faults)


def test_vllm_has_every_field_that_vllm_writes():
    from .test_importing import VLLM

    left_out = {"generated_texts", "queue_times", "max_output_tokens_per_s",
                "max_concurrent_requests", "rtfx"}  # fmt: skip
    data = to_vllm(OPEN, SOME, AT, "0.1.0")
    assert VLLM.keys() - data.keys() == left_out
    assert data.keys() - VLLM.keys() == {"arrival"}
    assert {name: type(VLLM[name]) for name in data if name in VLLM and name != "label"} == {
        name: type(data[name]) for name in data if name in VLLM and name != "label"
    }


def test_vllm_counts_measured_requests_that_reached_the_server(tmp_path):
    data = to_vllm(OPEN, SOME, AT, "0.1.0")
    assert (data["num_prompts"], data["completed"], data["failed"]) == (4, 2, 2)
    assert data["errors"] == ["", "", "truncated", "HTTP 503"]
    assert data["ttfts"] == pytest.approx([0.1, 0.3, 0.0, 0.0])
    assert data["itls"] == [[0.02, 0.04], [0.06], [], []]
    assert data["duration"] == pytest.approx(2.7 - 1.5)
    assert data["output_throughput"] == pytest.approx(5 / 1.2)
    assert data["date"] == "20261130-120001"
    found = read_back(data, tmp_path)
    assert (found.num_requests, found.num_failed) == (4, 2)
    assert [row.error for row in found.rows] == data["errors"]
    assert found.metrics["e2e_s"]["p50"] == pytest.approx(0.26)


def test_vllm_of_closed_loads_and_of_no_answer(tmp_path):
    closed = trial(workload=Workload(concurrency=4))
    data = to_vllm(closed, SOME[4:], AT, "0.1.0")
    assert (data["request_rate"], data["max_concurrency"]) == ("inf", 4)
    assert (data["duration"], data["request_throughput"]) == (0.0, None)
    assert "mean_ttft_ms" not in data
    found = read_back(data, tmp_path)
    assert (found.open_loop, found.metrics, found.num_failed) == (False, {}, 1)


def test_rows_that_the_load_did_not_time():
    odd = [RequestRow(due_s=0.0, sent_s=0.0, prompt_tokens=1, output_tokens=1)]
    assert to_vllm(OPEN, odd, AT, "0.1.0")["latencies"] == [0.0]


@given(rows=ROWS)
def test_the_benchmark_report_is_what_its_schema_wants(rows):
    data = to_benchmark_report(OPEN, rows, "abc", AT, "0.1.0")
    report = BenchmarkReportV02(**data)
    assert (report.version, report.run.uid) == ("0.2.1", "abc")
    aggregate = report.results.request_performance.aggregate
    assert (aggregate.requests.total, aggregate.requests.failures) == (len(rows), 0)
    ttft = [row.first_token_s - row.sent_s for row in rows]
    assert aggregate.latency.time_to_first_token.p95 == pytest.approx(
        float(numpy.percentile(ttft, 95))
    )
    assert aggregate.latency.time_to_first_token.stddev == pytest.approx(
        float(numpy.std(ttft)), abs=1e-9
    )
    assert aggregate.latency.time_per_output_token.units == "s/token"
    assert json.loads(json.dumps(data)) == data


def test_the_benchmark_report_of_failures_and_of_closed_loads():
    closed = trial(workload=Workload(concurrency=4, dataset="mine.jsonl"))
    report = BenchmarkReportV02(**to_benchmark_report(closed, SOME, "abc", AT, "0.1.0"))
    load = report.scenario.load.standardized
    assert (load.concurrency, load.rate_qps, load.source) == (4, None, "sampled")
    requests = report.results.request_performance.aggregate.requests
    assert (requests.total, requests.failures, requests.output_length.mean) == (4, 2, 2.5)
    none = BenchmarkReportV02(**to_benchmark_report(closed, [], "abc", AT, "0.1.0"))
    aggregate = none.results.request_performance.aggregate
    assert (aggregate.requests.total, aggregate.latency.request_latency) == (0, None)
    assert none.run.time.duration == "PT0.000000S"
