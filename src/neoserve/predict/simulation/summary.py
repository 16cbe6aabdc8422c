"""From what happened to each request to percentiles, goodput and what binds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...schema.prediction import Latency, Percentiles
from ...schema.workload import Slo
from ...stats import mean, quantile
from .requests import Outcomes, Requests, measured

LEAST = 1e-4  # of the saturation rate: lower ones are not looked for
BINDS = 0.5  # share of the time in which requests wait for slots or cache: that is what limits


class Simulated(NamedTuple):
    """One replica under a workload, over the measured requests."""

    latency: Latency
    request_rate_rps: float
    prompt_tokens: float  # mean
    output_tokens: float  # mean
    good_share: float  # of the requests: those within every limit of the SLO
    meets_slo: bool | None
    num_decoding: float  # mean
    limit: str  # queue: all slots are taken most of the time; kv: the cache is full; "": neither
    preemptions: int
    num_requests: int


def summarize(
    requests: Requests, found: Outcomes, slo: Slo | None, rate_rps: float = 0.0
) -> Simulated:
    """`rate_rps` is that of an open load; a closed one follows from Little's law."""
    numbers = [i for i in measured(requests) if not math.isnan(found.end_s[i])]
    ttft = [found.first_s[i] - found.sent_s[i] for i in numbers]
    e2e = [found.end_s[i] - found.sent_s[i] for i in numbers]
    steps = [requests.output_tokens[i] - 1 for i in numbers]
    tpot = [(e - t) / n if n else math.nan for e, t, n in zip(e2e, ttft, steps, strict=True)]
    by_metric = {"ttft": ttft, "tpot": [t for t in tpot if not math.isnan(t)], "e2e": e2e}
    if requests.concurrency:
        rate_rps = requests.concurrency / (mean(e2e) + _pause_s(requests))
    elapsed_s = max(found.elapsed_s, 1e-300)
    limit = ""
    if found.kv_full_s + found.slots_full_s > BINDS * elapsed_s:
        limit = "kv" if found.kv_full_s > found.slots_full_s else "queue"
    return Simulated(
        latency=Latency(
            ttft_s=_percentiles(ttft), tpot_s=_percentiles(by_metric["tpot"]),
            e2e_s=_percentiles(e2e),
        ),
        request_rate_rps=rate_rps,
        prompt_tokens=mean([requests.prompt_tokens[i] for i in numbers]),
        output_tokens=1.0 + mean(steps),
        good_share=_good_share(ttft, tpot, e2e, slo),
        meets_slo=_meets(by_metric, slo),
        num_decoding=found.decode_request_s / elapsed_s,
        limit=limit,
        preemptions=found.preemptions,
        num_requests=len(numbers),
    )  # fmt: skip


def _pause_s(requests: Requests) -> float:
    """Of a conversation, for each of its requests: thinking before all turns but the first."""
    if not requests.follows:
        return 0.0
    later = sum(f >= 0 for f in requests.follows)
    return requests.think_time_s * later / len(requests.follows)


def _percentiles(values: Sequence[float]) -> Percentiles:
    """All zero where no request has a second token, as TPOT is for answers of one."""
    if not values:
        return Percentiles(mean=0.0, p50=0.0, p95=0.0, p99=0.0)
    ordered = sorted(values)
    return Percentiles(
        mean=mean(ordered), p50=quantile(ordered, 0.5), p95=quantile(ordered, 0.95),
        p99=quantile(ordered, 0.99),
    )  # fmt: skip


def _meets(by_metric: dict[str, list[float]], slo: Slo | None) -> bool | None:
    """Whether every target holds by the statistic that it names; None without any of time."""
    targets = [t for t in slo.targets if t.metric != "quality"] if slo else []
    if not targets:
        return None
    return all(
        statistic(by_metric[t.metric], t.statistic) <= t.limit
        for t in targets
        if by_metric[t.metric]
    )


def statistic(values: Sequence[float], name: str) -> float:
    """mean, p95, p99.9 ... of at least one value."""
    return mean(values) if name == "mean" else quantile(values, float(name[1:]) / 100.0)


def _good_share(
    ttft: Sequence[float], tpot: Sequence[float], e2e: Sequence[float], slo: Slo | None
) -> float:
    if slo is None:
        return 1.0
    limits = dict.fromkeys(("ttft", "tpot", "e2e"), math.inf)
    for t in slo.targets:
        if t.metric != "quality":
            limits[t.metric] = min(limits[t.metric], t.limit)
    good = sum(
        t <= limits["ttft"] and not o > limits["tpot"] and e <= limits["e2e"]
        for t, o, e in zip(ttft, tpot, e2e, strict=True)
    )
    return good / len(ttft)


def highest_rate_rps(
    meets: Callable[[float], bool], guess_rps: float, most_rps: float, tolerance: float = 0.03
) -> float:
    """Highest rate at which `meets` holds, to `tolerance`, at most `most_rps`; 0 if none does.

    `guess_rps` is where the search begins; from there the bracket doubles.
    """
    low, high = 0.0, math.inf
    rate, factor = min(max(guess_rps, 1e-3 * most_rps), most_rps), 1.1
    while True:
        if meets(rate):
            low = rate
            if rate >= most_rps:
                return most_rps
        else:
            high = rate
        if high <= low * (1.0 + tolerance):
            return low
        if high <= LEAST * most_rps:
            return 0.0
        if not low:
            rate, factor = max(high / factor, LEAST * most_rps), factor * factor
        elif high == math.inf:
            rate, factor = min(low * factor, most_rps), factor * factor
        else:
            rate = math.sqrt(low * high)
