"""The least-squares problem behind fit_coefficients.py: rows, numbers, priors, optimiser."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from latency_items import Item

from neoserve.catalog.coefficients import resolve_values
from neoserve.predict import latency_truth as truth
from neoserve.predict.serve import server_of
from neoserve.predict.step import StepModel

SCALE = 0.15  # log error beyond which a row pulls linearly
LEAST_FACTOR = 0.08  # log factors below this are dropped
ROUNDS = 3  # of dropping


class Coefficient(NamedTuple):
    """How one coefficient is fitted: its start, its meaning, what it may depend on."""

    start: float
    meaning: str
    by: str = ""  # c: device class, e: engine, p: their pair
    stage: int = 1  # 1: dense rows; 2: rows of experts and states, the rest held
    sigma: float = 0.0  # of the log of a factor; 0: 0.35 for shares, 0.8 for times


COEFFICIENTS = {
    "memory_share": Coefficient(0.80, "share of the bandwidth in reading weights", "cep"),
    "packed_share": Coefficient(0.85, "factor on it for weights under 16 bits", "c"),
    "kv_share": Coefficient(0.65, "share of the bandwidth in reading keys and values", "cep"),
    "matrix_share": Coefficient(0.65, "share of the dense peak in large matrix products", "cep"),
    "matrix_half_tokens": Coefficient(16.0, "rows that each product pays on top", "c"),
    "dtype_share.fp8": Coefficient(0.85, "factor on matrix_share when multiplying fp8", "ce"),
    "dtype_share.int8": Coefficient(0.70, "factor on matrix_share when multiplying int8", "c"),
    "dtype_share.fp4": Coefficient(0.60, "factor on matrix_share when multiplying fp4", "ce"),
    "block_share": Coefficient(0.9, "factor on matrix_share for block-scaled fp8", "c"),
    "unpack_share": Coefficient(0.80, "factor on matrix_share where weights are unpacked", "c"),
    "attention_share": Coefficient(0.40, "share of the 16-bit peak in prompt attention", "ce"),
    "overlap_power": Coefficient(3.0, "p of the norm that joins reading and multiplying", "c"),
    "layer_s": Coefficient(10e-6, "gaps between kernels, per decoder layer", "cep"),
    "launch_s": Coefficient(150e-6, "host time per layer of a step without graph replay", "ce"),
    "step_s": Coefficient(1e-3, "host time per step", "e"),
    "request_step_s": Coefficient(10e-6, "host time per step and running request", "e"),
    "admission_s": Coefficient(10e-3, "once per request before its first step", "e"),
    "prompt_token_s": Coefficient(1e-6, "once per prompt token", "e"),
    "convoy_share": Coefficient(0.2, "closed-loop requests that still start together", "e", 1, 0.8),
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
BLOCKS = "block_share"  # a format that some classes show with experts and hybrids only
GROUPS = {"c": "by_class", "e": "by_engine", "p": "by_pair"}
_FEWEST = {"by_class": 3, "by_engine": 3, "by_pair": 20}


class Name(NamedTuple):
    """One fitted number."""

    coefficient: str
    group: str  # "" for the root
    key: str = ""


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
        self.spans = [(int(a), int(b)) for a, b in pairwise(ends)]
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

    def fit(self, theta: np.ndarray, steps: int) -> np.ndarray:
        """Levenberg-Marquardt with reweighting, from a point."""
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
        return theta


def sigma_of(name: Name) -> float:
    """Width of the prior of one log factor."""
    share = "share" in name.coefficient or name.coefficient == "overlap_power"
    width = COEFFICIENTS[name.coefficient].sigma or (0.35 if share else 0.8)
    if "cpu" in name.key:
        return 3 * width  # CPU engines span what GPUs do not
    if name.key.endswith("|vllm-v0"):
        return 2 * width  # what an early engine does badly on a device says little of the device
    return width * (0.7 if name.group == "by_pair" else 1.0)


def sparser(problem: Problem, theta: np.ndarray) -> tuple[Problem, np.ndarray]:
    """The factors that matter, under a pull that grows as they shrink (reweighted L1)."""
    root = np.array([not name.group for name in problem.names])
    keep = root | (np.abs(theta) > LEAST_FACTOR)
    names = [name for name, kept in zip(problem.names, keep, strict=True) if kept]
    smaller = Problem(problem.items, names, problem.held)
    left = theta[keep]
    pull = np.where(root[keep], 1.0, np.maximum(np.abs(left) / smaller.sigma, 0.1))
    smaller.sigma = smaller.sigma * np.sqrt(np.minimum(pull, 1.0))
    return smaller, left


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
            group = GROUPS[letter]
            names += [
                Name(coefficient, group, key)
                for (kind, key), rows in sorted(count.items())
                if kind == group and rows >= _FEWEST[group] and (new or (kind, key) not in frozen)
            ]
    return names


def in_blocks(item: Item) -> bool:
    """Whether a row's weights are fp8 with scales by blocks."""
    stored = item.model.quantization
    return "fp8" in stored.compute.values() and any(8 < bits < 8.1 for bits in stored.bits.values())


def late_block_names(items: list[Item], stage: int, seen: set[str]) -> list[Name]:
    """Classes whose first rows in that format come in the second stage."""
    if stage == 1:
        return []
    late = {i.device_class for i in items if in_blocks(i)} - seen
    return [Name(BLOCKS, "by_class", key) for key in sorted(late)]


def start_entries() -> dict[str, Any]:
    """Every coefficient at its start, without factors."""
    return {name: {"value": spec.start} for name, spec in COEFFICIENTS.items()}


def fit_all(items: list[Item], steps: int) -> dict[str, Any]:
    """Dense rows first, so that experts and states cannot bend what dense models measure."""
    held = start_entries()
    frozen: set[tuple[str, str]] = set()
    blocks: set[str] = set()
    for stage, archs in ((1, ("dense",)), (2, ("moe", "hybrid", "unknown"))):
        chosen = [i for i in items if i.case.arch in archs]
        names = names_of(chosen, stage, frozen) + late_block_names(chosen, stage, blocks)
        print(f"stage {stage}: {len(chosen)} rows, {len(names)} numbers", file=sys.stderr)
        problem = Problem(chosen, names, held)
        theta = problem.fit(np.zeros(len(names)), steps)
        for _ in range(ROUNDS):
            problem, theta = sparser(problem, theta)
            print(f"  {len(theta)} numbers left", file=sys.stderr)
            theta = problem.fit(theta, max(3, steps // 2))
        held = problem.entries(theta)
        blocks |= {i.device_class for i in chosen if in_blocks(i)}
        frozen |= {pair for i in chosen for pair in i.keys().items()}
    return held
