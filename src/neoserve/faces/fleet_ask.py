"""What a fleet is asked: from a TOML file or from options, its demand read, everything checked."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import NamedTuple

from ..errors import AskError
from ..measure.demand import read_curve, read_requests
from ..schema.fleet import FleetAsk, FleetClass, FleetKind
from ..schema.workload import Slo, Workload
from .ask import with_means
from .options import real

MAX_HOURS = 8784
MAX_CLASSES, MAX_KINDS, MAX_STEPS = 20, 20, 24


class Asked(NamedTuple):
    """A class with its demand read: requests/s by hour, and the workload of one of them."""

    of: FleetClass
    demand: tuple[float, ...]
    workload: Workload


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


def fleet_ask(args: argparse.Namespace) -> FleetAsk:
    """One model, by options."""
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


def check_fleet(ask: FleetAsk) -> None:
    """Raises AskError for what no fleet is."""
    for what, items, most in (("kinds", ask.kinds, MAX_KINDS), ("classes", ask.classes,
                                                                MAX_CLASSES)):  # fmt: skip
        if not 1 <= len(items) <= most:
            raise AskError(f"{len(items)} {what}; expected 1 to {most} in a fleet")
    for what, names in (("kind", [kind.on for kind in ask.kinds]),
                        ("class", [of.name for of in ask.classes])):  # fmt: skip
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise AskError(f"two {what} entries are called {twice!r}; name each once")
    for name, value, low, high in (
        ("start_up_s", ask.start_up_s, 0.0, 86400.0), ("billing_s", ask.billing_s, 1.0, 3600.0),
        ("headroom_share", ask.headroom_share, 0.0, 10.0),
        ("spot_loss_share", ask.spot_loss_share, 0.0, 0.9), ("steps", ask.steps, 1, MAX_STEPS),
        *(("start_up_s", kind.start_up_s or 0.0, 0.0, 86400.0) for kind in ask.kinds),
        *(("spares", of.spares, 0, 100) for of in ask.classes),
        *((f"{name} of {kind.on}", usd or 0.0, 0.0, 1e9) for kind in ask.kinds for name, usd in (
            ("reserved_usd_per_hour", kind.reserved_usd_per_hour),
            ("spot_usd_per_hour", kind.spot_usd_per_hour))),
    ):  # fmt: skip
        if not low <= value <= high:
            raise AskError(f"{name} is {value:g}; expected {low:g} to {high:g}")
    if 3600.0 % ask.billing_s:
        raise AskError(f"billing_s is {ask.billing_s:g}; expected what divides an hour, say 60")
    known = {kind.on for kind in ask.kinds}
    for of in ask.classes:
        other = sorted(set(of.on) - known)
        if other:
            raise AskError(f"class {of.name} runs on {other[0]}, which is none of the kinds")
        if not any(t.metric != "quality" for t in Slo.parse_text(of.slo).targets):
            raise AskError(f"class {of.name} has no limit of time in its slo; write 'ttft:p95<3s'")


def asked(of: FleetClass, folder: Path) -> Asked:
    """A class with its demand; files are relative to `folder`. Raises AskError."""
    workload = of.workload
    if isinstance(of.demand, str):
        path = folder / Path(of.demand).expanduser()
        demand = read_curve(path)
        if demand is None:
            demand, trace = read_requests(path)
            # its lengths; the rate is that of each hour
            workload = with_means(workload.replace(trace=str(path)), trace)
    else:
        demand = of.demand
    if not 1 <= len(demand) <= MAX_HOURS or max(demand) <= 0 or min(demand) < 0:
        raise AskError(f"the demand of {of.name} has {len(demand)} hours; expected 1 to "
                       f"{MAX_HOURS:,} rates from 0, one of them above 0")  # fmt: skip
    if of.peak_rps is not None:
        if not 0 < of.peak_rps <= 1e5:
            raise AskError(f"peak_rps of {of.name} is {of.peak_rps:g}; expected up to 10^5")
        scale = of.peak_rps / max(demand)
        demand = tuple(rate * scale for rate in demand)
    if workload.arrival in ("closed", "trace"):
        workload = workload.replace(arrival="poisson")
    return Asked(of, demand, workload)
