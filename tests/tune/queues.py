"""Latencies of a server with one queue: neighbours wait behind each other."""

from __future__ import annotations

import random

from neoserve.tune.gate import Sample

SERVICE_S = 0.025


def gaps_s(rng: random.Random, num: int, load: float) -> list[float]:
    """Poisson arrivals that keep the server busy for a share `load` of the time."""
    return [rng.expovariate(load / SERVICE_S) for _ in range(num)]


def serve(
    rng: random.Random, gaps: list[float], slowdown: float = 1.0
) -> list[tuple[float, float, float]]:
    """Of each request: when it is due, its TTFT (Lindley), its TPOT, which grows with the queue."""
    now_s = free_s = busy = 0.0
    found = []
    for gap in gaps:
        now_s += gap
        service_s = slowdown * SERVICE_S * rng.lognormvariate(-0.08, 0.4)
        free_s = max(now_s, free_s) + service_s
        busy = 0.8 * busy + 0.2 * (free_s - now_s) / SERVICE_S
        tpot_s = slowdown * 0.02 * (1 + 0.1 * busy) * rng.lognormvariate(0, 0.05)
        found.append((now_s, free_s - now_s, tpot_s))
    return found


def sample(served: list[tuple[float, float, float]], schedule: str = "") -> Sample:
    """As a gate reads it."""
    return Sample(
        latencies_s={"ttft": tuple(s[1] for s in served), "tpot": tuple(s[2] for s in served)},
        num=len(served), num_failed=0, schedule=schedule,
    )  # fmt: skip
