"""Does a running server still hold what it was certified, or predicted, to hold? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..measure.engine.histogram import Histogram
from ..schema.watch import Capacity, Drift, WatchedTarget
from ..schema.workload import Slo, Target
from ..stats import clopper_pearson
from ..units import show_duration, significant

_LEVEL = 0.05  # of one side's statement, as if requests were independent
_UNLIKE = 0.2  # tokens a request, off those of the certified load, from which on it is said


def watched(
    slo: Slo, seen: dict[str, Histogram], means_s: dict[str, tuple[float, float]]
) -> tuple[WatchedTarget, ...]:
    """Each bound against the window's histograms. `means_s` are (mean, count) of latencies that a
    server without histograms sums up."""
    return tuple(_target(target, seen, means_s) for target in slo.targets)


def _target(
    target: Target, seen: dict[str, Histogram], means_s: dict[str, tuple[float, float]]
) -> WatchedTarget:
    found = seen.get(target.metric)
    name = target.show()
    if target.statistic == "mean" and (mean := _mean(target.metric, found, means_s)) is not None:
        state = "met" if mean[0] < target.limit else "missed"
        return WatchedTarget(
            target=name, state=state, num=int(mean[1]), low_s=mean[0], high_s=mean[0],  # type: ignore[arg-type]
            series=found.name if found else "", reason=f"mean {show_duration(mean[0])}",
        )  # fmt: skip
    if found is None:
        return WatchedTarget(
            target=name, state="unknown",
            reason="the server publishes no histogram of it"
            if target.metric != "quality" else "metrics say nothing of answers",
        )  # fmt: skip
    if found.num < 1:
        return WatchedTarget(target=name, state="unknown", series=found.name,
                             reason="no request in this window")  # fmt: skip
    return _counted(target, found)


def _mean(
    metric: str, found: Histogram | None, means_s: dict[str, tuple[float, float]]
) -> tuple[float, float] | None:
    if found is not None:
        return (found.sum_s / found.num, found.num) if found.num else None
    return means_s.get(metric)


def _counted(target: Target, found: Histogram) -> WatchedTarget:
    p = float(target.statistic.removeprefix("p")) / 100
    allowed, num = 1 - p, found.num
    fewest, most = found.misses(target.limit)
    low_s, high_s = found.quantile_bounds_s(p)
    span = f"{show_duration(low_s)} to {show_duration(high_s) if high_s < math.inf else 'more'}"
    _, above = clopper_pearson(most, num, 1 - 2 * _LEVEL)
    below, _ = clopper_pearson(fewest, num, 1 - 2 * _LEVEL)
    if above <= allowed:
        state, why = "met", ""
    elif below > allowed:
        state, why = "missed", ""
    elif fewest / num <= allowed < most / num:
        state, why = "unknown", "; the limit lies within a bucket"
    else:
        needed = math.ceil(math.log(_LEVEL) / math.log1p(-allowed))
        state, why = "unknown", f"; {num:.0f} requests say too little (without a miss: {needed})"
    counted = f"{fewest:.0f}" if fewest == most else f"{fewest:.0f} to {most:.0f}"
    return WatchedTarget(
        target=target.show(), state=state, series=found.name, num=int(num),  # type: ignore[arg-type]
        low_s=low_s, high_s=high_s if high_s < math.inf else None,
        miss_share_low=fewest / num, miss_share_high=most / num,
        reason=f"{target.statistic} in the bucket {span}; {counted} of {num:.0f} requests above "
               f"the limit{why}",
    )  # fmt: skip


def drift(
    targets: Sequence[WatchedTarget], capacity: Capacity | None, rate_rps: float | None
) -> tuple[Drift, float | None, str]:
    """What the window says of the capacity: the state, the load's share of it, a sentence."""
    held = _held_rps(capacity)
    share = rate_rps / capacity.rate_rps if capacity and capacity.rate_rps and rate_rps else None
    states = {target.state for target in targets}
    if "missed" in states and held is not None and rate_rps is not None:
        assert capacity is not None
        word = "certified" if capacity.basis == "measured" else "predicted, at the least,"
        told = f"missed at {significant(rate_rps)} requests/s; {word} {significant(held)}"
        return ("drift" if rate_rps <= held else "overload"), share, told
    if "missed" in states:
        return "unknown", share, "missed; no capacity is known at which it should have held"
    if states == {"met"}:
        return "within", share, "the SLO is met"
    if not states:
        return "unknown", share, "no SLO was given"
    return "unknown", share, "too little was seen to say whether the SLO is met"


def _held_rps(capacity: Capacity | None) -> float | None:
    """The rate at which a miss is a surprise: certified, or the low end of what was predicted."""
    if capacity is None:
        return None
    return capacity.rate_rps if capacity.low_rps is None else capacity.low_rps


def unlike_traffic(
    capacity: Capacity | None, prompt_tokens: float | None, output_tokens: float | None
) -> str:
    """Where requests are of other lengths than those of the certified load; "" otherwise."""
    if capacity is None:
        return ""
    pairs = (("prompts", prompt_tokens, capacity.prompt_tokens),
             ("answers", output_tokens, capacity.output_tokens))  # fmt: skip
    told = [
        f"{name} of {now:.0f} tokens where {then:.0f} were certified"
        for name, now, then in pairs
        if now and then and abs(now / then - 1) > _UNLIKE
    ]
    return f"other traffic: {', '.join(told)}: its capacity is another" if told else ""
