"""Intervals from residuals: a width by groups, shrunk to its parent, and conformal quantiles.

A residual is log(measured / predicted). Its scale is exp of a sum of effects, one for each group
that a row is in, found by the likelihood of a Laplace law under a normal prior; the quantiles are
of residuals over the scale that rows of *other* clusters give. Deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neoserve.predict.intervals import LARGEST_FACTOR

CLUSTER_WEIGHT = 6.0  # most that one cluster's rows count for together, in independent rows
TAIL = 0.975  # residuals beyond this quantile count as it: one typo must not widen a group
SMALLEST = 1e-3  # residual that a scale can be told from
STEPS = 40
OWN_SIGMA = 1.0  # of the log of how much wider a metric spreads than its kin
KIN_CLUSTERS = 3.0  # that a metric's kin count for together
LEAST_TAIL = 0.3  # of what a level leaves out, on each side
LAW = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
FOLDS = 8  # of clusters, for the scale that others give


class Style(NamedTuple):
    """How much groups may differ, how rows of a cluster add up, and how careful the tails are.

    `sigma` is of the log of a group's factor, by grouping: thin groups stay near one; a grouping
    that it does not name is not used. `power`: a cluster counts in the quantiles as its number of
    rows to it. `spare`: clusters that are counted as outside, so that a new one is held as often
    as stated though few were seen (one would be enough in every case, and is too many in most);
    the tails never get smaller than half of what the level leaves.
    """

    sigma: dict[str, float]
    power: float = 1.0
    spare: float = 0.0

    def careful(self, level: float, clusters: int) -> float:
        """The share of the seen that a level asks for."""
        return min(level * (1 + self.spare / max(clusters, 1)), (1 + level) / 2)


class Rows(NamedTuple):
    """Residuals of one metric, and of its kin, which help where the metric's clusters are few."""

    residual: np.ndarray
    cluster: np.ndarray  # index of what is exchangeable: a source, or a source's model
    groups: dict[str, np.ndarray]  # grouping -> key of each row
    own: np.ndarray  # whether a row is of the metric itself

    def of(self, chosen: np.ndarray) -> Rows:
        """Some of the rows."""
        groups = {name: keys[chosen] for name, keys in self.groups.items()}
        return Rows(self.residual[chosen], self.cluster[chosen], groups, self.own[chosen])

    def sized(self, power: float) -> np.ndarray:
        """Weights with which a cluster counts as its number of rows to a power; all own rows sum
        to the number of their clusters, and kin to at most `KIN_CLUSTERS`."""
        result = np.zeros(len(self.residual))
        for rows, most in ((self.own, math.inf), (~self.own, KIN_CLUSTERS)):
            _, index, counts = np.unique(
                self.cluster[rows], return_inverse=True, return_counts=True
            )
            weights = counts[index] ** (power - 1.0)
            result[rows] = weights * (min(len(counts), most) / max(weights.sum(), 1e-12))
        return result

    def pulls(self) -> np.ndarray:
        """Weights in the scale: a cluster counts as the root of its rows, at most so much."""
        result = np.zeros(len(self.residual))
        for rows, most in ((self.own, math.inf), (~self.own, KIN_CLUSTERS * CLUSTER_WEIGHT)):
            _, index, counts = np.unique(
                self.cluster[rows], return_inverse=True, return_counts=True
            )
            weights = np.minimum(np.sqrt(counts), CLUSTER_WEIGHT)[index] / counts[index]
            result[rows] = weights * min(1.0, most / max(weights.sum(), 1e-12))
        return result


class Scale(NamedTuple):
    """Log scale: root and effects."""

    root: float
    effects: dict[str, dict[str, float]]  # grouping -> key -> log factor

    def log_scale(self, rows: Rows) -> np.ndarray:
        """Of each row; unknown keys have no effect."""
        total = np.zeros(len(rows.residual))
        for name, known in self.effects.items():
            total += np.array([known.get(key, 0.0) for key in rows.groups[name]])
        limit = math.log(LARGEST_FACTOR)
        return self.root + np.clip(total, -limit, limit)


def fit_scale(rows: Rows, style: Style) -> Scale:
    """The scale of |residual|, by Newton's method on a convex loss."""
    columns = [
        (name, key)
        for name, keys in rows.groups.items()
        if name in style.sigma
        for key in np.unique(keys)
    ]
    design = np.ones((len(rows.residual), 1 + len(columns)))
    for column, (name, key) in enumerate(columns, 1):
        design[:, column] = rows.groups[name] == key
    size = np.maximum(np.abs(rows.residual), SMALLEST)
    size = np.minimum(size, np.quantile(size, TAIL))
    weight = rows.pulls()
    design = np.column_stack([design, ~rows.own])
    beta = np.zeros(design.shape[1])
    beta[0] = math.log(np.average(size, weights=weight))
    ridge = np.array([0.0, *(style.sigma[name] ** -2 for name, _ in columns), OWN_SIGMA**-2])
    for _ in range(STEPS):
        ratio = weight * size * np.exp(-design @ beta)
        slope = design.T @ (weight - ratio) + ridge * beta
        curve = (design.T * ratio) @ design + np.diag(ridge) + 1e-9 * np.eye(len(beta))
        move = np.linalg.solve(curve, slope)
        beta -= np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < 1e-6:
            break
    effects: dict[str, dict[str, float]] = {name: {} for name, _ in columns}
    for (name, key), value in zip(columns, beta[1:-1], strict=True):
        effects[name][str(key)] = float(value)
    return Scale(float(beta[0]), effects)


def crossed(rows: Rows, style: Style, folds: int = FOLDS) -> np.ndarray:
    """Residuals over the scale that other clusters give them."""
    result = np.empty(len(rows.residual))
    fold = fold_of(rows.cluster, folds)
    for index in np.unique(fold):
        out = fold == index
        kept = rows.of(~out) if (~out).any() else rows
        held = rows.of(out)
        result[out] = held.residual / np.exp(fit_scale(kept, style).log_scale(held))
    return result


def fold_of(cluster: np.ndarray, folds: int) -> np.ndarray:
    """A fold for each cluster; large ones apart."""
    names, counts = np.unique(cluster, return_counts=True)
    by_size = names[np.argsort(-counts, kind="stable")]
    fold = {int(name): rank % folds for rank, name in enumerate(by_size)}
    return np.array([fold[int(c)] for c in cluster])


def weighted_quantile(values: np.ndarray, weights: np.ndarray, p: float) -> float:
    """Smallest value with a share `p` of the weight at or below it."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    at = int(np.searchsorted(total, p * total[-1] * (1 - 1e-12)))
    return float(values[order][min(at, len(values) - 1)])


def shortest(
    scaled: np.ndarray, weights: np.ndarray, levels: Sequence[float]
) -> dict[float, tuple[float, float]]:
    """level -> the shortest bounds around zero that hold it; nested.

    Where one tail is the longer one it is cut first; each keeps `LEAST_TAIL` of what is left out.
    """
    found: dict[float, tuple[float, float]] = {}
    inner = (0.0, 0.0)
    for level in sorted(levels):
        splits = []
        for share in np.linspace(LEAST_TAIL, 1 - LEAST_TAIL, 17):
            below = (1 - level) * share
            low = min(weighted_quantile(scaled, weights, below), inner[0])
            high = max(weighted_quantile(scaled, weights, below + level), inner[1])
            splits.append((high - low, low, high))
        _, *inner = min(splits)
        found[level] = (inner[0], inner[1])
    return found


class Fitted(NamedTuple):
    """A scale with its bounds, and the law of residuals over the scale."""

    scale: Scale
    quantiles: dict[float, tuple[float, float]]
    law: dict[float, float]

    def covers(self, rows: Rows, level: float) -> np.ndarray:
        """Whether each residual is inside; the prediction itself always is."""
        low, high = self.bounds(rows, level)
        return (rows.residual >= low) & (rows.residual <= high)

    def bounds(self, rows: Rows, level: float) -> tuple[np.ndarray, np.ndarray]:
        """Log factors on the predictions."""
        scale = np.exp(self.scale.log_scale(rows))
        low, high = self.quantiles[level]
        return np.minimum(low * scale, 0.0), np.maximum(high * scale, 0.0)


def fit(rows: Rows, levels: Sequence[float], style: Style) -> Fitted:
    """Scale and quantiles."""
    scaled, weights = crossed(rows, style), rows.sized(style.power)
    law = {p: weighted_quantile(scaled, weights, p) for p in LAW}
    clusters = len(np.unique(rows.cluster[rows.own]))
    asked = {level: style.careful(level, clusters) for level in levels}
    found = shortest(scaled, weights, list(asked.values()))
    return Fitted(fit_scale(rows, style), {level: found[a] for level, a in asked.items()}, law)


def left_out(
    rows: Rows, levels: Sequence[float], style: Style, folds: int = 0
) -> tuple[dict[float, np.ndarray], dict[float, np.ndarray]]:
    """level -> covered, and log width, of each own row by a fit of the other clusters.

    One cluster at a time, or in `folds`.
    """
    covered = {level: np.zeros(len(rows.residual), bool) for level in levels}
    width = {level: np.zeros(len(rows.residual)) for level in levels}
    fold = fold_of(rows.cluster, folds) if folds else rows.cluster
    for index in np.unique(fold[rows.own]):
        out = fold == index
        if not rows.own[~out].any():
            continue
        fitted, held = fit(rows.of(~out), levels, style), rows.of(out)
        for level in levels:
            covered[level][out] = fitted.covers(held, level)
            low, high = fitted.bounds(held, level)
            width[level][out] = high - low
    own = rows.own
    return ({level: c[own] for level, c in covered.items()},
            {level: w[own] for level, w in width.items()})  # fmt: skip
