"""The planner's closed forms over all truth rows at once: what neoserve.predict does, with numpy.

A fit asks for thousands of rows hundreds of times. `tests/predict/test_latency_arrays.py` holds the
two against each other; what is read off a model comes from the product's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from latency_items import Item

from neoserve.catalog.coefficients import coefficients_for
from neoserve.predict.attention import is_packed, spans, states
from neoserve.predict.cache import kv_dtype_of
from neoserve.predict.collectives import collectives, data_ranks
from neoserve.predict.formats import cores_of, half_flops_per_s, route_of
from neoserve.predict.server import limits_of
from neoserve.predict.step import ROLES, activation_bytes

Array = np.ndarray[Any, np.dtype[np.float64]]
FLAGS = ("single_tpot", "batched_tpot", "ttft", "batch_prefill", "prefill_rate", "e2e_single",
         "e2e_batched", "throughput", "tput256", "openloop_tpot")  # fmt: skip
_LINEAR, _EXPERTS, _SPANS = 4, 2, 4  # matrices beside the head, kinds of experts, of attention
_MULTIPLIED = {"fp8": 1, "int8": 2, "int4": 2, "fp4": 3, "nvfp4": 3, "mxfp4": 3}  # dtype_share
EXPERT_KINDS = ("fp8", "int8", "fp4", "block", "unpacked")  # expert_dtype_share, from 1
_GAUSS = np.polynomial.legendre.leggauss(4)  # on (-1, 1)
_NODES, _WEIGHTS = (_GAUSS[0] + 1) / 2, _GAUSS[1] / 2
_STEPS = 14  # of the search for the number that decode


def geometry(items: Sequence[Item]) -> dict[str, Array]:
    """What the rows' models, devices and loads are, before any coefficient; first axis: rows."""
    rows = [_row(item) for item in items]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _row(item: Item) -> dict[str, Any]:
    case, model, shape, hardware = item.case, item.model, item.shape, item.hardware
    d, w = case.deployment, case.workload
    tp, ranks = d.tensor_parallel, d.tensor_parallel * data_ranks(d)
    one = coefficients_for(hardware, d.engine, d.engine_version).replace(
        state_share=1.0, scan_share=1.0, collective_s=1.0, collective_share=1.0
    )
    state_s, scan_s = states(shape, model, hardware, tp, one)
    half = half_flops_per_s(model, hardware)
    exchange, exchange_token_s = collectives(shape, model.hidden_size, hardware, d, one)
    limits = limits_of(d, hardware, w.prompt_tokens + w.output_tokens / 2, item.kv_tokens)
    mode = case.load_mode
    return {
        "bandwidth": hardware.bandwidth_bytes_per_s, "half_peak": half,
        "cores": cores_of(hardware), "shared_cache": case.shared_cache,
        "blocks": shape.num_blocks, "moe_layers": shape.moe_layers,
        "state_layers": shape.state_layers, "pipeline": d.pipeline_parallel,
        "data": data_ranks(d), "eager": d.enforce_eager,
        "activation_bytes": activation_bytes(shape, model.hidden_size, tp),
        "exchanges": exchange, "exchange_token_s": exchange_token_s,
        "state_bytes": state_s * hardware.bandwidth_bytes_per_s, "scan_flops": scan_s * half,
        "busiest": d.expert_parallel and ranks > 1,
        "chunk": limits.chunk_tokens, "slots": limits.slots,
        "prompt": float(w.prompt_tokens), "output": float(w.output_tokens),
        "steps": max(w.output_tokens - 1.0, 0.0), "context": w.prompt_tokens + w.output_tokens / 2,
        "in_flight": float(w.concurrency), "replicas": d.replicas,
        "open_rate": w.rate_rps if mode == "open_loop" else 0.0,
        "burst_share": case.burst_share, "bench_prompt": float(case.bench_prompt_tokens),
        "wait_steps": case.wait_steps, "varied": case.varied, "rate_mean": case.rate_mean,
        "static": mode in ("static_batch", "burst", "offline"), "closed": mode == "closed_loop",
        "bare": mode == "static_batch" and "ttft" not in case.observed,
        "counts_prompt": "total_rate" in case.observed,
        "counts_decode": "decode_rate" in case.observed,
        **_matrices(item), **_experts(item, ranks), **_attention(item),
    }  # fmt: skip


def _matrices(item: Item) -> dict[str, Any]:
    shape, tp = item.shape, item.case.deployment.tensor_parallel
    found = {
        key: np.zeros(_LINEAR + 1) for key in ("bytes", "flops", "packed", "unpacked", "block")
    }
    found["peak"], found["dtype"] = np.ones(_LINEAR + 1), np.zeros(_LINEAR + 1, int)
    at = 0
    for role in ROLES:
        if role == "experts" or not shape.params[role]:
            continue
        route = route_of(item.model, role, item.hardware, item.case.deployment.engine)
        place = _LINEAR if role == "lm_head" else at
        at += role != "lm_head"
        found["bytes"][place] = shape.params[role] * route.bits / 8 / tp
        found["flops"][place] = 2.0 * shape.params[role] / tp
        found["peak"][place] = route.peak_flops_per_s
        found["packed"][place] = route.bits < 16
        found["unpacked"][place], found["block"][place] = route.unpacked, route.by_blocks
        found["dtype"][place] = _MULTIPLIED.get(route.dtype, 0)
    return {f"matrix_{key}": value for key, value in found.items()}


def _experts(item: Item, ranks: int) -> dict[str, Any]:
    shape = item.shape
    found: dict[str, Any] = {key: np.zeros(_EXPERTS) for key in ("num", "chosen", "bytes", "flops")}
    found |= {"peak": 1.0, "packed": False, "kind": 0}
    if shape.experts:
        route = route_of(item.model, "experts", item.hardware, item.case.deployment.engine)
        kind = EXPERT_KINDS.index(route.kind) + 1 if route.kind in EXPERT_KINDS else 0
        found |= {"peak": route.peak_flops_per_s, "packed": route.bits < 16, "kind": kind}
        for place, (count, num, chosen, params) in enumerate(shape.experts[:_EXPERTS]):
            found["num"][place], found["chosen"][place] = num, chosen
            found["bytes"][place] = count * params * route.bits / 8 / ranks
            found["flops"][place] = count * 2.0 * params / ranks
    return {f"expert_{key}": value for key, value in found.items()}


def _attention(item: Item) -> dict[str, Any]:
    d, sums = item.case.deployment, {}
    kv_dtype = kv_dtype_of(item.model, d)
    for count, mixer in item.shape.mixers:
        for span, stride, *costs in spans(mixer, kv_dtype, d.tensor_parallel):
            total = sums.setdefault((span, stride), np.zeros(3))
            total += count * np.array(costs)
    found: dict[str, Any] = {
        "span": np.full(_SPANS, np.inf), "stride": np.ones(_SPANS), "bytes": np.zeros(_SPANS),
        "decode_flops": np.zeros(_SPANS), "prompt_flops": np.zeros(_SPANS),
    }  # fmt: skip
    for place, ((span, stride), costs) in enumerate(sums.items()):
        found["span"][place], found["stride"][place] = span, stride
        found["bytes"][place], found["decode_flops"][place], found["prompt_flops"][place] = costs
    packed = {"kv_packed": is_packed(kv_dtype)}
    return packed | {f"attention_{key}": value for key, value in found.items()}


def overlap(a: Array, b: Array, power: Array) -> Array:
    """neoserve.predict.step.overlap_s."""
    high, low = np.maximum(a, b), np.minimum(a, b)
    ratio = np.where(high > 0, low / np.where(high > 0, high, 1.0), 0.0)
    return np.asarray(high * (1.0 + ratio**power) ** (1.0 / power))


def matrix_share(dtype: Array, unpacked: Array, block: Array, c: Mapping[str, Array]) -> Array:
    """Share of the peak, rows x matrices, by place in `_MULTIPLIED` and by kernel."""
    shares = np.stack([np.ones_like(c["matrix_share"]), c["dtype_share.fp8"],
                       c["dtype_share.int8"], c["dtype_share.fp4"]], 1)  # fmt: skip
    share = np.take_along_axis(shares, dtype.astype(int), 1)
    share = share * np.where(unpacked, c["unpack_share"][:, None], 1.0)
    share = share * np.where(block, c["block_share"][:, None], 1.0)
    return np.asarray(c["matrix_share"][:, None] * share)


def expert_share(kind: Array, c: Mapping[str, Array]) -> Array:
    """expert_dtype_share of each row, by its place in EXPERT_KINDS; 0: none."""
    shares = np.stack(
        [np.ones_like(c["memory_share"]), *(c[f"expert_dtype_share.{k}"] for k in EXPERT_KINDS)], 1
    )
    return np.asarray(np.take_along_axis(shares, kind.astype(int)[:, None], 1)[:, 0])


class Rows:
    """Servers of all rows under coefficients: one array a coefficient, bounded."""

    def __init__(self, g: Mapping[str, Array], c: Mapping[str, Array]) -> None:
        self.g, self.c = g, c
        self._zero = np.zeros_like(g["prompt"])
        memory, packed = c["memory_share"], c["packed_share"]
        kinds = (g[f"matrix_{name}"] for name in ("dtype", "unpacked", "block"))
        together = 1.0 / (1.0 + c["core_drag"] * g["cores"])
        flops = g["matrix_peak"] * matrix_share(*kinds, c) * together[:, None]
        read = (g["bandwidth"] * memory)[:, None] * np.where(
            g["matrix_packed"], packed[:, None], 1.0
        )
        self.read_s, self.token_s = g["matrix_bytes"] / read, g["matrix_flops"] / flops
        read = g["bandwidth"] * memory * np.where(g["expert_packed"], packed, 1.0)
        busiest = np.where(g["busiest"], c["expert_imbalance"], 1.0)
        self.expert_read_s = (
            g["expert_bytes"] * (busiest / (read * c["expert_memory_share"]))[:, None]
        )
        share = c["expert_share"] * expert_share(g["expert_kind"], c)
        flops = g["expert_peak"] * c["matrix_share"] * share * together
        self.expert_token_s = g["expert_flops"] * (busiest / flops)[:, None]
        attend = (g["half_peak"] * c["attention_share"] * together)[:, None]
        read = g["bandwidth"] * c["kv_share"] * np.where(g["kv_packed"], c["kv_packed_share"], 1.0)
        self.seen_s = g["attention_bytes"] / read[:, None]
        self.decode_pair_s = g["attention_decode_flops"] / attend
        self.prompt_pair_s = g["attention_prompt_flops"] / attend
        self.state_s = g["state_bytes"] / (g["bandwidth"] * c["state_share"])
        self.scan_s = g["scan_flops"] / (g["half_peak"] * c["scan_share"])
        self.each_token_s = (
            g["activation_bytes"] / (g["bandwidth"] * memory)
            + g["exchange_token_s"] / c["collective_share"]
        )
        self.fixed_s = (
            g["exchanges"] * c["collective_s"] + g["blocks"] * c["layer_s"]
            + g["moe_layers"] * c["expert_layer_s"] + g["state_layers"] * c["state_layer_s"]
        )  # fmt: skip
        self.launch_s = g["blocks"] * c["launch_s"]

    def step_s(self, prompt: Array, prompt_context: Array, decodes: Array) -> Array:
        """StepModel.step_s at the rows' mean decode context."""
        g, c = self.g, self.c
        power, half = c["overlap_power"], c["matrix_half_tokens"]
        wide = power[:, None]
        staged = np.maximum(np.minimum(1.0, decodes), decodes / g["pipeline"])
        everything = prompt + staged
        tokens, mine, decoding = everything / g["data"], prompt / g["data"], staged / g["data"]
        rows = (tokens + half)[:, None]
        seconds = self.fixed_s + tokens * self.each_token_s
        linear = slice(0, _LINEAR)
        seconds = seconds + overlap(
            self.read_s[:, linear], self.token_s[:, linear] * rows, wide
        ).sum(1)
        if g["expert_num"].any():
            left_out = 1.0 - g["expert_chosen"] / np.maximum(g["expert_num"], 1.0)
            touched = g["expert_num"] * (1.0 - left_out ** everything[:, None])
            products = (
                everything[:, None] * g["expert_chosen"]
                + touched * c["expert_half_tokens"][:, None]
            )
            seconds = seconds + overlap(
                touched * self.expert_read_s, products * self.expert_token_s, wide
            ).sum(1)
        head_rows = decoding + (mine > 0) + half
        seconds = seconds + overlap(
            self.read_s[:, _LINEAR], self.token_s[:, _LINEAR] * head_rows, power
        )
        span, stride = g["attention_span"], g["attention_stride"]
        seen = np.minimum(g["context"][:, None] / stride, span) * decoding[:, None]
        pairs = np.minimum(prompt_context[:, None] / stride, span) * mine[:, None]
        each = np.where(g["shared_cache"], decoding, 1.0)
        compute = each * (seen * self.decode_pair_s).sum(1) + (pairs * self.prompt_pair_s).sum(1)
        seconds = seconds + overlap((seen * self.seen_s).sum(1), compute, power)
        seconds = seconds + overlap(decoding * self.state_s, mine * self.scan_s, power)
        launched = (g["eager"] > 0) | (prompt > 0)
        seconds = np.where(
            launched, overlap(seconds, self.launch_s, np.full_like(power, 4.0)), seconds
        )
        return np.asarray(seconds + c["step_s"] + c["request_step_s"] * decodes)

    def _prefill(self, decodes: Array) -> tuple[Array, Array]:
        g = self.g
        chunk = np.maximum(g["chunk"] - decodes, g["chunk"] / 8)
        full = np.ceil(g["prompt"] / chunk) - 1.0
        rest, seen = g["prompt"] - full * chunk, full * chunk
        seconds = self.step_s(rest, seen + rest / 2, decodes)
        if (full > 0).any():
            seconds = seconds + full * self.step_s(chunk, full * chunk / 2, decodes)
        return seconds, full + 1.0

    def _costs(self, decodes: Array) -> tuple[Array, Array, Array]:
        beside = np.maximum(decodes - 1.0, 0.0)
        decode_s = self.step_s(self._zero, self._zero, decodes)
        prefill_s, steps = self._prefill(beside)
        idle_s = np.where(beside > 0, self.step_s(self._zero, self._zero, beside), 0.0)
        work_s = np.maximum(prefill_s - steps * idle_s, 1e-3 * prefill_s) / self.g["pipeline"]
        return decode_s, work_s, prefill_s

    def _host_s(self) -> Array:
        return np.asarray(self.c["admission_s"] + self.g["prompt"] * self.c["prompt_token_s"])

    def static(self, batch: Array, varied: Array) -> dict[str, Array]:
        """neoserve.predict.server.static."""
        g, zero = self.g, self._zero
        waves = np.ceil(batch / g["slots"])
        size = batch / waves
        chunks = np.maximum(1.0, np.ceil(size * g["prompt"] / g["chunk"]))
        seen = g["prompt"] / 2 * np.where(g["shared_cache"], size, 1.0)
        each_s = self.step_s(size * g["prompt"] / chunks, seen, zero)
        serial_s = self.c["request_serial_s"] * size
        prefill_s = self._host_s() + chunks * each_s
        decode_s = self.step_s(zero, zero, size)
        wave_s = prefill_s + serial_s + g["steps"] * decode_s
        groups = np.minimum(chunks, np.maximum(size, 1.0))
        stall_s = chunks * each_s * (1.0 - 1.0 / groups) / 2
        tpot_s = decode_s + np.where(g["steps"] > 0, stall_s / np.maximum(g["steps"], 1.0), 0.0)
        e2e_s = waves * wave_s
        if varied.any():
            e2e_s = np.where(varied, np.maximum(e2e_s, self._thinning_s(batch)), e2e_s)
        return {
            "prefill": prefill_s + serial_s, "decode": decode_s, "tpot": tpot_s, "e2e": e2e_s,
            "ttft": prefill_s + serial_s / 2 - stall_s + (waves - 1.0) / 2 * wave_s,
        }  # fmt: skip

    def _thinning_s(self, batch: Array) -> Array:
        g, zero = self.g, self._zero
        slots = np.minimum(batch, g["slots"])
        spread = np.log(np.maximum(slots, 1.0))
        thin_s = spread * sum(
            weight * self.step_s(zero, zero, np.exp(spread * node))
            for node, weight in zip(_NODES, _WEIGHTS, strict=True)
        )
        full_s = self.step_s(zero, zero, slots)
        tokens = batch * g["prompt"]
        chunks = np.maximum(1.0, np.ceil(tokens / g["chunk"]))
        prefill_s = self._host_s() + chunks * self.step_s(tokens / chunks, g["prompt"] / 2, zero)
        decode_s = g["steps"] * ((batch / slots - 1.0) * full_s + np.maximum(thin_s, full_s))
        return np.asarray(prefill_s + self.c["request_serial_s"] * batch + decode_s)

    def _closed_point(self, decodes: Array, population: Array) -> tuple[Array, ...]:
        g = self.g
        others = np.where(population > 1, (population - 1.0) / population, 0.0)
        decode_s, work_s, prefill_s = self._costs(np.minimum(1.0 + others * decodes, g["slots"]))
        cycle_s = g["steps"] * decode_s + others * decodes * work_s
        rate = np.where(g["steps"] > 0, decodes / np.maximum(cycle_s, 1e-30), 1.0 / work_s)
        busy = others * rate * work_s
        free = np.maximum(1.0 - busy, 1e-9)
        ttft_s = self._host_s() + busy / (2.0 * free) * work_s + prefill_s
        return rate, ttft_s, decode_s / free, decode_s, work_s

    def closed(self) -> tuple[Array, Array, Array]:
        """neoserve.predict.serve.closed: requests a second, TTFT, TPOT."""
        g = self.g
        running = np.minimum(g["in_flight"], g["slots"])

        def excess(decodes: Array) -> Array:
            rate, ttft_s, *_ = self._closed_point(decodes, running)
            return decodes + rate * ttft_s - running

        decodes = np.where(g["steps"] > 0, _root(excess, running, running), 0.0)
        rate, ttft_s, tpot_s, decode_s, work_s = self._closed_point(decodes, running)
        batch = self.static(running, np.zeros_like(running))
        wave = running * work_s / np.maximum(g["steps"] * decode_s, 1e-30)
        odds = self.c["convoy_odds"] * (1.0 + wave**2)
        share = np.where((running > 1) & (g["steps"] > 0), odds / (1.0 + odds), 0.0)
        ttft_s = (1.0 - share) * ttft_s + share * batch["ttft"]
        tpot_s = (1.0 - share) * tpot_s + share * batch["tpot"]
        service_s = ttft_s + g["steps"] * tpot_s
        rate = running / service_s
        queued_s = np.where(g["in_flight"] > running, g["in_flight"] / rate - service_s, 0.0)
        return rate, ttft_s + queued_s + g["wait_steps"] * decode_s, tpot_s

    def _open_tpot(self) -> Array:
        """neoserve.predict.serve.open_loop's TPOT; 1 where the load is not of a rate."""
        here = self.g["open_rate"] > 0
        found = np.ones_like(self.g["open_rate"])
        if here.any():
            g, c = ({k: v[here] for k, v in part.items()} for part in (self.g, self.c))
            found[here] = Rows(g, c)._open_tpots()
        return found

    def _open_tpots(self) -> Array:
        asked, slots = self.g["open_rate"], self.g["slots"]

        def point(decodes: Array) -> tuple[Array, Array, Array]:
            decode_s, work_s, _ = self._costs(np.minimum(1.0 + decodes, slots))
            rate = decodes / (self.g["steps"] * decode_s + decodes * work_s)
            return rate, decode_s, work_s

        decodes = _root(lambda decodes: point(decodes)[0] - asked, slots, asked)
        rate, decode_s, work_s = point(decodes)
        return np.asarray(decode_s / np.maximum(1.0 - np.minimum(rate, asked) * work_s, 1e-9))

    def _prefill_rate(self) -> Array:
        g = self.g
        bench = g["bench_prompt"] > 0
        tokens = np.where(bench, g["bench_prompt"], g["prompt"])
        depth = np.where(bench & (g["prompt"] > 1), g["prompt"], 0.0)
        batch = np.where(bench | (g["closed"] > 0), 1.0, g["in_flight"])
        chunks = np.maximum(1.0, np.ceil(batch * tokens / g["chunk"]))
        seen = (depth + tokens / 2) * np.where(g["shared_cache"] & ~bench, batch, 1.0)
        step_s = self.step_s(batch * tokens / chunks, seen, self._zero)
        return np.asarray(batch * tokens / (chunks * step_s))

    def predictions(self) -> Array:
        """neoserve.predict.latency_truth.predictions: rows x FLAGS."""
        g = self.g
        static, batch = g["static"] > 0, self.static(g["in_flight"], g["varied"] > 0)
        rate, ttft_s, tpot_s = self.closed()
        ttft_s = ttft_s + g["burst_share"] * np.maximum(0.0, batch["ttft"] - ttft_s)
        alone_s = np.where(g["bare"], batch["decode"], batch["tpot"])
        spread = 2.0 * (alone_s - batch["decode"]) / batch["decode"]
        even = spread <= 1e-9
        by_rate_s = batch["decode"] * np.where(
            even, 1.0, spread / np.log1p(np.where(even, 1, spread))
        )
        alone_s = np.where(g["rate_mean"], by_rate_s, alone_s)
        per_request = g["output"] + np.where(g["counts_prompt"], g["prompt"], 0.0)
        requests = np.where(static, g["in_flight"] / batch["e2e"], rate)
        decode_s = np.where(static, batch["decode"], tpot_s)
        tokens = np.where(g["counts_decode"], g["in_flight"] / decode_s, requests * per_request)
        tpot = np.where(static, alone_s, tpot_s)
        ttft = np.where(static, batch["ttft"], ttft_s)
        e2e = np.where(static, batch["e2e"], ttft_s + g["steps"] * tpot_s)
        output = g["replicas"] * tokens
        return np.stack([tpot, tpot, ttft, batch["prefill"], self._prefill_rate(), e2e, e2e, output,
                         output, self._open_tpot()], 1)  # fmt: skip


def _root(excess: Any, high: Array, asked: Array) -> Array:
    """neoserve.predict.queueing.bracketed_root for all rows at once; at 0 it is -`asked`."""
    tolerance = 1e-3 * asked
    low, at_low, at_high = np.zeros_like(high), -asked, excess(high)
    middle, done = high.copy(), at_high <= tolerance
    high = high.copy()
    for _ in range(_STEPS):
        if done.all():
            break
        next_ = (low * at_high - high * at_low) / (at_high - at_low)
        middle = np.where(done, middle, next_)
        value = excess(middle)
        done = done | (np.abs(value) <= tolerance)
        up, down = (value > 0) & ~done, (value <= 0) & ~done
        at_low = np.where(down, value, np.where(up, at_low / 2, at_low))
        at_high = np.where(up, value, np.where(down, at_high / 2, at_high))
        high, low = np.where(up, middle, high), np.where(down, middle, low)
    return middle
