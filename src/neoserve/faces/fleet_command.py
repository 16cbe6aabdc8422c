"""`neoserve fleet`: a fleet from a TOML file or from options, and its answer as text."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path

from ..errors import AskError
from ..schema.fleet import FleetAsk, FleetClass, FleetKind, FleetMix, FleetPlan
from ..schema.workload import Slo, Workload
from ..units import show_count, show_duration, show_usd, significant
from .fleet import answer_fleet
from .options import real
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
    return answer_fleet(_fleet_ask(args), Path(), note)


def read_fleet(path: Path) -> FleetAsk:
    """The fleet in a TOML file. Raises AskError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise AskError(f"{path} is no TOML: {error}") from None
    ask = FleetAsk.parse(data, str(path))
    if not ask.catalog:
        return ask
    return ask.replace(catalog=str(path.parent / Path(ask.catalog).expanduser()))


def _fleet_ask(args: argparse.Namespace) -> FleetAsk:
    workload = Workload(
        arrival="poisson", prompt_tokens=args.isl, output_tokens=args.osl, seed=args.seed,
        prompt_tokens_cv=args.isl_cv, output_tokens_cv=args.osl_cv,
        prefix_hit_share=args.prefix_hit_share,
    )  # fmt: skip
    return FleetAsk(
        kinds=tuple(FleetKind(on=name.strip()) for name in args.on.split(",") if name.strip()),
        classes=(FleetClass(
            name="demand", model=args.what, slo=args.slo, demand=demand_of(args.demand),
            peak_rps=args.peak_rate, workload=workload, weight_quant=args.weight_quant,
            kv_cache_dtype=args.kv_cache_dtype, spares=args.spares,
        ),),
        start_up_s=args.start_up, headroom_share=args.headroom, catalog=args.catalog,
        online=not args.offline, sensitivity=args.sensitivity,
    )  # fmt: skip


def demand_of(text: str) -> tuple[float, ...] | str:
    """``2,5,9`` as rates; anything else is a file."""
    try:
        return tuple(real(part) for part in text.split(","))
    except AskError:
        return text


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
    parts = [wrap(head, ""), _options(mix)]
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
