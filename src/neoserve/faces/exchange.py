"""`neoserve import` and `neoserve export`: other tools' result files."""

from __future__ import annotations

import importlib.metadata
from datetime import datetime
from pathlib import Path

import msgspec

from ..errors import AskError
from ..evidence import ledger
from ..evidence.exporting import to_benchmark_report, to_vllm
from ..evidence.importing.read import read_results
from ..evidence.run import Run
from ..evidence.verify import trial_of
from ..measure.figures import unpack_rows
from ..schema.imported import Imported
from ..units import significant
from .tables import table, wrap

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")


def import_results(path: Path, out: str) -> list[Imported]:
    """Every load in a result file; with `out`, kept in a new run folder with the file itself."""
    found = read_results(path)
    if out:
        version = importlib.metadata.version("neoserve")
        run = Run.create(Path(out), "import", seed=0, versions={"neoserve": version})
        run.record_import(path.name, found, path.read_bytes())
    return found


def show_imported(found: list[Imported]) -> str:
    """A table a load, with what the tool means by its figures and what is wrong with them."""
    return "\n\n".join(_one(load) for load in found)


def _one(load: Imported) -> str:
    parts = [
        f"{load.tool} {load.tool_version}".strip(),
        load.model,
        load.arrival,
        f"{significant(load.request_rate_rps)} requests/s" if load.request_rate_rps else "",
        f"at most {load.max_concurrency} in flight" if load.max_concurrency else "",
        f"{load.num_requests} requests" if load.num_requests is not None else "",
        f"{load.num_failed} failed" if load.num_failed else "",
    ]
    rows = [
        [name, *(_milliseconds(values.get(s)) for s in _STATISTICS)]
        for name, values in load.metrics.items()
    ]
    names = [name.removesuffix("_s") for name in load.metrics]
    for row, name in zip(rows, names, strict=True):
        row[0] = f"{name}, ms"
    blocks = [
        ", ".join(part for part in parts if part),
        table(["", *_STATISTICS], rows, [False, *(True for _ in _STATISTICS)]),
        "\n".join(["Meaning", *(wrap(f"{k.removesuffix('_s')}: {v}")
                                for k, v in load.definitions.items())]),
    ]  # fmt: skip
    if load.faults:
        blocks.append("\n".join(["Known faults", *(wrap(fault) for fault in load.faults)]))
    return "\n\n".join(blocks)


def _milliseconds(value_s: float | None) -> str:
    return "" if value_s is None else significant(value_s * 1e3)


def export_trial(path: Path, to: str, number: int, as_json: bool) -> str:
    """A recorded trial as text in another tool's format; reports are YAML unless `as_json`.

    Raises AskError where there is no such trial.
    """
    run = Run.open(path)
    entries = [entry for entry in ledger.entries(run.ledger_path) if entry.kind == "trial"]
    position = number if number < 0 else number - 1
    if number == 0 or not -len(entries) <= position < len(entries):
        raise AskError(f"{path} holds {len(entries)} trials; --trial {number} is none of them")
    entry = entries[position]
    trial = trial_of(entry)
    rows = unpack_rows(run.blob(trial.rows))
    version = importlib.metadata.version("neoserve")
    at = datetime.fromisoformat(entry.at)
    uid = ledger.digest(ledger.line_of(entry))
    if to == "vllm":
        document = to_vllm(trial, rows, at, version)
    else:
        document = to_benchmark_report(trial, rows, uid, at, version)
    if to == "vllm" or as_json:
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    import yaml

    return str(yaml.safe_dump(document, sort_keys=False))
