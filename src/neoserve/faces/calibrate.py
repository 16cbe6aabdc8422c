"""`neoserve calibrate`: profile this host's device, alone or with an engine that serves on it."""

from __future__ import annotations

import datetime
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..catalog.coefficients import adjustable, format_names, prior_log_sd
from ..catalog.models import find_model
from ..errors import AskError, EngineFailed
from ..evidence.run import Run
from ..evidence.verify import verify_run
from ..measure.device.rates import device_rates
from ..measure.engine.running import Engine, start
from ..measure.engine.vllm_program import python_with_vllm
from ..measure.figures import Observed, recompute
from ..measure.host import gpus, host_print, usable_cores
from ..measure.machine import describe
from ..measure.trial import TrialAsk
from ..schema.engine import EngineConfig
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..schema.profile import DeviceProfile, DeviceRates
from ..schema.trial import HostPrint
from ..schema.workload import Slo, Workload
from ..tune.calibration.document import device_profile, profile_of
from ..tune.calibration.loads import slot_context_tokens
from ..tune.calibration.served import Known, calibrate, known_at_first, repeat
from ..tune.calibration.subject import Subject, settings_of, subject_of
from ..tune.host import gpu_machine
from ..tune.session import Session
from ..units import show_duration
from .bench import (
    core_plan,
    fresh_folder,
    public_words,
    refuse_secrets,
    started_config,
    threads_of,
)
from .progress import Live
from .simulate import drawer

Say = Callable[[str], None]

LEAST_BUDGET_S = 30.0
_REPEAT_SHARE = 0.85  # of the time that is for new loads; the rest repeats one


class CalibrateAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve calibrate` was asked."""

    models: tuple[str, ...] = ()  # none: the device alone
    engine: str = ""
    engine_args: tuple[str, ...] = ()
    engine_env: dict[str, str] = {}
    device: str = "cpu"
    python: str = ""  # with torch or numpy, for the device alone
    threads: int | None = None  # of the device alone; an engine has its own
    context_tokens: int | None = None  # of a request; llama.cpp is given it in advance
    budget_s: float = 180.0
    out: str = "runs/calibrate"
    ready_timeout_s: float | None = None
    timeout_s: float = 600.0


class Calibrated(NamedTuple):
    """The profile, and where it is."""

    profile: DeviceProfile
    folder: Path
    head: str


def run(ask: CalibrateAsk, note: Say) -> Calibrated:
    """Measure, fit, keep. Raises Error."""
    if bool(ask.models) != bool(ask.engine):
        raise AskError(
            "give a model and --engine to calibrate an engine's speed, or neither for the "
            "device alone"
        )
    if not LEAST_BUDGET_S <= ask.budget_s <= 24 * 3600:
        raise AskError(
            f"--budget is {show_duration(ask.budget_s)}; expected "
            f"{show_duration(LEAST_BUDGET_S)} to 24 hours"
        )
    configs = [_config(ask, model) for model in ask.models]
    models = [find_model(_weights(model)) for model in ask.models]
    for config in configs:
        refuse_secrets(config)
    folder, host = fresh_folder(Path(ask.out)), host_print()
    record = Run.create(
        folder, "calibrate", argv=public_words(sys.argv), seed=0, host=host,
        versions={"neoserve": importlib.metadata.version("neoserve")}
        | {c.engine: c.version for c in configs},
    )  # fmt: skip
    rates = _rates(ask, configs, models, host, note)
    hardware = _hardware(ask, host, rates)
    if not configs:
        profile = device_profile(hardware, host, rates)
    else:
        profile = _served(ask, record, list(zip(models, configs, strict=True)), hardware, rates,
                          host, note)  # fmt: skip
    record.record("profile", profile.to_data())
    text = profile.to_pretty_json() + "\n"
    (folder / "profile.json").write_text(text, encoding="utf-8")
    return Calibrated(profile, folder, verify_run(folder, recompute=recompute).head)


def _config(ask: CalibrateAsk, model: str) -> EngineConfig:
    context = ask.context_tokens or slot_context_tokens()
    return started_config(ask.engine, model, ask.engine_args, ask.engine_env, context)


def _weights(model: str) -> str:
    """The embedded model where llama.cpp is given none."""
    if model:
        return model
    from ..measure.engine.llamacpp import demo_model_path

    return str(demo_model_path())


def _rates(
    ask: CalibrateAsk,
    configs: Sequence[EngineConfig],
    models: Sequence[ModelSpec],
    host: HostPrint,
    note: Say,
) -> DeviceRates:
    """In the interpreter that the engine runs in, with as many threads as it will have."""
    note("the device: " + ("GPU" if ask.device == "gpu" else host.cpu_model))
    cores = max(1, round(usable_cores(host)))
    threads = ask.threads or (_threads(configs[0], cores) if configs else cores)
    python = ask.python
    if not python and any(config.engine == "vllm" for config in configs):
        python = python_with_vllm()
    return device_rates(
        threads, python=python, model=models[0] if models else None, device=ask.device,
        say=lambda text: note(f"  {text}"),
    )  # fmt: skip


def _threads(config: EngineConfig, cores: int) -> int:
    """That the engine will compute with; vLLM leaves a core to its front end."""
    return threads_of(config) or max(1, cores - 1)


def _hardware(ask: CalibrateAsk, host: HostPrint, rates: DeviceRates) -> HardwareSpec:
    if ask.device == "gpu":
        machine = gpu_machine(gpus())
        if machine is None:
            raise AskError("no GPU of this host is in the catalog: --device gpu needs one")
        return machine.hardware
    read = next((r.bytes_per_s for r in rates.read if r.num_threads == rates.num_threads), None)
    if read is None:
        raise EngineFailed("the memory's bandwidth could not be measured")
    return describe(host, read, datetime.date.today().isoformat())


def _served(
    ask: CalibrateAsk,
    record: Run,
    served: Sequence[tuple[ModelSpec, EngineConfig]],
    hardware: HardwareSpec,
    rates: DeviceRates,
    host: HostPrint,
    note: Say,
) -> DeviceProfile:
    """One server after another; what the first ones told chooses the loads of the next."""
    subjects: list[Subject] = []
    known: Known | None = None
    settings: dict[str, str] = {}
    version = ""
    formats = format_coefficients([model for model, _ in served])
    for model, config in served:
        with serving(record, config, host, note, ask.ready_timeout_s) as session:
            facts = session.engine.facts()
            assert facts is not None
            subjects.append(subject_of(model, hardware, config, facts, drawer()))
            settings = settings or settings_of(config, facts)
            version = version or config.version
            known = learn(ask, session, subjects, known, ask.budget_s / len(served), note, formats)
    assert known is not None
    return profile_of(known, subjects, host=host, version=version, settings=settings, rates=rates,
                      run=record.head())  # fmt: skip


def format_coefficients(models: Sequence[ModelSpec]) -> tuple[str, ...]:
    """Of the formats among several models; one alone is not told from the device."""
    schemes = dict.fromkeys(model.quantization.scheme for model in models)
    if len(schemes) < 2:
        return ()
    return tuple(name for scheme in schemes for name in format_names(scheme))


def learn(
    ask: CalibrateAsk,
    session: Session,
    subjects: Sequence[Subject],
    known: Known | None,
    budget_s: float,
    note: Say,
    formats: Sequence[str] = (),
) -> Known:
    """Loads on the server of the last subject. `formats` are coefficients of formats' own."""
    index = len(subjects) - 1
    if known is None:
        names = (*adjustable(subjects[0].known), *formats)
        known = known_at_first(subjects[0], names, [prior_log_sd(name) for name in names])
    note(f"loads of {subjects[index].model.id}, for about {show_duration(budget_s)}")

    def measure(workload: Workload, num: int) -> Observed:
        return session.measure(
            TrialAsk(workload=workload, num_requests=num,
                     num_warmup=workload.concurrency, timeout_s=ask.timeout_s, ends_early=False),
        )  # fmt: skip

    known = calibrate(subjects, index, measure, known, budget_s * _REPEAT_SHARE, note)
    return repeat(subjects, index, measure, known, note)


@contextmanager
def serving(
    record: Run,
    config: EngineConfig,
    host: HostPrint,
    note: Say,
    ready_timeout_s: float | None = None,
    keeps_log: bool = True,
) -> Iterator[Session]:
    """A started engine with a place to keep its trials, and at the end its log."""
    # The client's own cores, where the engine's threads leave any; vLLM binds its own.
    cores = core_plan(config, host, 1) if config.engine == "llama.cpp" else None
    with start(
        config, record.logs_path / "engine.log", cpus=cores.engine_cpus if cores else "",
        ready_timeout_s=ready_timeout_s, on_stage=note,
    ) as engine:  # fmt: skip
        live = Live(Slo())
        try:
            yield Session(record, engine, host, cores, lambda text: live.say(note, text), live.show)
        finally:
            live.close()
            if keeps_log:
                _keep_log(record, config, engine)


def _keep_log(record: Run, config: EngineConfig, engine: Engine) -> None:
    if log := engine.log():
        record.record("engine", {"config": config.to_data(), "log": record.put_blob(log)})
