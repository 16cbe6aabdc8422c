"""Fit catalog/data/coefficients.json to a latency truth file, and say how well it predicts others.

    python scripts/fit_coefficients.py TRUTH.csv --out FILE            fit, and write coefficients
    python scripts/fit_coefficients.py TRUTH.csv --use FILE            errors of these coefficients
    python scripts/fit_coefficients.py TRUTH.csv --leave-out source --use FILE --residuals OUT.jsonl
                 each source (or device, model family, model of a source) by a fit without it

Needs numpy beside neoserve. Rows are weighted so that a series counts as the square root of its
length; the loss is pseudo-Huber on the log error; every factor is pulled towards its parent's
value. Rows are left out by the rules below only, never by the size of their error. Deterministic.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from latency_arrays import FLAGS, Array
from latency_items import Item, read_items, thinned
from latency_problem import COEFFICIENTS, GROUPS, Name, Problem, Truth, names_of
from operator_rows import Operators, read_operators
from run_rows import OWN, read_profiles

from neoserve.catalog.coefficients import engine_era, engine_family
from neoserve.faces import latency as face
from neoserve.predict import latency_rows as rows_of
from neoserve.predict import latency_truth as truth_of

KERNELS, KERNELS_LICENCE = "aiconfigurator-core 0.12.0, operator tables", "Apache-2.0"
LEAST_FACTOR = 0.02  # log factors below this are not written
LARGEST = 12  # groups that are left out alone; the others share a few folds
SHARED = 4  # folds of the others; half again as many where no group is large
TUNE_STEPS = 4  # of each fold, from the fit on everything


def comparisons(truth: Truth, predicted: Array) -> list[truth_of.Comparison]:
    """Every observation beside its log prediction."""
    return [
        truth_of.Comparison(truth.items[row].case, FLAGS[flag], math.exp(observed), math.exp(said))
        for row, flag, observed, said in zip(
            truth.row, truth.flag, truth.observed, predicted, strict=True
        )
    ]


def start_of(names: list[Name], entries: dict[str, Any] | None) -> Array:
    """Where known coefficients are in a problem's numbers."""
    if entries is None:
        return np.zeros(len(names))
    theta = []
    for name in names:
        entry = entries.get(name.coefficient, {})
        if name.group:
            theta.append(math.log(entry.get(name.group, {}).get(name.key, {}).get("factor", 1.0)))
        else:
            start = COEFFICIENTS[name.coefficient].start
            theta.append(math.log(entry.get("value", start) / start))
    return np.array(theta)


def document(problem: Problem, theta: Array, rows: list[dict[str, str]]) -> Any:
    """What coefficients.json holds."""
    truth = problem.truth
    error = np.abs(problem.served(theta) - truth.observed)
    by_row: dict[int, list[float]] = defaultdict(list)
    for row, size in zip(truth.row, error, strict=True):
        by_row[int(row)].append(float(size))
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for index, keys in enumerate(truth.keys):
        for pair in keys.items():
            groups[pair].append(index)
    entries = problem.entries(theta, LEAST_FACTOR)
    for name, entry in entries.items():
        entry["value"] = float(f"{entry['value']:.4g}")
        entry["meaning"] = COEFFICIENTS[name].meaning
        entry |= _evidence(truth.items, range(len(truth.items)), by_row)
        for group in (g for g in GROUPS.values() if g in entry):
            for key, factor in entry[group].items():
                factor["factor"] = float(f"{factor['factor']:.3g}")
                factor |= _evidence(truth.items, groups[group, key], by_row)
    used = {item.case.source for item in truth.items}
    licences = {r["source"]: r["licence"] for r in rows if r["source"] in used}
    licences |= {source: "Apache-2.0" for source in used if source.startswith(OWN)}
    fitted_on = "the primary rows of latency_dev.csv and latency_cpu_rows.csv, our own profiles"
    if problem.operators is not None:
        licences[KERNELS] = KERNELS_LICENCE
        fitted_on += f", and {len(problem.operators.keys)} kernels of tests/data/operators.csv"
    return {
        "date": time.strftime("%Y-%m-%d"),
        "fit": f"scripts/fit_coefficients.py on {fitted_on}",
        "sources": dict(sorted(licences.items())),
        "coefficients": entries,
    }


def _evidence(items: Any, which: Any, by_row: dict[int, list[float]]) -> dict[str, Any]:
    errors = [size for index in which for size in by_row[index]]
    return {
        "rows": len(which),
        "sources": len({items[i].case.source for i in which}),
        "devices": len({items[i].hardware.id for i in which}),
        "residual_log_median": round(float(np.median(errors)), 3) if errors else None,
    }


def family_of(item: Item) -> str:
    """``"Llama-3.1-8B"`` -> ``"llama"``: the words before the first number."""
    name = re.sub(r".*/", "", item.case.model).lower()
    return re.match(r"(meta-)?([a-z]*)", name)[2] or name  # type: ignore[index]


LEFT_OUT: dict[str, Callable[[Item], str]] = {
    "source": lambda item: item.case.source,
    "device": lambda item: item.hardware.id,
    "family": family_of,
    "model": lambda item: f"{item.case.source}|{family_of(item)}|{item.case.model}",
}


def left_out(
    items: list[Item], keep: int, entries: dict[str, Any] | None, key: Callable[[Item], str],
    operators: Operators | None = None,
) -> tuple[Truth, Array]:
    """Every row predicted by a fit that saw none of its group."""
    thin, everything = Truth(thinned(items, keep)), Truth(items)
    names = names_of(thin)
    problem, wide = Problem(thin, names, operators), Problem(everything, names)
    theta = problem.fit(start_of(names, entries), TUNE_STEPS)
    sizes = Counter(key(item) for item in items)
    ranked = [name for name, _ in sizes.most_common()]
    if len(ranked) > LARGEST * SHARED:  # models of sources: many small groups
        fold_of = {name: rank % (SHARED + SHARED // 2) for rank, name in enumerate(ranked)}
    else:
        fold_of = {
            name: rank if rank < LARGEST else LARGEST + rank % SHARED
            for rank, name in enumerate(ranked)
        }
    trained = np.array([fold_of[key(item)] for item in thin.items])[thin.row]
    asked = np.array([fold_of[key(item)] for item in items])[everything.row]
    predicted = np.full(len(asked), np.nan)
    for fold in sorted(set(fold_of.values())):
        weights = problem.weights.copy()
        weights[: len(trained)] *= trained != fold
        found = problem.fit(theta, TUNE_STEPS, weights=weights)
        here = asked == fold
        predicted[here] = wide.served(found)[here]
    return everything, predicted


def write_residuals(path: Path, truth: Truth, predicted: Array) -> None:
    """One line an observation: what fit_intervals.py reads."""
    with path.open("w") as file:
        for c, row in zip(comparisons(truth, predicted), truth.row, strict=True):
            item = truth.items[row]
            line = {
                "id": c.case.id, "source": c.case.source, "device": c.case.device,
                "device_class": item.device_class, "engine": c.case.engine, "family": item.family,
                "era": item.keys()["by_era"], "arch": c.case.arch, "model": c.case.model,
                "flag": c.flag, "load_mode": c.case.load_mode,
                "concurrency": c.case.workload.concurrency, "observed": c.observed,
                "predicted": c.predicted,
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")


def add_open_loads(path: Path, rows: list[dict[str, str]]) -> None:
    """The same for loads of a rate, which no fit sees, by the catalog's coefficients."""
    chosen = [row for row in rows if row.get("load_mode") == "open_loop"]
    with path.open("a") as file:
        for a in face.answers(chosen):
            if a.predicted is None or a.flag not in rows_of.FLAGS or a.note:
                continue
            d = a.case.deployment
            line = {
                "id": a.case.id, "source": a.case.source, "device": a.case.device,
                "device_class": a.device, "engine": a.case.engine,
                "family": engine_family(d.engine, d.engine_version),
                "era": engine_era(d.engine, d.engine_version), "arch": a.case.arch,
                "model": a.case.model, "flag": a.flag, "load_mode": a.case.load_mode,
                "concurrency": a.case.workload.concurrency, "observed": a.observed,
                "predicted": a.predicted,
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")


def print_table(
    found: list[truth_of.Comparison], key: Callable[[truth_of.Comparison], str], fewest: int = 1
) -> None:
    """Errors by flag and key."""
    print(f"{'flag':13} {'group':34} {'n':>5} {'src':>3} {'dev':>3} {'median':>7} "
          f"{'by source':>9} {'mape':>7} {'p90':>6} {'bias':>7}")  # fmt: skip
    tables = truth_of.table(found, key)
    for flag in (f for f in rows_of.FLAGS if f in tables):
        for name, s in tables[flag].items():
            if s["n"] >= fewest:
                print(f"{flag:13} {name[:34]:34} {s['n']:5} {s['sources']:3} {s['devices']:3} "
                      f"{s['median_ape']:7.1%} {s['source_median_ape']:9.1%} {s['mape']:7.1%} "
                      f"{s['p90_ape']:6.0%} {s['bias']:+7.1%}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("truth", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--use", type=Path, help="start from, or report, these coefficients")
    parser.add_argument("--leave-out", choices=LEFT_OUT, help="cross-validate by this")
    parser.add_argument("--rows-per-series", type=int, default=10, help="kept in each fold's fit")
    parser.add_argument("--residuals", type=Path, help="write every prediction here")
    parser.add_argument("--operators", type=Path, help="kernel times: sample_operators.py's CSV")
    parser.add_argument("--rows", type=Path, nargs="*", default=[], help="more rows, as TRUTH's")
    parser.add_argument("--profiles", type=Path, nargs="*", default=[], help="calibration runs")
    args = parser.parse_args()
    operators = read_operators(args.operators) if args.operators else None
    rows = [row for path in (args.truth, *args.rows) for row in csv.DictReader(path.open())]
    items, resolver, ruled_out = read_items(rows, FLAGS)
    items += read_profiles(args.profiles)
    print("left out by rule:", dict(ruled_out))
    print("not named:", sum(resolver.unnamed.values()), resolver.unnamed.most_common(5))
    entries = json.loads(args.use.read_text())["coefficients"] if args.use else None
    if args.leave_out:
        key = LEFT_OUT[args.leave_out]
        truth, predicted = left_out(items, args.rows_per_series, entries, key, operators)
    else:
        truth = Truth(items)
        names = names_of(truth)
        problem, theta = Problem(truth, names, operators), start_of(names, entries)
        if args.out:
            theta = problem.fit(theta, args.steps)
            text = json.dumps(document(problem, theta, rows), indent=1, ensure_ascii=False)
            args.out.write_text(text + "\n")
        predicted = problem.served(theta)
    if args.residuals:
        write_residuals(args.residuals, truth, predicted)
        add_open_loads(args.residuals, rows)
    found = comparisons(truth, predicted)
    keys: list[tuple[str, Callable[[truth_of.Comparison], str], int]] = [
        ("architecture", lambda c: c.case.arch, 1),
        ("engine", lambda c: f"{c.case.arch} {c.case.engine}", 5),
        ("source", lambda c: f"{c.case.arch} {c.case.source}", 12),
    ]
    for title, by, fewest in keys:
        print(f"\nby {title}")
        print_table(found, by, fewest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
