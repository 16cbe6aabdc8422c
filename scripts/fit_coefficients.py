"""Fit catalog/data/coefficients.json to a latency truth file.

    python scripts/fit_coefficients.py TRUTH.csv [--out FILE] [--rows-per-series N]
    python scripts/fit_coefficients.py TRUTH.csv --use FILE      errors of these coefficients
    python scripts/fit_coefficients.py TRUTH.csv --folds 5       errors on sources left out

Needs numpy beside neoserve. Rows are weighted so that a series counts as the square root of its
length; the loss is pseudo-Huber on the log error; every factor is pulled towards one. Rows are
left out by the rules below only, never by the size of their error. Deterministic.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from latency_items import FIT_FLAGS, Item, read_items
from latency_problem import COEFFICIENTS, GROUPS, Problem, fit_all

from neoserve.predict import latency_rows as rows_of
from neoserve.predict import latency_truth as truth


def comparisons(items: list[Item], entries: dict[str, Any]) -> list[truth.Comparison]:
    """Every flag of every row."""
    problem = Problem(items, [], entries)
    predicted = problem.predict(np.zeros(0), range(len(items)))
    return [
        truth.Comparison(item.case, flag, value, math.exp(said))
        for index, item in enumerate(items)
        for (flag, value), said in zip(item.observed.items(), predicted[index], strict=True)
    ]


def evidence(items: list[Item], found: list[truth.Comparison]) -> dict[str, Any]:
    """n rows, sources, devices and residual spread of a set of rows."""
    errors = [abs(math.log(c.predicted / c.observed)) for c in found]
    return {
        "rows": len(items),
        "sources": len({i.case.source for i in items}),
        "devices": len({i.case.device for i in items}),
        "residual_log_median": round(float(np.median(errors)), 3) if errors else None,
    }


def document(items: list[Item], entries: dict[str, Any], rows: list[dict[str, str]]) -> Any:
    """What coefficients.json holds."""
    found = comparisons(items, entries)
    by_case: dict[str, list[truth.Comparison]] = defaultdict(list)
    for c in found:
        by_case[c.case.id].append(c)

    def of(chosen: list[Item]) -> dict[str, Any]:
        return evidence(chosen, [c for i in chosen for c in by_case[i.case.id]])

    groups: dict[tuple[str, str], list[Item]] = defaultdict(list)
    for item in items:
        for pair in item.keys().items():
            groups[pair].append(item)
    dense = [i for i in items if i.case.arch == "dense"]
    others = [i for i in items if i.case.arch != "dense"]
    for name, entry in entries.items():
        spec = COEFFICIENTS[name]
        entry["value"] = float(f"{entry['value']:.4g}")
        entry["meaning"] = spec.meaning
        entry |= of(dense if spec.stage == 1 else others) if spec.stage < 3 else {"rows": 0}
        for group in GROUPS.values():
            kept = {
                key: {"factor": float(f"{value['factor']:.3g}"), **of(groups[group, key])}
                for key, value in entry.get(group, {}).items()
            }
            entry.pop(group, None)
            if kept:
                entry[group] = kept
    used = {i.case.source for i in items}
    licences = {r["source"]: r["licence"] for r in rows if r["source"] in used}
    return {
        "date": time.strftime("%Y-%m-%d"),
        "fit": "scripts/fit_coefficients.py on the primary rows of latency_dev.csv",
        "sources": dict(sorted(licences.items())),
        "coefficients": entries,
    }


def left_out_comparisons(
    rows: list[dict[str, str]], folds: int, keep: int, steps: int
) -> list[truth.Comparison]:
    """Every row predicted by a fit that saw no row of its source."""
    items, _, _ = read_items(rows, FIT_FLAGS, 0, False)
    sizes = Counter(item.case.source for item in items)
    fold_of = {name: rank % folds for rank, (name, _) in enumerate(sizes.most_common())}
    thin, _, _ = read_items(rows, FIT_FLAGS, keep, True)
    found = []
    for fold in range(folds):
        entries = fit_all([i for i in thin if fold_of[i.case.source] != fold], steps)
        found += comparisons([i for i in items if fold_of[i.case.source] == fold], entries)
    return found


def print_table(
    found: list[truth.Comparison], key: Callable[[truth.Comparison], str], fewest: int = 1
) -> None:
    """Errors by flag and key."""
    print(f"{'flag':13} {'group':34} {'n':>5} {'src':>3} {'dev':>3} {'median':>7} "
          f"{'by source':>9} {'mape':>7} {'p90':>6} {'bias':>7}")  # fmt: skip
    tables = truth.table(found, key)
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
    parser.add_argument("--rows-per-series", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--use", type=Path, help="report these coefficients instead of fitting")
    parser.add_argument("--folds", type=int, default=0, help="only cross-validate by source")
    args = parser.parse_args()
    rows = list(csv.DictReader(args.truth.open(newline="")))
    if args.folds:
        found = left_out_comparisons(rows, args.folds, args.rows_per_series, args.steps)
        print_table(found, lambda c: c.case.arch)
        return 0
    if args.use:
        entries = json.loads(args.use.read_text())["coefficients"]
    else:
        items, _, _ = read_items(rows, FIT_FLAGS, args.rows_per_series, True)
        entries = fit_all(items, args.steps)
    items, resolver, ruled_out = read_items(rows, rows_of.FLAGS, 0, False)
    if args.out:
        text = json.dumps(document(items, entries, rows), indent=1, ensure_ascii=False)
        args.out.write_text(text + "\n")
    found = comparisons(items, entries)
    print("left out by rule:", dict(ruled_out))
    print("not named:", sum(resolver.unnamed.values()), resolver.unnamed.most_common(5))
    classes = {i.case.id: i.device_class for i in items}
    keys: list[tuple[str, Callable[[truth.Comparison], str], int]] = [
        ("architecture", lambda c: c.case.arch, 1),
        ("engine", lambda c: f"{c.case.arch} {c.case.engine}", 5),
        ("device class", lambda c: f"{c.case.arch} {classes[c.case.id]}", 5),
    ]
    for title, key, fewest in keys:
        print(f"\nby {title}")
        print_table(found, key, fewest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
