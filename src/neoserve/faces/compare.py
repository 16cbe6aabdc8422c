"""`neoserve compare`: one model and load on several machines, each at its best; or beside what was
measured and published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..errors import AskError
from ..predict.cost import hourly_usd, price_basis
from ..predict.gain import joint
from ..schema.answers import HardwareComparison, Side
from ..schema.ask import PlanAsk, PredictAsk
from ..schema.comparison import ComparedSide, Comparison
from ..schema.prediction import Plan
from ..schema.view import per_mtok_output
from ..tune.side_by_side import gains, unlike
from ..units import show_duration, show_usd, significant
from .ask import answer_plan, machine_of, trace_of, with_means
from .beside import Column, judged, predicted, read_columns
from .money import MAX_MACHINES, with_length
from .tables import table

MAX_SIDES = 64


class CompareAsk(msgspec.Struct, frozen=True, kw_only=True):
    """Predictions by the name of their side, and paths of what stands beside them."""

    predictions: dict[str, PredictAsk] = {}
    beside: tuple[str, ...] = ()
    baseline: str = ""  # "": the first side
    catalog: str = ""
    online: bool = True


def compare_sides(ask: CompareAsk) -> Comparison:
    """Everything under the terms of the predictions that were asked for, else of the baseline.

    Raises Error; AskError where nothing can be held against the baseline.
    """
    columns = [predicted(with_length(one), name) for name, one in ask.predictions.items()]
    asked = columns[0].side.terms if columns else None
    for path in ask.beside:
        columns += read_columns(path, ask.catalog, ask.online)
    columns = _named(columns)
    if not 2 <= len(columns) <= MAX_SIDES:
        raise AskError(f"{len(columns)} sides; a comparison takes 2 to {MAX_SIDES}: name machines "
                       "with --on and more with --beside")  # fmt: skip
    base = _baseline(columns, ask.baseline)
    asked = asked or judged(columns[base], None).side.terms
    columns = [judged(column, asked) for column in columns]
    why = [unlike(column.side.terms, asked) for column in columns]
    if why[base]:
        raise AskError(
            f"the baseline {columns[base].side.name} cannot be held against what was asked: "
            f"{why[base]} Ask for its terms, or name another with --baseline"
        )
    alike = [c for c, reason in zip(columns, why, strict=True) if not reason]
    apart = [c.side.replace(reason=reason) for c, reason in zip(columns, why, strict=True)
             if reason]  # fmt: skip
    if len(alike) < 2:
        told = "; ".join(f"{side.name}: {side.reason}" for side in apart)
        raise AskError(f"nothing can be held against {columns[base].side.name}: {told}")
    sides = tuple(_gained(column, columns[base]) for column in alike)
    name = columns[base].side.name
    return Comparison(
        terms=asked, baseline=name, sides=sides, apart=tuple(apart),
        notes=tuple(_notes(sides)), summary=_told_sides(sides, name),
    )  # fmt: skip


def _named(columns: Sequence[Column]) -> list[Column]:
    """Names that are taken get their source behind them."""
    found: list[Column] = []
    for column in columns:
        name, side = column.side.name, column.side
        taken = {one.side.name for one in found}
        if name in taken:
            name = f"{name} ({side.source})"
        number = 2
        while name in taken:
            name, number = f"{side.name} ({number})", number + 1
        found.append(column._replace(side=side.replace(name=name)))
    return found


def _baseline(columns: Sequence[Column], name: str) -> int:
    names = [column.side.name for column in columns]
    if not name:
        return 0
    if name not in names:
        raise AskError(f"--baseline {name!r} is none of the sides: {', '.join(names)}")
    return names.index(name)


def _gained(column: Column, base: Column) -> ComparedSide:
    if column is base:
        return column.side
    both = joint(column.rate, base.rate) if column.rate and base.rate else None
    found = gains(column.side, base.side, both)
    return column.side.replace(
        gain=found.of_rate, gain_per_usd=found.per_usd, gain_basis=found.basis
    )


def _notes(sides: Sequence[ComparedSide]) -> Iterator[str]:
    for side in sides:
        if side.gain is not None and side.gain.ratio is None:
            yield f"{side.name}: no gain, {side.gain.reason}"
    by_basis: dict[str, list[str]] = {}
    for side in sides:
        if side.gain_basis:
            by_basis.setdefault(side.gain_basis, []).append(side.name)
    for basis, names in by_basis.items():
        yield f"interval of the gain of {', '.join(names)}: {basis}"


def _told_sides(sides: Sequence[ComparedSide], baseline: str) -> str:
    """The most tokens for a dollar of each basis, and what is proven beside the baseline."""
    said = []
    for basis in dict.fromkeys(side.basis for side in sides):
        priced = [(side.output_tokens_per_usd.value, side.name) for side in sides
                  if side.basis == basis and side.standing == "capacity"
                  and side.output_tokens_per_usd]  # fmt: skip
        if priced:
            value, name = max(priced)
            said.append(f"Most output tokens a dollar ({basis}): {name}, {value:,.0f}.")
    beyond = [side.name for side in sides if side.gain is not None and side.gain.is_proven]
    said.append(
        f"Faster than {baseline} with the whole interval: {', '.join(beyond) or 'none'}."
    )
    return " ".join(said)


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
