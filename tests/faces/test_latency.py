"""`accuracy latency`: small tables by hand, and the claims over every public row."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import pytest

from neoserve.errors import AskError
from neoserve.faces.accuracy import run
from neoserve.faces.latency import (
    EARLY,
    UNBOUNDED,
    WARM,
    latency,
    read_csv,
    show_latency,
    slice_rows,
)

from .conftest import Cli

DATA = Path(__file__).parents[1] / "data"

# GPUStack performance lab: Qwen3-8B on one H100, eight requests in flight
ROW = {
    "id": "a", "source": "GPUStack", "engine": "vLLM", "engine_version": "0.11.0",
    "model": "Qwen/Qwen3-8B", "arch": "dense", "gpu_or_cpu": "NVIDIA H100 SXM 80GB",
    "num_devices": "1", "tensor_parallel": "1", "weight_dtype": "bf16", "spec_decode": "none",
    "load_mode": "closed_loop", "isl": "232.6", "osl": "220.6", "concurrency": "8",
    "num_prompts": "100", "ttft_ms": "60.77", "ttft_stat": "median", "tpot_ms": "7.67",
    "uses": "batched_tpot ttft",
}  # fmt: skip
# 64 requests of 2,000 tokens each 0.122 + 99 x 0.00974 s are 117,900 tokens/s; 2 x 7.5 billion
# operations for each are 1.77 Pop/s, of at most 1.98 that an H200 computes in fp8
CACHED = {
    **ROW, "id": "warm", "source": "cached", "model": "nvidia/Llama-3.1-8B-Instruct-FP8",
    "gpu_or_cpu": "NVIDIA H200 SXM", "weight_dtype": "fp8", "isl": "2000", "osl": "100",
    "concurrency": "64", "ttft_ms": "121.73", "tpot_ms": "9.74",
}  # fmt: skip
# 2,047 steps over 14.6 GB at 4 TB/s take 7.5 s at least
SHORT = {
    **ROW, "id": "short", "source": "static", "engine_version": "", "model": "BAAI/Aquila-7B",
    "gpu_or_cpu": "NVIDIA GH200 96GB", "weight_dtype": "fp16/bf16", "load_mode": "static_batch",
    "isl": "2048", "osl": "2048", "concurrency": "64", "ttft_ms": "", "tpot_ms": "",
    "e2e_ms": "3200.89", "uses": "e2e_batched",
}  # fmt: skip
# A100-40GB: more prompts a second than any step can take
FLOOD = {
    **ROW, "id": "flood", "source": "flood", "load_mode": "open_loop", "concurrency": "",
    "request_rate": "1000", "num_prompts": "", "uses": "openloop_ttft openloop_tpot",
}  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Any:
    def make(*rows: dict[str, str]) -> Path:
        names = list(dict.fromkeys(name for row in rows for name in row))
        file = tmp_path / "rows.csv"
        with file.open("w", newline="") as out:
            writer = csv.DictWriter(out, names, restval="")
            writer.writeheader()
            writer.writerows(rows)
        return file

    return make


def by_flag(document: dict[str, Any], row_id: str = "a") -> dict[str, dict[str, Any]]:
    return {row["flag"]: row for row in document["rows"] if row["id"] == row_id}


# the file


@pytest.mark.parametrize("column", ["id", "source", "model", "uses"])
def test_a_column_that_is_missing_is_named(table: Any, column: str) -> None:
    with pytest.raises(AskError, match=f"no column {column}"):
        latency(table({k: v for k, v in ROW.items() if k != column}))


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "no column id"), (b"id,\xff\n", "utf-8"), (None, "No such file")]
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "rows.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(AskError, match=said):
        read_csv(file)


# single rows


def test_a_row_is_answered_near_what_was_measured(table: Any) -> None:
    document = latency(table(ROW))
    assert (document["kind"], document["cases"], document["answered"]) == ("latency", 2, 2)
    found = by_flag(document)
    assert found["batched_tpot"]["observed"] == pytest.approx(0.00767)
    assert found["ttft"]["observed"] == pytest.approx(0.06077)
    for row in found.values():
        assert row["predicted"] == pytest.approx(row["observed"], rel=0.4)
        assert row["note"] == ""


def test_errors_are_shares_of_the_observed(table: Any) -> None:
    twice = {**ROW, "id": "b", "source": "other", "tpot_ms": "15.34"}
    document = latency(table(ROW, twice))
    single = by_flag(document)["batched_tpot"]["predicted"]
    errors = [abs(single / 0.00767 - 1), abs(single / 0.01534 - 1)]
    metrics = document["metrics"]["batched_tpot"]
    assert (metrics["n"], metrics["sources"], metrics["devices"]) == (2, 2, 1)
    assert metrics["mape"] == pytest.approx(sum(errors) / 2)
    assert metrics["median_ape"] == pytest.approx(sum(errors) / 2)
    inside = [row["low"] <= row["observed"] <= row["high"]
              for row in document["rows"] if row["flag"] == "batched_tpot"]  # fmt: skip
    assert metrics["coverage"] == sum(inside) / 2
    assert document["by_source"]["other"]["batched_tpot"]["mape"] == pytest.approx(errors[1])


def test_a_row_s_interval_holds_its_prediction(table: Any) -> None:
    document = latency(table(ROW, {**ROW, "id": "b", "model": "nobody/has-this-7B"}))
    for row in by_flag(document).values():
        assert 0 < row["low"] < row["predicted"] < row["high"]
    for row in by_flag(document, "b").values():
        assert (row["low"], row["high"]) == (None, None)
    assert document["answered_share"] == {"batched_tpot": 0.5, "ttft": 0.5}


def test_a_bench_that_the_fit_knows_has_narrower_intervals(table: Any) -> None:
    known = {**ROW, "id": "b", "source": "GPUStack performance lab"}
    document = latency(table(ROW, known))
    new, seen = by_flag(document)["ttft"], by_flag(document, "b")["ttft"]
    assert seen["predicted"] == new["predicted"]
    assert seen["high"] / seen["low"] < new["high"] / new["low"]


@pytest.mark.parametrize(
    ("change", "slices"),
    [
        ({}, {"dense batched TPOT", "dense TTFT", "vLLM on data-centre GPUs, dense >= 3 B",
              "dense batched TPOT outside silicon_sample"}),
        ({"source": "aiconfigurator silicon_sample (x)", "gpu_or_cpu": "NVIDIA L40S"},
         {"dense batched TPOT", "dense TTFT", "vLLM on data-centre GPUs, dense >= 3 B"}),
        ({"gpu_or_cpu": "NVIDIA RTX 4090", "engine": "SGLang"},
         {"dense batched TPOT", "dense TTFT", "consumer and workstation GPUs",
          "dense batched TPOT outside silicon_sample"}),
        ({"gpu_or_cpu": "AMD MI300X", "arch": "moe"}, {"MoE and MLA", "AMD GPUs"}),
        ({"gpu_or_cpu": "AWS Graviton4 (96 vCPU)", "arch": "hybrid", "engine": "llama.cpp"},
         {"hybrids", "Arm CPUs"}),
        ({"model": "Qwen/Qwen2.5-0.5B", "load_mode": "single_stream", "concurrency": "1",
          "uses": "single_tpot"}, {"dense single-user TPOT"}),
        ({"uses": "throughput tput256", "concurrency": "256", "output_tok_s_total": "9000",
          "model_family": "qwen3"},
         {"about 256 users, qwen3", "output throughput at stated concurrency",
          "vLLM on data-centre GPUs, dense >= 3 B"}),
    ],
)  # fmt: skip
def test_slices_hold_what_they_are_named_for(
    table: Any, change: dict[str, str], slices: set[str]
) -> None:
    document = latency(table({**ROW, **change}))
    assert document["answered"] == document["cases"] > 0, document["rows"]
    assert set(document["by_slice"]) == slices
    for name in slices:
        assert name in [row[1] for row in slice_rows(document)]


def test_tables_group_by_what_a_row_says(table: Any) -> None:
    other = {**ROW, "id": "b", "engine": "SGLang", "engine_version": "0.4.6",
             "gpu_or_cpu": "NVIDIA L40S", "arch": "other"}  # fmt: skip
    document = latency(table(ROW, other))
    assert set(document["by_arch"]) == {"dense", "other"}
    assert set(document["by_engine"]) == {"vllm", "sglang"}
    assert set(document["by_device"]) == {"NVIDIA H100 SXM 80GB", "NVIDIA L40S"}
    assert len(document["by_device_class"]) == 2
    assert set(document["by_source"]) == {"GPUStack"}
    for group in ("by_arch", "by_engine", "by_device", "by_device_class"):
        assert {m["ttft"]["n"] for m in document[group].values()} == {1}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"model": "nobody/has-this-7B"}, "unknown model 'nobody/has-this-7B'"),
        ({"gpu_or_cpu": "NVIDIA Z9000"}, "Z9000"),
        ({"spec_decode": "yes"}, "not modelled: speculative decoding"),
        ({"engine": "vLLM disaggregated"}, "not modelled: prefill and decode on separate devices"),
    ],
)
def test_what_is_not_known_or_modelled_is_unanswered(
    table: Any, change: dict[str, str], note: str
) -> None:
    document = latency(table(ROW, {**ROW, **change, "id": "b"}))
    assert (document["cases"], document["answered"]) == (4, 2)
    for row in by_flag(document, "b").values():
        assert row["predicted"] is None
        assert note in row["note"]
    assert document["metrics"]["ttft"]["n"] == 1


def test_secondary_figures_do_not_count(table: Any) -> None:
    document = latency(table({**ROW, "uses": "~ttft batched_tpot"}, {**ROW, "uses": "~ttft"}))
    assert [row["flag"] for row in document["rows"]] == ["batched_tpot"]


def test_a_rate_beyond_the_peak_came_from_a_warm_cache(table: Any) -> None:
    calm = {**CACHED, "id": "calm", "concurrency": "1"}  # of the same series
    elsewhere = {**calm, "id": "elsewhere", "source": "another"}
    document = latency(table(CACHED, calm, elsewhere))
    notes = {row["id"]: row["note"] for row in document["rows"]}
    assert notes == {"warm": WARM, "calm": WARM, "elsewhere": ""}
    assert document["answered"] == 6  # counted all the same


def test_faster_than_its_weights_is_an_output_that_ended_early(table: Any) -> None:
    slow = {**SHORT, "id": "slow", "e2e_ms": "60000"}
    sparse = {**SHORT, "id": "sparse", "arch": "moe"}  # reads only some of them
    document = latency(table(SHORT, slow, sparse))
    notes = {row["id"]: row["note"] for row in document["rows"]}
    assert notes == {"short": EARLY, "slow": "", "sparse": ""}


def test_a_rate_beyond_saturation_has_no_finite_wait(table: Any) -> None:
    document = latency(table(FLOOD))
    found = by_flag(document, "flood")
    assert found["openloop_ttft"]["predicted"] is None
    assert found["openloop_ttft"]["note"] == UNBOUNDED
    assert found["openloop_tpot"]["predicted"] > 0
    assert (document["cases"], document["answered"]) == (2, 1)
    assert "openloop_ttft" not in document["metrics"]


# what is shown


def test_the_table_counts_what_was_not_answered(table: Any) -> None:
    unknown = [{**ROW, "id": str(i), "model": "nobody/has-this-7B"} for i in range(3)]
    text = show_latency(latency(table(ROW, *unknown, FLOOD)))
    assert "3 of 10 figures answered" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["ttft", "dense", "1", "1", "1"] in [line[:5] for line in lines]


def test_counts_are_whole_numbers(table: Any) -> None:
    unknown = [{**ROW, "id": str(i), "model": "nobody/has-this-7B"} for i in range(3)]
    text = show_latency(latency(table(*unknown, FLOOD)))
    assert "  6 not: unknown model 'nobody/has-this-7B'" in text
    assert f"  1 not: {UNBOUNDED}" in text


def test_the_command_prints_table_and_document(cli: Cli, table: Any) -> None:
    file = table(ROW)
    said = cli("accuracy", "latency", "--truth", str(file))
    assert (said.code, said.err) == (0, "")
    assert "2 of 2 figures answered" in said.out
    document = cli("accuracy", "latency", "--truth", str(file), "--json").document
    assert document == run("latency", file, [])
    assert document["truth"] == "rows.csv"


# every row


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("truth") / "latency_rows.csv"
    file.write_bytes(gzip.decompress((DATA / "latency_rows.csv.gz").read_bytes()))
    return latency(file)


@pytest.mark.parametrize(
    ("flag", "limit"), [("single_tpot", 0.15), ("batched_tpot", 0.20), ("ttft", 0.35)]
)
def test_claimed_errors_of_dense_models(
    everything: dict[str, Any], flag: str, limit: float
) -> None:
    metrics = everything["by_arch"]["dense"][flag]
    assert metrics["n"] > 100
    assert metrics["median_ape"] < limit


def test_nearly_every_figure_is_answered(everything: dict[str, Any]) -> None:
    assert everything["cases"] == len(everything["rows"]) > 12_000
    assert everything["answered"] / everything["cases"] > 0.9
    silent = [row for row in everything["rows"] if row["predicted"] is None]
    assert all(row["note"] for row in silent)
    assert "figures answered" in show_latency(everything)


def test_the_level_is_kept_on_what_the_fit_has_seen(everything: dict[str, Any]) -> None:
    """Intervals of the seen setting are for models that were left out: here they hold more."""
    rows = [row for row in everything["rows"] if row["low"] is not None]
    assert len(rows) > 11_000
    inside = sum(row["low"] <= row["observed"] <= row["high"] for row in rows) / len(rows)
    assert 0.87 < inside < 0.98
    for flag in ("single_tpot", "batched_tpot", "ttft", "throughput"):
        assert 0.85 < everything["metrics"][flag]["coverage"] <= 0.99, flag
