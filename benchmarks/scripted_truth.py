"""The true capacity of each point of a world: long loads on the average server, no drift.

All points of a world serve the same requests, so that their order is known better than each by
itself. At 20,000 requests other sequences differ by 2 % (one standard deviation) for points near
saturation; the error falls with the square root of their number.
"""

from __future__ import annotations

import functools
import itertools
import math

from scripted_engine import SLO, WORKLOAD, Law, World, grid
from scripted_queue import Engine, Noise

from neoserve.measure.arrivals import draw
from neoserve.measure.lengths import lengths
from neoserve.schema.space import Candidate
from neoserve.schema.workload import Slo

LONG, MIDDLING, SHORT = 24_000, 4_000, 500  # requests of a load
_PRECISION = {MIDDLING: 0.01, SHORT: 0.03}  # of the bisection; else:
_BEST_PRECISION = 0.005
_WORTH = {MIDDLING: 0.8, LONG: 0.94}  # of the best by the shorter loads
_WARMUP = 50


@functools.lru_cache(maxsize=8)
def _unit(num: int, seed: int) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Due times at 1 a second, prompt tokens, output tokens."""
    tokens = list(itertools.islice(lengths(WORKLOAD.replace(seed=seed)), num))
    prompts, outputs = zip(*tokens, strict=True)
    return draw(WORKLOAD.replace(seed=seed), num), prompts, outputs


def miss_shares(law: Law, rate_rps: float, num: int = LONG, seed: int = 10**9,
                slo: Slo = SLO) -> list[float]:  # fmt: skip
    """The share of requests that miss each target, in a long load of the law itself.

    Stalls and the unevenness of steps are the engine's way; the luck of one start and the hour
    are not in it.
    """
    due_s, prompts, outputs = _unit(num, seed)
    due_s = tuple(due / rate_rps for due in due_s)
    engine = Engine(law, due_s, prompts, outputs, Noise(f"truth {seed}"))
    for _ in engine.run():
        pass
    stamps = zip(engine.due_s, engine.first_s, engine.last_s, outputs, strict=True)
    seen = [(due, first or 0.0, last or 0.0, out) for due, first, last, out in stamps][_WARMUP:]
    shares = []
    for target in slo.targets:
        if target.metric == "ttft":
            values = [first - due for due, first, _, _ in seen]
        else:
            values = [(last - first) / (out - 1) for _, first, last, out in seen if out > 1]
        shares.append(sum(value >= target.limit for value in values) / len(values))
    return shares


def excess(law: Law, rate_rps: float, num: int = LONG, seed: int = 10**9, slo: Slo = SLO) -> float:
    """Misses over those that may be, of the target nearest its limit: 1 at the capacity."""
    allowed = [1 - float(target.statistic.removeprefix("p")) / 100 for target in slo.targets]
    shares = miss_shares(law, rate_rps, num, seed, slo)
    return max(share / may for share, may in zip(shares, allowed, strict=True))


def most_rps(law: Law) -> float:
    """No rate above this can be served: every slot always taken, prompts beside."""
    prompt_s = law.prompt_token_s * WORKLOAD.prompt_tokens
    each_s = min(law.decode_s(n) / n for n in range(1, law.slots + 1)) * WORKLOAD.output_tokens
    return 1 / (prompt_s + each_s)


def find_capacity_rps(law: Law, num: int, near_rps: float | None = None, slo: Slo = SLO) -> float:
    """The rate at which just as many miss as may, by bisection on one long sequence of requests."""
    if near_rps is None:
        low, high = most_rps(law) / 10, most_rps(law)
    else:
        low, high = near_rps / 1.05, near_rps * 1.05
        while excess(law, low, num, slo=slo) > 1:
            low, high = low / 1.1, low
        while excess(law, high, num, slo=slo) <= 1:
            low, high = high, high * 1.1
    while high / low > 1 + _PRECISION.get(num, _BEST_PRECISION):
        middle = math.sqrt(low * high)
        if excess(law, middle, num, slo=slo) > 1:
            high = middle
        else:
            low = middle
    return math.sqrt(low * high)


class Truth:
    """Of one world. A point that cannot start, or spoils answers, has no capacity."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[str, int], float] = {}

    def is_eligible(self, candidate: Candidate) -> bool:
        """May it be picked?"""
        world = self._world
        return not world.crash(candidate) and world.keeps_quality(candidate)

    def capacity_rps(self, candidate: Candidate, num: int = LONG) -> float:
        """To about 1 % by default; 0 where it may not be picked."""
        if not self.is_eligible(candidate):
            return 0.0
        key = candidate.id, num
        if key not in self._known:
            near = None
            if num != SHORT:
                near = self.capacity_rps(candidate, MIDDLING if num == LONG else SHORT)
            self._known[key] = find_capacity_rps(self._world.law(candidate.id), num, near)
        return self._known[key]

    def roughly_rps(self, candidate: Candidate) -> float:
        """As well as it is known by now, by a short load at least."""
        known = (self._known.get((candidate.id, num)) for num in (LONG, MIDDLING))
        return next((rate for rate in known if rate), None) or self.capacity_rps(candidate, SHORT)

    @functools.cached_property
    def best_rps(self) -> float:
        """Of all that may be picked."""
        found = {c.id: self.capacity_rps(c, SHORT) for c in grid()}
        for num, worth in _WORTH.items():
            least = worth * max(found.values())
            points = [c for c in grid() if found.get(c.id, 0.0) >= least]
            found = {c.id: self.capacity_rps(c, num) for c in points}
        return max(found.values())
