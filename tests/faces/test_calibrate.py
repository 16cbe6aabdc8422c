"""`neoserve calibrate`, and what `predict --profile` makes of it."""

import math

import pytest
from msgspec.structs import replace

from neoserve.catalog.coefficients import coefficients_for
from neoserve.catalog.hardware import find_machine
from neoserve.errors import AskError
from neoserve.evidence import ledger
from neoserve.faces import ask as asking
from neoserve.faces.ask import answer_predict
from neoserve.faces.calibrate import CalibrateAsk, run
from neoserve.faces.calibrate_tables import show_calibrated
from neoserve.measure import host as host_module
from neoserve.measure.engine import llamacpp
from neoserve.schema.ask import PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.profile import (
    Compared,
    Correction,
    DeviceProfile,
    DeviceRates,
    MatrixRate,
    ProfilePoint,
    ReadRate,
)
from neoserve.schema.workload import Workload
from neoserve.tune.profile import read_profile
from tune.hosts import host

LLAMA = "meta-llama/Llama-3.1-8B"
SERVED = Workload(concurrency=2, prompt_tokens=100, output_tokens=20)


def profile(engine="vllm", factor=0.5, **changes):
    """Of c8g.4xlarge by hand."""
    point = ProfilePoint(
        model="m", prompt_tokens=16, output_tokens=4, concurrency=1, num_requests=6, trial="0" * 64,
        figures={"tpot_s": Compared(0.02, 0.01, 0.05, 0.021)}, gain_nats=3.0,
    )  # fmt: skip
    return DeviceProfile(
        host=host(cores=16), device_class="arm-cpu", engine=engine, version="0.32.0", model="m",
        trials=("0" * 64,), corrections={"memory_share": Correction(factor, 0.05, 0.7)},
        correlation=((1.0,),), points=(point,), residual_log_sd={"ttft_s": 0.1, "tpot_s": 0.04},
        noise_log_sd={"tpot_s": 0.01},
        coefficients=coefficients_for(find_machine("c8g.4xlarge").hardware, engine or "vllm"),
        **changes,
    )  # fmt: skip


def asked(path="", on="c8g.4xlarge"):
    return PredictAsk(model=LLAMA, on=on, online=False, profile=str(path), workload=SERVED,
                      deployment=Deployment(max_model_len=4096))  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (CalibrateAsk(models=("x",)), "give a model and --engine"),
        (CalibrateAsk(engine="vllm"), "give a model and --engine"),
        (CalibrateAsk(budget_s=5.0), "--budget is 5.00 s; expected 30.0 s to 24 hours"),
        (CalibrateAsk(models=("x",), engine="warp"), "engine 'warp' cannot be started"),
        (CalibrateAsk(models=("none.gguf",), engine="llama.cpp"), "is no file"),
    ],
)
def test_bad_asks_start_nothing(ask, words, tmp_path):
    with pytest.raises(AskError, match=words):
        run(replace(ask, out=str(tmp_path / "run")), lambda _: None)
    assert not (tmp_path / "run").exists()


def test_predict_takes_its_corrections_and_its_spread(tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(profile().to_json())
    plain, sharp = answer_predict(asked()), answer_predict(asked(path))
    assert sharp.latency.tpot_s.mean > 1.4 * plain.latency.tpot_s.mean
    assert any("calibrated on" in a and "memory_share x 0.5" in a for a in sharp.assumptions)
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        found, value = sharp.interval[name], getattr(sharp.latency, name).mean
        assert found.low < value < found.high
        assert found.level == 0.9
    # TPOT follows the bandwidth: residuals and nearly all of the coefficient's spread
    log_sd = math.log(sharp.interval["tpot_s"].high / sharp.latency.tpot_s.mean) / 1.645
    assert 0.04 < log_sd <= math.hypot(0.05, 0.04) + 1e-9
    rate = sharp.interval["output_tokens_per_s"]
    assert rate.low < sharp.throughput.output_tokens_per_s < rate.high
    wide = plain.interval["output_tokens_per_s"]
    assert rate.high / rate.low < wide.high / wide.low
    ttft = sharp.interval["ttft_s"]
    assert ttft.high / ttft.low > sharp.interval["tpot_s"].high / sharp.interval["tpot_s"].low


def test_a_verdict_is_as_sure_as_the_profile(tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(profile().to_json())
    sharp = answer_predict(asked(path))
    found, tpot_s = sharp.interval["tpot_s"], sharp.latency.tpot_s.mean
    # the end of a 90 % interval leaves a twentieth, the expectation a half
    for limit_s, share in ((found.high, 0.95), (tpot_s, 0.5), (found.low, 0.05)):
        judged = answer_predict(asked(path).replace(slo=f"tpot<{limit_s!r}s"))
        assert judged.slo_share == pytest.approx(share, abs=1e-3)
    judged = answer_predict(asked(path).replace(slo=f"tpot<{1.001 * tpot_s!r}s"))
    assert judged.slo_note.startswith("meets in expectation; the 90% interval of TPOT reaches")


def test_a_device_alone_serves_any_engine(tmp_path):
    path = tmp_path / "profile.json"
    path.write_bytes(
        profile(engine="").replace(corrections={}, correlation=(), points=()).to_json()
    )
    for engine in ("vllm", "llama.cpp"):
        ask = asked(path)
        answer = answer_predict(ask.replace(deployment=ask.deployment.replace(engine=engine)))
        assert any("the device's own speed" in a for a in answer.assumptions)


def test_local_is_the_host_that_was_profiled(tmp_path, monkeypatch):
    """Its bandwidth is not measured again, on a host that may be busier."""
    hardware = HardwareSpec(
        id="local", name="x", vendor="", kind="cpu", bandwidth_bytes_per_s=12.5e9,
        peak_flops_per_s={"fp32": 1e11}, memory_bytes=64 * 10**9, cores=3,
    )  # fmt: skip
    path = tmp_path / "profile.json"
    kept = profile(hardware=hardware).replace(device_class="x86-cpu")
    path.write_bytes(kept.to_json())
    monkeypatch.setattr(host_module, "host_print", lambda: kept.host)
    machine = asking.machine_of("local", asked(path, "local"))
    assert machine.hardware == hardware
    assert "3 of its 16 cores" in machine.notes[0]
    monkeypatch.setattr(host_module, "host_print", lambda: kept.host.replace(cpu_model="another"))
    assert asking.machine_of("local", asked(path, "local")).hardware.cores != 3
    assert answer_predict(asked(path, "local")).latency is not None


def test_what_is_shown():
    rates = DeviceRates(
        device="A CPU", backend="torch 2.9", num_threads=2,
        read=(ReadRate(1, 9e9), ReadRate(2, 15e9)), launch_s=3e-6,
        matrices=(MatrixRate("fp32", 1, 576, 576, 2e10), MatrixRate("fp32", 64, 576, 576, 3e10)),
        absent={"fp8": "not on this device"},
    )  # fmt: skip
    text = show_calibrated(profile(rates=rates), "runs/x", "f" * 64)
    assert "9 GB/s (1), 15 GB/s (2)" in text
    assert "no fp8: not on this device" in text
    assert "+5.0%" in text  # 21 ms for 20
    assert "memory_share" in text
    assert "--profile runs/x/profile.json" in text
    told = show_calibrated(profile().replace(
        corrections={"memory_share": Correction(1.0, 0.69, 0.7)}), "runs/x", "f" * 64)  # fmt: skip
    assert "told no coefficient better" in told


def test_the_device_alone(tmp_path):
    found = run(CalibrateAsk(threads=1, out=str(tmp_path / "run")), lambda _: None)
    assert found.profile.engine == ""
    assert read_profile(tmp_path / "run" / "profile.json") == found.profile
    hardware = found.profile.hardware
    assert hardware.bandwidth_bytes_per_s == found.profile.rates.best_read()
    entries = ledger.entries(tmp_path / "run" / "ledger.jsonl")
    assert [e.kind for e in entries] == ["run", "profile"]


@pytest.mark.engine
def test_a_real_engine(tmp_path):
    """A load that it has not seen is predicted better with the profile, or well."""
    out = tmp_path / "run"
    found = run(
        CalibrateAsk(models=("",), engine="llama.cpp", engine_args=("--parallel", "2"),
                     context_tokens=256, budget_s=30.0, out=str(out)),
        lambda _: None,
    )  # fmt: skip
    known = found.profile
    assert (known.engine, known.settings["threads"]) == ("llama.cpp", "1")
    assert known.points
    assert len(known.points) == len(known.trials)
    assert 0 < known.corrections["matrix_share"].log_sd < known.corrections[
        "matrix_share"].prior_log_sd  # fmt: skip
    model = str(llamacpp.demo_model_path())
    ask = PredictAsk(
        model=model, on="local", online=False, profile=str(out / "profile.json"),
        workload=Workload(prompt_tokens=16, output_tokens=4),
        deployment=Deployment(engine="llama.cpp", max_num_seqs=2, max_model_len=256),
    )  # fmt: skip
    sharp = answer_predict(ask)
    measured = next(p for p in known.points if p.concurrency == 1)
    seen = measured.figures["ttft_s"]
    assert abs(math.log(seen.after / seen.measured)) < max(
        0.3, abs(math.log(seen.before / seen.measured))
    )
    assert sharp.latency.tpot_s.mean > 0
    assert coefficients_for(known.hardware, "llama.cpp").device_class == known.device_class
