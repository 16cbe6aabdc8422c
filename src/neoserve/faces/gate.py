"""`neoserve gate`: an SLO, a budget and a baseline in one verdict."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError
from ..measure.figures import pooled_rows
from ..measure.verdict import LEVEL, Watch, findings
from ..schema.gate import Allowed, Check, Gate
from ..schema.trial import Verdict
from ..schema.workload import Slo
from ..stats.change import NEVER
from ..tune import gate as decide
from ..tune.comparable import unlike_imports, unlike_trials
from .gate_subject import Subject, read_subject

Say = Callable[[str], None]

_STATISTICS = ("geomean", "p50", "p90", "p95", "p99")
_ADVICE = {
    "host": "measure both on one machine",
    "engine": "name the change that is tested",
    "workload": "send the same load",
    "definitions": "compare loads of one tool",
    "basis": "hold a measurement against a measurement",
}


class GateAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve gate` was asked."""

    subject: str  # a path; a server was measured into a run folder before
    baseline: str = ""
    slo: str = ""  # "": the subject's own
    max_usd_per_mtok: float | None = None
    usd_per_hour: float | None = None
    tolerance: float = 0.05
    detect: float = 0.5
    figures: tuple[str, ...] = decide.COMPARED
    allow: tuple[Allowed, ...] = ()
    sure: float = 0.9
    trial: int = 0
    url: str = ""  # of the server that `subject` is a measurement of


def gate(ask: GateAsk) -> Gate:
    """Check everything that was asked. Raises Error, AskError for what cannot be compared."""
    _check_ask(ask)
    confidence = 1 - 2 * decide.share_of(LEVEL, ask.figures)
    subject = read_subject(ask.subject, ask.trial, ask.usd_per_hour, confidence)
    baseline = None
    if ask.baseline:
        baseline = read_subject(ask.baseline, 0, ask.usd_per_hour, confidence)
        _refuse_unlike(subject, baseline, ask.allow)
    slo = Slo.parse_text(ask.slo)
    checks = list(_slo_checks(subject, slo, ask.sure))
    if ask.max_usd_per_mtok is not None:
        checks.append(decide.budget_check(subject.cost, ask.max_usd_per_mtok))
    if baseline is not None:
        checks += _comparisons(subject, baseline, ask)
    if not checks:
        raise AskError("there is nothing to check; give --slo, --max-usd-per-mtok or --baseline")
    side = subject.side.replace(source=ask.url) if ask.url else subject.side
    return Gate(
        verdict=decide.overall(checks),
        checks=tuple(checks),
        subject=side,
        baseline=baseline.side if baseline else None,
        tolerance=ask.tolerance,
        detect=ask.detect,
        level=LEVEL,
        allowed=ask.allow,
        notes=(*_notes(subject, baseline), *_left_out(ask, baseline, checks)),
    )


def exit_code(found: Gate) -> int:
    """0 met, 1 not met, 3 undecided."""
    codes = {"PASS": EXIT_MET, "FAIL": EXIT_NOT_MET}
    return codes.get(found.verdict, EXIT_INCONCLUSIVE)


def _check_ask(ask: GateAsk) -> None:
    for figure in ask.figures:
        metric, _, statistic = figure.partition(":")
        if metric not in ("ttft", "tpot", "e2e") or statistic not in _STATISTICS:
            raise AskError(
                f"--compare {figure!r} is none of ttft, tpot, e2e with {', '.join(_STATISTICS)}; "
                "write ttft:p95"
            )
    if not 0.5 < ask.sure < 1:
        raise AskError(f"--sure is {ask.sure:g}; expected a share between 0.5 and 1, such as 90%")
    if ask.detect <= ask.tolerance:
        raise AskError(
            f"--detect {ask.detect:.0%} is not above --tolerance {ask.tolerance:.0%}; a slowdown "
            "that is tolerated need not be excluded"
        )


def _slo_checks(subject: Subject, asked: Slo, sure: float) -> Iterator[Check]:
    if subject.prediction is not None:
        yield from _predicted(subject, asked, sure)
    elif subject.trials:
        yield from _measured(subject, asked)
    elif asked.targets:
        yield from _imported(subject, asked)


def _predicted(subject: Subject, asked: Slo, sure: float) -> Iterator[Check]:
    assert subject.prediction is not None
    p = subject.prediction
    if asked.targets:
        raise AskError(
            "the SLO of a prediction belongs into its file (`slo: ttft:p95<3s`), where its "
            "simulation reads it; leave --slo out"
        )
    if p.meets_slo is not None or not p.starts:
        yield from decide.prediction_checks(p, sure)


def _measured(subject: Subject, asked: Slo) -> Iterator[Check]:
    """Repeats are judged together, as bench pools them."""
    trials = [observed.trial for observed in subject.trials]
    slo = asked if asked.targets else trials[-1].slo
    voids = [reason for trial in trials if trial.verdict == "VOID" for reason in trial.reasons]
    if voids:
        yield Check(name="trial", kind="slo", verdict="INCONCLUSIVE",
                    reason=f"the measurement is void: {'; '.join(voids)}")  # fmt: skip
        return
    rows = subject.trials[0].rows if len(trials) == 1 else pooled_rows(subject.trials)
    num = sum(trial.num_planned for trial in trials)
    found = findings(rows, slo, num, trials[-1].level)
    yield from _targets(slo, found, subject)


def _imported(subject: Subject, slo: Slo) -> Iterator[Check]:
    """Another tool's requests, judged by what it measured of each."""
    if subject.sample is None:
        for target in slo.targets:
            yield Check(
                name=target.show(), kind="slo", verdict="INCONCLUSIVE", unit="s",
                value=_stated(subject, target.metric, target.statistic), limit=target.limit,
                reason="the file holds no requests one by one, so nothing is certified; write "
                       "them, too (vllm bench serve: --save-detailed)",
            )  # fmt: skip
        return
    watch = Watch(slo, subject.sample.num, LEVEL)
    watch.read({
        metric: [(math.inf if v >= NEVER else v, True) for v in values if v is not None]
        for metric, values in subject.sample.latencies_s.items()
    })  # fmt: skip
    yield from _targets(slo, [rule.finding(False) for rule in watch.rules], subject)


def _targets(
    slo: Slo, found: Sequence[tuple[Verdict, str]], subject: Subject
) -> Iterator[Check]:
    for target, (verdict, reason) in zip(slo.targets, found, strict=True):
        name = target.show()
        yield Check(
            name=name, kind="slo", verdict="INCONCLUSIVE" if verdict == "VOID" else verdict,
            reason=reason.removeprefix(f"{name}: "),
            unit="share" if target.metric == "quality" else "s", limit=target.limit,
            value=_observed(subject, target.metric, target.statistic),
        )  # fmt: skip


def _observed(subject: Subject, metric: str, statistic: str) -> float | None:
    if subject.sample is None:
        return None
    of = subject.sample.served_s if statistic == "mean" else subject.sample.all_s
    values = of(metric)
    return decide.value_of(values, statistic) if values else None


def _stated(subject: Subject, metric: str, statistic: str) -> float | None:
    metrics = subject.imported.metrics if subject.imported else {}
    return metrics.get(f"{metric}_s", {}).get(statistic)


def _refuse_unlike(subject: Subject, baseline: Subject, allow: Sequence[Allowed]) -> None:
    """Raises AskError for the first difference that was not allowed."""
    for kind, told in _unlike(subject, baseline):
        if kind not in allow:
            raise AskError(
                f"{subject.side.source} and {baseline.side.source} are not comparable: unlike "
                f"{kind}: {told}; {_ADVICE[kind]}, or say --allow {kind}"
            )


def _unlike(subject: Subject, baseline: Subject) -> Iterator[tuple[Allowed, str]]:
    if subject.side.basis != baseline.side.basis:
        yield "basis", f"one is {subject.side.basis}, the other {baseline.side.basis}"
    elif subject.trials and baseline.trials:
        yield from unlike_trials(subject.trials[-1].trial, baseline.trials[-1].trial)
        for one in (subject, baseline):
            yield from unlike_trials(one.trials[-1].trial, one.trials[0].trial)
    elif subject.imported and baseline.imported:
        yield from unlike_imports(subject.imported, baseline.imported)
    elif subject.prediction is None:
        yield "definitions", (
            "NeoServe counts from the intended arrival, other tools from sending, without failed "
            "requests"
        )


def _comparisons(subject: Subject, baseline: Subject, ask: GateAsk) -> Iterator[Check]:
    if subject.prediction is not None and baseline.prediction is not None:
        yield from decide.compare_predictions(
            subject.prediction, baseline.prediction, ask.tolerance
        )
        return
    if subject.sample is None or baseline.sample is None:
        lacking = subject if subject.sample is None else baseline
        yield Check(
            name="requests", kind="regression", verdict="INCONCLUSIVE",
            reason=f"{lacking.side.source} holds no requests one by one: what chance does to its "
                   "figures is not known",
        )  # fmt: skip
        return
    if any(o.trial.verdict == "VOID" for o in (*subject.trials, *baseline.trials)):
        yield Check(name="requests", kind="regression", verdict="INCONCLUSIVE",
                    reason="one of both measurements is void: it says nothing")  # fmt: skip
        return
    yield from decide.compare(
        subject.sample, baseline.sample, ask.figures,
        tolerance=ask.tolerance, detect=ask.detect, level=LEVEL,
    )  # fmt: skip
    if subject.cost and baseline.cost and not _keeps_up(subject) and not _keeps_up(baseline):
        yield decide.compare_cost(
            subject.cost, baseline.cost, tolerance=ask.tolerance, detect=ask.detect
        )


def _keeps_up(subject: Subject) -> bool:
    """Its throughput is the load's, not the server's; of another tool's load nobody knows."""
    limited = any(observed.trial.load_limited for observed in subject.trials)
    return limited or subject.imported is not None


def _notes(subject: Subject, baseline: Subject | None) -> Iterator[str]:
    for one in filter(None, (subject, baseline)):
        if one.imported is not None:
            yield from (f"{one.side.source}: {fault}" for fault in one.imported.faults)
        for observed in one.trials:
            yield from (f"{one.side.source}: {note}" for note in observed.trial.notes)
    sides = [one.sample.schedule for one in (subject, baseline) if one and one.sample]
    if len(sides) == 2 and sides[0] and sides[0] == sides[1]:
        yield "both were sent the same requests at the same times: they are compared in pairs"


def _left_out(
    ask: GateAsk, baseline: Subject | None, checks: Sequence[Check]
) -> Iterator[str]:
    if baseline is None or baseline.sample is None:
        return
    names = {check.name for check in checks if check.kind == "regression"}
    if {"failed"} & names and (missing := [f for f in ask.figures if f not in names]):
        yield f"too few requests to compare {', '.join(missing)}: nothing is said of it"


def run(args: argparse.Namespace, note: Say) -> Gate:
    """From the command line: a server is measured first, as `neoserve bench` does."""
    subject, url = args.subject, ""
    price = None if args.price is None and not args.on else _price(args)
    if subject.startswith(("http://", "https://")):
        url, subject = subject, _measure(args, note)
    return gate(GateAsk(
        subject=subject, url=url, baseline=args.baseline, slo=args.slo,
        max_usd_per_mtok=args.max_usd_per_mtok, usd_per_hour=price, tolerance=args.tolerance,
        detect=args.detect, figures=tuple(args.compare), allow=_allowed(args.allow),
        sure=args.sure, trial=args.trial,
    ))  # fmt: skip


def _price(args: argparse.Namespace) -> float | None:
    from .bench_ask import price_of

    return price_of(args)[0]


def _allowed(words: Sequence[str]) -> tuple[Allowed, ...]:
    for word in words:
        if word not in _ADVICE:
            raise AskError(f"--allow {word!r} is none of {', '.join(_ADVICE)}")
    return tuple(words)  # type: ignore[arg-type]


def _measure(args: argparse.Namespace, note: Say) -> str:
    """The run folder of a fresh measurement; compared loads are measured to their end."""
    from .bench import bench
    from .bench_ask import bench_ask

    if args.baseline and not Path(args.baseline).exists():
        raise AskError(f"--baseline {args.baseline} is no file; nothing was measured")
    words = vars(args) | {
        "target": args.subject, "engine": "", "engine_args": (), "env": None, "plot": "",
        "find_max_rate": False, "ready_timeout": None, "full": args.full or bool(args.baseline),
    }  # fmt: skip
    return bench(bench_ask(argparse.Namespace(**words)), note).run
