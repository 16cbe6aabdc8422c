"""`neoserve cost`: what a month costs at a volume, on machines or by a measured run."""

from __future__ import annotations

from collections.abc import Sequence

from ..catalog.models import find_model
from ..errors import AskError
from ..predict.cost import HOURS_PER_MONTH, fleet_for, volume_rps
from ..recipe.served import served
from ..schema.answers import CostProjection, MonthlyChoice
from ..schema.ask import PredictAsk
from ..schema.campaign import Recommendation
from ..schema.prediction import Fleet, Prediction
from ..units import show_count, show_usd
from .ask import answer_predict, check_volume, length_of, trace_of, with_means
from .tables import table

MAX_MACHINES = 16
_SECONDS_PER_MONTH = 3600 * HOURS_PER_MONTH


def project_cost(asks: Sequence[PredictAsk], against: float | None = None) -> CostProjection:
    """One configuration on each machine, predicted. Raises AskError."""
    _check_against(against)
    if not 1 <= len(asks) <= MAX_MACHINES:
        raise AskError(f"{len(asks)} machines; expected 1 to {MAX_MACHINES} in --on")
    first = asks[0]
    volume = first.output_tokens_per_month
    if volume is None:
        raise AskError("no volume was given: say --output-tokens-per-month, for example 5e9")
    workload = with_means(first.workload, trace_of(first.workload))
    asks = [with_length(ask.replace(workload=workload)) for ask in asks]
    answers = [answer_predict(ask) for ask in asks]
    choices = tuple(_choice(ask, found, volume, against)
                    for ask, found in zip(asks, answers, strict=True))  # fmt: skip
    notes = ["A month is 730 hours; replicas are rented for all of them."]
    if not first.slo:
        notes.append("No SLO was given, so replicas are loaded to saturation, where requests wait: "
                     "give --slo for a fleet that keeps one.")  # fmt: skip
    return _projection(
        CostProjection(
            basis="predicted", model=answers[0].model, workload=workload, slo=first.slo,
            output_tokens_per_month=volume, utilization_share=first.utilization_share,
            choices=choices, best=None, against_usd_per_mtok=against, notes=tuple(notes),
            summary="",
        )
    )  # fmt: skip


def with_length(ask: PredictAsk) -> PredictAsk:
    """A fleet has the context that its traffic needs, as a plan's has."""
    length = length_of(ask, find_model(ask.model, ask.online))
    return ask.replace(deployment=ask.deployment.replace(max_model_len=length))


def _check_against(against: float | None) -> None:
    if against is not None and not 0 < against <= 1e6:
        raise AskError(f"--against is {against:g}; expected dollars a million output tokens")


def _choice(
    ask: PredictAsk, found: Prediction, volume: float, against: float | None
) -> MonthlyChoice:
    base = MonthlyChoice(
        hardware=found.deployment.hardware or ask.on,
        basis="predicted",
        deployment=found.deployment,
        price_basis=found.cost.price_basis if found.cost else "",
        meets_slo=found.meets_slo,
    )
    if not found.starts:
        return base.replace(reason=f"it would not start: {found.refusal}")
    if found.fleet is None:
        return base.replace(reason="no rate keeps the SLO there: relax it, or choose another")
    reason = "" if found.cost else "no price is known for it: give --price"
    capacity = _tokens_per_month(found.fleet, ask)
    return _priced(base.replace(reason=reason), found.fleet, capacity, volume, against)


def _tokens_per_month(fleet: Fleet, ask: PredictAsk) -> float:
    """Output tokens that one replica can write in a month."""
    one = volume_rps(1.0, ask.workload.output_tokens, ask.utilization_share)
    return fleet.capacity_rps / fleet.replicas / one


def _priced(
    base: MonthlyChoice, fleet: Fleet, capacity: float, volume: float, against: float | None
) -> MonthlyChoice:
    monthly = fleet.usd_per_month
    found = base.replace(
        replicas=fleet.replicas,
        idle_share=fleet.idle_share,
        usd_per_hour=fleet.usd_per_hour,
        usd_per_month=monthly,
        capacity_output_tokens_per_month=capacity,
    )
    if monthly is None:
        return found
    one = monthly / fleet.replicas
    return found.replace(
        usd_per_mtok_output=monthly / volume * 1e6,
        usd_per_month_of_one=one,
        break_even_output_tokens_per_month=_break_even(one, capacity, against),
    )


def _break_even(usd_of_one: float, capacity: float, against: float | None) -> float | None:
    """From this volume on a replica costs less than as many tokens elsewhere; null: it cannot
    write so many."""
    if against is None:
        return None
    volume = usd_of_one / against * 1e6
    return volume if volume <= capacity else None


def measured_cost(
    run: str,
    found: Recommendation,
    volume: float,
    against: float | None = None,
    usd_per_hour: float | None = None,
) -> CostProjection:
    """A campaign's certified configuration; `usd_per_hour` replaces its price. Raises AskError."""
    _check_against(against)
    if usd_per_hour is not None:
        found = found.replace(usd_per_hour=usd_per_hour, price_source="given")
    check_volume(volume)
    base = MonthlyChoice(
        hardware=found.trial.host.cpu_model if found.trial else "",
        basis="measured",
        settings=found.pick.candidate.show(),
        run=run,
        price_basis=found.price_source,
    )
    rate = found.pick.capacity.certified_rps
    speed = found.trial.output_tokens_per_s if found.trial and rate is not None else None
    if not speed or rate is None:
        choice = base.replace(reason="no rate is certified in this run: nothing can be promised")
    else:
        choice = _certified(base, found, rate, speed, volume, against)
    return _projection(
        CostProjection(
            basis="measured", model=served(found.config).model, workload=found.workload,
            slo=found.slo.show(), output_tokens_per_month=volume, utilization_share=1.0,
            choices=(choice,), best=None, against_usd_per_mtok=against,
            notes=("Each replica holds the certified rate for itself, all hours of a month.",),
            summary="",
        )
    )  # fmt: skip


def _certified(
    base: MonthlyChoice, found: Recommendation, rate: float, speed: float, volume: float,
    against: float | None,
) -> MonthlyChoice:  # fmt: skip
    capacity, hourly = speed * _SECONDS_PER_MONTH, found.usd_per_hour
    fleet = fleet_for(rate * volume / capacity, rate, hourly)
    reason = "" if hourly is not None else "the run knows no price: tune with --price or --on"
    return _priced(
        base.replace(meets_slo=True, reason=reason), fleet, capacity, volume, against
    )


def _projection(found: CostProjection) -> CostProjection:
    """With its cheapest choice and a sentence."""
    priced = [(c.usd_per_month, i) for i, c in enumerate(found.choices)
              if c.usd_per_month is not None]  # fmt: skip
    best = min(priced)[1] if priced else None
    return found.replace(best=best, summary=_summary(found, best))


def _summary(found: CostProjection, best: int | None) -> str:
    volume = f"{show_count(found.output_tokens_per_month)} output tokens a month"
    if best is None:
        reasons = "; ".join(f"{c.hardware}: {c.reason}" for c in found.choices)
        return f"No price of {volume} is known: {reasons}."
    c = found.choices[best]
    assert c.usd_per_month is not None
    assert c.usd_per_mtok_output is not None
    what = f"{c.settings} on {c.hardware}" if c.run else c.hardware
    said = (
        f"{volume} cost {show_usd(c.usd_per_month)} a month ({found.basis}) with {c.replicas} x "
        f"{what}, {show_usd(c.usd_per_mtok_output)} per million; price {c.price_basis}."
    )
    if found.against_usd_per_mtok is None:
        return said
    elsewhere = found.against_usd_per_mtok * found.output_tokens_per_month / 1e6
    even = c.break_even_output_tokens_per_month
    more = "never cheaper" if even is None else f"cheaper from {show_count(even)} on"
    return f"{said} At {show_usd(found.against_usd_per_mtok)} per million elsewhere it is " \
           f"{show_usd(elsewhere)}: one replica is {more}."  # fmt: skip


def show_cost(found: CostProjection) -> str:
    """The choices as a table, and the sentence."""
    rows = [
        [f"{'*' if i == found.best else ''}{c.hardware}", c.basis,
         "-" if c.replicas is None else str(c.replicas),
         "-" if c.idle_share is None else f"{max(0.0, c.idle_share):.0%}",
         _usd(c.usd_per_month), _usd(c.usd_per_mtok_output),
         "-" if c.capacity_output_tokens_per_month is None
         else show_count(c.capacity_output_tokens_per_month), c.reason or c.price_basis]
        for i, c in enumerate(found.choices)
    ]  # fmt: skip
    header = ["hardware", "basis", "replicas", "idle", "a month", "$/Mtok out", "one holds",
              "price or reason"]  # fmt: skip
    text = table(header, rows, [False, False, True, True, True, True, True, False])
    return "\n".join([text, "", found.summary, *found.notes])


def _usd(value: float | None) -> str:
    return "-" if value is None else show_usd(value)
