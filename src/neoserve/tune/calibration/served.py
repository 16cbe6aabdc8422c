"""Calibrate by serving: measure the load that tells most, fit, look again, until time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import AskError
from ...measure.figures import Observed
from ...schema.workload import Workload
from ...stats.linear import Matrix
from ...units import show_duration
from .design import Load, gain, next_load
from .fit import STRUCTURE_LOG_SD, Figure, Posterior, fit, jacobian
from .loads import EXPECTED_LOG_SD, candidates, cost_s, figures, num_requests
from .subject import METRICS, Subject

Measure = Callable[[Workload, int], Observed]  # a load of so many requests
Say = Callable[[str], None]

_ENOUGH_NATS = 0.15  # a load that tells less is not worth its time
_LEAST_SLOPE = 1e-3  # of a figure's logarithm, by a coefficient's
_FIRST = 2  # loads, before each number in flight has to be among them
_REPEATS = 2  # of one load, for the noise between loads that differ in nothing
_SEED_STEP = 101
# Other programs that use a core for as long as a load takes may halve its speed, or do nothing.
_COMPANY_CORES, _COMPANY_LOG_SD = 0.1, 0.3
_IDLE_LOG = 0.03  # between an answer and the next request
_VOIDS = 3  # in a row, after which the host is too busy


class Seen(NamedTuple):
    """One load that was measured."""

    subject: int  # index
    workload: Workload
    observed: Observed
    figures: dict[str, Figure]
    gain_nats: float


class Known(NamedTuple):
    """All loads so far, and what they say."""

    names: tuple[str, ...]  # of the coefficients that are corrected
    prior_log_sd: tuple[float, ...]
    seen: tuple[Seen, ...] = ()
    posterior: Posterior | None = None

    @property
    def log_factors(self) -> tuple[float, ...]:
        """Where the fit is now."""
        return self.posterior.mean if self.posterior else (0.0,) * len(self.names)

    @property
    def factors(self) -> dict[str, float]:
        """By coefficient."""
        return dict(zip(self.names, map(math.exp, self.log_factors), strict=True))

    @property
    def covariance(self) -> Matrix:
        """Of the log factors."""
        if self.posterior is not None:
            return self.posterior.covariance
        return [
            [sd * sd if i == j else 0.0 for j in range(len(self.names))]
            for i, sd in enumerate(self.prior_log_sd)
        ]


def known_at_first(
    subject: Subject, names: Sequence[str], prior_log_sd: Sequence[float]
) -> Known:
    """Nothing measured yet. Coefficients that no load of this model depends on are left out."""
    known = Known(tuple(names), tuple(prior_log_sd))
    rows = [row for w in _corners(subject) for row in expected(subject, w, known).rows]
    kept = [
        i for i, name in enumerate(names)
        if "." in name or any(abs(row[i]) > _LEAST_SLOPE for row in rows)
    ]  # fmt: skip
    return Known(tuple(names[i] for i in kept), tuple(prior_log_sd[i] for i in kept))


def _corners(subject: Subject) -> list[Workload]:
    every = _all_loads(subject)
    by_size = sorted(every, key=lambda w: (w.prompt_tokens * w.concurrency, w.output_tokens))
    return [by_size[0], by_size[len(by_size) // 2], by_size[-1], every[0], every[-1]]


def _all_loads(subject: Subject) -> list[Workload]:
    deployment = subject.deployment
    return candidates(deployment.max_model_len or 2048, deployment.max_num_seqs or 64)


def refit(known: Known, subjects: Sequence[Subject]) -> Known:
    """The posterior of all loads that were measured."""
    told = [figure for seen in known.seen for figure in seen.figures.values()]

    def model(log_factors: Sequence[float]) -> list[float]:
        factors = dict(zip(known.names, map(math.exp, log_factors), strict=True))
        return [
            value
            for seen in known.seen
            for value in _logs(subjects[seen.subject], seen.workload, factors, tuple(seen.figures))
        ]

    posterior = fit(model, told, known.prior_log_sd, known.log_factors)
    return known._replace(posterior=posterior)


def calibrate(
    subjects: Sequence[Subject],
    index: int,
    measure: Measure,
    known: Known,
    budget_s: float,
    say: Say,
    clock: Callable[[], float] = time.monotonic,
) -> Known:
    """Measure loads of one subject for about `budget_s`. The last ones repeat the first.

    Raises AskError where no load can be measured in that time.
    """
    subject, until_s = subjects[index], clock() + budget_s
    rest = _all_loads(subject)
    voids = 0
    while rest and voids < _VOIDS:
        left_s = until_s - clock()
        short = [w for w in rest if cost_s(w, subject.seconds(w, known.factors)) <= left_s]
        short = uncovered(short, [seen.workload for seen in known.seen if seen.subject == index])
        loads = [expected(subject, w, known) for w in short]
        chosen = next_load(known.covariance, loads, left_s, _ENOUGH_NATS)
        if chosen is None:
            break
        workload, nats = short[chosen], gain(known.covariance, loads[chosen])
        rest.remove(workload)
        seeded = workload.replace(seed=1 + len(known.seen))
        seen = _measure(measure, index, seeded, nats, say)
        voids = voids + 1 if seen is None else 0
        if seen is not None:
            known = refit(known._replace(seen=(*known.seen, seen)), subjects)
            say(f"  {_told(seen)}; {show_duration(max(0.0, until_s - clock()))} left")
    if not any(seen.subject == index for seen in known.seen):
        raise AskError(
            f"no load of {subject.model.id} could be measured in {show_duration(budget_s)}: "
            "give --budget more, or a host that is less busy"
        )
    return known


def uncovered(loads: Sequence[Workload], measured: Sequence[Workload]) -> list[Workload]:
    """Those with a number in flight that no load had yet, once two have been measured; all where
    one, some and many were. What a formula gets wrong shows at numbers that it was not fitted to.
    """
    levels = sorted({w.concurrency for w in loads})
    seen = {w.concurrency for w in measured}
    if len(measured) < _FIRST or not levels:
        return list(loads)
    wanted = {levels[0], levels[len(levels) // 2], levels[-1]} - seen
    return [w for w in loads if w.concurrency in wanted] or list(loads)


def repeat(
    subjects: Sequence[Subject], index: int, measure: Measure, known: Known, say: Say
) -> Known:
    """Measure a load of this subject again, on other requests: the noise floor."""
    ours = [seen for seen in known.seen if seen.subject == index and "tpot_s" in seen.figures]
    if not ours:
        return known
    subject = subjects[index]
    factors = known.factors
    quickest = min(ours, key=lambda s: cost_s(s.workload, subject.seconds(s.workload, factors)))
    for number in range(1, _REPEATS + 1):
        workload = quickest.workload.replace(seed=quickest.workload.seed + number * _SEED_STEP)
        seen = _measure(measure, index, workload, 0.0, say)
        if seen is not None:
            known = known._replace(seen=(*known.seen, seen))
            say(f"  again: {_told(seen)}")
    return refit(known, subjects)


def expected(subject: Subject, workload: Workload, known: Known) -> Load:
    """What a load would tell, by the planner as it is corrected so far."""

    def model(log_factors: Sequence[float]) -> list[float]:
        factors = dict(zip(known.names, map(math.exp, log_factors), strict=True))
        return _logs(subject, workload, factors, metrics)

    seconds = subject.seconds(workload, known.factors)
    metrics = tuple(name for name in METRICS if name in seconds)
    _, rows = jacobian(model, known.log_factors, both_sides=False)
    sd = math.hypot(STRUCTURE_LOG_SD, EXPECTED_LOG_SD)
    return Load(tuple(map(tuple, rows)), (sd,) * len(rows), cost_s(workload, seconds))


def _logs(
    subject: Subject, workload: Workload, factors: dict[str, float], metrics: Sequence[str]
) -> list[float]:
    seconds = subject.seconds(workload, factors, num_requests(workload))
    return [math.log(max(seconds.get(name, 0.0), 1e-9)) for name in metrics]


def _measure(
    measure: Measure, index: int, workload: Workload, nats: float, say: Say
) -> Seen | None:
    """None where it was not as asked; it is in the ledger with its reason."""
    observed = measure(workload, num_requests(workload))
    trial = observed.trial
    if trial.verdict == "VOID":
        say(f"  left out, {_load(workload)}: {'; '.join(trial.reasons) or 'void'}")
        return None
    more = company_log_sd(observed)
    found = {
        name: figure._replace(log_sd=math.hypot(figure.log_sd, more))
        for name, figure in figures(workload, observed.rows).items()
    }
    if not found:
        say(f"  left out, {_load(workload)}: too few answers")
        return None
    return Seen(index, workload, observed, found, nats)


def company_log_sd(observed: Observed) -> float:
    """What other programs may have done to the figures of a closed load.

    By the cores that they used meanwhile; by no more than the engine lacked of its own, where its
    threads are all that it computes with: in a closed load they have work all the time.
    """
    trial = observed.trial
    by_others = _COMPANY_LOG_SD * max(0.0, (trial.client.others_cores or 0.0) - _COMPANY_CORES)
    facts, spent_s = trial.facts, trial.client.engine_cpu_s
    ends_s = [row.last_token_s for row in observed.rows if row.last_token_s is not None]
    if facts is None or facts.threads is None or len(facts.processes) != 1 or not spent_s:
        return by_others
    if not ends_s:
        return by_others
    busy_share = spent_s / (facts.threads * max(ends_s))
    return min(by_others, max(0.0, -math.log(min(1.0, busy_share)) - _IDLE_LOG))


def _load(workload: Workload) -> str:
    return (f"{workload.concurrency} in flight, {workload.prompt_tokens} + "
            f"{workload.output_tokens} tokens")  # fmt: skip


def _told(seen: Seen) -> str:
    parts = [
        f"{name.removesuffix('_s').upper()} {show_duration(math.exp(figure.log_value))}"
        for name, figure in seen.figures.items()
    ]
    return f"{_load(seen.workload)}: {', '.join(parts)}"
