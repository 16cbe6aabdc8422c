"""`neoserve fleet`: names to offers, the mix of each class, and the check of it by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ..catalog.hardware import all_instances, load_extra
from ..predict.cost import HOURS_PER_MONTH, cost_of
from ..predict.fleet import Line, Mix, Offer, Rules, cheapest
from ..predict.fleet_changes import changes
from ..schema.ask import PlanAsk, PredictAsk
from ..schema.engine import Deployment
from ..schema.fleet import (
    FleetAsk,
    FleetCheck,
    FleetKind,
    FleetMix,
    FleetOption,
    FleetPlan,
    FleetStep,
    FleetUse,
)
from ..schema.prediction import Plan
from ..schema.workload import Workload
from ..units import show_duration, show_usd
from .ask import answer_plan, answer_predict, machine_of
from .fleet_ask import Asked, asked, check_fleet

REPLICAS = 16  # for which a deployment is chosen: whole ones hardly decide, and one more is a help
CHECKED_REQUESTS = 1000
NO_KIND = "no kind can serve it"
CHECKS = 5  # times that a capacity which fails its check is lowered and the mix solved again

Note = Callable[[str], None]


def answer_fleet(ask: FleetAsk, folder: Path, note: Note = lambda _: None) -> FleetPlan:
    """The cheapest mix of every class. Files are named relative to `folder`. Raises AskError."""
    check_fleet(ask)
    classes = [asked(of, folder) for of in ask.classes]
    found, told = [], []
    for one in classes:
        note(f"{one.of.name}: {one.of.model}, {len(one.demand)} hours ...")
        mix, lines = _mix(ask, one)
        found.append(mix)
        told += [f"{one.of.name}: {line}" if len(classes) > 1 else line for line in lines]
    costs = [mix.usd_per_month for mix in found]
    total = None if None in costs else sum(usd for usd in costs if usd is not None)
    return FleetPlan(
        classes=tuple(found), usd_per_month=total, sensitivity=tuple(told),
        assumptions=_assumptions(ask), summary=_summary(found, total),
    )  # fmt: skip


def _mix(ask: FleetAsk, one: Asked) -> tuple[FleetMix, tuple[str, ...]]:
    """The mix of one class, and what would change it."""
    kinds = [kind for kind in ask.kinds if not one.of.on or kind.on in one.of.on]
    options = [_option(ask, one, kind) for kind in kinds]
    base = FleetMix(
        name=one.of.name, model=one.of.model, workload=one.workload, slo=one.of.slo,
        demand_rps=one.demand, options=tuple(options),
    )  # fmt: skip
    rules = Rules(one.of.spares, ask.spot_loss_share, ask.steps)
    demand = [rate * (1.0 + ask.headroom_share) for rate in one.demand]
    for tries in range(1, CHECKS + 1):
        offers = [_offer(ask, option) for option in options if not option.reason]
        if not offers:
            reasons = "; ".join(f"{option.on}: {option.reason}" for option in options)
            return base.replace(options=tuple(options), reason=f"{NO_KIND}: {reasons}"), ()
        mix = cheapest(offers, demand, rules)
        checks, lowered = _checked(ask, one, options, mix, rules)
        if not lowered or tries == CHECKS:  # a check that still fails is told
            break
        options = [lowered.get(option.on, option) for option in options]
    told = changes(offers, demand, rules, mix) if ask.sensitivity else ()
    answer = base.replace(options=tuple(options), checks=tuple(checks))
    return _priced(answer, mix, one, rules, offers), told


def _option(ask: FleetAsk, one: Asked, kind: FleetKind) -> FleetOption:
    """What one replica of a kind carries, by simulation, in its cheapest deployment."""
    request = PlanAsk(
        model=one.of.model, on=(kind.on,), deployment=Deployment(engine=ask.engine),
        workload=one.workload.replace(rate_rps=max(one.demand)), slo=one.of.slo,
        rate_rps=max(one.demand), weight_quant=one.of.weight_quant,
        kv_cache_dtype=one.of.kv_cache_dtype, usd_per_hour=kind.usd_per_hour,
        catalog=ask.catalog, online=ask.online, keep=1, simulate=False,
    )  # fmt: skip
    plan = answer_plan(request)
    if plan.best is not None and plan.best.fleet is not None:
        each = plan.best.fleet.capacity_rps / plan.best.fleet.replicas
        # not a whole number of them: at its very limit rounding says whether a replica keeps it
        rate_rps = (REPLICAS - 0.5) * each
        plan = answer_plan(request.replace(rate_rps=rate_rps, simulate=True))
    best, base = plan.best, FleetOption(on=kind.on)
    if best is None or best.fleet is None or best.throughput is None:
        return base.replace(reason=_refusal(request, plan))
    num = best.fleet.replicas
    deployment = best.deployment.replace(replicas=best.deployment.replicas // num)
    option = base.replace(
        deployment=deployment, capacity_rps=(best.throughput.max_rate_rps or 0.0) / num,
        start_up_s=ask.start_up_s if kind.start_up_s is None else kind.start_up_s,
        command=best.command,
    )  # fmt: skip
    if best.cost is None:
        return option.replace(reason="no price is known for it: give usd_per_hour")
    usd = best.cost.usd_per_hour / num
    reserved, spot = _other_prices(ask, kind)
    unit = _unit_usd(request, kind)
    return option.replace(
        usd_per_hour=usd, price_basis=best.cost.price_basis,
        reserved_usd_per_hour=_of_replica(reserved, usd, unit),
        spot_usd_per_hour=_of_replica(spot, usd, unit) if one.of.interruptible else None,
        usd_per_mtok_output_full=_per_mtok(usd, option.capacity_rps or 0.0, one.workload),
    )  # fmt: skip


def _unit_usd(request: PlanAsk, kind: FleetKind) -> float:
    """The price on demand of the thing that a kind names."""
    machine = machine_of(kind.on, request)
    assert machine.price is not None
    each = machine.priced_devices if machine.id == machine.hardware.id else 1
    return machine.price.usd_per_hour / each


def _of_replica(usd: float | None, on_demand: float, unit: float) -> float | None:
    """A replica may rent several of the thing that is priced."""
    if usd is None or not unit:
        return usd
    return on_demand * usd / unit


def _other_prices(ask: FleetAsk, kind: FleetKind) -> tuple[float | None, float | None]:
    """(reserved, spot): as given, else the catalog's for an instance of that name."""
    extra = load_extra(Path(ask.catalog)) if ask.catalog else None
    listed = {
        price.kind: price.usd_per_hour
        for instance in all_instances(extra) if instance.id == kind.on.lower()
        for price in instance.prices
    }  # fmt: skip
    reserved, spot = kind.reserved_usd_per_hour, kind.spot_usd_per_hour
    return (listed.get("reserved") if reserved is None else reserved,
            listed.get("spot") if spot is None else spot)  # fmt: skip


def _refusal(request: PlanAsk, plan: Plan) -> str:
    """Why a kind cannot serve a class: it does not start, or a lone request is too slow already."""
    if not plan.candidates:
        return plan.rejected[0].reason if plan.rejected else "nothing starts there"
    d = plan.candidates[0].deployment
    alone = answer_predict(PredictAsk(
        model=request.model, on=request.on[0], deployment=d.replace(replicas=1), slo=request.slo,
        workload=request.workload.replace(arrival="closed", concurrency=1),
        catalog=request.catalog, online=request.online, simulate=False,
    ))  # fmt: skip
    if alone.latency is None:
        return f"no rate keeps {request.slo}"
    ttft_s, tpot_s = alone.latency.ttft_s.mean, alone.latency.tpot_s.mean
    return (
        f"no rate keeps {request.slo}: a request alone has a TTFT of {show_duration(ttft_s)} and "
        f"a TPOT of {show_duration(tpot_s)}"
    )


def _offer(ask: FleetAsk, option: FleetOption) -> Offer:
    billed_s = -(-option.start_up_s // ask.billing_s) * ask.billing_s
    return Offer(
        option.on, option.capacity_rps or 0.0, option.usd_per_hour,
        option.reserved_usd_per_hour, option.spot_usd_per_hour, billed_s / 3600.0,
    )  # fmt: skip


def counted_rps(mix: Mix, level: int, rules: Rules) -> float:
    """Capacity at a level with the spares missing and spot reclaimed."""
    total = sum(
        line.replicas[level] * line.offer.capacity_rps
        * (1.0 - rules.spot_loss_share if line.purchase == "spot" else 1.0)
        for line in mix.lines
    )  # fmt: skip
    return total - rules.spares * max(line.offer.capacity_rps for line in mix.lines)


def _checked(
    ask: FleetAsk, one: Asked, options: Sequence[FleetOption], mix: Mix, rules: Rules
) -> tuple[list[FleetCheck], dict[str, FleetOption]]:
    """Every kind at the peak, simulated on another schedule; and those that fail, lowered."""
    share = min(1.0, mix.levels[-1] / counted_rps(mix, -1, rules))
    checks, lowered = [], {}
    used = {line.offer.name for line in mix.lines if line.replicas[-1]}
    for option in options:
        if option.on not in used or option.deployment is None or option.capacity_rps is None:
            continue
        rate, d = option.capacity_rps * share, option.deployment
        workload = one.workload.replace(rate_rps=rate, seed=one.workload.seed + 1)
        told = answer_predict(PredictAsk(
            model=one.of.model, on=option.on, deployment=d, workload=workload, slo=one.of.slo,
            catalog=ask.catalog, online=ask.online, simulate=True, num_requests=CHECKED_REQUESTS,
        ))  # fmt: skip
        latency, rates = told.latency, told.throughput
        checks.append(FleetCheck(
            on=option.on, rate_rps=rate, meets_slo=told.meets_slo,
            ttft_p95_s=latency.ttft_s.p95 if latency else None,
            tpot_p95_s=latency.tpot_s.p95 if latency else None,
        ))  # fmt: skip
        if told.meets_slo is False:
            most = (rates.max_rate_rps if rates else None) or 0.0
            capacity = min(most, 0.98 * rate)
            usd = option.usd_per_hour or 0.0
            lowered[option.on] = option.replace(
                capacity_rps=capacity,
                usd_per_mtok_output_full=_per_mtok(usd, capacity, one.workload),
                reason="" if capacity > 0.0 else f"no rate keeps {one.of.slo} on a second schedule",
            )
    return checks, lowered


def _per_mtok(usd_per_hour: float, rate_rps: float, workload: Workload) -> float:
    tokens = rate_rps * workload.turns
    return cost_of(
        usd_per_hour, "", tokens * workload.output_tokens, tokens * workload.prompt_tokens
    ).usd_per_mtok_output


def _priced(
    base: FleetMix, mix: Mix, one: Asked, rules: Rules, offers: Sequence[Offer]
) -> FleetMix:
    """The documents of a mix."""
    months = HOURS_PER_MONTH / len(one.demand)
    on_demand = [offer._replace(reserved_usd=None, spot_usd=None) for offer in offers]
    fixed = cheapest(on_demand, [mix.levels[-1]], rules)
    able = sum(line.offer.capacity_rps * mix.replica_hours(line) for line in mix.lines)
    hours = len(one.demand)
    return base.replace(
        uses=tuple(_use(mix, line, months) for line in mix.lines),
        steps=tuple(
            FleetStep(
                up_to_rps=rate, hours=mix.hours[level],
                replicas=tuple(line.replicas[level] for line in mix.lines),
                capacity_rps=max(0.0, counted_rps(mix, level, rules)),
            )
            for level, rate in enumerate(mix.levels)
        ),
        usd_per_month=mix.usd * months,
        usd_per_month_least=mix.usd_least * months,
        usd_per_month_fixed=fixed.usd * HOURS_PER_MONTH,
        utilization_share=sum(one.demand) / able,
        usd_per_mtok_output=_per_mtok(mix.usd / hours, sum(one.demand) / hours, one.workload),
        usd_per_mtok_output_full=_per_mtok(mix.usd / hours, able / hours, one.workload),
    )  # fmt: skip


def _use(mix: Mix, line: Line, months: float) -> FleetUse:
    hours, start_hours = mix.replica_hours(line), mix.start_hours(line)
    return FleetUse(
        on=line.offer.name, purchase=line.purchase, least=min(line.replicas),
        most=max(line.replicas), replica_hours=hours, start_hours=start_hours,
        usd_per_hour=line.usd, usd_per_month=line.usd * (hours + start_hours) * months,
    )  # fmt: skip


def _assumptions(ask: FleetAsk) -> tuple[str, ...]:
    start, loss = show_duration(ask.start_up_s), ask.spot_loss_share
    return (
        "requests of an hour are Poisson at its mean rate and are dealt to replicas by chance, in "
        "proportion to what each carries: so each replica sees Poisson arrivals of its own",
        "the curve repeats and is known ahead: a replica is ordered its start-up before the hour "
        f"that needs it ({start} unless a kind says otherwise) and is paid from then on",
        "the SLO is kept with the spares of a class missing: as many replicas as large as the "
        "largest in its mix",
        f"{loss:.0%} of the spot replicas are counted as gone at any time; a larger wave of "
        "reclaims is not covered",
        "a replica runs one class; as demand rises replicas are added, none is exchanged",
        "reserved is paid for all hours; a month is 730 hours",
        *((f"capacity is kept {ask.headroom_share:.0%} above each hour's mean",)
          if ask.headroom_share else ("demand within an hour is its mean: give headroom_share for "
                                      "what it rises to",)),
    )  # fmt: skip


def _summary(found: Sequence[FleetMix], total: float | None) -> str:
    refused = [mix for mix in found if mix.reason]
    if refused:
        return " ".join(f"{mix.name} has no fleet: {mix.reason}." for mix in refused)
    fixed = sum(mix.usd_per_month_fixed or 0.0 for mix in found)
    tokens = [(mix.usd_per_month or 0.0) / (mix.usd_per_mtok_output or 1.0) for mix in found]
    idle = [t * (mix.usd_per_mtok_output_full or 0.0) for t, mix in zip(tokens, found, strict=True)]
    assert total is not None
    return (
        f"The cheapest mix costs {show_usd(total)} a month; the fleet of the peak, on demand and "
        f"never scaled, {show_usd(fixed)}. A million output tokens cost "
        f"{show_usd(total / sum(tokens))} at this use; the same replicas always at capacity would "
        f"give them for {show_usd(sum(idle) / sum(tokens))}: idle hours and spares are paid whole."
    )
