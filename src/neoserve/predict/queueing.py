"""Waiting times and a root finder: arithmetic without any document but the workload."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..schema.workload import Workload


def arrival_variability(workload: Workload) -> float:
    """Squared coefficient of variation of the gaps between arrivals."""
    return {"constant": 0.0, "gamma": 1.0 / max(workload.burstiness, 1e-9)}.get(
        workload.arrival, 1.0
    )


def queue_wait_s(busy_share: float, service_s: float, variability: float) -> float:
    """Mean wait of equal services in turn (M/D/1; Kingman for other arrivals)."""
    free = max(1.0 - busy_share, 1e-9)
    return variability * busy_share / (2.0 * free) * service_s


def slot_wait_s(load: float, slots: float, stay_s: float, variability: float) -> float:
    """Mean wait for one of `slots` places (Sakasegawa 1977), for load below 1."""
    if load >= 1.0:
        return math.inf
    power = math.sqrt(2.0 * (slots + 1.0)) - 1.0
    return float(variability / 2.0 * load**power / (slots * (1.0 - load)) * stay_s)


def bracketed_root(
    f: Callable[[float], float], low: float, high: float, at_low: float, tolerance: float
) -> float:
    """Root of an increasing function (Illinois); `high` where it stays below zero."""
    at_high = f(high)
    if at_high <= tolerance:
        return high
    for _ in range(40):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = f(middle)
        if abs(value) <= tolerance or high - low <= 1e-9 * high:
            return middle
        if value > 0:
            high, at_high, at_low = middle, value, at_low / 2
        else:
            low, at_low, at_high = middle, value, at_high / 2
    return middle
