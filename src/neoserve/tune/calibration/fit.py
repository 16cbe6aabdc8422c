"""Log factors of coefficients from measured figures: ridge to the catalog, robust, with covariance.

A factor is a correction of one coefficient; its logarithm is 0 before anything is measured, with
a width that the catalog gives. The planner is a function that is only called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...stats.linear import Matrix, cholesky, inverse, quadratic, solve

Model = Callable[[Sequence[float]], Sequence[float]]  # log factors -> log of each figure

STRUCTURE_LOG_SD = 0.04  # how far the planner's formulas are off a device that they fit well
_HUBER = 2.0  # standard deviations from which a figure counts less
_STEP = 0.02  # of a difference quotient, in a log factor
_ROUNDS = 20
_DAMPING = 1e-3
_ENOUGH = 1e-3  # of the objective


class Figure(NamedTuple):
    """One measured figure: the logarithm of seconds, and its standard error."""

    log_value: float
    log_sd: float


class Posterior(NamedTuple):
    """What the figures say, and how sure that is."""

    mean: tuple[float, ...]  # log factors
    covariance: Matrix
    residuals: tuple[float, ...]  # log measured less log predicted, of each figure
    scale: float  # spread of the residuals over what was expected of it, at least 1


def jacobian(
    model: Model, at: Sequence[float], both_sides: bool = True
) -> tuple[list[float], Matrix]:
    """The model's values, and a row of derivatives for each of them, by differences."""
    centre = list(model(at))
    width = 2 * _STEP if both_sides else _STEP
    columns = []
    for i in range(len(at)):
        up, down = list(at), list(at)
        up[i] += _STEP
        down[i] -= _STEP
        lower = model(down) if both_sides else centre
        columns.append([(a - b) / width for a, b in zip(model(up), lower, strict=True)])
    return centre, [list(row) for row in zip(*columns, strict=True)]


def spread(figure: Figure) -> float:
    """What a residual is expected to be: the measurement's error and the planner's own."""
    return math.hypot(figure.log_sd, STRUCTURE_LOG_SD)


def fit(
    model: Model,
    figures: Sequence[Figure],
    prior_log_sd: Sequence[float],
    start: Sequence[float] | None = None,
) -> Posterior:
    """Levenberg-Marquardt on a Huber loss of the residuals and a ridge towards 0."""
    at = list(start) if start is not None else [0.0] * len(prior_log_sd)
    sds = [spread(f) for f in figures]
    damping = _DAMPING
    values, rows = jacobian(model, at, both_sides=False)
    cost = _cost(_residuals(figures, values), sds, at, prior_log_sd)
    for _ in range(_ROUNDS):
        residuals = _residuals(figures, values)
        weights = _weights(residuals, sds)
        normal, slope = _normal(rows, residuals, weights, at, prior_log_sd)
        moved, damping, better = _descend(
            model, figures, sds, prior_log_sd, (normal, slope), (at, cost), damping
        )
        if better is None:
            break
        gained, at, cost = cost - better, moved, better
        if gained < _ENOUGH * max(1.0, cost):
            break
        values, rows = jacobian(model, at, both_sides=False)
    values, rows = jacobian(model, at)
    return _posterior(figures, sds, prior_log_sd, at, values, rows)


def _descend(
    model: Model,
    figures: Sequence[Figure],
    sds: Sequence[float],
    prior: Sequence[float],
    system: tuple[Matrix, list[float]],
    now: tuple[list[float], float],
    damping: float,
) -> tuple[list[float], float, float | None]:
    """The first step that lowers the cost, with more and more damping; None where none does."""
    normal, slope = system
    at, cost = now
    for _ in range(12):
        damped = [[v * (1 + damping * (i == j)) for j, v in enumerate(row)]
                  for i, row in enumerate(normal)]  # fmt: skip
        step = solve(cholesky(damped), slope)
        moved = [a + max(-2.0, min(2.0, s)) for a, s in zip(at, step, strict=True)]
        new = _cost(_residuals(figures, model(moved)), sds, moved, prior)
        if new < cost:
            return moved, max(damping / 5, 1e-9), new
        damping *= 5
    return at, damping, None


def _posterior(
    figures: Sequence[Figure],
    sds: Sequence[float],
    prior: Sequence[float],
    at: Sequence[float],
    values: Sequence[float],
    rows: Matrix,
) -> Posterior:
    residuals = _residuals(figures, values)
    weights = _weights(residuals, sds)
    normal, _ = _normal(rows, residuals, weights, at, prior)
    covariance = inverse(normal)
    used = math.fsum(w * quadratic(covariance, r) for w, r in zip(weights, rows, strict=True))
    left = max(1.0, len(figures) - used)
    chi2 = math.fsum(w * r * r for w, r in zip(weights, residuals, strict=True))
    scale = max(1.0, math.sqrt(chi2 / left))
    return Posterior(
        tuple(at),
        [[v * scale * scale for v in row] for row in covariance],
        tuple(residuals),
        scale,
    )


def _residuals(figures: Sequence[Figure], values: Sequence[float]) -> list[float]:
    return [f.log_value - v for f, v in zip(figures, values, strict=True)]


def _weights(residuals: Sequence[float], sds: Sequence[float]) -> list[float]:
    return [
        min(1.0, _HUBER * sd / max(abs(r), 1e-12)) / (sd * sd)
        for r, sd in zip(residuals, sds, strict=True)
    ]


def _cost(
    residuals: Sequence[float], sds: Sequence[float], at: Sequence[float], prior: Sequence[float]
) -> float:
    def loss(z: float) -> float:
        return z * z if z <= _HUBER else 2 * _HUBER * z - _HUBER * _HUBER

    return math.fsum(
        loss(abs(r) / sd) for r, sd in zip(residuals, sds, strict=True)
    ) + math.fsum((a / sd) ** 2 for a, sd in zip(at, prior, strict=True))


def _normal(
    rows: Matrix,
    residuals: Sequence[float],
    weights: Sequence[float],
    at: Sequence[float],
    prior: Sequence[float],
) -> tuple[Matrix, list[float]]:
    """The matrix and the right side of one Gauss-Newton step."""
    size = len(at)
    normal = [[0.0] * size for _ in range(size)]
    slope = [-a / (sd * sd) for a, sd in zip(at, prior, strict=True)]
    for i, sd in enumerate(prior):
        normal[i][i] = 1.0 / (sd * sd)
    for row, r, w in zip(rows, residuals, weights, strict=True):
        for i, a in enumerate(row):
            slope[i] += w * a * r
            for j, b in enumerate(row):
                normal[i][j] += w * a * b
    return normal, slope
