"""Which load to measure next: the one that shrinks the coefficients' ellipsoid most a second.

D-optimality in the Bayesian form: the covariance is that of what is known already, the catalog's
width at first. A load's gain is the fall of log det of the covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...stats.linear import Matrix, apply, dot, log_det


class Load(NamedTuple):
    """What a load would tell: a row of derivatives and an expected spread for each figure."""

    rows: tuple[tuple[float, ...], ...]
    log_sds: tuple[float, ...]
    cost_s: float = 1.0


def gain(covariance: Matrix, load: Load) -> float:
    """Nats by which a load narrows what is known: log det(I + J C Jᵀ / s²)."""
    reach = [apply(covariance, row) for row in load.rows]
    return log_det(
        [
            [dot(a, other) / (sa * sb) + float(i == j)
             for j, (other, sb) in enumerate(zip(reach, load.log_sds, strict=True))]
            for i, (a, sa) in enumerate(zip(load.rows, load.log_sds, strict=True))
        ]
    )  # fmt: skip


def next_load(
    covariance: Matrix, loads: Sequence[Load], left_s: float, least_gain: float = 0.0
) -> int | None:
    """The index of the load with the largest gain a second that `left_s` still has time for.

    None where no load fits, or none gains more than `least_gain` nats.
    """
    best, most = None, 0.0
    for index, load in enumerate(loads):
        if load.cost_s > left_s:
            continue
        nats = gain(covariance, load)
        if nats > least_gain and nats / load.cost_s > most:
            best, most = index, nats / load.cost_s
    return best
