"""`neoserve compare`: one model and load on several machines, each at its best."""

from __future__ import annotations

from ..errors import AskError
from ..predict.cost import hourly_usd, price_basis
from ..schema.answers import HardwareComparison, Side
from ..schema.ask import PlanAsk
from ..schema.prediction import Plan
from ..schema.view import per_mtok_output
from ..units import show_duration, show_usd, significant
from .ask import answer_plan, machine_of, trace_of, with_means
from .money import MAX_MACHINES
from .tables import table


def compare_hardware(ask: PlanAsk) -> HardwareComparison:
    """The first-ranked candidate of each machine alone. Raises AskError."""
    if not 1 <= len(ask.on) <= MAX_MACHINES:
        raise AskError(f"{len(ask.on)} machines; expected 1 to {MAX_MACHINES} in --on")
    ask = ask.replace(workload=with_means(ask.workload, trace_of(ask.workload)))
    plans = [answer_plan(ask.replace(on=(name,), keep=1)) for name in ask.on]
    sides = tuple(_side(ask, name, plan) for name, plan in zip(ask.on, plans, strict=True))
    best = _best(sides, plans)
    return HardwareComparison(
        model=plans[0].model,
        workload=ask.workload,
        slo=ask.slo,
        sides=sides,
        best=best,
        summary=_summary(sides, best),
    )


def _side(ask: PlanAsk, name: str, plan: Plan) -> Side:
    machine = machine_of(name, ask)
    price = machine.price
    side = Side(
        hardware=machine.id,
        kind=machine.hardware.kind,
        memory_bytes=machine.hardware.memory_bytes,
        bandwidth_bytes_per_s=machine.hardware.bandwidth_bytes_per_s,
        usd_per_hour=hourly_usd(price, 1, machine.priced_devices) if price else None,
        price_basis=price_basis(price) if price else "",
    )
    found = plan.best or next(iter(plan.candidates), None)
    if found is None:
        refused = plan.rejected[0].reason if plan.rejected else plan.summary
        return side.replace(reason=f"nothing that was tried would start: {refused}")
    return side.replace(
        deployment=found.deployment,
        latency=found.latency,
        throughput=found.throughput,
        cost=found.cost,
        fleet=found.fleet,
        interval=found.interval,
        bound=found.bound,
        meets_slo=found.meets_slo,
        slo_share=found.slo_share,
        command=found.command,
        reason="the best that was tried misses the SLO" if found.meets_slo is False else "",
    )


def _best(sides: tuple[Side, ...], plans: list[Plan]) -> int | None:
    """Cheapest, or without any price the fewest device-seconds a token."""
    kept = {i: plan.best for i, plan in enumerate(plans) if plan.best is not None}
    priced = [i for i in kept if sides[i].cost is not None]
    return min(priced or kept, key=lambda i: per_mtok_output(kept[i]), default=None)


def _summary(sides: tuple[Side, ...], best: int | None) -> str:
    told = "; ".join(f"{side.hardware} {_told(side)}" for side in sides)
    if best is None:
        return f"None of these keeps the SLO: {told}."
    most = "Fewest device-seconds a token" if sides[best].cost is None else "Cheapest"
    return f"{most} within what was asked (predicted): {sides[best].hardware}. {told}."


def _told(side: Side) -> str:
    if side.reason:
        return f"is out: {side.reason}"
    if side.cost is not None:
        return f"{show_usd(side.cost.usd_per_mtok_output)} per million output tokens"
    rate = side.throughput.output_tokens_per_s if side.throughput else 0.0
    return f"{significant(rate)} output tokens/s, no price known"


def show_comparison(found: HardwareComparison) -> str:
    """The sides as a table, and the sentence."""
    rows = [
        [f"{'*' if i == found.best else ''}{s.hardware}",
         f"{s.bandwidth_bytes_per_s / 1e9:,.0f}", _setting(s), _time(s, "ttft_s"),
         _time(s, "tpot_s"),
         significant(s.throughput.output_tokens_per_s) if s.throughput else "-",
         show_usd(s.cost.usd_per_mtok_output) if s.cost else "-", s.bound,
         "" if s.meets_slo is None else "meets" if s.meets_slo else "misses"]
        for i, s in enumerate(found.sides)
    ]  # fmt: skip
    header = ["hardware", "GB/s", "at its best", "TTFT", "TPOT", "out tok/s", "$/Mtok out",
              "limit", "SLO"]  # fmt: skip
    text = table(header, rows, [False, True, False, True, True, True, True, False, False])
    return f"{text}\n\n{found.summary}"


def _setting(side: Side) -> str:
    d = side.deployment
    if d is None:
        return "-"
    weights = "as is" if d.weight_quant == "checkpoint" else d.weight_quant
    return f"TP{d.tensor_parallel} {weights}, KV {d.kv_cache_dtype}"


def _time(side: Side, name: str) -> str:
    return "-" if side.latency is None else show_duration(getattr(side.latency, name).mean)
