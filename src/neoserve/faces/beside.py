"""Runs, other tools' results, predictions and published rows, each as a side of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..catalog.intervals import table as intervals
from ..catalog.models import find_model
from ..errors import AskError
from ..evidence.claims import read_claims
from ..evidence.claims.figures import Interval, setting
from ..evidence.claims.loads import state_of
from ..evidence.claims.money import rates, served_rps
from ..evidence.importing.figures import FROM_ARRIVAL, PER_TOKEN
from ..evidence.importing.read import read_results
from ..evidence.run import Run
from ..evidence.verify import trial_of, verify_run
from ..measure.figures import recompute
from ..predict.cost import price_basis
from ..predict.gain import Rate, rate_of
from ..predict.intervals import LEVEL
from ..predict.predictor import usd_per_hour
from ..recipe.served import served
from ..schema.answers import Basis
from ..schema.ask import PredictAsk
from ..schema.campaign import Recommendation
from ..schema.capacity import MaxRate
from ..schema.claims import ClaimedPoint
from ..schema.comparison import ComparedSide, Figure, Standing, Terms
from ..schema.engine import EngineConfig
from ..schema.imported import Imported
from ..schema.trial import Trial
from ..schema.workload import Slo, Workload
from ..stats import mean
from ..tune.side_by_side import slo_text
from ..units import significant
from .ask import answer_predict, ask_for, machine_of, scheme_model
from .claims import verify_claims
from .gate_subject import CONFIGS, Subject, kept_prediction, output_rate, read_config, read_subject

_OURS = {
    "ttft": "from the intended arrival to the first token, failed requests as never",
    "tpot": PER_TOKEN, "e2e": FROM_ARRIVAL,
}  # fmt: skip
_PLAIN = Workload()
_NOT_SHAPE = ("arrival", "rate_rps", "concurrency", "prompt_tokens", "output_tokens", "seed",
              "same_arrivals", "ignore_eos")  # fmt: skip
_STATES: dict[str, Standing] = {
    "load-limited": "at least", "saturated": "capacity", "unknown": "unknown",
}  # fmt: skip
_WORDS = {"HOLDS": "hold", "WRONG": "wrong", "UNPROVEN": "unproven"}


class Column(NamedTuple):
    """A side, and what its gain is computed from. `load`: its SLO is judged once it is known."""

    side: ComparedSide
    rate: Rate | None = None
    load: Imported | None = None


def predicted(ask: PredictAsk, name: str) -> Column:
    """The planner's word for one configuration. Raises AskError."""
    answer, machine = answer_predict(ask), machine_of(ask.on, ask)
    scheme = ask.deployment.weight_quant
    model = scheme_model(find_model(ask.model, ask.online), scheme)
    question = ask_for(model, machine, ask.deployment, ask)
    side = ComparedSide(
        name=name, basis="predicted", source="NeoServe's planner, fitted to public figures",
        date=str(intervals().get("date", "")),
        what=answer.deployment.engine,
        terms=_terms(answer.model, ask.workload, Slo.parse_text(ask.slo)),
        usd_per_hour=usd_per_hour(question, answer.deployment),
        price_basis=price_basis(machine.price) if machine.price else "",
    )  # fmt: skip
    if not answer.starts or answer.throughput is None:
        return Column(side.replace(reason=f"it would not start: {answer.refusal}"))
    is_closed = ask.workload.arrival == "closed"
    metric = "output_tokens_per_s" if is_closed else "max_rate_rps"
    value = getattr(answer.throughput, metric)
    if not value:
        return Column(side.replace(reason="no rate keeps the SLO (predicted)"))
    span = answer.interval.get(metric)
    figure = Figure(value, span.low, span.high, LEVEL) if span else Figure(value)
    side = _with(side, "capacity", figure, None if is_closed else ask.workload.output_tokens)
    return Column(side, rate_of(question, answer))


def read_columns(text: str, catalog: str, online: bool) -> list[Column]:
    """Every side that a path holds. Raises Error."""
    path = Path(text)
    suffix = path.suffix.lower()
    if path.is_dir():
        return list(_of_run(text, path))
    if suffix in (".toml", ".csv"):
        return list(_of_claims(path, catalog, online))
    if suffix in CONFIGS:
        return [predicted(read_config(path), path.stem)]
    if not path.is_file():
        raise AskError(
            f"{text} is neither a run folder nor a file; --beside takes run folders, other tools' "
            "results, tables of published figures (TOML, CSV) and predictions' YAML files"
        )
    if kept_prediction(path):
        raise AskError(f"{text} does not say which load it predicts: give the YAML file that asks "
                       "for it, or MODEL and --on")  # fmt: skip
    loads = read_results(path)
    names = [f"{path.name}#{i}" for i in range(1, len(loads) + 1)] if loads[1:] else [path.name]
    return [_of_import(load, name, text) for load, name in zip(loads, names, strict=True)]


def _terms(model: str, w: Workload, slo: Slo) -> Terms:
    shape = [f"{name} {getattr(w, name)}" for name in Workload.__struct_fields__
             if name not in _NOT_SHAPE and getattr(w, name) != getattr(_PLAIN, name)]  # fmt: skip
    is_closed = w.arrival == "closed"
    return Terms(
        model=model or None, load=w.arrival, concurrency=w.concurrency if is_closed else None,
        prompt_tokens=w.prompt_tokens, output_tokens=w.output_tokens, shape=", ".join(shape),
        slo="" if is_closed else slo_text(slo), definitions=_OURS,
    )  # fmt: skip


def _with(
    side: ComparedSide, standing: Standing, figure: Figure, output_tokens: float | None
) -> ComparedSide:
    """With a rate of requests and its tokens, or with tokens alone, and what they cost."""
    tokens = figure if output_tokens is None else _scaled(figure, output_tokens)
    per_usd = mtok = None
    if side.usd_per_hour:
        per_usd = _scaled(tokens, 3600 / side.usd_per_hour)
        mtok = Figure(
            1e6 / per_usd.value, _inverse(per_usd.high), _inverse(per_usd.low), figure.level
        )
    return side.replace(
        standing=standing, rate_rps=None if output_tokens is None else figure,
        output_tokens_per_s=tokens, usd_per_mtok_output=mtok, output_tokens_per_usd=per_usd,
    )  # fmt: skip


def _scaled(figure: Figure, factor: float) -> Figure:
    low, high = (None if v is None else v * factor for v in (figure.low, figure.high))
    return Figure(figure.value * factor, low, high, figure.level)


def _inverse(tokens_per_usd: float | None) -> float | None:
    return 1e6 / tokens_per_usd if tokens_per_usd else None


# Runs


def _of_run(text: str, path: Path) -> Iterator[Column]:
    head = verify_run(path, recompute=recompute).head
    entries = Run.open(path).entries()
    last_of = {entry.kind: entry for entry in entries}
    name, date = path.resolve().name, entries[0].at[:10]
    base = {"name": name, "basis": "measured", "source": text, "date": date, "head": head}
    if "recommendation" in last_of:
        found = Recommendation.parse(last_of["recommendation"].body, f"recommendation of {text}")
        yield Column(_recommended(base, found))
    elif "max-rate" in last_of:
        limit = MaxRate.parse(last_of["max-rate"].body, f"the highest rate of {text}")
        trial = trial_of(last_of["trial"])
        yield Column(_certified(_measured(base, trial), limit.certified_rps, limit.not_met_rps,
                                limit.level, _length(trial)))  # fmt: skip
    else:
        subject = read_subject(text, 0, None, LEVEL)
        if subject.imported is None:
            yield Column(_trials(base, subject))
        else:
            kept = _of_import(subject.imported, name, text)
            yield kept._replace(side=kept.side.replace(head=head, date=date))


def _recommended(base: dict[str, str], found: Recommendation) -> ComparedSide:
    capacity = found.pick.capacity
    side = ComparedSide.parse(base | {
        "what": f"{found.pick.candidate.show()}, {found.config.version or found.config.engine}"
                + (f", {found.trial.host.cpu_model}" if found.trial else ""),
        "terms": _terms(_model(found.config), found.workload, found.slo).to_data(),
        "usd_per_hour": found.usd_per_hour, "price_basis": found.price_source,
    }, "side")  # fmt: skip
    return _certified(side, capacity.certified_rps, capacity.refuted_rps, found.gain.level / 2,
                      _length(found.trial) or found.workload.output_tokens)  # fmt: skip


def _measured(base: dict[str, str], trial: Trial) -> ComparedSide:
    return ComparedSide.parse(base | {
        "what": f"{trial.engine.version or trial.engine.engine}, {trial.host.cpu_model}",
        "terms": _terms(_model(trial.engine), trial.workload, trial.slo).to_data(),
        "usd_per_hour": trial.cost.usd_per_hour if trial.cost else None,
        "price_basis": trial.cost.price_source if trial.cost else "",
    }, "side")  # fmt: skip


def _certified(
    side: ComparedSide, certified_rps: float | None, refuted_rps: float | None, level: float,
    output_tokens: float,
) -> ComparedSide:  # fmt: skip
    if certified_rps is None:
        return side.replace(reason="no rate is certified in this run")
    figure = Figure(certified_rps, certified_rps, refuted_rps, 1 - level)
    return _with(side, "capacity", figure, output_tokens)


def _trials(base: dict[str, str], subject: Subject) -> ComparedSide:
    """Loads of one kind, pooled: what a closed one did, or the rate that an open one held."""
    trial = subject.trials[-1].trial
    side = _measured(base, trial)
    if any(o.trial.verdict == "VOID" for o in subject.trials):
        return side.replace(reason=f"the load is void: {'; '.join(trial.faults + trial.reasons)}")
    found = output_rate(subject.trials, LEVEL)
    if found is None:
        return side.replace(reason="the load had no steady window to count in")
    tokens = Figure(found.value, found.low, found.high if math.isfinite(found.high) else None,
                    LEVEL)  # fmt: skip
    if trial.workload.arrival == "closed":
        return _with(side, "capacity", tokens, None)
    if not slo_text(trial.slo):
        standing: Standing = "capacity" if trial.saturated else "at least"
        return _with(side, standing, _scaled(tokens, 1 / _length(trial)), _length(trial))
    if any(o.trial.verdict != "PASS" for o in subject.trials):
        return side.replace(reason=f"the load did not keep its SLO: {'; '.join(trial.reasons)}")
    rate = trial.workload.rate_rps
    return _with(side, "at least", Figure(rate, rate, None, 1 - trial.level), _length(trial))


def _length(trial: Trial | None) -> float:
    """Mean output tokens of a request; 0: no trial."""
    if trial is None:
        return 0.0
    if trial.workload.ignore_eos or not trial.served_rps or not trial.output_tokens_per_s:
        return trial.workload.output_tokens
    return trial.output_tokens_per_s / trial.served_rps


def _model(config: EngineConfig) -> str:
    try:
        return served(config).model
    except AskError:
        return config.model or config.url


# Other tools


def _of_import(load: Imported, name: str, text: str) -> Column:
    done = [row for row in load.rows if not row.error]
    told = load.throughput
    output, total, rps = (told.get(key, 0.0) for key in
                          ("output_tokens_per_s", "total_tokens_per_s", "served_rps"))  # fmt: skip
    failed = f", {load.num_failed} failed requests left out" if load.num_failed else ""
    terms = Terms(
        model=load.model or None, load=load.arrival or None, concurrency=load.max_concurrency,
        prompt_tokens=_mean([row.prompt_tokens for row in done])
        or (told.get("input_tokens_per_s", total - output) / rps if rps else None),
        output_tokens=_mean([row.output_tokens for row in done])
        or (output / rps if rps else None),
        slo=None,
        definitions={key.removesuffix("_s"): words + failed
                     for key, words in load.definitions.items()},
    )  # fmt: skip
    source = f"{load.tool} {load.tool_version}".strip() + f", {text}"
    side = ComparedSide(name=name, basis="measured", source=source, terms=terms,
                        what=f"{load.num_requests or 'an unknown number of'} requests{failed}",
                        head=f"{load.source} {name}")  # fmt: skip
    return Column(side, load=load)


def judged(column: Column, asked: Terms | None) -> Column:
    """Another tool's load with its figure, held to the SLO by the tool's own statistics; the
    load's own terms where nothing was asked. It is never certified: at least, if it is kept."""
    load, side = column.load, column.side
    if load is None:
        return column
    rate = load.throughput.get("output_tokens_per_s")
    if side.terms.load == "closed":
        side = side.replace(terms=side.terms.replace(slo=""))
        if rate:
            side = _with(side, "capacity", Figure(rate), None)
        return column._replace(side=side)
    slo = Slo.parse_text((asked.slo if asked else "") or "")
    missed = []
    for target in slo.targets:
        value = load.metrics.get(f"{target.metric}_s", {}).get(target.statistic)
        if value is None:
            return column  # which SLO it keeps stays unknown
        if value >= target.limit:
            missed.append(f"{target.metric}:{target.statistic} is {significant(value)} s")
    side = side.replace(terms=side.terms.replace(slo=slo_text(slo)))
    rps = load.throughput.get("served_rps")
    if missed:
        side = side.replace(reason=f"this load misses the SLO: {'; '.join(missed)}")
    elif rps and rate:
        side = _with(side, "at least", Figure(rps, rps), rate / rps)
    return column._replace(side=side)


def _mean(values: Sequence[int | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return mean(known) if known else None


# Published tables


def _of_claims(path: Path, catalog: str, online: bool) -> Iterator[Column]:
    claims, _ = read_claims(path)
    verdicts = verify_claims(path, catalog, online).verdicts
    for point in claims.points:
        words = [v.verdict for v in verdicts if v.subject == point.name]
        counts = [f"{words.count(word)} {said}" for word, said in _WORDS.items() if word in words]
        said = f"claim check: {', '.join(counts) or 'nothing to check'}"
        yield Column(_published(point, claims.source or path.name, said))


def _published(point: ClaimedPoint, source: str, said: str) -> ComparedSide:
    is_closed = point.concurrency is not None or point.arrival == "closed"
    load = "closed" if is_closed else point.arrival.lower() or None
    basis: Basis = "published"
    side = ComparedSide(
        name=point.name, basis=basis, source=source,
        what=", ".join(filter(None, (point.hardware, point.weight_quant, said))),
        usd_per_hour=_middle(point, "usd_per_hour"),
        price_basis="as published" if point.usd_per_hour is not None else "",
        terms=Terms(
            model=point.model or None, load=load, concurrency=_whole(point, "concurrency"),
            prompt_tokens=_middle(point, "prompt_tokens"),
            output_tokens=_middle(point, "output_tokens"),
            slo="" if is_closed else slo_text(Slo.parse_text(point.slo)) or None,
            definitions=_OURS,
        ),
    )  # fmt: skip
    output, rps = rates(point).get("output"), served_rps(point)
    if output is None:
        return side.replace(reason="no rate of output tokens is printed, nor follows from what is")
    standing: Standing = "capacity" if is_closed else _STATES[state_of(point)]
    if not point.is_capacity:
        standing = "at least"
    side = _with(side, standing, _figure(output), None)
    return side if is_closed or rps is None else side.replace(rate_rps=_figure(rps))


def _figure(found: Interval) -> Figure:
    return Figure(found.middle, float(found.low), float(found.high))


def _middle(point: ClaimedPoint, name: str) -> float | None:
    value = getattr(point, name)
    return None if value is None else setting(value, f"{point.name}: {name}").middle


def _whole(point: ClaimedPoint, name: str) -> int | None:
    value = _middle(point, name)
    return None if value is None else round(value)
