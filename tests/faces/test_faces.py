"""Plots, catalog listings, requests, options, accuracy."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from neoserve.errors import AskError
from neoserve.faces.accuracy import oracle, read_rows, run
from neoserve.faces.ask import answer_plan
from neoserve.faces.catalog import _stale, show_catalog
from neoserve.faces.cli import COMMANDS, parser_of
from neoserve.faces.options import add_options, gib, price, real, whole, yes_no
from neoserve.faces.plot import Scale, points, svg, write
from neoserve.faces.requests import plan_ask, predict_ask
from neoserve.recipe.command import command
from neoserve.schema.ask import PlanAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Plan

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return answer_plan(
        PlanAsk(model="Qwen/Qwen3-8B", on=("H100-SXM", "L40S"), tensor_parallel=(1, 2))
    )


def test_the_drawing_has_every_candidate_and_joins_the_front(plan: Plan) -> None:
    root = ElementTree.fromstring(svg(plan))
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == len(plan.candidates)
    assert sum(c.get("r") == "5" for c in circles) == len(plan.pareto)
    line = root.find(f"{SVG}polyline").get("points").split()
    front = {f"{c.get('cx')},{c.get('cy')}" for c in circles if c.get("r") == "5"}
    assert set(line) == front
    assert [float(p.split(",")[0]) for p in line] == sorted(float(p.split(",")[0]) for p in line)
    titles = [c.find(f"{SVG}title").text for c in circles]
    assert any(t.startswith("H100-SXM-80GB TP2 ") for t in titles)


def test_points_are_cost_and_time_per_token(plan: Plan) -> None:
    for (x, y, _, _), answer in zip(points(plan), plan.candidates, strict=True):
        assert (x, y) == (answer.latency.tpot_s.mean, answer.cost.usd_per_mtok_output)


def test_names_are_escaped_and_an_empty_plan_is_drawn(plan: Plan) -> None:
    nothing = plan.replace(model="<b>&", candidates=(), pareto=(), best=None)
    root = ElementTree.fromstring(svg(nothing))
    assert root.findall(f"{SVG}circle") == []
    assert "<b>&" in "".join(root.itertext())


def test_an_axis_is_logarithmic() -> None:
    axis = Scale(0.0, 2.0, 0.0, 100.0)  # 1 to 100
    assert axis(10.0) == pytest.approx(50.0)
    assert axis(100.0) - axis(10.0) == pytest.approx(axis(10.0) - axis(1.0))
    assert [round(t) for t in axis.ticks()] == [1, 2, 5, 10, 20, 50, 100]
    assert Scale(1.0, 1.0, 0.0, 80.0)(10.0) == pytest.approx(40.0)


def test_plot_files(plan: Plan, tmp_path: Path) -> None:
    write(plan, tmp_path / "a.SVG")
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag == f"{SVG}svg"
    if importlib.util.find_spec("matplotlib") is None:
        with pytest.raises(AskError, match="matplotlib"):
            write(plan, tmp_path / "a.png")
    else:
        write(plan, tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("date", "said"),
    [("2026-08-02", ""), ("2026-08-01", " (stale: 91 days)"), ("2025-10", " (stale: 395 days)"),
     ("soon", "")],
)  # fmt: skip
def test_an_old_price_is_flagged(date: str, said: str) -> None:
    assert _stale(date, datetime.date(2026, 10, 31)) == said


def test_catalog_entries() -> None:
    document, text = show_catalog("hardware", "h100 sxm", "")
    assert document["id"] == "H100-SXM-80GB"
    assert document["sources"]["bandwidth_bytes_per_s"]["date"]
    assert "3,35" in text  # GB/s of the data sheet
    model, text = show_catalog("models", "Qwen/Qwen3-8B", "")
    assert model["total_params"] == 8_190_735_360  # the checkpoint's own count
    assert "36 full" in text
    assert show_catalog("engines", "vllm", "")[0]
    assert "LlamaForCausalLM" in show_catalog("architectures", "llama", "")[0]
    assert {s["name"] for s in show_catalog("quantization", "w4a", "")[0]} >= {"w4a16", "w4a8"}


def test_catalog_of_the_users_own(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "hardware: [{id: my-card, memory_bytes: 48GiB, bandwidth_bytes_per_s: 1e12,"
        " peak_flops_per_s: {bf16: 2e14}}]\n"
        "instances: [{id: my-box, hardware: my-card, prices: [{usd_per_hour: 1.5,"
        " date: 2020-01-01}]}]\n"
    )
    entries, text = show_catalog("hardware", "", str(file))
    assert entries[0]["id"] == "my-card"
    assert "48.0 GiB" in text
    instances, text = show_catalog("instances", "my-box", str(file))
    assert instances[0]["prices"][0]["usd_per_hour"] == 1.5
    assert "stale" in text
    assert show_catalog("hardware", "my-card", str(file))[0]["instances"][0]["id"] == "my-box"


def parsed(line: str) -> argparse.Namespace:
    name, *words = shlex.split(line)
    return parser_of(next(c for c in COMMANDS if c.name == name)).parse_args(words)


def test_predict_options_reach_the_request() -> None:
    asked = predict_ask(parsed(
        "predict m --on L4 --isl 8k --osl 1Ki --rate 2.5 --burstiness 0.5 --tp 2 --pp 3 --ep "
        "--dcp 2 -q fp8 --kv-cache-dtype fp8 --enforce-eager --no-enable-prefix-caching "
        "--max-num-seqs 64 --block-size 32 --price $1.25 --utilization 60% --memory 24GB "
        "--available-kv-gib 1.5 --gpu-memory-utilization 0.8 --no-async-scheduling --offline "
        "--slo ttft:p95<3s --prefix-hit-share 25% --replicas 2"
    .replace("$", r"\$").replace("ttft:p95<3s", "'ttft:p95<3s'")))  # fmt: skip
    load, d = asked.workload, asked.deployment
    assert (load.arrival, load.rate_rps, load.burstiness) == ("gamma", 2.5, 0.5)
    assert (load.prompt_tokens, load.output_tokens, load.prefix_hit_share) == (8000, 1024, 0.25)
    assert (d.tensor_parallel, d.pipeline_parallel, d.decode_context_parallel) == (2, 3, 2)
    assert (d.expert_parallel, d.enforce_eager, d.enable_prefix_caching) == (True, True, False)
    assert (d.weight_quant, d.kv_cache_dtype, d.max_num_seqs) == ("fp8", "fp8", 64)
    assert (d.block_size, d.gpu_memory_utilization, d.async_scheduling) == (32, 0.8, False)
    assert (d.replicas, asked.usd_per_hour, asked.utilization_share) == (2, 1.25, 0.6)
    assert (asked.memory_bytes, asked.available_kv_bytes) == (24 * 10**9, 3 * 2**29)
    assert (asked.slo, asked.online) == ("ttft:p95<3s", False)


def test_plan_lists_reach_the_request() -> None:
    asked = plan_ask(parsed("plan m --on 'L4, ,H100' --tp 1,2 --ep no,yes --max-num-seqs 8,1k"))
    assert (asked.on, asked.tensor_parallel) == (("L4", "H100"), (1, 2))
    assert (asked.expert_parallel, asked.max_num_seqs) == ((False, True), (8, 1000))
    assert (asked.workload.arrival, asked.workload.concurrency) == ("closed", 1)
    assert plan_ask(parsed("plan m --on L4 --rate 3")).workload.arrival == "poisson"


def test_option_readers() -> None:
    assert (whole("8k"), whole("8Ki"), whole("1_000")) == (8000, 8192, 1000)
    assert (real("-1.5e3"), price("$0.638"), gib("0.5")) == (-1500.0, 0.638, 2**29)
    assert (yes_no("ON"), yes_no("0")) == (True, False)


def test_long_options_are_not_guessed() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, COMMANDS[0].options)
    with pytest.raises(AskError, match="--max-num"):
        parsed("predict m --on L4 --max-num 3")


def test_oracle_report_counts_its_rows(truth: Path) -> None:
    found = oracle(truth / "kv_oracle.jsonl", [])
    rows = (truth / "kv_oracle.jsonl").read_text().splitlines()
    assert found["cases"] == len(rows) == len(found["rows"])
    assert found["exact"] == sum(row["exact"] is True for row in found["rows"])
    assert found["cases"] == sum(f["cases"] for f in found["by_family"].values())
    assert found["answered"] / found["cases"] > 0.95


def test_a_forged_row_is_not_exact(truth: Path, tmp_path: Path) -> None:
    rows = map(json.loads, (truth / "kv_oracle.jsonl").read_text().splitlines())
    row = next(row for row in rows if not row.get("error"))
    forged = {**row, "id": "forged", "num_blocks": row["num_blocks"] + 1}
    file = tmp_path / "truth.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in (row, forged)))
    found = oracle(file, [truth])
    assert [r["exact"] for r in found["rows"]] == [True, False]


@pytest.mark.parametrize("kind", ["kv", "oracle"])
def test_rows_that_say_too_little_are_unanswered(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "truth.jsonl"
    rows = [{"id": 1}, {"id": "a", "config_file": 3}, {"id": "b", "model": ["x"]},
            {"id": "c", "model": "Qwen/Qwen3-8B", "engine": "vLLM abc", "engine_version": "abc"},
            {"id": "d", "model": "Qwen/Qwen3-8B", "tensor_parallel": "x"}]  # fmt: skip
    file.write_text("".join(json.dumps(r) + "\n\n" for r in rows))
    found = run(kind, file, [])
    assert (found["cases"], found["exact"]) == (5, 0)
    assert all(r["note"] for r in found["rows"] if r["basis"] == "unanswered")


@pytest.mark.parametrize(
    ("content", "said"), [(b"{", "line 1 is not JSON"), (b"[]", "an object with an id"),
                          (b'{"a": 1}', "an object with an id"), (b"\xff", "utf-8")],
)  # fmt: skip
def test_a_truth_file_that_is_none(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "truth.jsonl"
    file.write_bytes(content)
    with pytest.raises(AskError, match=said):
        list(read_rows(file))
    with pytest.raises(AskError, match="No such file"):
        list(read_rows(tmp_path / "none"))


FULL = Deployment(
    tensor_parallel=2, pipeline_parallel=3, expert_parallel=True, max_model_len=4096,
    gpu_memory_utilization=0.8, max_num_seqs=16, max_num_batched_tokens=2048,
    kv_cache_dtype="fp8", enforce_eager=True, enable_prefix_caching=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        ("sglang", "python -m sglang.launch_server --model-path 'a b' --tp-size 2 --pp-size 3 "
         "--ep-size 2 --context-length 4096 --mem-fraction-static 0.8 --max-running-requests 16 "
         "--chunked-prefill-size 2048 --kv-cache-dtype fp8_e5m2 --disable-cuda-graph "
         "--disable-radix-cache"),
        # llama.cpp shares -c among its slots: 16 x 4096
        ("llama.cpp", "llama-server -m 'a b' -c 65536 -np 16 -ub 2048 --cache-type-k q8_0 "
         "--cache-type-v q8_0 -fa on"),
        ("tensorrt-llm", "trtllm-serve 'a b' --tp_size 2 --pp_size 3 --max_seq_len 4096 "
         "--max_batch_size 16 --max_num_tokens 2048 --kv_cache_free_gpu_memory_fraction 0.8"),
    ],
)  # fmt: skip
def test_command_lines(engine: str, line: str) -> None:
    assert command("a b", FULL.replace(engine=engine)) == line


def test_an_engine_without_a_command_line() -> None:
    with pytest.raises(AskError, match="exo"):
        command("m", Deployment(engine="exo"))
    assert command("m", Deployment(), cpu_kv_bytes=5 * 2**30).startswith("VLLM_CPU_KVCACHE_SPACE=5")
