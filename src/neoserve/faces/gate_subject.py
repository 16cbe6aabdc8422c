"""What a gate is pointed at, read into the same shape: run folder, result file, prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import AskError
from ..evidence.importing.read import read_results
from ..evidence.recommended import recommended
from ..evidence.run import Run
from ..evidence.verify import trial_of, verify_run
from ..measure.figures import Observed, recompute, unpack_rows
from ..measure.schedule import parse
from ..measure.summary import cost_at, output_rate_interval, steady
from ..schema.ask import PredictAsk
from ..schema.capacity import MaxRate
from ..schema.evidence import LedgerEntry
from ..schema.gate import Side
from ..schema.imported import Imported
from ..schema.prediction import Prediction
from ..schema.trial import HostPrint, RequestRow, Trial
from ..stats import mean
from ..stats.change import Bounded
from ..tune.gate import Cost, Sample
from ..units import significant
from .ask import answer_predict

CONFIGS = (".yaml", ".yml")
_FAILED_S = 1e300  # stands for a failed request's latency
_METRICS = ("ttft", "tpot", "e2e")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One side of a gate. Trials that repeat one load are several; of the rest there is one."""

    side: Side
    sample: Sample | None = None  # null: no requests are known one by one
    cost: Cost | None = None
    trials: tuple[Observed, ...] = ()
    imported: Imported | None = None
    prediction: Prediction | None = None


def read_subject(text: str, number: int, usd_per_hour: float | None, confidence: float) -> Subject:
    """A path, by what it holds. `number` picks a load of several, from 1 or from the end (-1);
    0: the run's own choice. `confidence` is of the cost's interval. Raises Error."""
    path = Path(text)
    if path.is_dir():
        return _of_run(text, path, number, usd_per_hour, confidence)
    if path.suffix.lower() in CONFIGS:
        return _of_prediction(text, answer_predict(read_config(path)))
    if not path.is_file():
        raise AskError(
            f"{text} is neither a run folder nor a file; give one, a prediction's YAML file, or "
            "the URL of a server"
        )
    if prediction := kept_prediction(path):
        return _of_prediction(text, prediction)
    return _of_import(text, _picked(read_results(path), number or -1, text), usd_per_hour)


def read_config(path: Path) -> PredictAsk:
    """What a YAML file asks to predict: options of `neoserve predict` by their names."""
    import yaml

    from .notebook import predict_request

    try:
        asked = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        told = " ".join(str(getattr(error, "strerror", "") or error).split())
        raise AskError(f"{path} cannot be read: {told}") from None
    if isinstance(asked, dict):  # YAML 1.1 reads the bare word `on` as true
        asked = {"on" if name is True else str(name): value for name, value in asked.items()}
    if not isinstance(asked, dict) or not {"model", "on"} <= asked.keys():
        raise AskError(
            f"{path} is no prediction's file; expected `model`, `on` and options of `neoserve "
            "predict`, such as `isl: 1000`"
        )
    options = {name.replace("-", "_"): _option(value) for name, value in asked.items()}
    return predict_request(str(options.pop("model")), str(options.pop("on")), **options)


def _option(value: Any) -> Any:
    """Numbers are read as text is, so that `8k` and `8000` mean the same."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def kept_prediction(path: Path) -> Prediction | None:
    """What `neoserve predict --json` printed."""
    try:
        data = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_one = isinstance(data, dict) and str(data.get("schema")).startswith("neoserve/prediction/")
    return Prediction.parse(data, str(path)) if is_one else None


def _of_prediction(text: str, p: Prediction) -> Subject:
    cost = None
    if p.cost is not None:
        rate = p.interval.get("output_tokens_per_s")
        scale = p.cost.usd_per_mtok_output * (p.throughput.output_tokens_per_s if p.throughput
                                              else 0.0)  # fmt: skip
        cost = Cost(
            p.cost.usd_per_mtok_output,
            scale / rate.high if rate else None,
            scale / rate.low if rate else None,
            f"predicted of this load ({p.cost.price_basis})",
        )
    d = p.deployment
    side = Side(
        source=text, basis="predicted", what=f"{p.model} on {d.hardware} with {d.engine}",
        usd_per_mtok_output=cost.value if cost else None,
    )  # fmt: skip
    return Subject(side=side, cost=cost, prediction=p)


def _of_run(
    text: str, path: Path, number: int, usd_per_hour: float | None, confidence: float
) -> Subject:
    checked = verify_run(path, recompute=recompute)
    run = Run.open(path)
    entries = run.entries()
    imports = [entry for entry in entries if entry.kind == "import"]
    trials = [trial_of(entry) for entry in entries if entry.kind == "trial"]
    if not trials and imports:
        loads = [load for entry in imports for load in _kept_imports(path, entry.body)]
        found = _of_import(text, _picked(loads, number or -1, text), usd_per_hour)
        return msgspec.structs.replace(found, side=found.side.replace(head=checked.head))
    last_of = {entry.kind: entry for entry in entries}
    kept = [_observed(run, trial) for trial in _chosen(path, trials, last_of, number)]
    cost = _cost(kept, usd_per_hour, confidence)
    last = kept[-1].trial
    side = Side(
        source=text, basis="measured", what=_what(last, len(kept)), host=_host(last.host),
        num_requests=sum(o.trial.num_judged for o in kept),
        usd_per_mtok_output=cost.value if cost else None, head=checked.head,
    )  # fmt: skip
    return Subject(side=side, sample=_sample(kept), cost=cost, trials=tuple(kept))


def _kept_imports(path: Path, body: dict[str, Any]) -> list[Imported]:
    """The load of an import entry; older ones may hold all of a file, without their requests."""
    loads = [body["load"]] if "load" in body else body.get("loads", ())
    return [Imported.parse(load, f"an import of {path}") for load in loads]


def _chosen(
    path: Path, trials: Sequence[Trial], last_of: Mapping[str, LedgerEntry], number: int
) -> list[Trial]:
    """The trial asked for; the one that certifies what a search found; else the last with its
    repeats."""
    if number or not trials:
        return [_picked(trials, number or -1, str(path))]
    if "max-rate" in last_of:
        rate = MaxRate.parse(last_of["max-rate"].body, f"the highest rate of {path}").certified_rps
        held = [t for t in trials if t.workload.rate_rps == rate and t.verdict == "PASS"]
        if not held:
            raise AskError(f"{path} certified no rate; pick a trial with --trial N")
        return held[-1:]
    if "recommendation" in last_of:
        best = recommended(path).recommendation.trial
        if best is None:
            raise AskError(f"{path} certified no rate; pick a trial with --trial N")
        return [best]
    last = trials[-1]
    kept: list[Trial] = []
    for trial in reversed(trials):
        if _load(trial) != _load(last):
            break
        kept.insert(0, trial)
    return kept


def _load(trial: Trial) -> tuple[object, ...]:
    return trial.workload.replace(seed=0), trial.engine, trial.slo, trial.host.identity


def _picked(found: Sequence[Any], number: int, where: str) -> Any:
    position = number if number < 0 else number - 1
    if not -len(found) <= position < len(found):
        raise AskError(f"{where} holds {len(found)} loads; --trial {number} is none of them")
    return found[position]


def _observed(run: Run, trial: Trial) -> Observed:
    return Observed(trial, unpack_rows(run.blob(trial.rows)), parse(run.blob(trial.schedule)))


def _sample(kept: Sequence[Observed]) -> Sample:
    """In the order of the schedule, which is the same wherever it is sent again."""
    rows = [row for observed in kept for row in observed.rows if row.phase == "measured"]
    return Sample(
        latencies_s={name: tuple(_latency_s(row, name) for row in rows) for name in _METRICS},
        num=sum(observed.trial.num_judged for observed in kept),
        num_failed=sum(o.trial.num_judged - o.trial.num_ok for o in kept),
        schedule=" ".join(observed.trial.schedule for observed in kept),
    )


def _latency_s(row: RequestRow, name: str) -> float | None:
    if row.status in ("cancelled", "unsent"):
        return None
    found: float | None = getattr(row, f"{name}_s")
    return found if row.status == "ok" else _FAILED_S


def _cost(
    kept: Sequence[Observed], usd_per_hour: float | None, confidence: float
) -> Cost | None:
    """At the price given, or at the trial's own."""
    last = kept[-1].trial
    price = last.cost.usd_per_hour if usd_per_hour is None and last.cost else usd_per_hour
    rate = output_rate(kept, confidence)
    if price is None or rate is None:
        return None

    def usd(rate: float) -> float | None:
        found = cost_at(price or 0.0, "", rate, rate) if 0 < rate < math.inf else None
        return found.usd_per_mtok_output if found else None

    value = usd(rate.value)
    if value is None:
        return None
    limited = " (the server kept up: it could serve more)" if last.load_limited else ""
    return Cost(value, usd(rate.high), usd(rate.low), f"at this load{limited}")


def output_rate(kept: Sequence[Observed], confidence: float) -> Bounded | None:
    """Output tokens a second of trials that repeat one load; None where one has no steady window.
    Its bounds are 0 and infinite where they are not known."""
    windows = [steady(observed.rows) for observed in kept]
    rates = [window.output_tokens_per_s for window in windows]
    if any(not rate for rate in rates):
        return None
    spans = [
        span for observed, window in zip(kept, windows, strict=True)
        if (span := output_rate_interval(observed.rows, window, confidence))
    ]  # fmt: skip
    low, high = (mean([span[i] for span in spans]) for i in (0, 1)) if spans else (0.0, math.inf)
    return Bounded(mean([rate for rate in rates if rate]), low, high)


def _what(trial: Trial, num: int) -> str:
    w = trial.workload
    load = f"{w.concurrency} in flight" if w.arrival == "closed" else (
        f"{significant(w.rate_rps)} requests/s, {w.arrival}")  # fmt: skip
    name = trial.engine.model or trial.engine.engine
    repeats = f", {num} trials" if num > 1 else ""
    return f"{name}: {load}, {w.prompt_tokens}+{w.output_tokens} tokens{repeats}"


def _host(host: HostPrint) -> str:
    return f"{host.cpu_model}, {host.logical_cpus} CPUs"


def _of_import(text: str, load: Imported, usd_per_hour: float | None) -> Subject:
    rate = load.throughput.get("output_tokens_per_s")
    found = cost_at(usd_per_hour, "", rate, rate) if usd_per_hour is not None and rate else None
    cost = Cost(found.usd_per_mtok_output, None, None, "at this load") if found else None
    side = Side(
        source=text, basis="measured",
        what=f"{load.tool}: {load.model}, {load.arrival or 'unknown arrivals'}",
        num_requests=load.num_requests, usd_per_mtok_output=cost.value if cost else None,
    )  # fmt: skip
    return Subject(side=side, sample=_imported_sample(load), cost=cost, imported=load)


def _imported_sample(load: Imported) -> Sample | None:
    if not load.rows:
        return None
    rows = sorted(load.rows, key=lambda row: row.sent_s or 0.0)
    return Sample(
        latencies_s={
            name: tuple(_FAILED_S if row.error else getattr(row, f"{name}_s") for row in rows)
            for name in _METRICS
        },
        num=len(rows),
        num_failed=sum(bool(row.error) for row in rows),
    )
