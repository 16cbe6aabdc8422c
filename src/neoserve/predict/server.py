"""One replica as the scheduler sees it: what a step and a prefill cost beside how many others."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.workload import Workload
from .memory import default_batch
from .step import StepModel


class Limits(NamedTuple):
    """What the scheduler lets into one step and into the running set."""

    chunk_tokens: float  # max_num_batched_tokens
    slots: float  # requests that run at once
    slots_by: str  # "max_num_seqs" or "kv": which of the two binds


class Costs(NamedTuple):
    """With `decodes` requests decoding: seconds of a step and of one request's prefill."""

    decode_s: float
    prefill_work_s: float  # that it adds to everybody's time
    prefill_s: float  # that it lasts for the request itself


class Server:
    """One replica serving requests of one length."""

    def __init__(
        self,
        step: StepModel,
        coefficients: Coefficients,
        limits: Limits,
        new_tokens: float,  # prompt tokens that are not in the prefix cache
        cached_tokens: float,
        output_tokens: float,
        pipeline: int = 1,
    ) -> None:
        self.step, self.coefficients, self.limits = step, coefficients, limits
        self.new_tokens, self.cached_tokens = new_tokens, cached_tokens
        self.output_tokens, self.pipeline = output_tokens, pipeline
        self.decode_tokens = max(output_tokens - 1.0, 0.0)  # after the first, which prefill yields
        # of a decoding request, over its life
        self.mean_context_tokens = cached_tokens + new_tokens + output_tokens / 2
        self._known: dict[float, Costs] = {}

    def costs(self, decodes: float) -> Costs:
        """A step of `decodes` requests, and one more prompt beside all but one of them."""
        found = self._known.get(decodes)
        if found is None:
            found = self._known[decodes] = self._costs(decodes)
        return found

    def costs_near(self, decodes: float, most: float | None = None) -> Costs:
        """`costs` between powers of four: what a search up to `most` asks for again and again."""
        if decodes <= 1.0:
            return self.costs(1.0)
        low = 4.0 ** math.floor(math.log2(decodes) / 2.0)
        high = min(4.0 * low, max(most or self.limits.slots, decodes))
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

    def chunks_of(self, tokens: float) -> float:
        """Steps that so many prompt tokens fill, of all requests together."""
        return max(1.0, math.ceil(tokens / self.limits.chunk_tokens))

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
    """(max_num_seqs, max_num_batched_tokens): as asked, else as the engine picks for a device.

    llama.cpp computes 512 prompt tokens at a time (n_ubatch).
    """
    chunk, seqs = default_batch(hardware, deployment.tensor_parallel)
    if deployment.engine == "llama.cpp":
        chunk = 512
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


def rate_of(server: Server, costs: Costs, decodes: float, others: float = 1.0) -> float:
    """Requests a second that pass when `decodes` of them decode."""
    if server.decode_tokens == 0.0:
        return 1.0 / costs.prefill_work_s
    work_s = others * decodes * costs.prefill_work_s
    return decodes / (server.decode_tokens * costs.decode_s + work_s)


def tpot_of(costs: Costs, busy_share: float) -> float:
    return costs.decode_s / max(1.0 - busy_share, 1e-9)


def seen_decodes(server: Server, decodes: float, others: float) -> float:
    """Requests that decode beside and including one of them."""
    return min(1.0 + others * decodes, server.limits.slots)


def saturation_rps(server: Server) -> float:
    """Requests a second with every slot decoding."""
    slots = server.limits.slots
    return rate_of(server, server.costs(slots), slots)


class Static(NamedTuple):
    """A batch whose requests all start together."""

    prefill_s: float  # until the last prompt is through
    ttft_s: float  # mean over the requests
    decode_s: float  # a step in which all decode
    tpot_s: float  # mean over the requests, others' prefill included
    e2e_s: float  # until the last token of the last request
    waves: int  # more than one when the batch exceeds the slots


def static(server: Server, batch: float, varied: bool = False) -> Static:
    """`batch` requests sent at once to an idle replica.

    Their lengths are equal, or `varied`: exponential, as a chat dataset's are about, so that the
    batch thins out towards its end.
    """
    waves = math.ceil(batch / server.limits.slots)
    size = batch / waves
    seen = server.cached_tokens + server.new_tokens / 2
    seen *= size if server.step.shared_cache else 1.0
    chunks = server.chunks_of(size * server.new_tokens)
    each_s = server.step.step_s(size * server.new_tokens / chunks, seen, 0.0, 0.0)
    prefill_s = server.host_s() + chunks * each_s
    serial_s = server.coefficients.request_serial_s * size  # until the last one is let in
    decode_s = server.step.step_s(0.0, 0.0, size, server.mean_context_tokens)
    steps = server.decode_tokens
    wave_s = prefill_s + serial_s + steps * decode_s
    groups = min(chunks, max(size, 1.0))  # of requests whose prompts end in the same step
    stall_s = chunks * each_s * (1 - 1 / groups) / 2  # later prompts, felt by earlier requests
    ttft_s = prefill_s + serial_s / 2 - stall_s + (waves - 1) / 2 * wave_s
    tpot_s = decode_s + (stall_s / steps if steps else 0.0)
    e2e_s = waves * wave_s
    if varied:
        e2e_s = max(e2e_s, _thinning_s(server, batch))
    return Static(prefill_s + serial_s, ttft_s, decode_s, tpot_s, e2e_s, waves)


# Gauss-Legendre, 4 points on (0, 1).
_NODES = ((0.06943184, 0.17392742), (0.33000948, 0.32607258), (0.66999052, 0.32607258),
          (0.93056816, 0.17392742))  # fmt: skip


def _thinning_s(server: Server, batch: float) -> float:
    """Until the last of `batch` requests of exponential lengths has ended.

    n(k) = N exp(-k / m) requests are left after k steps, so that the sum of step(n) over steps is
    m times the integral of step(n) / n dn from 1 to N; before, freed slots are filled.
    """
    slots = min(batch, server.limits.slots)
    context, spread = server.mean_context_tokens, math.log(max(slots, 1.0))
    seen = server.cached_tokens + server.new_tokens / 2
    step = server.step.step_s
    thin_s = spread * sum(
        weight * step(0.0, 0.0, math.exp(spread * node), context) for node, weight in _NODES
    )
    full_s = step(0.0, 0.0, slots, context)
    tokens = batch * server.new_tokens
    chunks = server.chunks_of(tokens)
    prefill_s = server.host_s() + chunks * step(tokens / chunks, seen, 0.0, 0.0)
    decode_s = server.decode_tokens * ((batch / slots - 1) * full_s + max(thin_s, full_s))
    return prefill_s + server.coefficients.request_serial_s * batch + decode_s
