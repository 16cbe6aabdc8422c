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
from dataclasses import dataclass, field
from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.prediction import Part
from ..schema.workload import Slo, Workload
from .step import StepModel

JUDGED_BY_MEAN = "percentile targets are judged by the mean: this version predicts no tails"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the scheduler lets into one step and into the running set."""

    chunk_tokens: float  # max_num_batched_tokens
    slots: float  # requests that run at once
    slots_by: str  # "max_num_seqs" or "kv": which of the two binds


class Costs(NamedTuple):
    """With `decodes` requests decoding: seconds of a step and of one request's prefill."""

    decode_s: float
    prefill_work_s: float  # that it adds to everybody's time
    prefill_s: float  # that it lasts for the request itself


@dataclass(frozen=True, slots=True)
class Serving:
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


@dataclass(frozen=True, slots=True)
class Server:
    """One replica serving requests of one length."""

    step: StepModel
    coefficients: Coefficients
    limits: Limits
    new_tokens: float  # prompt tokens that are not in the prefix cache
    cached_tokens: float
    output_tokens: float
    pipeline: int = 1
    known: dict[float, Costs] = field(default_factory=dict, compare=False)  # of `costs`

    @property
    def decode_tokens(self) -> float:
        """Tokens after the first, which prefill yields."""
        return max(self.output_tokens - 1.0, 0.0)

    @property
    def mean_context_tokens(self) -> float:
        """Of a decoding request, over its life."""
        return self.cached_tokens + self.new_tokens + self.output_tokens / 2

    def costs(self, decodes: float) -> Costs:
        """A step of `decodes` requests, and one more prompt beside all but one of them."""
        found = self.known.get(decodes)
        if found is None:
            found = self.known[decodes] = self._costs(decodes)
        return found

    def costs_near(self, decodes: float) -> Costs:
        """`costs` between powers of two: what a search asks for again and again."""
        if decodes <= 1.0:
            return self.costs(1.0)
        low = 2.0 ** math.floor(math.log2(decodes))
        high = min(2.0 * low, max(self.limits.slots, decodes))
        if decodes in (low, high):
            return self.costs(decodes)
        a, b, share = self.costs(low), self.costs(high), (decodes - low) / (high - low)
        return Costs(
            a.decode_s + share * (b.decode_s - a.decode_s),
            a.prefill_work_s + share * (b.prefill_work_s - a.prefill_work_s),
            a.prefill_s + share * (b.prefill_s - a.prefill_s),
        )

    def _costs(self, decodes: float) -> Costs:
        context, beside = self.mean_context_tokens, max(decodes - 1.0, 0.0)
        decode_s = self.step.step_s(0.0, 0.0, decodes, context)
        prefill_s, steps = self.prefill_s(self.new_tokens, beside)
        idle_s = self.step.step_s(0.0, 0.0, beside, context) if beside else 0.0
        work_s = max(prefill_s - steps * idle_s, 1e-3 * prefill_s) / self.pipeline
        return Costs(decode_s, work_s, prefill_s)

    def prefill_s(self, new_tokens: float, decodes: float) -> tuple[float, float]:
        """Seconds and steps until `new_tokens` prompt tokens of one request are through."""
        budget = self.limits.chunk_tokens
        chunk = max(budget - decodes, budget / 8)  # decoding requests come first in a step
        step, context = self.step.step_s, self.mean_context_tokens
        full = math.ceil(new_tokens / chunk) - 1
        rest = new_tokens - full * chunk
        seen = self.cached_tokens + full * chunk
        seconds = step(rest, seen + rest / 2, decodes, context)
        if full > 0:
            seconds += full * step(chunk, self.cached_tokens + full * chunk / 2, decodes, context)
        return seconds, full + 1.0

    def host_s(self) -> float:
        """Seconds before a request reaches the scheduler."""
        prompt = self.new_tokens + self.cached_tokens
        return self.coefficients.admission_s + prompt * self.coefficients.prompt_token_s


def limits_of(
    deployment: Deployment,
    hardware: HardwareSpec,
    context_tokens: float,
    kv_tokens: float | None,
) -> Limits:
    """Chunk and slots; `kv_tokens` is what the KV cache holds, None when it never binds."""
    seqs, chunk = default_batching(deployment, hardware)
    by_kv = math.inf if kv_tokens is None else max(kv_tokens / max(context_tokens, 1.0), 1.0)
    return Limits(
        chunk_tokens=float(deployment.max_num_batched_tokens or chunk),
        slots=min(float(seqs), by_kv),
        slots_by="kv" if by_kv < seqs else "max_num_seqs",
    )


def default_batching(deployment: Deployment, hardware: HardwareSpec) -> tuple[int, int]:
    """(max_num_seqs, max_num_batched_tokens) that an engine picks for a device.

    vLLM 0.33 (arg_utils.py): 1,024 and 16,384 from 160 GiB, 1,024 and 8,192 from 70 GiB except
    on A100, else 256 and 2,048. llama.cpp computes
    512 tokens at a time (n_ubatch).
    """
    gib = hardware.memory_bytes / 2**30
    seqs, chunk = 256, 2048
    if deployment.engine == "llama.cpp":
        return deployment.max_num_seqs or seqs, deployment.max_num_batched_tokens or 512
    if hardware.kind == "gpu" and gib >= 70 and "A100" not in hardware.id.upper():
        seqs, chunk = 1024, (16384 if gib >= 160 else 8192)
    return deployment.max_num_seqs or seqs, deployment.max_num_batched_tokens or chunk


def server_of(
    step: StepModel,
    hardware: HardwareSpec,
    deployment: Deployment,
    coefficients: Coefficients,
    workload: Workload,
    kv_tokens: float | None = None,
) -> Server:
    """The replica that a deployment makes for a workload."""
    hit = workload.prefix_hit_share if deployment.enable_prefix_caching else 0.0
    cached = min(workload.prompt_tokens * hit, max(workload.prompt_tokens - 1.0, 0.0))
    context = workload.prompt_tokens + workload.output_tokens / 2
    return Server(
        step=step,
        coefficients=coefficients,
        limits=limits_of(deployment, hardware, context, kv_tokens),
        new_tokens=workload.prompt_tokens - cached,
        cached_tokens=cached,
        output_tokens=float(workload.output_tokens),
        pipeline=deployment.pipeline_parallel,
    )


def serve(server: Server, workload: Workload, slo: Slo | None = None) -> Serving:
    """Means under the workload's arrivals; `replicas` is the caller's division of the load."""
    if workload.arrival == "closed":
        point = closed(server, float(workload.concurrency))
    else:
        point = open_loop(server, workload.rate_rps, arrival_variability(workload))
    return _report(server, workload, point, slo)


@dataclass(frozen=True, slots=True)
class Point:
    """An operating point before it is reported."""

    decodes: float
    rate_rps: float
    ttft_s: float
    tpot_s: float
    wait_s: float
    saturated: bool = False


def arrival_variability(workload: Workload) -> float:
    """Squared coefficient of variation of the gaps between arrivals."""
    return {"constant": 0.0, "gamma": 1.0 / max(workload.burstiness, 1e-9)}.get(
        workload.arrival, 1.0
    )


def closed(server: Server, concurrency: float) -> Point:
    """`concurrency` requests always in flight; those over the slots wait for one."""
    running = min(concurrency, server.limits.slots)

    def excess(decodes: float) -> float:
        point = _closed_point(server, decodes, running, server.costs_near)
        return decodes + point.rate_rps * point.ttft_s - running

    decodes = 0.0
    if server.decode_tokens:
        decodes = bracketed_root(excess, 0.0, running, -running, 1e-3 * running)
    point = _closed_point(server, decodes, running, server.costs)
    in_service_s = point.ttft_s + server.decode_tokens * point.tpot_s
    rate_rps = running / in_service_s  # Little's law, exactly
    slot_wait_s = concurrency / rate_rps - in_service_s if concurrency > running else 0.0
    return Point(
        point.decodes,
        rate_rps,
        point.ttft_s + slot_wait_s,
        point.tpot_s,
        point.wait_s + slot_wait_s,
        concurrency > running,
    )


def _closed_point(
    server: Server, decodes: float, population: float, costs_of: Callable[[float], Costs]
) -> Point:
    others = (population - 1.0) / population if population > 1 else 0.0
    costs = costs_of(seen_decodes(server, decodes, others))
    rate_rps = _rate(server, costs, decodes, others)
    busy_share = others * rate_rps * costs.prefill_work_s
    wait_s = queue_wait_s(busy_share, costs.prefill_work_s, 1.0)
    ttft_s = server.host_s() + wait_s + costs.prefill_s
    return Point(decodes, rate_rps, ttft_s, _tpot(costs, busy_share), wait_s)


def seen_decodes(server: Server, decodes: float, others: float) -> float:
    """Requests that decode beside and including one of them."""
    return min(1.0 + others * decodes, server.limits.slots)


def open_loop(server: Server, rate_rps: float, variability: float) -> Point:
    """Arrivals at a rate, whatever the server does."""
    slots = server.limits.slots
    highest = saturation_rps(server)
    if rate_rps >= highest or server.decode_tokens == 0.0:
        return _open_point(server, slots, variability, rate_rps, server.costs)

    def excess(decodes: float) -> float:
        costs = server.costs_near(seen_decodes(server, decodes, 1.0))
        return _rate(server, costs, decodes) - rate_rps

    decodes = bracketed_root(excess, 0.0, slots, -rate_rps, 1e-3 * rate_rps)
    return _open_point(server, decodes, variability, rate_rps, server.costs)


def saturation_rps(server: Server) -> float:
    """Requests a second with every slot decoding."""
    slots = server.limits.slots
    return _rate(server, server.costs(slots), slots)


def _open_point(
    server: Server,
    decodes: float,
    variability: float,
    rate_rps: float,
    costs_of: Callable[[float], Costs],
) -> Point:
    highest_rps = saturation_rps(server)
    saturated = rate_rps >= highest_rps
    costs = costs_of(seen_decodes(server, decodes, 1.0))
    rate = min(rate_rps, highest_rps)
    busy_share = rate * costs.prefill_work_s
    tpot_s = _tpot(costs, busy_share)
    wait_s = queue_wait_s(busy_share, costs.prefill_work_s, variability)
    wait_s += costs.decode_s / 2 * min(1.0, decodes)  # the step that is running
    stay_s = costs.prefill_s + server.decode_tokens * tpot_s
    wait_s += slot_wait_s(rate / highest_rps, server.limits.slots, stay_s, variability)
    ttft_s = math.inf if saturated else server.host_s() + wait_s + costs.prefill_s
    return Point(decodes, rate, ttft_s, tpot_s, wait_s, saturated)


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


def _rate(server: Server, costs: Costs, decodes: float, others: float = 1.0) -> float:
    """Requests a second that pass when `decodes` of them decode."""
    if server.decode_tokens == 0.0:
        return 1.0 / costs.prefill_work_s
    work_s = others * decodes * costs.prefill_work_s
    return decodes / (server.decode_tokens * costs.decode_s + work_s)


def _tpot(costs: Costs, busy_share: float) -> float:
    return costs.decode_s / max(1.0 - busy_share, 1e-9)


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


@dataclass(frozen=True, slots=True)
class Static:
    """A batch whose requests all start together."""

    prefill_s: float  # until the last prompt is through
    ttft_s: float  # mean over the requests
    decode_s: float  # a step in which all decode
    tpot_s: float  # mean over the requests, others' prefill included
    e2e_s: float  # until the last token of the last request
    waves: int  # more than one when the batch exceeds the slots


def static(server: Server, batch: float) -> Static:
    """`batch` equal requests sent at once to an idle replica."""
    waves = math.ceil(batch / server.limits.slots)
    size = batch / waves
    tokens = size * server.new_tokens
    chunks = max(1.0, math.ceil(tokens / server.limits.chunk_tokens))
    seen = server.cached_tokens + server.new_tokens / 2
    each_s = server.step.step_s(tokens / chunks, seen, 0.0, 0.0)
    prefill_s = server.host_s() + chunks * each_s
    decode_s = server.step.step_s(0.0, 0.0, size, server.mean_context_tokens)
    steps = server.decode_tokens
    wave_s = prefill_s + steps * decode_s
    stall_s = chunks * each_s * (1 - 1 / chunks) / 2  # later prompts, felt by earlier requests
    ttft_s = prefill_s - stall_s + (waves - 1) / 2 * wave_s
    tpot_s = decode_s + (stall_s / steps if steps else 0.0)
    return Static(prefill_s, ttft_s, decode_s, tpot_s, waves * wave_s, waves)


def max_rate_rps(server: Server, slo: Slo | None, variability: float) -> float:
    """Highest rate whose means meet the targets; without targets, the saturation rate.

    Latency grows with the number that decode, and the rate follows from it in closed form, so
    one bisection over that number is enough.
    """
    slots, highest = server.limits.slots, saturation_rps(server)
    targets = latency_targets(slo)
    if not targets:
        return highest

    def meets(decodes: float) -> bool:
        costs = server.costs_near(seen_decodes(server, decodes, 1.0))
        rate = min(_rate(server, costs, decodes), highest * (1 - 1e-6))
        point = _open_point(server, decodes, variability, rate, server.costs_near)
        return meets_targets(server, point, targets)

    low, high = 0.0, slots
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return _rate(server, server.costs_near(seen_decodes(server, low, 1.0)), low) if low else 0.0


def latency_targets(slo: Slo | None) -> tuple[tuple[str, float], ...]:
    """(metric, limit) of the targets that time decides."""
    if slo is None:
        return ()
    return tuple((t.metric, t.limit) for t in slo.targets if t.metric != "quality")


def meets_targets(server: Server, point: Point, targets: tuple[tuple[str, float], ...]) -> bool:
    """Whether the means hold all limits."""
    values = {
        "ttft": point.ttft_s,
        "tpot": point.tpot_s,
        "e2e": point.ttft_s + server.decode_tokens * point.tpot_s,
    }
    return all(values[metric] <= limit for metric, limit in targets)


def _report(
    server: Server, workload: Workload, point: Point, slo: Slo | None
) -> Serving:
    highest = saturation_rps(server)
    targets = latency_targets(slo)
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
        meets_slo=meets_targets(server, point, targets) if targets else None,
        bound=bound,
        next_bound=next_bound,
        decode_parts=server.step.parts(0.0, 0.0, max(point.decodes, 1.0), context),
        assumptions=tuple(notes),
    )


def bounds(server: Server, point: Point) -> tuple[str, str]:
    """What limits the point, and what would if that were free."""
    costs = server.costs(point.decodes)
    busy_share = min(point.rate_rps * costs.prefill_work_s, 1.0)
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
