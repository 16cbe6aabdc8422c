"""Fit catalog/data/intervals.json to residuals of rows that a fit of coefficients had not seen.

    python scripts/fit_intervals.py RESIDUALS.jsonl [--seen FILE.jsonl] [--out FILE]
        [--truth FILE.csv] [--report FILE] [--quick]

RESIDUALS: predictions by fits that saw no row of the row's source. --seen: by fits that saw its
source, and no row of its model there; without it the seen setting repeats the new one.
--truth: where the rows' lengths are, so that two figures are compared under one workload.
--report: what left-out sources got, for docs/accuracy.md. Needs numpy beside neoserve.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from conformal import Rows, Style, fit, left_out, weighted_quantile

from neoserve.catalog.intervals import benches_of, known_by
from neoserve.errors import AskError
from neoserve.faces.latency import read_csv
from neoserve.predict.intervals import load_band, mode_of
from neoserve.predict.latency_rows import FLAGS
from neoserve.stats import mean, quantile

LEVELS = (0.5, 0.8, 0.9, 0.95)
LEVEL = 0.9  # that is reported
# Chosen by the coverage and width of left-out sources: groups that a source is one of a few in
# mislead about the next source; how a load is made, and whether anyone else measured, do not.
NEW = Style({"arch": 0.25, "class": 0.15, "engine": 0.15, "mode": 0.8, "known": 0.35}, 0.6, 0.25)
SEEN = Style({"arch": 0.35, "class": 0.35, "engine": 0.35, "mode": 0.8, "load": 0.35}, 1.0, 0.5)
FEWEST = 20  # rows of a metric
LEAST_EFFECT = 0.03  # log factors below this are left out of the file
# Metrics whose residuals are shaped alike, where one has few sources of its own.
KIN = {
    "single_tpot": ("batched_tpot",), "batched_tpot": ("single_tpot",),
    "ttft": ("batch_prefill", "prefill_rate"), "batch_prefill": ("ttft", "prefill_rate"),
    "prefill_rate": ("ttft", "batch_prefill"), "e2e_single": ("single_tpot", "e2e_batched"),
    "e2e_batched": ("e2e_single", "throughput"), "throughput": ("e2e_batched", "batched_tpot"),
    "tput256": ("throughput",), "openloop_tpot": ("openloop_ttft", "openloop_e2e"),
    "openloop_ttft": ("openloop_tpot", "openloop_e2e"),
    "openloop_e2e": ("openloop_tpot", "openloop_ttft"),
}  # fmt: skip
RATES = ("prefill_rate", "throughput", "tput256")  # high where times are low
MOST_KIN = 40  # rows of one source and metric
FIELDS = ("id", "source", "device", "device_class", "family", "arch", "model", "flag",
          "load_mode", "concurrency", "observed")  # fmt: skip

Row = dict[str, Any]


def read_residuals(path: Path) -> list[Row]:
    """The rows of a file. Raises AskError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AskError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            missing = [name for name in FIELDS if name not in row]
            value = row.get("predicted")
            valid = row["observed"] > 0 and (value is None or value > 0) if not missing else False
        except (ValueError, TypeError, AttributeError):
            missing, valid = [], False
        if not valid:
            what = f"no field {missing[0]}" if missing else "not a row with positive figures"
            raise AskError(f"{path} line {number}: {what}; expected one residual a line")
        rows.append(row)
    if not rows:
        raise AskError(f"{path} has no rows; expected one residual a line")
    return rows


def rows_of(
    by_metric: Mapping[str, Sequence[Row]], flag: str, others: Mapping[str, Mapping[str, int]]
) -> Rows:
    """Residuals of one metric, its own rows first, then its kin's.

    With `others` sources are exchangeable, else their models are.
    """
    setting = "new" if others else "seen"
    own = by_metric[flag]
    found = [*own, *(r for kin in KIN[flag] for r in thinned(by_metric.get(kin, ())))]
    sign = [1.0 if (r["flag"] in RATES) == (flag in RATES) else -1.0 for r in found]
    cluster = [r["source"] if setting == "new" else f"{r['source']}|{r['model']}" for r in found]
    modes = [mode_of(r["load_mode"]) for r in found]
    groups = {
        "arch": [r["arch"] for r in found],
        "class": [r["device_class"] for r in found],
        "engine": [r["family"] for r in found],
        "mode": modes,
        "load": [load_band(m, r["concurrency"]) for m, r in zip(modes, found, strict=True)],
    }
    if setting == "new":
        groups["known"] = [
            known_by(others[r["source"]], r["device_class"], r["family"]) for r in found
        ]
    return Rows(
        np.array(
            [s * math.log(r["observed"] / r["predicted"]) for s, r in zip(sign, found, strict=True)]
        ),
        np.unique(cluster, return_inverse=True)[1],
        {name: np.array(keys, dtype=str) for name, keys in groups.items()},
        np.arange(len(found)) < len(own),
    )


def thinned(rows: Sequence[Row]) -> list[Row]:
    """At most `MOST_KIN` rows of each source, evenly."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_source[row["source"]].append(row)
    return [r for group in by_source.values() for r in group[:: math.ceil(len(group) / MOST_KIN)]]


def triples(rows: Iterable[Row]) -> set[tuple[str, str, str]]:
    """(source, device class, engine family) that rows are of."""
    return {(r["source"], r["device_class"], r["family"]) for r in rows}


def benches_of_others(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """source -> what all others have measured."""
    found = triples(rows)
    return {
        source: benches_of(t for t in found if t[0] != source) for source in {t[0] for t in found}
    }


def by_flag(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Answered rows of each metric with enough of them, in the metrics' order."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["predicted"] is not None:
            found[row["flag"]].append(row)
    return {flag: found[flag] for flag in FLAGS if len(found[flag]) >= FEWEST}


def entry_of(rows: Rows, style: Style, num_sources: int) -> dict[str, Any]:
    """One metric of intervals.json."""
    fitted = fit(rows, LEVELS, style)
    root = math.exp(fitted.scale.root)
    entry: dict[str, Any] = {
        "rows": int(rows.own.sum()),
        "sources": num_sources,
        "quantiles": {
            f"{level:g}": [_rounded(low * root), _rounded(high * root)]
            for level, (low, high) in fitted.quantiles.items()
        },
        "law": [[p, _rounded(value * root)] for p, value in fitted.law.items()],
    }
    for name, effects in fitted.scale.effects.items():
        kept = {k: _rounded(math.exp(v)) for k, v in effects.items() if abs(v) >= LEAST_EFFECT}
        if kept:
            entry[f"by_{name}"] = kept
    return entry


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def with_lengths(rows: Sequence[Row], truth: Path) -> list[Row]:
    """The rows with the prompt and output lengths that a truth file states. Raises AskError."""
    lengths = {r["id"]: {"isl": r.get("isl"), "osl": r.get("osl")} for r in read_csv(truth)}
    return [{**row, **lengths.get(row["id"], {})} for row in rows]


# two choices of one plan


def ratio_spread(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Relation of two rows of a bench -> level -> log of what their errors differ by.

    Rates of one model under one load: on the same device (other ranks, formats, versions), or on
    two devices. Each bench counts as the root of its pairs.
    """
    series: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for r in rows:
        closed = r["load_mode"] != "open_loop"  # whose output is the load itself
        if r["flag"] == "throughput" and closed and r["predicted"] is not None:
            load = r["load_mode"], r["concurrency"], r.get("isl"), r.get("osl")
            series[r["source"], r["model"], r["family"], *load].append(r)
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (source, *_), group in series.items():
        errors = [math.log(r["observed"] / r["predicted"]) for r in group]
        for i, a in enumerate(group):
            for j in range(i):
                same = a["device"] == group[j]["device"]
                relation = "same_device" if same else "other_device"
                found[relation][source].append(abs(errors[i] - errors[j]))
    result = {}
    for relation, by_source in sorted(found.items()):
        values = np.concatenate([np.array(v) for v in by_source.values()])
        weights = np.concatenate([np.full(len(v), len(v) ** -0.5) for v in by_source.values()])
        result[relation] = {
            f"{level:g}": _rounded(weighted_quantile(values, weights, level)) for level in LEVELS
        } | {"pairs": float(len(values)), "sources": float(len(by_source))}
    return result


# what left-out rows got


def report_of(
    rows: Sequence[Row], others: Mapping[str, Mapping[str, int]], folds: int
) -> dict[str, Any]:
    """flag -> group -> errors, coverage and width, by fits of other clusters alone."""
    result: dict[str, Any] = {}
    by_metric = by_flag(rows)
    for flag, found in by_metric.items():
        style = NEW if others else SEEN
        covered, width = left_out(rows_of(by_metric, flag, others), LEVELS, style, folds)
        groups: dict[str, list[int]] = {"all": list(range(len(found)))}
        for index, row in enumerate(found):
            groups.setdefault(row["arch"], []).append(index)
        result[flag] = {
            name: summary([found[i] for i in chosen], covered[LEVEL][chosen], width[LEVEL][chosen])
            for name, chosen in groups.items()
        }
        result[flag]["all"]["levels"] = {
            f"{level:g}": round(float(covered[level].mean()), 3) for level in LEVELS
        }
    return result


def summary(found: Sequence[Row], covered: np.ndarray, width: np.ndarray) -> dict[str, Any]:
    """n, sources, devices, errors, coverage of rows and of sources, median high over low."""
    errors = [abs(r["predicted"] / r["observed"] - 1.0) for r in found]
    by_source: dict[str, list[bool]] = defaultdict(list)
    for row, inside in zip(found, covered, strict=True):
        by_source[row["source"]].append(bool(inside))
    return {
        "n": len(found),
        "sources": len(by_source),
        "devices": len({r["device"] for r in found}),
        "median_ape": round(quantile(errors, 0.5), 4),
        "mape": round(mean(errors), 4),
        "p90_ape": round(quantile(errors, 0.9), 4),
        "bias": round(quantile([r["predicted"] / r["observed"] - 1.0 for r in found], 0.5), 4),
        "coverage": round(float(covered.mean()), 3),
        "source_coverage": round(mean([mean(v) for v in by_source.values()]), 3),
        "high_over_low": round(math.exp(float(np.median(width))), 2),
    }


def show(report: Mapping[str, Any]) -> str:
    """The report as text."""
    lines = [f"{'flag':13} {'group':8} {'n':>5} {'src':>3} {'median':>7} {'mape':>7} "
             f"{'covered':>8} {'by source':>9} {'high/low':>8}"]  # fmt: skip
    for flag, groups in report.items():
        for name, s in groups.items():
            lines.append(
                f"{flag:13} {name:8} {s['n']:5} {s['sources']:3} {s['median_ape']:7.1%} "
                f"{s['mape']:7.1%} {s['coverage']:8.1%} {s['source_coverage']:9.1%} "
                f"{s['high_over_low']:8.2f}"
            )
    return "\n".join(lines)


def document(new: Sequence[Row], seen: Sequence[Row]) -> dict[str, Any]:
    """What intervals.json holds."""
    settings = {}
    kinds = (("new", new, benches_of_others(new), NEW), ("seen", seen, {}, SEEN))
    for setting, rows, others, style in kinds:
        by_metric = by_flag(rows)
        settings[setting] = {
            flag: entry_of(
                rows_of(by_metric, flag, others), style, len({r["source"] for r in found})
            )
            for flag, found in by_metric.items()
        }
    return {
        "date": time.strftime("%Y-%m-%d"),
        "fit": "scripts/fit_intervals.py on predictions by fits that left the row's source out",
        "level": "of quantiles: share of measurements between them; log(measured / predicted)",
        "benches": benches_of(triples(new)),
        "ratios": ratio_spread(seen),
        "settings": settings,
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("residuals", type=Path)
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--quick", action="store_true", help="report by folds of sources")
    args = parser.parse_args(words)
    new = read_residuals(args.residuals)
    seen = read_residuals(args.seen) if args.seen else new
    if args.truth:
        seen = with_lengths(seen, args.truth)
    whole = document(new, seen)
    if args.out:
        args.out.write_text(json.dumps(whole, indent=1) + "\n")
    report = {
        "date": whole["date"],
        "new": report_of(new, benches_of_others(new), 10 if args.quick else 0),
        "seen": report_of(seen, {}, 10),
    }
    if args.report:
        args.report.write_text(json.dumps(report, indent=1) + "\n")
    for setting in ("new", "seen"):
        print(f"\n{setting}: 90 % intervals on what the fit had not seen")
        print(show(report[setting]))
    print("\nratios of two choices:", json.dumps(whole["ratios"]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
