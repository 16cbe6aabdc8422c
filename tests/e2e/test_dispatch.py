"""Which products a real vLLM ran, by oneDNN's log and by samples. Never part of a measured load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest

from e2e.asking import complete
from neoserve.measure.dispatch import read_verbose
from neoserve.measure.engine import vllm
from neoserve.measure.engine.running import start

pytestmark = pytest.mark.vllm

ENV = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "ONEDNN_VERBOSE": "1"}
ARGS = ("--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "4",
        "--no-enable-prefix-caching")  # fmt: skip
# SmolLM2-135M: in each of 30 layers qkv, o, gate and up, down; then the head
PRODUCTS = 4 * 30 + 1
NO_PRODUCT = "Failed to create oneDNN linear"  # vLLM's words where oneDNN has none for this CPU


def matmuls(log: bytes) -> dict[tuple[str, str], int]:
    said = read_verbose(log.decode(errors="replace").splitlines())
    assert said.num_unread == 0
    return {(p.implementation, p.dtypes): p.num
            for p in said.primitives if p.primitive == "matmul"}  # fmt: skip


def test_each_step_in_float32_is_onednns(model, tmp_path):
    config = vllm.config(model, (*ARGS, "--dtype", "float32"), ENV)
    with start(config, tmp_path / "engine.log") as engine:
        complete(engine, "warm up", 2)
        before = engine.log()
        usage = complete(engine, "The quick brown fox jumps over the lazy dog. " * 8, 16)
        steps = usage["completion_tokens"]
        ran = matmuls(engine.log()[len(before) :])
        copies = read_verbose(engine.log().decode(errors="replace").splitlines()).copies
    assert steps == 16
    assert sum(ran.values()) == steps * PRODUCTS
    assert {dtypes for _, dtypes in ran} == {"f32:f32:f32"}
    assert all(copy.version.startswith("v3.") and copy.isa for copy in copies)


def test_who_multiplies_bfloat16(model, tmp_path):
    """oneDNN where it has a product for this CPU; else torch's, as samples show."""
    log = tmp_path / "engine.log"
    with start(vllm.config(model, (*ARGS, "--dtype", "bfloat16"), ENV), log) as engine:
        complete(engine, "warm up", 2)
        before = engine.log()
        load = threading.Thread(target=complete, args=(engine, "Once upon a time", 150))
        load.start()
        command = [sys.executable, "-m", "neoserve", "dispatch", "--pid", str(engine.pid),
                   "--duration", "3s", "--json"]  # fmt: skip
        seen = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        load.join()
        ran = matmuls(engine.log()[len(before) :])
    assert seen.returncode == 0, seen.stderr
    found = json.loads(seen.stdout)
    mapped = {os.path.basename(one["path"]): one for one in found["libraries"]}
    assert len(mapped["libtorch_cpu.so"]["sha256"]) == 64
    asked = [sys.executable, "-m", "neoserve", "dispatch", "--log", str(log), "--ran",
             "^matmul .*bf16"]  # fmt: skip
    code = subprocess.run(asked, capture_output=True, check=False).returncode
    if NO_PRODUCT.encode() not in before:
        assert sum(ran.values()) == 150 * PRODUCTS
        assert all(dtypes.startswith("bf16:bf16:") for _, dtypes in ran)
        assert code == 0
        return
    assert ran == {}
    assert code == 3  # the log has nothing: it proves neither
    if shutil.which("perf") is None:
        assert any("perf is not installed" in reason for reason in found["absent"])
    elif found.get("symbols"):
        top = [s["name"] for s in found["symbols"] if s["library"] == "libtorch_cpu.so"]
        assert any("bf16" in name or "gemm" in name for name in top), found["symbols"]
