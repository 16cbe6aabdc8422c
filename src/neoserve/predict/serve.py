"""Mean TTFT, TPOT and throughput of one replica under load, from its step time.

A request needs prefill work once and one step for each further token. Steps that carry a
prompt chunk last longer, and every running request feels those of the others, so with X
requests a second, of which a share `o` is others'

    TPOT = decode step / (1 - o X * prefill work)        prefill takes that share of all time
    X    = D / (N * decode step + o D * prefill work)    D requests decode N tokens each
    in flight = D + X * TTFT                             Little's law

D is found by bracketing; the in-flight count (closed) or the rate (open) is given. In a closed
loop of C requests o = (C - 1) / C, and a request sees 1 + o D decoding, itself included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..schema.prediction import Part
from ..schema.workload import Slo, Workload
from .queueing import arrival_variability, bracketed_root, queue_wait_s, slot_wait_s
from .server import (
    Costs,
    Server,
    rate_of,
    saturation_rps,
    seen_decodes,
    server_of,
    static,
    tpot_of,
)

__all__ = [
    "Point", "Server", "Serving", "closed", "max_rate_rps", "meets_slo", "open_loop",
    "operating_point", "report", "serve", "server_of",
]  # fmt: skip

SEARCH_STEPS = 12  # of the highest rate: to (slots / 0.001) ** 2**-12, below a percent
JUDGED_BY_MEAN = "percentile targets are judged by the mean: this one was not simulated"


class Serving(NamedTuple):
    """Means of one replica at one operating point."""

    ttft_s: float
    tpot_s: float
    e2e_s: float
    request_rate_rps: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    num_decoding: float
    num_in_flight: float
    wait_s: float  # share of TTFT spent before the first own prefill step
    utilization_share: float  # of the saturation rate
    saturation_rps: float
    max_rate_rps: float
    saturated: bool
    meets_slo: bool | None
    bound: str
    next_bound: str
    decode_parts: tuple[Part, ...]
    assumptions: tuple[str, ...]


def serve(server: Server, workload: Workload, slo: Slo | None = None) -> Serving:
    """Means of one replica that takes all of the workload's arrivals."""
    return report(server, workload, operating_point(server, workload), slo)


def operating_point(server: Server, workload: Workload, copies: int = 1) -> Point:
    """Where the workload's arrivals, shared by `copies`, bring the replica."""
    if workload.arrival == "closed":
        return closed(server, workload.concurrency / copies)
    return open_loop(server, workload.rate_rps / copies, arrival_variability(workload))


class Point(NamedTuple):
    """An operating point before it is reported."""

    decodes: float
    rate_rps: float
    ttft_s: float
    tpot_s: float
    wait_s: float
    costs: Costs
    saturated: bool = False


def closed(server: Server, concurrency: float) -> Point:
    """`concurrency` requests always in flight; those over the slots wait for one."""
    running = min(concurrency, server.limits.slots)

    def excess(decodes: float) -> float:
        point = _closed_point(server, decodes, running, lambda d: server.costs_near(d, running))
        return decodes + point.rate_rps * point.ttft_s - running

    decodes = 0.0
    if server.decode_tokens:
        decodes = bracketed_root(excess, 0.0, running, -running, 1e-3 * running)
    point = _convoy(server, _closed_point(server, decodes, running, server.costs), running)
    in_service_s = point.ttft_s + server.decode_tokens * point.tpot_s
    rate_rps = running / in_service_s  # Little's law, exactly
    slot_wait_s = concurrency / rate_rps - in_service_s if concurrency > running else 0.0
    return Point(
        point.decodes,
        rate_rps,
        point.ttft_s + slot_wait_s,
        point.tpot_s,
        point.wait_s + slot_wait_s,
        point.costs,
        concurrency > running,
    )


def _convoy(server: Server, point: Point, running: float) -> Point:
    """The part of the requests that starts together and prefills as one batch.

    A wave of prompts that takes long beside the decoding keeps its requests together: while the
    last prompt is computed, the first request waits for its next token. They end together, and
    start anew. Where decoding takes longer, different lengths spread them.
    """
    if running <= 1.0 or not server.decode_tokens:
        return point
    costs = point.costs
    wave_s, decode_s = running * costs.prefill_work_s, server.decode_tokens * costs.decode_s
    odds = server.coefficients.convoy_odds * (1.0 + (wave_s / decode_s) ** 2)
    share = odds / (1.0 + odds)
    batch = static(server, running)
    wait_s = max(0.0, batch.ttft_s - point.ttft_s)
    return point._replace(
        ttft_s=(1 - share) * point.ttft_s + share * batch.ttft_s,
        tpot_s=(1 - share) * point.tpot_s + share * batch.tpot_s,
        wait_s=point.wait_s + share * wait_s,
    )


def _closed_point(
    server: Server, decodes: float, population: float, costs_of: Callable[[float], Costs]
) -> Point:
    others = (population - 1.0) / population if population > 1 else 0.0
    costs = costs_of(seen_decodes(server, decodes, others))
    rate_rps = rate_of(server, costs, decodes, others)
    busy_share = others * rate_rps * costs.prefill_work_s
    wait_s = queue_wait_s(busy_share, costs.prefill_work_s, 1.0)
    ttft_s = server.host_s() + wait_s + costs.prefill_s
    return Point(decodes, rate_rps, ttft_s, tpot_of(costs, busy_share), wait_s, costs)


def open_loop(server: Server, rate_rps: float, variability: float) -> Point:
    """Arrivals at a rate, whatever the server does."""
    slots = server.limits.slots
    highest = saturation_rps(server)
    decodes = slots
    if rate_rps < highest and server.decode_tokens:

        def excess(decodes: float) -> float:
            costs = server.costs_near(seen_decodes(server, decodes, 1.0))
            return rate_of(server, costs, decodes) - rate_rps

        decodes = bracketed_root(excess, 0.0, slots, -rate_rps, 1e-3 * rate_rps)
    costs = server.costs(seen_decodes(server, decodes, 1.0))
    return _open_point(server, decodes, costs, variability, rate_rps, highest)


def _open_point(
    server: Server,
    decodes: float,
    costs: Costs,
    variability: float,
    rate_rps: float,
    highest_rps: float,
) -> Point:
    saturated = rate_rps >= highest_rps
    rate = highest_rps if saturated else rate_rps
    busy_share = rate * costs.prefill_work_s
    tpot_s = tpot_of(costs, busy_share)
    if saturated:
        return Point(decodes, rate, math.inf, tpot_s, math.inf, costs, True)
    wait_s = queue_wait_s(busy_share, costs.prefill_work_s, variability)
    wait_s += costs.decode_s / 2 * min(1.0, decodes)  # the step that is running
    stay_s = costs.prefill_s + server.decode_tokens * tpot_s
    wait_s += slot_wait_s(rate / highest_rps, server.limits.slots, stay_s, variability)
    ttft_s = server.host_s() + wait_s + costs.prefill_s
    return Point(decodes, rate, ttft_s, tpot_s, wait_s, costs)


def max_rate_rps(server: Server, slo: Slo | None, variability: float) -> float:
    """Highest rate whose means meet the targets; without targets, the saturation rate.

    Latency grows with the number that decode, and the rate follows from it in closed form, so
    one bisection over that number is enough.
    """
    slots, highest = server.limits.slots, saturation_rps(server)
    targets = latency_targets(slo)
    if not targets:
        return highest

    def at(decodes: float) -> Point:
        costs = server.costs_near(seen_decodes(server, decodes, 1.0))
        rate = min(rate_of(server, costs, decodes), highest * (1 - 1e-6))
        return _open_point(server, decodes, costs, variability, rate, highest)

    low, high = 1e-3, slots
    if not meets_targets(server, at(low), targets):
        return 0.0
    for _ in range(SEARCH_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if meets_targets(server, at(middle), targets) else (low, middle)
    return at(low).rate_rps


def latency_targets(slo: Slo | None) -> tuple[tuple[str, float], ...]:
    """(metric, limit) of the targets that time decides."""
    if slo is None:
        return ()
    return tuple((t.metric, t.limit) for t in slo.targets if t.metric != "quality")


def meets_slo(server: Server, point: Point, slo: Slo | None) -> bool | None:
    """Whether the means hold the SLO's times; None without any."""
    targets = latency_targets(slo)
    return meets_targets(server, point, targets) if targets else None


def meets_targets(server: Server, point: Point, targets: tuple[tuple[str, float], ...]) -> bool:
    """Whether the means hold all limits."""
    for metric, limit in targets:
        value = point.tpot_s if metric == "tpot" else point.ttft_s
        if metric == "e2e":
            value += server.decode_tokens * point.tpot_s
        if value > limit:
            return False
    return True


def report(server: Server, workload: Workload, point: Point, slo: Slo | None) -> Serving:
    """Everything that is told about an operating point."""
    highest = saturation_rps(server)
    bound, next_bound = bounds(server, point)
    rate = point.rate_rps
    notes = list(server.step.notes)
    if slo and any(t.statistic.startswith("p") for t in slo.targets):
        notes.append(JUDGED_BY_MEAN)
    context = server.mean_context_tokens
    return Serving(
        ttft_s=point.ttft_s,
        tpot_s=point.tpot_s,
        e2e_s=point.ttft_s + server.decode_tokens * point.tpot_s,
        request_rate_rps=rate,
        output_tokens_per_s=rate * workload.output_tokens,
        total_tokens_per_s=rate * (workload.prompt_tokens + workload.output_tokens),
        num_decoding=point.decodes,
        num_in_flight=rate * (point.ttft_s + server.decode_tokens * point.tpot_s),
        wait_s=point.wait_s,
        utilization_share=rate / highest,
        saturation_rps=highest,
        max_rate_rps=max_rate_rps(server, slo, arrival_variability(workload)),
        saturated=point.saturated,
        meets_slo=meets_slo(server, point, slo),
        bound=bound,
        next_bound=next_bound,
        decode_parts=server.step.parts(0.0, 0.0, max(point.decodes, 1.0), context),
        assumptions=tuple(notes),
    )


def bounds(server: Server, point: Point) -> tuple[str, str]:
    """What limits the point, and what would if that were free."""
    busy_share = min(point.rate_rps * point.costs.prefill_work_s, 1.0)
    decode = server.step.causes(0.0, 0.0, point.decodes, server.mean_context_tokens)
    chunk = min(server.new_tokens, server.limits.chunk_tokens)
    seen = server.cached_tokens + server.new_tokens / 2
    prefill = server.step.causes(chunk, seen, 0.0, 0.0)
    decode_s, prefill_s = sum(decode.values()), sum(prefill.values())
    seconds = {
        cause: (1 - busy_share) * decode[cause] / decode_s + busy_share * prefill[cause] / prefill_s
        for cause in decode
    }
    order = sorted(seconds, key=lambda cause: -seconds[cause])
    if point.saturated:
        limit = "kv" if server.limits.slots_by == "kv" else "queue"
        order = [limit, *(cause for cause in order if cause != limit)]
    return order[0], order[1]
