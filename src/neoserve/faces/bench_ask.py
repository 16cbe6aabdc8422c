"""From the options of `neoserve bench` to what it measures."""

from __future__ import annotations

import argparse
import datetime
import os
from pathlib import Path

from ..catalog.hardware import find_machine, stale_days
from ..errors import AskError
from ..measure.arrivals import num_requests_for
from ..measure.dataset import read_dataset
from ..measure.traces import read_trace
from ..measure.trial import TrialAsk
from ..predict.cost import hourly_usd, price_basis
from ..schema.workload import Slo, Workload
from .bench import BenchAsk
from .requests import bench_workload

_NUM_REQUESTS = 400  # prove a p95 where 1 % miss, if a request is worth half an independent one


def bench_ask(args: argparse.Namespace) -> BenchAsk:
    """Reads the files that are named. Raises AskError."""
    workload = bench_workload(args)
    if bool(args.engine) == args.target.startswith(("http://", "https://")):
        raise AskError(
            "give the URL of a server that runs (http://...), or --engine and the model it serves"
        )
    usd_per_hour, source = price_of(args)
    slo = Slo.parse_text(args.slo)
    if args.find_max_rate and (not slo.targets or workload.arrival != "poisson"):
        raise AskError("--find-max-rate needs --slo, and --request-rate to start from")
    if args.repeat < 1 or args.workers < 1 or args.timeout <= 0:
        raise AskError("--repeat, --workers and --timeout have to be above 0")
    if args.plot and not args.plot.lower().endswith(".svg"):
        raise AskError(f"--plot {args.plot}: expected a name that ends in .svg")
    if args.plot and not Path(args.plot).absolute().parent.is_dir():
        raise AskError(f"--plot {args.plot}: {Path(args.plot).parent} is no folder; make it first")
    return BenchAsk(
        trial=TrialAsk(
            workload=workload,
            slo=slo,
            num_requests=_num_requests(args, workload),
            num_warmup=args.num_warmups,
            route=args.route,
            workers=args.workers,
            timeout_s=args.timeout,
            ends_early=not args.full,
            counts=args.pmu == "auto",
            usd_per_hour=usd_per_hour,
            price_source=source,
            trace=read_trace(Path(args.trace)) if args.trace else None,
            dataset=read_dataset(Path(args.dataset_path)) if args.dataset_path else None,
        ),
        target=args.target,
        engine=args.engine,
        engine_args=args.engine_args,
        engine_env=environment(args.env or []),
        model=args.model,
        api_key=args.api_key or os.environ.get("OPENAI_API_KEY", ""),
        out=args.out,
        plot=args.plot,
        repeat=args.repeat,
        ready_timeout_s=args.ready_timeout,
        max_rate_tolerance=args.tolerance if args.find_max_rate else None,
    )


def _num_requests(args: argparse.Namespace, workload: Workload) -> int:
    if args.duration is None:
        return _NUM_REQUESTS if args.num_prompts is None else int(args.num_prompts)
    if args.num_prompts is not None:
        raise AskError("--num-prompts and --duration say the same; give one")
    if not workload.rate_rps:
        raise AskError("--duration needs --request-rate; a closed load takes --num-prompts")
    return num_requests_for(workload, args.duration)


def environment(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise AskError(f"--env {pair!r} is not NAME=VALUE")
        found[name] = value
    return found


def price_of(args: argparse.Namespace) -> tuple[float | None, str]:
    """Dollars per hour, and where they are from."""
    if args.price is not None:
        return args.price, "given with --price"
    if not args.on:
        return None, ""
    machine = find_machine(args.on, None)
    if machine.price is None:
        raise AskError(f"the catalog has no price of {machine.id}; give --price")
    price = machine.price
    age = stale_days(price.date, datetime.date.today())
    old = f", {age} days old" if age else ""
    source = f"{machine.id}: {price_basis(price)}{old}"
    usd_per_hour = hourly_usd(price, machine.num_devices, machine.priced_devices)
    return usd_per_hour, " ".join(source.split())
