"""Intervals: where a measurement lies, given what was predicted and how that was wrong before.

A bound is predicted x exp(quantile x factors). The quantiles are conformal: the share of benches'
figures that they held, on benches that the fit had not seen, is their level.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from ..schema.model import ModelSpec
from ..schema.prediction import Interval, Prediction
from ..schema.spread import MetricSpread, Spread
from ..schema.workload import Slo, Workload
from ..units import show_duration
from .queueing import arrival_variability
from .serve import Server, max_rate_rps

LEVEL = 0.9
THIN = 2  # benches of a pair of engine and device class below which its relatives speak for it
LARGEST_FACTOR = 4.0  # that all groups together may widen, or narrow, an interval
_BANDS = (1, 8, 32, 128)  # requests in flight at one replica
_MODES = {"offline": "static_batch"}  # an offline run is one batch after another

_CLOSED = {"tpot": "batched_tpot", "ttft": "ttft", "e2e": "e2e_batched", "rate": "throughput"}
_SINGLE = {**_CLOSED, "tpot": "single_tpot", "e2e": "e2e_single"}
_OPEN = {
    "tpot": "openloop_tpot", "ttft": "openloop_ttft", "e2e": "openloop_e2e", "rate": "throughput",
}  # fmt: skip


def load_band(load_mode: str, in_flight: float) -> str:
    """The size class of a load: "1", "2-8" ... ">128"; "" for arrivals at a rate."""
    if load_mode == "open_loop":
        return ""
    for below, upto in pairwise((0, *_BANDS)):
        if in_flight <= upto:
            return str(upto) if upto == 1 else f"{below + 1}-{upto}"
    return f">{_BANDS[-1]}"


def mode_of(load_mode: str) -> str:
    """The name under which a load mode's spread is kept."""
    return _MODES.get(load_mode, load_mode)


def arch_of(model: ModelSpec) -> str:
    """dense, moe, or hybrid (recurrent layers and no experts), as benchmarks sort models."""
    distinct = {id(layer): layer for layer in model.layers}.values()  # most are one object
    if any(layer.ffn.num_experts for layer in distinct):
        return "moe"
    return "hybrid" if any(m.state for layer in distinct for m in layer.mixers) else "dense"


def bounds(
    spread: MetricSpread, arch: str, load_mode: str, in_flight: float, level: float = LEVEL
) -> tuple[float, float] | None:
    """Factors on a prediction within which a measurement lies; None for a level not kept.

    The prediction itself is always inside.
    """
    kept = spread.quantiles.get(f"{level:g}")
    if kept is None:
        return None
    scale = scale_of(spread, arch, load_mode, in_flight)
    return math.exp(min(kept[0] * scale, 0.0)), math.exp(max(kept[1] * scale, 0.0))


def scale_of(spread: MetricSpread, arch: str, load_mode: str, in_flight: float) -> float:
    """How much wider than the metric's mean width."""
    mode = mode_of(load_mode)
    return clipped(
        spread.scale
        * spread.by_arch.get(arch, 1.0)
        * spread.by_mode.get(mode, 1.0)
        * spread.by_load.get(load_band(mode, in_flight), 1.0)
    )


def clipped(factor: float) -> float:
    """Within what groups may do together."""
    return min(max(factor, 1 / LARGEST_FACTOR), LARGEST_FACTOR)


def share_below(
    spread: MetricSpread, arch: str, load_mode: str, in_flight: float, factor: float
) -> float:
    """Of measurements, those below `factor` x predicted; tails thin out as one over the log."""
    if factor <= 0:
        return 0.0
    at = math.log(factor) / scale_of(spread, arch, load_mode, in_flight)
    (p_first, first), (p_last, last) = spread.law[0], spread.law[-1]
    if at <= first:
        return p_first * (first / at if first < 0 else 1.0)
    if at >= last:
        return 1 - (1 - p_last) * (last / at if last > 0 else 1.0)
    for (p0, x0), (p1, x1) in pairwise(spread.law):
        if at <= x1:
            return p0 + (p1 - p0) * (at - x0) / (x1 - x0) if x1 > x0 else p1
    return p_last


def factor_below(
    spread: MetricSpread, arch: str, load_mode: str, in_flight: float, share: float
) -> float:
    """The factor on a prediction below which this share of measurements lies, the inverse of
    `share_below`; tails end where the law does."""
    scale = scale_of(spread, arch, load_mode, in_flight)
    share = min(max(share, spread.law[0][0]), spread.law[-1][0])
    for (p0, x0), (p1, x1) in pairwise(spread.law):
        if share <= p1:
            return math.exp(scale * (x0 + (x1 - x0) * (share - p0) / (p1 - p0)))
    return math.exp(scale * spread.law[-1][1])


class Bands:
    """The metrics of one workload: which public figures speak for which of its numbers."""

    def __init__(self, spread: Spread, workload: Workload, arch: str, copies: int) -> None:
        self.spread, self.arch = spread, arch
        self.in_flight = max(1.0, workload.concurrency / copies)
        self.mode = "open_loop"
        names = _OPEN
        if workload.arrival == "closed":
            alone = self.in_flight <= 1
            self.mode, names = ("single_stream", _SINGLE) if alone else ("closed_loop", _CLOSED)
        self._names = names

    def of(self, metric: str) -> MetricSpread | None:
        """The spread of tpot, ttft, e2e or rate; an open load's is a closed one's if need be."""
        metrics = self.spread.metrics
        return metrics.get(self._names[metric]) or metrics.get(_CLOSED[metric])

    def factors(self, metric: str, level: float = LEVEL) -> tuple[float, float] | None:
        """Bounds as factors on what is predicted."""
        spread = self.of(metric)
        return bounds(spread, self.arch, self.mode, self.in_flight, level) if spread else None

    def share_below(self, metric: str, factor: float) -> float | None:
        """Of measurements, those below `factor` x predicted."""
        spread = self.of(metric)
        return share_below(spread, self.arch, self.mode, self.in_flight, factor) if spread else None

    def factor_below(self, metric: str, share: float) -> float | None:
        """The factor on what is predicted below which this share of measurements lies."""
        spread = self.of(metric)
        return factor_below(spread, self.arch, self.mode, self.in_flight, share) if spread else None

    def interval(self, metric: str, value: float | None, level: float = LEVEL) -> Interval | None:
        """Around a finite value."""
        factors = self.factors(metric, level)
        if factors is None or value is None or not math.isfinite(value):
            return None
        return Interval(low=value * factors[0], high=value * factors[1], level=level)


def with_intervals(
    answer: Prediction,
    spread: Spread,
    model: ModelSpec,
    workload: Workload,
    slo: Slo | None,
    server: Server,
) -> Prediction:
    """The answer with its intervals, and how sure they make the SLO's verdict."""
    if answer.latency is None or answer.throughput is None:
        return answer
    latency, rates, copies = answer.latency, answer.throughput, answer.deployment.replicas
    bands = Bands(spread, workload, arch_of(model), copies)
    found = {
        "ttft_s": bands.interval("ttft", latency.ttft_s.mean),
        "tpot_s": bands.interval("tpot", latency.tpot_s.mean),
        "e2e_s": bands.interval("e2e", latency.e2e_s.mean),
        "max_rate_rps": rate_interval(bands, server, workload, slo, rates.max_rate_rps),
    }
    if workload.arrival == "closed":  # an open load below saturation is served at its own rate
        found["output_tokens_per_s"] = bands.interval("rate", rates.output_tokens_per_s)
    banded = answer.replace(
        interval={name: interval for name, interval in found.items() if interval is not None},
        slo_share=slo_share(answer, bands.share_below, slo),
        assumptions=(*answer.assumptions, *filter(None, [thin_note(spread)])),
    )
    return banded.replace(slo_note=slo_note(banded, slo))


def rate_interval(
    bands: Bands, server: Server, workload: Workload, slo: Slo | None, told_rps: float | None
) -> Interval | None:
    """Of the highest rate within the SLO, if all times are wrong by one factor."""
    factors = bands.factors("rate")
    at = rate_at(server, workload, slo, told_rps)
    if factors is None or at is None:
        return None
    return Interval(low=at(factors[0]), high=at(factors[1]), level=LEVEL)


def rate_at(
    server: Server, workload: Workload, slo: Slo | None, told_rps: float | None
) -> Callable[[float], float] | None:
    """The highest rate within the SLO of a server that is faster by a factor; None without one.

    Times that are 1/f as long hold their limits T at f x the rate that holds T x f.
    """
    variability = arrival_variability(workload)
    expected = max_rate_rps(server, slo, variability)
    if not told_rps or expected <= 0.0:
        return None
    return lambda f: told_rps * f * max_rate_rps(server, _loosened(slo, f), variability) / expected


def _loosened(slo: Slo | None, factor: float) -> Slo | None:
    if slo is None:
        return None
    return slo.replace(
        targets=tuple(
            t if t.metric == "quality" else t.replace(limit=t.limit * factor) for t in slo.targets
        )
    )


def thin_note(spread: Spread) -> str:
    """What the intervals lack; "" where the pair was measured often enough."""
    if spread.setting == "seen" or spread.num_sources >= THIN:
        return ""
    count = "one public bench" if spread.num_sources else "no public bench"
    return (
        f"{count} measured {spread.engine} on a device of class {spread.device_class}: "
        "the intervals are wider, after its relatives"
    )


def slo_share(
    answer: Prediction, share_below: Callable[[str, float], float | None], slo: Slo | None
) -> float | None:
    """How sure it is that all times hold; None without times or intervals. `share_below`: of a
    metric's measurements, those below a factor times predicted.

    Errors of one deployment's times go together, so the weakest target decides.
    """
    shares = []
    for metric, limit, value in _timed(answer, slo):
        if value is None:
            return 0.0
        share = share_below(metric, limit / value) if value > 0 else 1.0
        if share is None:
            return None
        shares.append(share)
    return min(shares, default=None)


def slo_note(answer: Prediction, slo: Slo | None) -> str:
    """What an interval says about a verdict: "" if it lies on one side of every limit."""
    for metric, limit, value in _timed(answer, slo):
        interval = answer.interval.get(f"{metric}_s")
        if interval is None or value is None:
            continue
        name = metric.upper() if metric != "e2e" else "end to end"
        stated = f"the {interval.level:.0%} interval of {name}"
        if value <= limit < interval.high and answer.meets_slo:
            return f"meets in expectation; {stated} reaches {show_duration(interval.high)}"
        if interval.low < limit < value and answer.meets_slo is False:
            return f"misses in expectation; {stated} begins at {show_duration(interval.low)}"
    return ""


def _timed(answer: Prediction, slo: Slo | None) -> list[tuple[str, float, float | None]]:
    """(metric, limit, predicted) of each target that time decides."""
    if slo is None or answer.latency is None:
        return []
    found: list[tuple[str, float, float | None]] = []
    for target in slo.targets:
        if target.metric == "quality":
            continue
        told = getattr(answer.latency, f"{target.metric}_s")
        stated = getattr(told, target.statistic, None)  # a percentile, where one is predicted
        found.append((target.metric, target.limit, told.mean if stated is None else stated))
    return found
