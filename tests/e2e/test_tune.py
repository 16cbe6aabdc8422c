"""`neoserve tune` on a real vLLM: two configurations, a proof, a recipe."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.vllm

SPACE = """
[pins]
HF_HUB_OFFLINE = "1"
VLLM_CPU_KVCACHE_SPACE = "1"
"--enforce-eager" = ""

[[candidates]]
max-seqs = 8
"""


def neoserve(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "neoserve", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=2700)


def test_two_configurations_of_vllm(model: str, tmp_path: Path) -> None:
    space, folder = tmp_path / "space.toml", tmp_path / "run"
    space.write_text(SPACE)
    said = neoserve(
        "tune", model, "--engine", "vllm", "--space", str(space), "--max-candidates", "2",
        "--slo", "ttft:p50<3s", "--isl", "16", "--osl", "4", "--request-rate", "0.5",
        "--rungs", "6,8,8", "--certify-requests", "24", "--certify-seeds", "1",
        "--finalists", "0", "--budget", "6 trials", "--price", "0.1",
        "--out", str(folder), "--json",
    )  # fmt: skip
    assert said.returncode in (0, 3), said.stderr[-3000:]
    found = json.loads(said.stdout)
    assert {s["candidate"]["origin"] for s in found["standings"]} == {"default", "given"}
    assert found["trial"]["facts"]["dtype"] == "bfloat16"
    assert found["trial"]["facts"]["kv_tokens"] == 46592  # 1 GiB of 23,040 B a token
    assert found["trial"]["faults"] == []
    assert found["pick"]["capacity"]["low_rps"] > 0  # the host decides how high
    assert "--enforce-eager" in found["config"]["argv"]
    for name in ("README.md", "run.sh", "config.yml", "env.sh", "compose.yaml", "cost.json"):
        assert (folder / "recipe" / name).is_file()
    checked = neoserve("verify", str(folder))
    assert checked.returncode == 0, checked.stderr
    again = neoserve("tune", "--resume", str(folder), "--json")
    assert json.loads(again.stdout)["num_jobs"] == found["num_jobs"], "nothing is measured twice"
