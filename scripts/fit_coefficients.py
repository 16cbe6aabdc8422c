"""Fit catalog/data/coefficients.json to a latency truth file.

    python scripts/fit_coefficients.py TRUTH.csv [--out FILE] [--rows-per-series N] [--report]

Needs numpy beside neoserve. Rows are weighted so that a series counts as the square root of its
length; the loss is pseudo-Huber on the log error; every factor is pulled towards one. Rows are
left out by the rules below only, never by the size of their error. Deterministic.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neoserve.catalog.coefficients import device_class, engine_family, resolve_values
from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.truth_names import stored_model
from neoserve.errors import AskError
from neoserve.predict import latency_truth as truth
from neoserve.predict.kv import capacity, layout
from neoserve.predict.memory import budget, resolved
from neoserve.predict.serve import server_of
from neoserve.predict.step import Shape, StepModel, data_ranks, shape_of
from neoserve.predict.weights import rank_weights
from neoserve.schema.engine import Deployment
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.model import ModelSpec

FIT_FLAGS = ("single_tpot", "batched_tpot", "ttft", "batch_prefill", "prefill_rate", "e2e_single",
             "e2e_batched", "throughput", "tput256")  # fmt: skip
SIZED = ("vllm", "sglang", "tensorrt-llm", "atom")  # engines that size a paged cache
SUSTAINED_SHARE = 0.6  # of the peak: more than any engine computes while it decodes
SCALE = 0.15  # log error beyond which a row pulls linearly
EVIDENCE = 1.5  # standard errors from one below which a factor is dropped
LEAST_FACTOR = 0.1  # and log factors below this


class Coefficient(NamedTuple):
    """How one coefficient is fitted: its start, its meaning, what it may depend on."""

    start: float
    meaning: str
    by: str = ""  # c: device class, e: engine, p: their pair
    stage: int = 1  # 1: dense rows; 2: rows of experts and states, the rest held
    sigma: float = 0.0  # of the log of a factor; 0: 0.35 for shares, 0.8 for times


COEFFICIENTS = {
    "memory_share": Coefficient(0.80, "share of the bandwidth that streaming weights reaches", "cep"),
    "packed_share": Coefficient(0.85, "factor on it for weights under 16 bits", "c"),
    "kv_share": Coefficient(0.65, "share of the bandwidth when decoding reads keys and values", "cep"),
    "matrix_share": Coefficient(0.65, "share of the dense peak in large matrix products", "cep"),
    "matrix_half_tokens": Coefficient(16.0, "rows that each product pays on top", "cp"),
    "dtype_share.fp8": Coefficient(0.85, "factor on matrix_share when multiplying fp8", "ce"),
    "dtype_share.int8": Coefficient(0.70, "factor on matrix_share when multiplying int8", "c"),
    "dtype_share.fp4": Coefficient(0.60, "factor on matrix_share when multiplying fp4", "ce"),
    "unpack_share": Coefficient(0.80, "factor on matrix_share when weights are unpacked first", "c"),
    "attention_share": Coefficient(0.40, "share of the 16-bit peak in attention over a prompt", "ce"),
    "overlap_power": Coefficient(3.0, "p of the norm that joins reading and multiplying", "c"),
    "layer_s": Coefficient(10e-6, "gaps between kernels, per decoder layer", "cep"),
    "launch_s": Coefficient(150e-6, "host time per layer of a step without graph replay", "cep"),
    "step_s": Coefficient(1e-3, "host time per step", "ep"),
    "request_step_s": Coefficient(10e-6, "host time per step and running request", "ep"),
    "admission_s": Coefficient(10e-3, "once per request before its first step", "ep"),
    "prompt_token_s": Coefficient(1e-6, "once per prompt token", "e"),
    "collective_s": Coefficient(8e-6, "an empty all-reduce of two devices", "ce"),
    "collective_share": Coefficient(0.60, "share of the link's bandwidth", "c"),
    "expert_share": Coefficient(0.60, "factor on matrix_share for routed experts", "ce", 2),
    "expert_memory_share": Coefficient(0.80, "factor on memory_share for routed experts", "ce", 2),
    "expert_half_tokens": Coefficient(8.0, "rows that each touched expert pays on top", "ce", 2),
    "expert_layer_s": Coefficient(20e-6, "routing and permuting, per layer with experts", "ce", 2),
    "state_share": Coefficient(0.60, "share of the bandwidth for recurrent states", "ce", 2),
    "scan_share": Coefficient(0.15, "share of the 16-bit peak in recurrent scans", "ce", 2),
    "state_layer_s": Coefficient(10e-6, "extra kernels, per recurrent layer", "ce", 2),
    "expert_imbalance": Coefficient(1.2, "busiest expert-parallel rank over the mean", "", 3),
}  # fmt: skip
_GROUPS = {"c": "by_class", "e": "by_engine", "p": "by_pair"}
_FEWEST = {"by_class": 3, "by_engine": 3, "by_pair": 8}


class Item(NamedTuple):
    """One row, resolved."""

    case: truth.Case
    model: ModelSpec
    shape: Shape
    hardware: HardwareSpec
    device_class: str
    family: str
    observed: dict[str, float]
    kv_tokens: float | None  # that the cache holds; None: it does not bind

    def keys(self) -> dict[str, str]:
        """The name of its group in each grouping."""
        return {
            "by_class": self.device_class,
            "by_engine": self.family,
            "by_pair": f"{self.device_class}|{self.family}",
        }


class Name(NamedTuple):
    """One fitted number."""

    coefficient: str
    group: str  # "" for the root
    key: str = ""


def cpu_slice(hardware: HardwareSpec, threads: int) -> HardwareSpec:
    """The part of a socket that so many threads use; half of them already fill its memory."""
    if hardware.kind != "cpu" or not 0 < threads < hardware.cores:
        return hardware
    share = threads / hardware.cores
    return hardware.replace(
        peak_flops_per_s={k: v * share for k, v in hardware.peak_flops_per_s.items()},
        bandwidth_bytes_per_s=hardware.bandwidth_bytes_per_s * min(1.0, 2.0 * share),
        cores=threads,
    )


def kv_tokens(case: truth.Case, model: ModelSpec, hardware: HardwareSpec) -> float | None:
    """What the engine's own budget leaves for the cache, in tokens of this workload's requests."""
    if case.workload.concurrency < 4 or hardware.kind == "cpu" or case.engine not in SIZED:
        return None
    context = case.workload.prompt_tokens + case.workload.output_tokens // 2
    try:
        profile = find_profile(case.engine, case.deployment.engine_version)
        asked = case.deployment.replace(max_model_len=context, pipeline_parallel=1)
        deployment = resolved(asked, model, hardware, profile)
        free = [budget(model, deployment, profile, hardware).available_kv_bytes]
        plan = layout(model, deployment, profile, hardware)
        batched = deployment.max_num_batched_tokens or 0
        fit = capacity(plan, model, deployment, profile, free, context, batched)
    except AskError:
        return None
    # It ran, so one request fits; several attention copies hold a cache each.
    return max(fit.kv.max_concurrency, 1.0) * context * data_ranks(case.deployment)


class Resolver:
    """Names of rows -> documents, each once; counts what it cannot name."""

    def __init__(self) -> None:
        self.shapes: dict[int, Shape] = {}
        self.unnamed: Counter[str] = Counter()

    def item(self, row: dict[str, str], flags: Iterable[str]) -> Item | None:
        case = truth.case_of(row)
        observed = {f: v for f, v in case.observed.items() if f in flags}
        if not observed:
            return None
        try:
            model = stored_model(case.model, case.scheme, case.weight_dtype, case.engine)
            hardware = cpu_slice(find_machine(case.device).hardware, case.threads)
        except AskError as error:
            self.unnamed[str(error).split(";")[0]] += 1
            return None
        shape = self.shapes.setdefault(id(model), shape_of(model))
        family = engine_family(case.deployment.engine, case.deployment.engine_version)
        tokens = kv_tokens(case, model, hardware)
        return Item(case, model, shape, hardware, device_class(hardware), family, observed, tokens)


def read_items(
    rows: Sequence[dict[str, str]], flags: Iterable[str], rows_per_series: int, fitting: bool
) -> tuple[list[Item], Resolver, Counter[str]]:
    """All modelled primary rows, and what was left out, by rule; for fitting also thinned."""
    resolver, ruled_out = Resolver(), Counter[str]()
    items = []
    for row in rows:
        if not truth.plain_flags(row):
            continue
        if reason := truth.left_out(row):
            ruled_out[reason] += 1
        elif item := resolver.item(row, flags):
            items.append(item)
    warm = {truth.series(i.case) for i in items if _beyond_peak(i)}
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        reason = ""
        if truth.series(item.case) in warm:
            reason = "prompts served from a warm cache"
        elif _ends_early(item):
            reason = "output ended before its stated length"
        groups[reason].append(item)
    ruled_out.update({reason: len(group) for reason, group in groups.items() if reason})
    kept = groups[""]
    return (_thin(kept, rows_per_series) if fitting else kept), resolver, ruled_out


def _beyond_peak(item: Item) -> bool:
    peaks = item.hardware.peak_flops_per_s
    compute = item.model.quantization.compute
    dtype = compute.get("mlp", compute.get("experts", "bf16"))
    peak = peaks.get(dtype) or max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0), peaks["fp32"])
    share = truth.prompt_flops_share(item.case, item.model.active_params, peak)
    return share > SUSTAINED_SHARE


def _ends_early(item: Item) -> bool:
    dense = item.case.arch == "dense"
    weights = rank_weights(item.model, Deployment()).total_bytes if dense else 0
    return truth.ends_early(item.case, weights, item.hardware.bandwidth_bytes_per_s)


def _thin(items: list[Item], keep: int) -> list[Item]:
    groups: dict[Any, list[Item]] = defaultdict(list)
    for i in items:
        groups[(*truth.series(i.case), i.case.device, i.case.load_mode, i.case.scheme)].append(i)
    return [
        i for group in groups.values() for i in group[:: max(1, math.ceil(len(group) / keep))]
    ]


class Problem:
    """Rows, weights and the numbers that explain them."""

    def __init__(self, items: list[Item], names: list[Name], held: dict[str, Any]) -> None:
        self.items, self.names, self.held = items, names, held
        sizes = Counter((*self._series(i), f) for i in items for f in i.observed)
        self.weights = np.array(
            [sizes[(*self._series(i), f)] ** -0.5 for i in items for f in i.observed]
        )
        self.observed = np.log([v for i in items for v in i.observed.values()])
        ends = np.cumsum([0, *(len(i.observed) for i in items)])
        self.spans = [(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
        self.members: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, item in enumerate(items):
            for group, key in item.keys().items():
                self.members[group, key].append(index)
        self.sigma = np.array([sigma_of(n) for n in names])

    @staticmethod
    def _series(item: Item) -> tuple[str, str, str]:
        return item.case.source, item.case.device, item.family

    def entries(self, theta: np.ndarray) -> dict[str, Any]:
        """Coefficient entries at a point."""
        data: dict[str, Any] = json.loads(json.dumps(self.held))
        for name, value in zip(self.names, theta, strict=True):
            entry = data[name.coefficient]
            if not name.group:
                entry["value"] *= math.exp(value)
            else:
                groups = entry.setdefault(name.group, {})
                before = groups.get(name.key, {}).get("factor", 1.0)
                groups[name.key] = {"factor": before * math.exp(value)}
        return data

    def predict(self, theta: np.ndarray, which: Iterable[int]) -> dict[int, list[float]]:
        """Log predictions of some rows."""
        entries = self.entries(theta)
        resolved: dict[tuple[str, str], Any] = {}
        result = {}
        for index in which:
            item = self.items[index]
            pair = item.device_class, item.family
            if pair not in resolved:
                resolved[pair] = resolve_values(entries, *pair)
            result[index] = predict_item(item, resolved[pair])
        return result

    def vector(self, theta: np.ndarray) -> np.ndarray:
        """Log predictions of all rows."""
        predicted = self.predict(theta, range(len(self.items)))
        return np.concatenate([predicted[i] for i in range(len(self.items))])

    def cost(self, predicted: np.ndarray, theta: np.ndarray) -> float:
        """Pseudo-Huber on log errors, plus the pull of the priors."""
        u = (predicted - self.observed) / SCALE
        data = float(np.sum(self.weights * 2 * (np.sqrt(1 + u**2) - 1)))
        return data + 0.5 * float(np.sum((theta / self.sigma) ** 2))

    def jacobian(self, theta: np.ndarray, base: np.ndarray) -> np.ndarray:
        """By differences; a factor of a group moves only that group's rows."""
        everything = range(len(self.items))
        result = np.zeros((len(self.observed), len(self.names)))
        for column, name in enumerate(self.names):
            rows = self.members[name.group, name.key] if name.group else everything
            moved = theta.copy()
            moved[column] += 0.03
            for index, values in self.predict(moved, rows).items():
                a, b = self.spans[index]
                result[a:b, column] = (np.asarray(values) - base[a:b]) / 0.03
        return result

    def fit(self, steps: int) -> np.ndarray:
        """Levenberg-Marquardt with reweighting."""
        theta = np.zeros(len(self.names))
        base = self.vector(theta)
        cost, damping = self.cost(base, theta), 0.1
        for step in range(steps):
            started = time.monotonic()
            jac = self.jacobian(theta, base)
            error = base - self.observed
            weight = self.weights / np.sqrt(1 + (error / SCALE) ** 2) / SCALE**2
            hess = jac.T @ (jac * weight[:, None]) + 0.5 * np.diag(self.sigma**-2)
            grad = jac.T @ (weight * error) + 0.5 * theta / self.sigma**2
            before = cost
            for _ in range(7):
                move = np.linalg.solve(hess + damping * np.diag(np.diag(hess)), -grad)
                trial = theta + np.clip(move, -0.7, 0.7)
                values = self.vector(trial)
                if (new := self.cost(values, trial)) < cost:
                    theta, base, cost, damping = trial, values, new, max(damping / 4, 1e-3)
                    break
                damping *= 5
            print(f"  step {step}: cost {cost:.1f}, {time.monotonic() - started:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
            if before - cost < 1e-3 * before:
                break
        self.spread = np.sqrt(np.diag(np.linalg.inv(hess)))
        return theta

    def evident(self, theta: np.ndarray) -> list[bool]:
        """Which numbers the rows ask for: roots, and factors beyond their own uncertainty."""
        sure = np.abs(theta) > np.maximum(EVIDENCE * self.spread, LEAST_FACTOR)
        return [not name.group or bool(is_sure) for name, is_sure in zip(self.names, sure, strict=True)]


def sigma_of(name: Name) -> float:
    """Width of the prior of one log factor."""
    share = "share" in name.coefficient or name.coefficient == "overlap_power"
    width = COEFFICIENTS[name.coefficient].sigma or (0.35 if share else 0.8)
    if "cpu" in name.key:
        return 3 * width  # CPU engines span what GPUs do not
    return width * (0.7 if name.group == "by_pair" else 1.0)


def predict_item(item: Item, coefficients: Any) -> list[float]:
    """Log predictions of one row, through the product's own functions."""
    case = item.case
    step = StepModel(item.model, item.hardware, case.deployment, coefficients, item.shape)
    server = server_of(
        step, item.hardware, case.deployment, coefficients, case.workload, item.kv_tokens
    )
    said = truth.predictions(case, server)
    return [math.log(max(said[flag], 1e-12)) for flag in item.observed]


def names_of(items: list[Item], stage: int, frozen: set[tuple[str, str]]) -> list[Name]:
    """Numbers to fit in a stage: its coefficients, and in stage 2 the groups new to it."""
    count: Counter[tuple[str, str]] = Counter()
    for item in items:
        count.update(item.keys().items())
    names = []
    for coefficient, spec in COEFFICIENTS.items():
        if spec.stage > stage:
            continue
        new = spec.stage == stage
        if new:
            names.append(Name(coefficient, ""))
        for letter in spec.by:
            group = _GROUPS[letter]
            names += [
                Name(coefficient, group, key)
                for (kind, key), rows in sorted(count.items())
                if kind == group and rows >= _FEWEST[group] and (new or (kind, key) not in frozen)
            ]
    return names


def start_entries() -> dict[str, Any]:
    """Every coefficient at its start, without factors."""
    return {name: {"value": spec.start} for name, spec in COEFFICIENTS.items()}


def fit_all(items: list[Item], steps: int) -> dict[str, Any]:
    """Dense rows first, so that experts and states cannot bend what dense models measure."""
    held = start_entries()
    frozen: set[tuple[str, str]] = set()
    for stage, archs in ((1, ("dense",)), (2, ("moe", "hybrid", "unknown"))):
        chosen = [i for i in items if i.case.arch in archs]
        names = names_of(chosen, stage, frozen)
        print(f"stage {stage}: {len(chosen)} rows, {len(names)} numbers", file=sys.stderr)
        problem = Problem(chosen, names, held)
        kept = problem.evident(problem.fit(steps))
        names = [name for name, keep in zip(names, kept, strict=True) if keep]
        print(f"  {len(names)} numbers are evident", file=sys.stderr)
        problem = Problem(chosen, names, held)
        held = problem.entries(problem.fit(steps))
        frozen |= {pair for i in chosen for pair in i.keys().items()}
    return held


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
        for group in _GROUPS.values():
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


def print_table(
    found: list[truth.Comparison], key: Callable[[truth.Comparison], str], fewest: int = 1
) -> None:
    """Errors by flag and key."""
    print(f"{'flag':13} {'group':34} {'n':>5} {'src':>3} {'dev':>3} {'median':>7} "
          f"{'by source':>9} {'mape':>7} {'p90':>6} {'bias':>7}")  # fmt: skip
    tables = truth.table(found, key)
    for flag in (f for f in truth.FLAGS if f in tables):
        for name, s in tables[flag].items():
            if s["n"] >= fewest:
                print(f"{flag:13} {name[:34]:34} {s['n']:5} {s['sources']:3} {s['devices']:3} "
                      f"{s['median_ape']:7.1%} {s['source_median_ape']:9.1%} {s['mape']:7.1%} "
                      f"{s['p90_ape']:6.0%} {s['bias']:+7.1%}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("truth", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows-per-series", type=int, default=12)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--use", type=Path, help="report these coefficients instead of fitting")
    args = parser.parse_args()
    rows = list(csv.DictReader(args.truth.open(newline="")))
    if args.use:
        entries = json.loads(args.use.read_text())["coefficients"]
    else:
        items, _, _ = read_items(rows, FIT_FLAGS, args.rows_per_series, True)
        entries = fit_all(items, args.steps)
    items, resolver, ruled_out = read_items(rows, truth.FLAGS, 0, False)
    if args.out:
        text = json.dumps(document(items, entries, rows), indent=1, ensure_ascii=False)
        args.out.write_text(text + "\n")
    found = comparisons(items, entries)
    print("left out by rule:", dict(ruled_out))
    print("not named:", sum(resolver.unnamed.values()), resolver.unnamed.most_common(5))
    for title, key, fewest in (
        ("architecture", lambda c: c.case.arch, 1),
        ("engine", lambda c: f"{c.case.arch} {c.case.engine}", 5),
        ("device class", lambda c: f"{c.case.arch} {classes[c.case.id]}", 5),
    ):
        classes = {i.case.id: i.device_class for i in items}
        print(f"\nby {title}")
        print_table(found, key, fewest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
