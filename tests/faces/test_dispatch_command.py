"""`neoserve dispatch`: what it reads, what it says, its exit codes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "dispatch"
LOG, SAMPLES = str(DATA / "onednn-vllm-f32.txt"), str(DATA / "perf-graviton4-enabled.txt")


def test_a_log(cli):
    found = cli("dispatch", "--log", LOG, "--json").document
    assert found["log"] == f"sha256:{hashlib.sha256(Path(LOG).read_bytes()).hexdigest()}"
    ran = {p["primitive"]: p["implementation"] for p in found["primitives"]}
    assert ran == {"matmul": "brg_matmul:avx2", "reorder": "jit:uni"}
    assert found["num_exec"] == 130
    said = cli("dispatch", "--log", LOG)
    assert said.code == 0
    assert "oneDNN v3.13.0 (Intel AVX2)" in said.out
    assert "matmul     brg_matmul:avx2  f32:f32:f32   125" in said.out
    assert all(len(line) <= 100 for line in said.out.splitlines())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--log", LOG, "--ran", "matmul.*f32"), 0),
        (("--log", LOG, "--ran", "matmul.*bf16"), 1),
        (("--perf", SAMPLES, "--ran", "^kai_run_matmul.*i8mm"), 0),
        (("--perf", SAMPLES, "--ran", "^kai_kernel"), 1),  # 0.00 %: it is named, it did not run
        (("--log", SAMPLES, "--ran", "matmul"), 3),  # no line of oneDNN: nothing is known
    ],
)
def test_ran_or_not(cli, words, code):
    assert cli("dispatch", *words).code == code


def test_how_much_of_it_ran(cli):
    """KleidiAI's product and its packers; 68.68 % with the labels in it."""
    found = cli("dispatch", "--perf", SAMPLES, "--ran", "^kai_run_", "--json").document
    assert [row["share"] for row in found["ran"]] == pytest.approx([0.6868, 0.0088, 0.0057])
    assert {row["of"] for row in found["ran"]} == {"samples"}
    log = cli("dispatch", "--log", LOG, "--ran", ".", "--json").document
    assert sum(row["share"] for row in log["ran"]) == pytest.approx(1)


def test_two_copies_are_told(cli):
    said = cli("dispatch", "--log", str(DATA / "onednn-two-copies.txt"))
    assert "several copies wrote this log; a line does not say which of them" in said.out
    assert "5 made in" in said.out


def test_kernels_within_primitives(cli):
    said = cli("dispatch", "--log", str(DATA / "onednn-forms.txt"), "--ran", "bf16fp32_mmla")
    assert said.code == 0
    assert "CpuGemmAssemblyWrapperKernel/sve_ffhybrid_bf16fp32_mmla_6x4VL" in said.out


def test_an_engine_without_the_variable(cli, tmp_path):
    log = tmp_path / "engine.log"
    log.write_text("INFO ready\n")
    said = cli("dispatch", "--log", str(log))
    assert said.code == 0
    assert "start the engine with ONEDNN_VERBOSE=1, in a run of its own" in said.out


def test_a_process(cli):
    found = cli("dispatch", "--pid", str(os.getpid()), "--duration", "0.2s", "--json").document
    assert os.getpid() in found["pids"]
    python = Path(os.path.realpath(f"/proc/{os.getpid()}/exe"))
    assert found["libraries"][0]["path"] == str(python)
    assert found["libraries"][0]["sha256"] == hashlib.sha256(python.read_bytes()).hexdigest()
    assert found.get("symbols") or found["absent"]


def test_bad_asks(refused, tmp_path):
    assert "--log FILE, --perf FILE or --pid PID" in refused("dispatch")
    assert "no such process" in refused("dispatch", "--pid", "4194304000")
    assert "No such file" in refused("dispatch", "--log", str(tmp_path / "none"))
    assert "no report of perf" in refused("dispatch", "--perf", LOG)
    assert "no regular expression" in refused("dispatch", "--log", LOG, "--ran", "(")
    assert "give one of them" in refused("dispatch", "--perf", SAMPLES, "--pid", "1")
