"""`neoserve bench`: load a running or started server, judge it, keep the evidence."""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ..errors import (
    EXIT_ENGINE_FAILED,
    EXIT_INCONCLUSIVE,
    EXIT_MET,
    EXIT_NOT_MET,
    AskError,
)
from ..evidence.run import Run
from ..evidence.verify import verify_run
from ..measure.cores import CorePlan, host_cpus, split
from ..measure.dataset import UserPrompt
from ..measure.engine import llamacpp, sglang, vllm
from ..measure.engine.driver import flag_value
from ..measure.engine.running import Engine, attach, start
from ..measure.figures import pool, recompute
from ..measure.host import host_print, usable_cores
from ..measure.noise import noise_floor
from ..measure.traces import Trace
from ..measure.trial import TrialAsk, draw
from ..schema.bench import Bench, Pooled
from ..schema.capacity import MaxRate
from ..schema.engine import EngineConfig
from ..schema.trial import HostPrint, Trial, Verdict
from ..schema.workload import Workload
from ..tune.session import Interrupted, Session
from .bench_plot import write as write_plot
from .kv_check import kv_note
from .pmu import foretell
from .progress import Live

Say = Callable[[str], None]

_SLOTS = 4  # of llama.cpp where none are asked for
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_CHAT_TOKENS = 64  # a template's


class BenchAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve bench` was asked."""

    trial: TrialAsk
    target: str  # a URL, or the model of an engine that is started
    engine: str = ""  # "": the target is a URL
    engine_args: tuple[str, ...] = ()
    engine_env: dict[str, str] = {}
    model: str = ""  # name to ask a running server for
    api_key: str = ""
    out: str = "runs/bench"
    plot: str = ""
    repeat: int = 1
    ready_timeout_s: float | None = None
    max_rate_tolerance: float | None = None  # given: search the highest rate within the SLO


def bench(ask: BenchAsk, note: Say) -> Bench:
    """Run what was asked; the document says where the evidence is. Raises Error."""
    folder = fresh_folder(Path(ask.out))
    config = config_of(ask)
    refuse_secrets(config)
    draw(ask.trial)  # what cannot be planned is refused before anything is made or started
    host = host_print(versions={config.engine: config.version} if config.version else {})
    run = Run.create(
        folder, "bench", argv=public_words(sys.argv), seed=ask.trial.workload.seed, host=host,
        versions={"neoserve": importlib.metadata.version("neoserve"),
                  config.engine: config.version},
    )  # fmt: skip
    cores = core_plan(config, host, ask.trial.workers)
    with _engine(ask, config, run, cores, note) as engine:
        if ask.trial.counts and engine.pids():  # of a server elsewhere nothing is counted
            foretell(note)
        live = Live(ask.trial.slo)
        session = Session(run, engine, host, cores, lambda text: live.say(note, text), live.show)
        noted = kv_note(config, engine.facts(), ask.target, host)
        trial = msgspec.structs.replace(ask.trial, notes=(noted,) if noted else ())
        try:
            max_rate = _measure_all(session, msgspec.structs.replace(ask, trial=trial))
        finally:
            live.close()
            if log := engine.log():
                run.record("engine", {"config": config.to_data(), "log": run.put_blob(log)})
    checked = verify_run(folder, recompute=recompute)
    if ask.plot:
        write_plot(session.trials[-1], Path(ask.plot))
    trials = tuple(observed.trial for observed in session.trials)
    pooled = pool(session.trials) if ask.repeat > 1 else None
    return Bench(
        trials=trials,
        verdict=_verdict(trials[-1], pooled, max_rate),
        pooled=pooled,
        noise=noise_floor(trials) if pooled and pooled.verdict != "VOID" else None,
        max_rate=max_rate,
        run=str(folder),
        head=checked.head,
    )


def _verdict(last: Trial, pooled: Pooled | None, max_rate: MaxRate | None) -> Verdict:
    if max_rate is not None:
        return "INCONCLUSIVE" if max_rate.certified_rps is None else "PASS"
    return last.verdict if pooled is None else pooled.verdict


def _measure_all(session: Session, ask: BenchAsk) -> MaxRate | None:
    if ask.max_rate_tolerance is not None:
        with contextlib.suppress(Interrupted):
            return session.find_max_rate(ask.trial, ask.max_rate_tolerance)
        return None
    for number in range(ask.repeat):
        if ask.repeat > 1:
            session.note(f"trial {number + 1} of {ask.repeat}")
        seed = ask.trial.workload.seed + number
        workload = ask.trial.workload.replace(seed=seed)
        observed = session.measure(msgspec.structs.replace(ask.trial, workload=workload))
        if observed.trial.stop in ("interrupted", "engine"):
            break
    return None


def config_of(ask: BenchAsk) -> EngineConfig:
    """The exact process to start, or the URL to ask. Raises AskError."""
    if not ask.engine:
        if ask.engine_args or ask.engine_env:
            raise AskError("engine arguments are for an engine that is started: give --engine")
        return EngineConfig(engine="url", url=ask.target, model=ask.model)
    return started_config(
        ask.engine, ask.target, ask.engine_args, ask.engine_env, _context_tokens(ask.trial)
    )


def started_config(
    engine: str, model: str, args: Sequence[str], env: dict[str, str], context_tokens: int
) -> EngineConfig:
    """The process of an engine that is started, with the engine's own arguments. Raises AskError.

    `context_tokens` of one request is for llama.cpp, which is given it in advance.
    """
    if engine in ("llama.cpp", "llamacpp", "llama-server"):
        return _llamacpp_config(engine, model, tuple(args), env, context_tokens)
    makers = {"vllm": vllm.config, "sglang": sglang.config}
    if engine not in makers:
        raise AskError(
            f"engine {engine!r} cannot be started; expected llama.cpp, llama-server, vllm or "
            "sglang, or the URL of a server that runs"
        )
    if not model:
        raise AskError(f"--engine {engine} needs a model: give its folder or name")
    return makers[engine](model, args, env)


def _llamacpp_config(
    engine: str, model: str, args: tuple[str, ...], env: dict[str, str], context_tokens: int
) -> EngineConfig:
    """The embedded model where none is named; a thread less than there are cores."""
    path = Path(model) if model else llamacpp.demo_model_path()
    if not path.is_file():
        raise AskError(f"{path} is no file; {engine} takes a GGUF file")
    threads = max(1, round(usable_cores(host_print())) - 1)
    return llamacpp.config(
        path,
        threads=_given(args, threads, "--threads", "-t"),
        parallel=_given(args, _SLOTS, "--parallel", "-np"),
        context_tokens=context_tokens,
        extra=args,  # the last value of a flag counts
        env=env,
        program="llama-server" if engine == "llama-server" else "",
    )


def _given(args: Sequence[str], default: int, *flags: str) -> int:
    text = flag_value(args, *flags)
    if text is not None and not text.isdigit():
        raise AskError(f"{flags[0]} is {text!r}; expected a whole number")
    return default if text is None else int(text)


def _context_tokens(ask: TrialAsk) -> int:
    return context_tokens(ask.workload, ask.trace, ask.dataset)


def context_tokens(
    w: Workload, trace: Trace | None = None, dataset: Sequence[UserPrompt] | None = None
) -> int:
    """Of one request: the longest that this load is likely to send, rounded up."""
    tails = (1 + 3 * w.prompt_tokens_cv, 1 + 3 * w.output_tokens_cv)
    longest = (w.prompt_tokens * tails[0] + w.output_tokens * tails[1]) * w.turns
    if trace is not None:
        longest = max(longest, *(sum(tokens) for tokens in trace.lengths()))
    if dataset is not None:  # a token is seldom less than two characters
        longest = max(longest, *(len(p.text) / 2 + w.output_tokens for p in dataset))
    return slot_tokens(longest)


def slot_tokens(longest_tokens: float) -> int:
    """Context for a request of that length and a chat template, in steps of 256."""
    return 256 * math.ceil((longest_tokens + _CHAT_TOKENS) / 256)


def core_plan(config: EngineConfig, host: HostPrint, workers: int) -> CorePlan | None:
    """Cores for the client beside the engine's; null for a server that is not ours."""
    if not config.argv:
        return None
    return split(host_cpus(), threads_of(config), workers, quota_cores=host.quota_cores)


def threads_of(config: EngineConfig) -> int | None:
    """That a command line asks for; None where it does not."""
    text = flag_value(config.argv, "--threads", "-t") or ""
    return int(text) if text.isdigit() else None


@contextlib.contextmanager
def _engine(
    ask: BenchAsk, config: EngineConfig, run: Run, cores: CorePlan | None, note: Say
) -> Iterator[Engine]:
    if not config.argv:
        yield attach(ask.target, api_key=ask.api_key, model=ask.model)
        return
    with start(
        config,
        run.logs_path / "engine.log",
        cpus=cores.engine_cpus if cores else "",
        ready_timeout_s=ask.ready_timeout_s,
        on_stage=note,
    ) as engine:
        yield engine


def public_words(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line as it may be kept: without keys."""
    words = [re.sub(r"^(--api-key=).*", r"\1...", word) for word in argv]
    return tuple("..." if before == "--api-key" else word
                 for before, word in zip(["", *words], words, strict=False))  # fmt: skip


def refuse_secrets(config: EngineConfig) -> None:
    """What starts an engine is written into the run for others to read. Raises AskError."""
    secret = next((name for name in config.env if _SECRET.search(name)), None)
    if secret is None and flag_value(config.argv, "--api-key") is not None:
        secret = "--api-key"
    if secret is not None:
        raise AskError(
            f"{secret} would be kept in the run folder for everybody to read; export it in the "
            "environment instead (vLLM: VLLM_API_KEY), which the engine inherits"
        )


def fresh_folder(path: Path) -> Path:
    """The folder asked for, or the first free one beside it: a run is never overwritten."""
    if path.exists() and not path.is_dir():
        raise AskError(f"--out {path} is a file; expected a folder, or a name for a new one")
    candidate, number = path, 1
    while candidate.exists() and any(candidate.iterdir()):
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def exit_code(found: Bench) -> int:
    """0 met, 1 not met, 3 undecided, 4 void; without an SLO a measurement is all that was asked."""
    trial = found.trials[-1]
    if found.verdict == "INCONCLUSIVE" and not trial.slo.targets and trial.num_ok:
        return EXIT_MET
    return {
        "PASS": EXIT_MET,
        "FAIL": EXIT_NOT_MET,
        "VOID": EXIT_ENGINE_FAILED,
    }.get(found.verdict, EXIT_INCONCLUSIVE)
