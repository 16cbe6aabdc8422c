"""Micro-benchmarks of a device, by the child program and by a scripted one."""

import json
import sys

import pytest

from neoserve.catalog.models import find_model
from neoserve.errors import EngineFailed
from neoserve.measure.device import program
from neoserve.measure.device import rates as module
from neoserve.measure.device.rates import cpu_read, device_rates, shapes_of, thread_counts

TORCH = {
    "backend": "torch 2.9", "device": "NVIDIA H100", "num_devices": 2, "read_bytes_per_s": 3e12,
    "matrices": [{"dtype": "bf16", "rows": 1, "inner": 2, "columns": 3, "flops_per_s": 4.0}],
    "launch_s": 4e-6, "collectives": [{"num_devices": 2, "num_bytes": 16384, "seconds": 1e-5}],
    "absent": {"fp8, 1 rows": "not here"},
}  # fmt: skip


def scripted(tmp_path, monkeypatch, text):
    path = tmp_path / "program.py"
    path.write_text(text)
    monkeypatch.setattr(module, "_PROGRAM", path)


def printing(rates):
    return f"print({json.dumps(json.dumps({'rates': rates}))})"


@pytest.fixture
def no_read(monkeypatch):
    monkeypatch.setattr(module, "read_bandwidth_bytes_per_s", lambda num: 1e9 * num)


def test_this_host_really(monkeypatch):
    """numpy is in the development extras, so the products are there."""
    monkeypatch.setattr(module, "ROWS", (1, 64))
    model = find_model("HuggingFaceTB/SmolLM2-135M")
    said = []
    found = device_rates(1, model=model, say=said.append)
    assert found.backend.startswith(("numpy", "torch"))
    assert [r.num_threads for r in found.read] == [1]
    assert 1e8 < found.best_read() < 1e12
    fp32 = [m for m in found.matrices if m.dtype == "fp32"]
    assert {(m.inner, m.columns) for m in fp32} == {(576, 576), (576, 1536)}
    assert all(1e8 < m.flops_per_s < 1e13 for m in fp32)
    one, many = (max(m.flops_per_s for m in fp32 if m.rows == rows) for rows in (1, 64))
    assert many > 0.5 * one
    assert any("64 x 576" in text for text in said)
    assert found.absent


@pytest.mark.usefixtures("no_read")
def test_what_a_gpu_tells_is_kept(tmp_path, monkeypatch):
    scripted(tmp_path, monkeypatch, f"print('a library speaks')\n{printing(TORCH)}")
    found = device_rates(4, device="gpu")
    assert (found.device, found.backend, found.launch_s) == ("NVIDIA H100", "torch 2.9", 4e-6)
    assert [(r.num_threads, r.bytes_per_s) for r in found.read] == [(1, 3e12)]
    assert found.collectives[0].num_devices == 2
    assert found.absent == {"fp8, 1 rows": "not here"}


@pytest.mark.usefixtures("no_read")
def test_without_a_gpu_it_says_so(tmp_path, monkeypatch):
    plain = {"backend": "torch 2.9", "device": "", "matrices": []}
    scripted(tmp_path, monkeypatch, printing(plain))
    assert device_rates(1, device="gpu").absent["gpu"] == "torch 2.9 finds no GPU"
    on_cpu = device_rates(4)
    assert "gpu" not in on_cpu.absent
    assert [r.bytes_per_s for r in on_cpu.read] == [1e9, 2e9, 4e9]


@pytest.mark.usefixtures("no_read")
def test_a_program_that_fails_is_told_of(tmp_path, monkeypatch):
    scripted(tmp_path, monkeypatch, "raise SystemExit('out of memory')")
    with pytest.raises(EngineFailed, match=r"measured nothing .* it said: out of memory"):
        device_rates(1)
    with pytest.raises(EngineFailed, match="does not start"):
        device_rates(1, python=str(tmp_path / "none"))


def test_with_neither_torch_nor_numpy_it_says_so(monkeypatch, capsys):
    for name in ("torch", "numpy"):
        monkeypatch.setitem(sys.modules, name, None)
    ask = json.dumps({"shapes": [[4, 4]], "rows": [1], "threads": 1, "each_s": 0.01})
    monkeypatch.setattr(sys, "argv", ["program.py", ask])
    program.main()
    rates = json.loads(capsys.readouterr().out)["rates"]
    assert rates["backend"] == "none"
    assert "neither torch nor numpy" in rates["absent"]["matrices"]


def test_threads_and_shapes():
    assert thread_counts(1) == [1]
    assert thread_counts(8) == [1, 2, 4, 8]
    assert thread_counts(12) == [1, 2, 4, 8, 12]
    assert shapes_of(None) == module.USUAL_SHAPES
    assert shapes_of(find_model("meta-llama/Llama-3.1-8B")) == ((4096, 4096), (4096, 14336))
    assert [r.num_threads for r in cpu_read(1)] == [1]


def test_a_time_is_that_of_a_call(monkeypatch):
    """On a clock that only the call moves."""
    now = [0.0]
    monkeypatch.setattr(program.time, "perf_counter", lambda: now[0])

    def call():
        now[0] += 0.002

    assert program.best_s(call, 0.05) == pytest.approx(0.002)
