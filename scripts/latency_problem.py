"""The least-squares problem behind fit_coefficients.py: rows, numbers, priors, optimiser."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from latency_arrays import FLAGS, Array, Rows, geometry
from latency_items import Item
from operator_rows import Operators

from neoserve.catalog.coefficients import bounded

SCALE = 0.15  # log error beyond which a row pulls linearly
MOVE = 0.03  # of a log coefficient, in differences
BURST_WEIGHT = 0.3  # hundreds of requests at once: a queue in front more than a speed
OPERATOR_WEIGHT = 0.3  # of a kernel beside a served row: its law is one of many that make a step
ENDED_EARLY = 0.7  # tokens given over tokens asked, by a row's own figures


class Coefficient(NamedTuple):
    """How one coefficient is fitted: its start, its meaning, what it may depend on."""

    start: float
    meaning: str
    by: str = ""  # c: device class, e: engine, v: its era, p: class and era, d: device
    sigma: float = 0.0  # of the log of a factor; 0: 0.35 for shares, 0.8 for times


COEFFICIENTS = {
    "memory_share": Coefficient(0.80, "share of the bandwidth in reading weights", "cevpd", 0.2),
    "packed_share": Coefficient(0.85, "factor on it for weights under 16 bits", "cvp", 0.12),
    "kv_share": Coefficient(0.65, "share of the bandwidth in reading keys and values", "cevp"),
    "kv_packed_share": Coefficient(0.9, "factor on it for keys and values under 16 bits", "cev"),
    "matrix_share": Coefficient(0.65, "share of the dense peak in large products", "cevpd"),
    "matrix_half_tokens": Coefficient(16.0, "rows that each product pays on top", "cvp"),
    "dtype_share.fp8": Coefficient(0.85, "factor on matrix_share when multiplying fp8", "cev"),
    "dtype_share.int8": Coefficient(0.70, "factor on matrix_share when multiplying int8", "cevp"),
    "dtype_share.fp4": Coefficient(0.60, "factor on matrix_share when multiplying fp4", "cev"),
    "block_share": Coefficient(0.9, "factor on matrix_share for block-scaled fp8", "cv"),
    "unpack_share": Coefficient(0.80, "factor on matrix_share where weights are unpacked", "cvp"),
    "core_drag": Coefficient(0.01, "what each core of a CPU takes from all in products", "ev", 0.8),
    "attention_share": Coefficient(0.40, "share of the 16-bit peak in prompt attention", "cevp"),
    "overlap_power": Coefficient(2.0, "p - 1 of the norm that joins reading, multiplying", "cv"),
    "layer_s": Coefficient(10e-6, "gaps between kernels, per decoder layer", "cevp"),
    "launch_s": Coefficient(150e-6, "host time per layer of a step without graph replay", "cevp"),
    "step_s": Coefficient(1e-3, "host time per step", "evp"),
    "request_step_s": Coefficient(10e-6, "host time per step and running request", "evp"),
    "admission_s": Coefficient(10e-3, "once per request before its first step", "evp"),
    "request_serial_s": Coefficient(2e-3, "front end's time per request of a burst", "ev"),
    "prompt_token_s": Coefficient(1e-6, "once per prompt token", "ev"),
    "convoy_odds": Coefficient(0.2, "odds of starting together, for short prompts", "ev", 0.8),
    "collective_s": Coefficient(8e-6, "an empty all-reduce of two devices", "cev"),
    "collective_share": Coefficient(0.60, "share of the link's bandwidth", "cv"),
    "expert_share": Coefficient(0.60, "factor on matrix_share for routed experts", "cevp"),
    "expert_dtype_share.fp8": Coefficient(0.8, "factor on both when experts multiply fp8", "cev"),
    "expert_dtype_share.block": Coefficient(0.6, "the same for block-scaled fp8", "cev"),
    "expert_dtype_share.fp4": Coefficient(0.5, "the same for fp4", "cev"),
    "expert_dtype_share.int8": Coefficient(0.7, "the same for int8", "cev"),
    "expert_dtype_share.unpacked": Coefficient(0.6, "the same where weights are unpacked", "cev"),
    "expert_memory_share": Coefficient(0.80, "factor on memory_share for experts", "cevp"),
    "expert_half_tokens": Coefficient(8.0, "rows that each touched expert pays on top", "cv"),
    "expert_layer_s": Coefficient(20e-6, "routing and permuting, per layer with experts", "cev"),
    "state_share": Coefficient(0.60, "share of the bandwidth for recurrent states", "ce"),
    "scan_share": Coefficient(0.15, "share of the 16-bit peak in recurrent scans", "ce"),
    "state_layer_s": Coefficient(10e-6, "extra kernels, per recurrent layer", "ce"),
    "expert_imbalance": Coefficient(1.2, "busiest expert-parallel rank over the mean"),
}  # fmt: skip
GROUPS = {"c": "by_class", "e": "by_engine", "v": "by_era", "p": "by_pair", "d": "by_device"}
_FEWEST = {"by_class": 3, "by_engine": 3, "by_era": 3, "by_pair": 12, "by_device": 6}
# How well a CPU multiplies is its engine's kernels: one engine on its class tells of no other.
_BY_KERNEL = ("matrix_share", "matrix_half_tokens", "dtype_share.int8", "unpack_share",
              "attention_share")  # fmt: skip
# Each level is pulled to its parent, the more the finer it is.
_WIDTHS = {"": 1.5, "by_class": 0.8, "by_engine": 0.7, "by_era": 0.7, "by_pair": 0.5,
           "by_device": 0.2}  # fmt: skip

class Name(NamedTuple):
    """One fitted number."""

    coefficient: str
    group: str  # "" for the root
    key: str = ""


class Truth:
    """Rows with their figures: one log observation for each flag of each row, and its weight."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items, self.geometry = items, geometry(items)
        pairs = [(i, f, v) for i, item in enumerate(items) for f, v in item.observed.items()]
        self.row = np.array([i for i, _, _ in pairs])
        self.flag = np.array([FLAGS.index(f) for _, f, _ in pairs])
        self.observed = np.log([v for _, _, v in pairs])
        self.keys = [item.keys() for item in items]
        series = [
            (items[i].case.source, items[i].case.device, items[i].family, f) for i, f, _ in pairs
        ]
        sizes = Counter(series)
        self.weights = np.array([
            sizes[s] ** -0.5 * _trust(items[i], f)
            for s, (i, f, _) in zip(series, pairs, strict=True)
        ])  # fmt: skip


def _trust(item: Item, flag: str) -> float:
    """0 for what its source calls an experiment, and for a rate of requests that, by the row's own
    times, ended before their stated length."""
    case, seen = item.case, item.observed
    if "experimental" in case.source:
        return 0.0
    if flag in ("throughput", "tput256") and case.load_mode == "static_batch" and (
        {"ttft", "batched_tpot"} <= set(seen)
    ):  # fmt: skip
        asked = case.workload.concurrency * case.workload.output_tokens
        lasted_s = seen["ttft"] + (case.workload.output_tokens - 1) * seen["batched_tpot"]
        if seen[flag] * lasted_s < ENDED_EARLY * asked:
            return 0.0
    return BURST_WEIGHT if case.load_mode == "burst" else 1.0


def names_of(truth: Truth) -> list[Name]:
    """Every root, and a factor for each group that has rows enough."""
    count = Counter(pair for keys in truth.keys for pair in keys.items())
    names = []
    for coefficient, spec in COEFFICIENTS.items():
        names.append(Name(coefficient, ""))
        for letter in spec.by:
            group = GROUPS[letter]
            names += [
                Name(coefficient, group, key)
                for (kind, key), rows in sorted(count.items())
                if kind == group
                and rows >= _FEWEST[group]
                and not (group == "by_class" and key.endswith("-cpu") and coefficient in _BY_KERNEL)
            ]
    return names


def sigma_of(name: Name) -> float:
    """Width of the prior of one log factor."""
    spec = COEFFICIENTS[name.coefficient]
    is_time = name.coefficient.endswith(("_s", "_half_tokens"))
    width = (spec.sigma or (0.8 if is_time else 0.35)) * _WIDTHS[name.group]
    return 3 * width if "cpu" in name.key else width  # CPU engines span what GPUs do not


class Problem:
    """Rows and kernels, and the numbers that explain them."""

    def __init__(
        self, truth: Truth, names: Sequence[Name], operators: Operators | None = None
    ) -> None:
        self.truth, self.names, self.operators = truth, list(names), operators
        keys, self._rows = list(truth.keys), len(truth.keys)
        self._moved: dict[str, Array] = {}
        self.observed, self.weights, self._row = truth.observed, truth.weights, truth.row
        if operators is not None:
            keys += operators.keys
            self.observed = np.concatenate([self.observed, operators.observed])
            self.weights = np.concatenate([self.weights, OPERATOR_WEIGHT * operators.weights])
            more = self._rows + np.arange(len(operators.keys))
            self._row = np.concatenate([self._row, more])
        self.sigma = np.array([sigma_of(name) for name in names])
        self._of = defaultdict(list)
        for column, name in enumerate(self.names):
            self._of[name.coefficient].append(column)
        self._members = [
            np.array([not n.group or key[n.group] == n.key for key in keys]) for n in self.names
        ]

    def raw(self, theta: Array) -> dict[str, Array]:
        """Each coefficient of each row, before it is bounded."""
        found = {}
        for name, spec in COEFFICIENTS.items():
            logs = np.full(len(self._members[0]), math.log(spec.start))
            for column in self._of[name]:
                logs = logs + theta[column] * self._members[column]
            found[name] = np.exp(logs)
        return found

    def predict(self, raw: dict[str, Array]) -> Array:
        """Log predictions of every observation."""
        c, n = bounded(raw), self._rows
        said = Rows(self.truth.geometry, {k: v[:n] for k, v in c.items()}).predictions()
        logs = np.log(np.maximum(said, 1e-12))[self.truth.row, self.truth.flag]
        if self.operators is None:
            return np.asarray(logs)
        kernels = self.operators.predict({k: v[n:] for k, v in c.items()})
        return np.concatenate([logs, kernels])

    def served(self, theta: Array) -> Array:
        """Log predictions of the served rows' observations, without the kernels."""
        return self.predict(self.raw(theta))[: len(self.truth.row)]

    def cost(self, predicted: Array, theta: Array, weights: Array) -> float:
        """Pseudo-Huber on log errors, plus the pull of the priors."""
        u = (predicted - self.observed) / SCALE
        data = float(np.sum(weights * 2 * (np.sqrt(1 + u**2) - 1)))
        return data + 0.5 * float(np.sum((theta / self.sigma) ** 2))

    def jacobian(self, theta: Array, base: Array) -> Array:
        """By differences in each coefficient; all its factors move it alike, on their own rows."""
        raw, row = self.raw(theta), self._row
        result = np.zeros((len(base), len(self.names)), np.float32)
        for name, columns in self._of.items():
            moved = {**raw, name: raw[name] * math.exp(MOVE)}
            slope = self._slope(name, moved, base)
            for column in columns:
                result[:, column] = slope * self._members[column][row]
        return result

    def _slope(self, name: str, moved: dict[str, Array], base: Array) -> Array:
        """Of the served rows, only those that the coefficient has ever moved are computed."""
        rows, truth = self._moved.get(name), self.truth
        if rows is None:
            slope = (self.predict(moved) - base) / MOVE
            self._moved[name] = np.unique(truth.row[slope[: len(truth.row)] != 0])
            return slope
        c = bounded(moved)
        mine = {key: value[rows] for key, value in truth.geometry.items()}
        said = Rows(mine, {key: value[rows] for key, value in c.items()}).predictions()
        place = np.searchsorted(rows, truth.row).clip(max=max(len(rows) - 1, 0))
        touched = (rows[place] == truth.row) if len(rows) else np.zeros(len(place), bool)
        logs = base[: len(truth.row)].copy()
        logs[touched] = np.log(np.maximum(said, 1e-12))[place[touched], truth.flag[touched]]
        if self.operators is not None:
            kernels = self.operators.predict({k: v[self._rows :] for k, v in c.items()})
            logs = np.concatenate([logs, kernels])
        return (logs - base) / MOVE

    def fit(self, theta: Array, steps: int, weights: Array | None = None) -> Array:
        """Levenberg-Marquardt with reweighting, from a point."""
        weights = self.weights if weights is None else weights
        predicted, damping = self.predict(self.raw(theta)), 0.1
        cost, used = self.cost(predicted, theta, weights), weights > 0
        for step in range(steps):
            started, before = time.monotonic(), cost
            jac, error = self.jacobian(theta, predicted), predicted - self.observed
            pull = weights / np.sqrt(1 + (error / SCALE) ** 2) / SCALE**2
            part = jac[used]
            hess = (part.T @ (part * pull[used, None].astype(np.float32))).astype(float)
            hess += 0.5 * np.diag(self.sigma**-2)
            grad = jac.T @ (pull * error) + 0.5 * theta / self.sigma**2
            for _ in range(7):
                move = np.linalg.solve(hess + damping * np.diag(np.diag(hess)), -grad)
                trial = theta + np.clip(move, -0.7, 0.7)
                values = self.predict(self.raw(trial))
                if (new := self.cost(values, trial, weights)) < cost:
                    theta, predicted, cost = trial, values, new
                    damping = max(damping / 4, 1e-3)
                    break
                damping *= 5
            print(f"  step {step}: cost {cost:.1f}, {time.monotonic() - started:.0f} s",
                  file=sys.stderr, flush=True)  # fmt: skip
            if before - cost < 5e-4 * before:
                break
        return theta

    def entries(self, theta: Array, least_factor: float = 0.0) -> dict[str, Any]:
        """Coefficient entries at a point, without factors whose log is below `least_factor`."""
        data: dict[str, Any] = {}
        for name, value in zip(self.names, theta, strict=True):
            if not name.group:
                start = COEFFICIENTS[name.coefficient].start
                data[name.coefficient] = {"value": start * math.exp(value)}
            elif abs(value) >= least_factor:
                group = data[name.coefficient].setdefault(name.group, {})
                group[name.key] = {"factor": math.exp(value)}
        return data
