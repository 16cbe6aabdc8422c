"""`neoserve fleet`: a fleet from a TOML file or from options, and its answer as text."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..errors import AskError
from ..schema.fleet import FleetMix, FleetPlan
from ..schema.workload import Slo
from ..units import show_count, show_duration, show_usd, significant
from .fleet import answer_fleet
from .fleet_ask import fleet_ask, read_fleet
from .tables import table, wrap

OF_MODEL = ("on", "demand", "slo")  # options that a file says itself


def fleet(args: argparse.Namespace, note: Callable[[str], None]) -> FleetPlan:
    """Raises AskError."""
    if args.what.endswith(".toml"):
        given = next((name for name in OF_MODEL if getattr(args, name)), None)
        if given:
            raise AskError(f"{args.what} says it all: leave --{given} out, or give a MODEL")
        path = Path(args.what)
        ask = read_fleet(path)
        ask = ask.replace(sensitivity=ask.sensitivity and args.sensitivity,
                          online=ask.online and not args.offline)  # fmt: skip
        return answer_fleet(ask, path.parent, note)
    missing = next((name for name in OF_MODEL if not getattr(args, name)), None)
    if missing:
        raise AskError(f"--{missing} is missing: a fleet of one model needs --on, --demand and "
                       "--slo; several models are a TOML file")  # fmt: skip
    return answer_fleet(fleet_ask(args), Path(), note)


def show_fleet(found: FleetPlan) -> str:
    """Each class, what would change it, what is assumed, and a sentence."""
    blocks = [_class(mix) for mix in found.classes]
    if found.sensitivity:
        blocks.append("\n".join(["What would change it", *map(wrap, found.sensitivity)]))
    blocks.append("\n".join(["Assumed", *map(wrap, found.assumptions)]))
    blocks.append(wrap(found.summary, ""))
    return "\n\n".join(blocks)


def _class(mix: FleetMix) -> str:
    rates, w = mix.demand_rps, mix.workload
    head = (
        f"{mix.name}: {mix.model}, {w.prompt_tokens:,} tokens in and {w.output_tokens:,} out, "
        f"{Slo.parse_text(mix.slo).show()}; {len(rates)} hours, mean "
        f"{significant(sum(rates) / len(rates))}, peak {significant(max(rates))} requests/s"
    )
    bases = dict.fromkeys(option.price_basis for option in mix.options if option.price_basis)
    parts = [wrap(head, ""), "\n".join([_options(mix), *(wrap(f"on demand: {b}", "")
                                                         for b in bases)])]  # fmt: skip
    if mix.reason:
        return "\n\n".join([*parts, wrap(f"No fleet: {mix.reason}.", "")])
    return "\n\n".join([*parts, _uses(mix), _steps(mix), _money(mix)])


def _options(mix: FleetMix) -> str:
    rows = []
    for option in mix.options:
        d = option.deployment
        how = "-" if d is None else f"{d.weight_quant} TP {d.tensor_parallel} x {d.replicas}"
        rate = option.capacity_rps
        rows.append([
            option.on, how, "-" if rate is None else significant(rate),
            _usd(option.usd_per_hour), _usd(option.reserved_usd_per_hour),
            _usd(option.spot_usd_per_hour), _usd(option.usd_per_mtok_output_full), option.reason,
        ])  # fmt: skip
    header = ["kind", "replica", "max rps", "on demand $/h", "reserved $/h", "spot $/h",
              "$/Mtok out full", ""]  # fmt: skip
    return table(header, rows, [False, False, True, True, True, True, True, False])


def _uses(mix: FleetMix) -> str:
    rows = [
        [use.on, use.purchase, f"{use.least} to {use.most}", show_count(use.replica_hours),
         show_count(use.start_hours), _usd(use.usd_per_hour), _usd(use.usd_per_month)]
        for use in mix.uses
    ]  # fmt: skip
    header = ["mix", "bought", "replicas", "hours serving", "hours starting", "$/h", "a month"]
    return table(header, rows, [False, False, True, True, True, True, True])


def _steps(mix: FleetMix) -> str:
    header = ["up to rps", "hours", *(f"{use.on} {use.purchase}" for use in mix.uses),
              "holds, spares missing"]  # fmt: skip
    rows = [
        [significant(step.up_to_rps), str(step.hours), *map(str, step.replicas),
         significant(step.capacity_rps)]
        for step in mix.steps
    ]  # fmt: skip
    return table(header, rows, [True] * len(header))


def _money(mix: FleetMix) -> str:
    assert mix.usd_per_month is not None
    assert mix.usd_per_month_least is not None
    unproven = 1.0 - mix.usd_per_month_least / mix.usd_per_month if mix.usd_per_month else 0.0
    lines = [
        f"{show_usd(mix.usd_per_month)} a month"
        + (f", at most {unproven:.1%} above the cheapest of these rules" if unproven > 5e-4 else "")
        + f"; the peak's fleet held on demand {_usd(mix.usd_per_month_fixed)}",
        f"used {mix.utilization_share or 0:.0%} of what is paid: {_usd(mix.usd_per_mtok_output)} "
        f"per million output tokens, {_usd(mix.usd_per_mtok_output_full)} if it were all used",
    ]
    for check in mix.checks:
        verdict = "keeps" if check.meets_slo else "misses"
        lines.append(
            f"at the peak, spares missing, {check.on} at {significant(check.rate_rps)} rps "
            f"{verdict} the SLO: TTFT p95 {show_duration(check.ttft_p95_s)}, TPOT p95 "
            f"{show_duration(check.tpot_p95_s)}"
        )
    return "\n".join(map(wrap, lines))


def _usd(value: float | None) -> str:
    return "-" if value is None else show_usd(value)
