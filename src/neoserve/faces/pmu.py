"""`neoserve pmu`: counters of a running engine or of a file, or what an instance would show."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from ..catalog.pmu import exposure, full_sizes
from ..errors import EXIT_ENGINE_FAILED, EXIT_MET, AskError
from ..measure.engine.api import base_url, local_port
from ..measure.engine.proc import listeners
from ..measure.host import instance_type
from ..measure.pmu import Scope, collect, core_type, named_core, this_host, tree, workers
from ..measure.pmu.importing import read_file
from ..measure.pmu.importing.read import read_text
from ..measure.pmu.performix import find_apx, prepare, profile
from ..schema.pmu import CoreType, Counters, Exposure
from ..units import parse_cpus, show_cpus
from .pmu_tables import show_counters, show_exposure

Say = Callable[[str], None]

_LEAST_S, _MOST_S = 0.5, 3600.0


def run(args: argparse.Namespace, note: Say) -> int:
    """Count, or read, and show. Returns the exit code."""
    _refuse_two(args)
    if args.on:
        found = _of_instance(args.on)
        print(found.to_pretty_json() if args.json else show_exposure(found, full_sizes(args.on)))
        return EXIT_MET
    counters = counted(args, note)
    print(counters.to_pretty_json() if args.json else show_counters(counters))
    return exit_code(counters)


def exit_code(found: Counters) -> int:
    """0 where anything could be counted or accounted, as `rung` says; 4 where nothing could."""
    return EXIT_ENGINE_FAILED if found.rung == "none" else EXIT_MET


def counted(args: argparse.Namespace, note: Say) -> Counters:
    """As asked. Raises Error."""
    if args.core and not args.file:
        raise AskError("--core says whose an imported file is: give --import, too")
    if args.file:
        return read_file(Path(args.file), _core(args.core))
    if not _LEAST_S <= args.seconds <= _MOST_S:
        raise AskError(f"--seconds {args.seconds:g}: expected {_LEAST_S:g} to {_MOST_S:g}")
    if args.performix:
        return _by_performix(args, note)
    foretell(note)
    pids = _pids(args)
    if args.cores:
        scope = Scope(cpus=show_cpus(_cpus(args.cores)))
    else:
        scope = Scope(pids=workers(pids))
    host = this_host()
    note(f"counting {scope.show()} for {args.seconds:g} s ...")
    return collect(host, scope, args.seconds, pids)


def foretell(note: Say) -> None:
    """What AWS shows of this instance's counters, before one is read; nothing on other hosts."""
    told = exposure(instance_type())
    if told is not None:
        note(f"{told.instance} shows {told.says} ({told.source.date})")


def _refuse_two(args: argparse.Namespace) -> None:
    given = [name for name, value in (
        ("URL", args.target), ("--port", args.port), ("--pid", args.pid), ("--cores", args.cores),
        ("--import", args.file), ("--on", args.on),
    ) if value]  # fmt: skip
    if len(given) > 1:
        raise AskError(f"{' and '.join(given)} ask for different things; give one")
    if not given:
        raise AskError(
            "whom to count? Give the URL of a server on this host, --port, --pid or --cores; or "
            "--import FILE for counters that were taken"
        )


def _pids(args: argparse.Namespace) -> tuple[int, ...]:
    """Of the engine, with all below. Raises AskError."""
    if args.pid:
        return tuple(sorted({each for pid in args.pid for each in tree(pid)}))
    if args.cores:
        return ()
    port = args.port
    if args.target:
        port = local_port(base_url(args.target))
        if port is None:
            raise AskError(
                f"{args.target} is not on this host: run neoserve pmu where the server runs"
            )
    if not 0 < port < 65536:
        raise AskError(f"--port {port}: expected 1 to 65535")
    if not (found := listeners(port)):
        raise AskError(
            f"no process that we may see listens on port {port}; give --pid, or run as its user"
        )
    return found


def _cpus(text: str) -> list[int]:
    if re.search(r"\d{6}", text):
        raise AskError(f"--cores {text[:40]}: no host has so many CPUs")
    cpus = parse_cpus(text)
    here = {int(path.name[3:]) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*")}
    if strangers := sorted(set(cpus) - here):
        raise AskError(f"--cores {text}: CPU {strangers[0]} is not here")
    return cpus


def _core(name: str) -> CoreType | None:
    return named_core(name) if name else core_type()


def _of_instance(name: str) -> Exposure:
    found = exposure(name)
    if found is None:
        raise AskError(
            f"nothing is published of the PMU of {name!r}; expected an AWS instance type of the "
            "6th generation or later, such as c8g.4xlarge"
        )
    return found


def _by_performix(args: argparse.Namespace, note: Say) -> Counters:
    apx = find_apx()
    pids = workers(_pids(args))
    if not pids:
        raise AskError("Performix counts one process: give --pid, --port or the URL")
    target = args.performix
    if "@" in target:
        name = "neoserve"
        note(f"preparing {target.partition(':')[0]} as target {name} ...")
        prepare(apx, target, name)
        target = name
    rendered = profile(apx, target, pids[0], args.seconds, note)
    found = read_text(rendered.table, f"Performix run {rendered.run_id}", core_type())
    return found.replace(
        basis="measured", scope=f"process {pids[0]}",
        notes=(f"kept by Performix: apx run export {rendered.run_id} FOLDER",),
    )  # fmt: skip
