"""`neoserve bench` on a real vLLM, and our client beside vLLM's own on one server."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks_agreement import ours, vllm_bench

from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start

pytestmark = pytest.mark.vllm

ENGINE = ("--engine", "vllm", "--env", "HF_HUB_OFFLINE=1", "--env", "VLLM_CPU_KVCACHE_SPACE=1")
ARGS = ("--", "--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "8")


def neoserve(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neoserve", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)


def test_a_certified_load_on_vllm(model: str, tmp_path: Path) -> None:
    """0.3 a second: two shared cores without AMX serve about 0.5 of these."""
    folder = str(tmp_path / "run")
    said = neoserve("bench", *ENGINE, model, "--request-rate", "0.3", "--isl", "32", "--osl", "8",
                    "--num-prompts", "40", "--slo", "ttft:p90<20s; tpot:p90<5s", "--price", "0.1",
                    "--out", folder, "--json", *ARGS)  # fmt: skip
    assert said.returncode in (0, 3), said.stderr[-2000:]
    trial = json.loads(said.stdout)["trials"][0]
    assert trial["verdict"] in ("PASS", "INCONCLUSIVE"), trial["reasons"]
    assert trial["failures"] == {}
    facts = trial["facts"]
    assert facts["dtype"] == "bfloat16"
    # 1 GiB of 23,040 B a token in blocks of 128: reference for this model
    assert facts["kv_tokens"] == 46592
    assert any("46,592 tokens, as predicted" in note for note in trial["notes"])
    served = trial["num_ok"] * 8
    assert trial["counters"]["output_tokens"] >= served
    assert trial["counters"].get("prefix_hit_tokens", 0) < 0.05 * trial["num_ok"] * 32
    assert "ready" in said.stderr
    checked = neoserve("verify", folder)
    assert checked.returncode == 0, checked.stderr
    assert "all figures of 1 trials follow" in checked.stdout


def test_a_killed_bench_leaves_no_vllm(model: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "neoserve", "bench", *ENGINE, model, "--request-rate", "1",
               "--isl", "16", "--osl", "4", "--out", str(folder), *ARGS]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if "requests," in line or ("warming up" in line and "of" in line and "requests" in line):
            break
    process.kill()
    process.wait()
    process.stderr.close()
    deadline = 60
    for _ in range(deadline):
        left = subprocess.run(["pgrep", "-f", str(model)], capture_output=True, text=True,
                              check=False).stdout.split()  # fmt: skip
        left = [pid for pid in left if pid != str(os.getpid())]
        if not left:
            break
        import time

        time.sleep(1)
    assert not left
    repaired = neoserve("verify", str(folder), "--repair")
    assert repaired.returncode == 0, repaired.stderr


def test_our_client_agrees_with_vllms_own(model: str, tmp_path: Path) -> None:
    """On one llama.cpp server under the same constant arrivals, in turns."""
    os.environ["NEOSERVE_VLLM_MODEL"] = model
    config = llamacpp.config(llamacpp.demo_model_path(), threads=1, parallel=4, context_tokens=512)
    mine, theirs = [], []
    with start(config, tmp_path / "engine.log") as engine:
        for _ in range(3):
            mine.append(ours(engine, 25))
            theirs.append(vllm_bench(engine, 25))
    for name in ("TTFT p50", "TPOT p50"):
        values = [run[name] for run in mine]
        spread = max(values) - min(values)
        difference = abs(statistics.median(values) - statistics.median(r[name] for r in theirs))
        assert difference <= max(spread, 0.15 * statistics.median(values)), (name, mine, theirs)
