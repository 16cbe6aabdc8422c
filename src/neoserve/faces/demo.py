"""`neoserve demo`: the whole way on the embedded engine: predict, load, record, hand over."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ..catalog.coefficients import coefficients_for
from ..catalog.engines import find_profile
from ..catalog.models import find_model
from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError
from ..evidence.run import Run
from ..evidence.verify import verify_run
from ..measure.cores import CorePlan, host_cpus, split
from ..measure.engine import llamacpp
from ..measure.engine.running import start
from ..measure.figures import recompute
from ..measure.host import host_print, usable_cores
from ..measure.machine import local_machine
from ..measure.trial import TrialAsk
from ..predict.predictor import Ask, predict
from ..recipe.compose import compose
from ..recipe.served import served
from ..schema.engine import Deployment, EngineConfig
from ..schema.prediction import Prediction
from ..schema.trial import HostPrint, Summary, Trial
from ..schema.workload import Slo, Workload
from ..tune.session import Session
from ..units import show_count, show_duration
from .bench import fresh_folder
from .progress import Live
from .tables import table, wrap

SLO = "ttft:p95<3s"
# Short requests: the busier two slow cores are, the more of them a proof takes.
PROMPT_TOKENS, OUTPUT_TOKENS, SLOTS, SEED = 12, 4, 4, 1

Say = Callable[[str], None]


def run(
    seconds: float, rate_rps: float, out: str, note: Say, as_json: bool = False
) -> int:
    """Exit code 0 when the measured load meets the demo's SLO, 1 when not, 3 if undecided."""
    if not 0 < seconds <= 3600 or not 0 < rate_rps <= 100:
        raise AskError("--seconds takes up to 3600, --rate up to 100 requests per second")
    folder = fresh_folder(Path(out))
    workload = Workload(
        arrival="poisson", rate_rps=rate_rps, prompt_tokens=PROMPT_TOKENS,
        output_tokens=OUTPUT_TOKENS, seed=SEED,
    )  # fmt: skip
    model_path = llamacpp.demo_model_path()
    host = host_print()
    threads = max(1, round(usable_cores(host)) - 1)  # one core is left to the client
    config = llamacpp.config(model_path, threads=threads, parallel=SLOTS, context_tokens=2048)
    note(f"predicting {model_path.name} on this host (reads its memory for a second) ...")
    prediction = predicted(model_path, threads, workload)
    record = Run.create(
        folder, "demo", seed=SEED, host=host,
        versions={"neoserve": importlib.metadata.version("neoserve"), "llama.cpp": config.version},
    )  # fmt: skip
    record.record("prediction", prediction.to_data())
    ask = TrialAsk(
        workload=workload, slo=Slo.parse_text(SLO), num_requests=max(1, round(seconds * rate_rps))
    )  # fmt: skip
    cores = split(host_cpus(), threads, quota_cores=host.quota_cores)
    trial = measured(record, config, host, cores, ask, note)
    head = hand_over(record, config, prediction, trial)
    note("")
    found = f"Run folder {folder}, ledger head {head}"
    check = f"Check it: neoserve verify {folder} --head {head}"
    if as_json:
        print(msgspec.json.format(trial.to_json(), indent=2).decode())
        note(f"{found}\n{check}")
    else:
        print(f"{show(prediction, trial)}\n\n{found}\n{check}")
    return {"PASS": EXIT_MET, "FAIL": EXIT_NOT_MET}.get(trial.verdict, EXIT_INCONCLUSIVE)


def predicted(model_path: Path, threads: int, workload: Workload) -> Prediction:
    """What the planner says about this host before anything is started."""
    machine = local_machine()
    share = threads / max(1, machine.hardware.cores)
    hardware = machine.hardware.replace(
        cores=threads,
        peak_flops_per_s={k: v * share for k, v in machine.hardware.peak_flops_per_s.items()},
    )
    deployment = Deployment(
        engine="llama.cpp", max_num_seqs=SLOTS, max_model_len=2048, enable_prefix_caching=False
    )
    return predict(
        Ask(
            model=find_model(str(model_path)),
            machine=machine.replace(hardware=hardware),
            deployment=deployment,
            workload=workload,
            profile=find_profile("llama.cpp", "", "cpu"),
            coefficients=coefficients_for(hardware, "llama.cpp"),
            slo=Slo.parse_text(SLO),
        )
    )


def measured(
    record: Run, config: EngineConfig, host: HostPrint, cores: CorePlan, ask: TrialAsk, note: Say
) -> Trial:
    """Poisson load on the real engine."""
    live = Live(ask.slo)
    with start(config, record.logs_path / "engine.log", cpus=cores.engine_cpus,
               on_stage=note) as engine:  # fmt: skip
        rate = f"{ask.workload.rate_rps:g}/s"
        note(f"loading it at {rate} (Poisson) until its SLO is decided, at most "
             f"{ask.num_requests} requests ...")  # fmt: skip
        try:
            session = Session(record, engine, host, cores, note, live.show)
            trial = session.measure(ask).trial
        finally:
            live.close()
            record.record("engine", {"log": record.put_blob(engine.log())})
        return trial


def hand_over(record: Run, config: EngineConfig, prediction: Prediction, trial: Trial) -> str:
    """The compose file that runs this configuration; returns the ledger's head."""
    numbers = [f"measured: {measured_line(trial)}", f"predicted: {predicted_line(prediction)}"]
    text = compose(served(config, trial, says=numbers, head=record.head()))
    (record.path / "compose.yaml").write_text(text, encoding="utf-8")
    record.record("recipe", {"compose.yaml": record.put_blob(text.encode())})
    return verify_run(record.path, recompute=recompute).head


def predicted_line(prediction: Prediction) -> str:
    """One line of the prediction."""
    if prediction.latency is None or prediction.throughput is None:
        return prediction.refusal
    return (
        f"TTFT {show_duration(prediction.latency.ttft_s.mean)}, "
        f"TPOT {show_duration(prediction.latency.tpot_s.mean)}, "
        f"{show_count(prediction.throughput.output_tokens_per_s)} output tokens/s"
    )


def measured_line(trial: Trial) -> str:
    """One line of the measurement."""
    return (
        f"TTFT {_mean(trial.ttft_s)}, TPOT {_mean(trial.tpot_s)}, "
        f"{_rate(trial.output_tokens_per_s)} output tokens/s, {trial.verdict} on {SLO}"
    )


def _mean(summary: Summary) -> str:
    return "unknown" if summary.mean is None else show_duration(summary.mean)


def _rate(value: float | None) -> str:
    return "unknown" if value is None else show_count(value)


def show(prediction: Prediction, trial: Trial) -> str:
    """Predicted beside measured, the verdict, and one closing sentence."""
    rows = []
    if prediction.latency is not None and prediction.throughput is not None:
        pairs: list[tuple[str, float | None, Any]] = [
            ("TTFT, mean", prediction.latency.ttft_s.mean, trial.ttft_s),
            ("TPOT, mean", prediction.latency.tpot_s.mean, trial.tpot_s),
            ("end to end, mean", prediction.latency.e2e_s.mean, trial.e2e_s),
        ]
        rows = [[name, show_duration(guess), _mean(seen), _interval(seen)]
                for name, guess, seen in pairs]  # fmt: skip
        rows.append(
            ["output tokens/s", show_count(prediction.throughput.output_tokens_per_s),
             _rate(trial.output_tokens_per_s), ""]
        )  # fmt: skip
    text = table(["", "predicted", "measured", "measured p95 (95 % interval)"], rows,
                 [False, True, True, False])  # fmt: skip
    reasons = "; ".join(trial.reasons)
    load = "; the server kept up with the load, so its capacity is not known" if (
        trial.load_limited) else ""  # fmt: skip
    return text + "\n\n" + wrap(
        f"{trial.verdict} on {SLO}: {trial.num_ok} of {trial.num_judged} requests served{load}"
        + (f" ({reasons})" if reasons else "") + ".", "",
    )  # fmt: skip


def _interval(summary: Summary) -> str:
    p95 = summary.p95
    if p95.value is None:
        return "unknown"
    low = show_duration(p95.low) if p95.low is not None else "unbounded"
    high = show_duration(p95.high) if p95.high is not None else "unbounded"
    return f"{show_duration(p95.value)} ({low} to {high})"
