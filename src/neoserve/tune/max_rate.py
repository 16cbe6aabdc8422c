"""The highest rate within the SLO, by probes that are noisy.

The search brackets it: rates double until one is not met, then the bracket is halved on a log
scale. Which side a rate is on is read from all probes at once, by the isotonic fit of misses over
rate, since more load cannot make a server faster. What it finds is then proven on fresh requests,
so that choosing the luckiest of many probes does not inflate the level. Pure but for `probe`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from ..errors import AskError
from ..schema.capacity import MaxRate, Probe
from ..stats import clopper_pearson, isotonic

_GROWTH = 2.0
_REPEATS = 2  # of a rate whose first probe leaves both sides possible
_VOIDS = 3  # in a row, after which there is no measuring here
_STEPS_DOWN = (0, 2, 5)  # tolerances below what was found; what just holds is hardly proven


class Ask(NamedTuple):
    """Load the server once: at this rate, on requests of this seed, judged at this level."""

    rate_rps: float
    seed: int
    level: float
    certifies: bool


Search = Generator[Ask, Probe, MaxRate]


def find_max_rate(
    probe: Callable[[Ask], Probe],
    start_rps: float,
    *,
    tolerance: float = 0.05,
    max_probes: int = 30,
    low_limit_rps: float = 0.0,
    high_limit_rps: float = math.inf,
    level: float = 0.05,
    seed: int = 0,
) -> MaxRate:
    """Ask `probe` for loads until the rate is known to `tolerance`, a share of it. Raises AskError.

    The certified rate breaks the SLO with a chance of `level` at most, if each probe's PASS is
    wrong with its own level at most. `max_probes` bounds the search, not the certification.
    """
    if not (0 < start_rps < math.inf and 0 < tolerance < 1 and max_probes >= 1):
        raise AskError(
            f"start is {start_rps:g} requests/s, tolerance {tolerance:g}, probes {max_probes}; "
            "give a rate above 0, a share between 0 and 1, and at least 1 probe"
        )
    bounds = (low_limit_rps or start_rps / 1024, high_limit_rps)
    steps = search(start_rps, tolerance, max_probes, bounds, level, seed)
    try:
        ask = next(steps)
        while True:
            ask = steps.send(probe(ask))
    except StopIteration as ended:
        found: MaxRate = ended.value
        return found


def search(
    start_rps: float,
    tolerance: float,
    max_probes: int,
    bounds_rps: tuple[float, float],
    level: float,
    seed: int,
) -> Search:
    """The decisions alone: yields what to load, is sent what was seen."""
    probes: list[Probe] = []
    notes: list[str] = []
    rate: float | None = min(max(start_rps, bounds_rps[0]), bounds_rps[1])
    while rate is not None and len(probes) < max_probes:
        probes.append((yield Ask(rate, seed + len(probes), level, certifies=False)))
        if _is_void(probes):
            notes.append(f"{_VOIDS} probes in a row were void: nothing can be measured here")
            break
        rate = _next_rate(probes, tolerance, bounds_rps)
    if rate is not None and len(probes) >= max_probes:
        notes.append(f"the search ended after {max_probes} probes, not at its tolerance")
    low, high = bracket(probes)
    if low is not None and high is None:
        notes.append("load-limited: every rate was met, so the capacity is unknown")
    certified = None
    if low is not None:
        certified = yield from _certify(low, tolerance, level, seed, probes, notes)
    return MaxRate(
        certified_rps=certified,
        not_met_rps=_not_met(probes, certified or 0.0),
        tolerance=tolerance,
        level=level,
        probes=tuple(probes),
        notes=tuple(notes),
    )


def _certify(
    rate: float, tolerance: float, level: float, seed: int, probes: list[Probe], notes: list[str]
) -> Generator[Ask, Probe, float | None]:
    """Prove the rate on fresh requests; if that does not succeed, one below."""
    share = level / len(_STEPS_DOWN)  # each might pass by chance
    for steps in _STEPS_DOWN:
        lower = rate / (1 + tolerance) ** steps
        probes.append((yield Ask(lower, seed + len(probes), share, certifies=True)))
        if probes[-1].verdict == "PASS" and not probes[-1].saturated:
            return lower
    notes.append(f"no rate was proven; by the search {rate:.4g} requests/s looked like holding")
    return None


def bracket(probes: Sequence[Probe]) -> tuple[float | None, float | None]:
    """The highest rate that looks met and the lowest that does not, by the fit of all probes."""
    # of one rate the worst first, so that the fit pools them
    seen = sorted(
        (p for p in probes if p.verdict != "VOID"), key=lambda p: (p.rate_rps, -_excess(p))
    )
    fit = isotonic([_excess(p) for p in seen], [_weight(p) for p in seen])
    met = [p.rate_rps for p, excess in zip(seen, fit, strict=True) if excess <= 1]
    not_met = [p.rate_rps for p, excess in zip(seen, fit, strict=True) if excess > 1]
    return max(met, default=None), min(not_met, default=None)


def _excess(probe: Probe) -> float:
    """Misses over those that may be: 1 is just met."""
    if probe.saturated:
        return 1 / probe.share if probe.share else 2.0
    if not probe.num or not probe.share:
        return {"PASS": 0.0, "FAIL": 2.0}.get(probe.verdict, 1.0)
    return probe.num_misses / probe.num / probe.share


def _weight(probe: Probe) -> float:
    return max(1.0, probe.num / probe.dependence)


def _next_rate(
    probes: Sequence[Probe], tolerance: float, bounds_rps: tuple[float, float]
) -> float | None:
    """Where the next probe says most; null where the bracket is narrow enough."""
    last = probes[-1]
    if last.verdict == "VOID" or _is_unclear(last.rate_rps, probes):
        return last.rate_rps
    low, high = bracket(probes)
    if low is None:
        rate = None if high is None else max(high / _GROWTH, bounds_rps[0])
        return None if rate is None or rate >= (high or 0.0) else rate
    if high is None:
        rate = min(low * _GROWTH, bounds_rps[1])
        return rate if rate > low else None
    return None if high <= low * (1 + tolerance) else math.sqrt(low * high)


def _is_unclear(rate: float, probes: Sequence[Probe]) -> bool:
    """May a rate still be on either side, after fewer repeats than are worth it?"""
    here = [p for p in probes if p.rate_rps == rate and p.verdict != "VOID"]
    open_ones = all(p.verdict == "INCONCLUSIVE" and not p.saturated for p in here)
    if not open_ones or len(here) > _REPEATS:
        return False
    num = math.fsum(p.num / p.dependence for p in here)
    misses = math.fsum(p.num_misses / p.dependence for p in here)
    low, high = clopper_pearson(misses, num)
    return low <= here[0].share <= high


def _is_void(probes: Sequence[Probe]) -> bool:
    return len(probes) >= _VOIDS and all(p.verdict == "VOID" for p in probes[-_VOIDS:])


def _not_met(probes: Sequence[Probe], above_rps: float) -> float | None:
    disproven = (p.rate_rps for p in probes if p.verdict == "FAIL" or p.saturated)
    return min((rate for rate in disproven if rate > above_rps), default=None)
