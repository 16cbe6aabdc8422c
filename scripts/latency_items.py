"""Truth rows resolved against the catalog, and the rules that leave rows out of a fit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from neoserve.catalog.coefficients import device_class, engine_family
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.truth_names import stored_model
from neoserve.errors import AskError
from neoserve.predict import latency_rows as rows_of
from neoserve.predict.attention import spans
from neoserve.predict.cache import kv_dtype_of
from neoserve.predict.collectives import data_ranks
from neoserve.predict.step import Shape, shape_of
from neoserve.predict.weights import bits_of
from neoserve.schema.hardware import HardwareSpec, Link
from neoserve.schema.model import ModelSpec

FIT_FLAGS = ("single_tpot", "batched_tpot", "ttft", "batch_prefill", "prefill_rate", "e2e_single",
             "e2e_batched", "throughput", "tput256")  # fmt: skip
SIZED = ("vllm", "sglang", "tensorrt-llm", "atom")  # engines that size a paged cache
OTHER_BYTES = 4 * 2**30  # activations, graphs, communication on one device
SUSTAINED_SHARE = 0.6  # of the peak: more than any engine computes while it decodes


class Item(NamedTuple):
    """One row, resolved."""

    case: rows_of.Case
    model: ModelSpec
    shape: Shape
    hardware: HardwareSpec
    device_class: str
    family: str
    observed: dict[str, float]
    kv_tokens: float | None  # that the cache holds; None: it does not bind

    def keys(self) -> dict[str, str]:
        """The name of its group in each grouping."""
        return {
            "by_class": self.device_class,
            "by_engine": self.family,
            "by_pair": f"{self.device_class}|{self.family}",
        }


def linked(hardware: HardwareSpec) -> HardwareSpec:
    """With the Infinity Fabric that the catalog does not state yet, so as not to fit its absence.

    CDNA 4 white paper: 7 links of 153.6 GB/s both ways; MI250 data sheet: 100 GB/s a link.
    """
    rate = {"MI350X": 538e9, "MI355X": 538e9, "MI250": 100e9, "MI250X": 100e9}.get(hardware.id)
    if rate is None or hardware.link:
        return hardware
    return hardware.replace(link=Link(kind="infinity-fabric", bandwidth_bytes_per_s=rate))


def cpu_slice(hardware: HardwareSpec, threads: int) -> HardwareSpec:
    """The part of a socket that so many threads use; half of them already fill its memory."""
    if hardware.kind != "cpu" or not 0 < threads < hardware.cores:
        return hardware
    share = threads / hardware.cores
    return hardware.replace(
        peak_flops_per_s={k: v * share for k, v in hardware.peak_flops_per_s.items()},
        bandwidth_bytes_per_s=hardware.bandwidth_bytes_per_s * min(1.0, 2.0 * share),
        cores=threads,
    )


def weights_bytes(model: ModelSpec, shape: Shape) -> float:
    """All weights, embedding included."""
    linear = sum(params * bits_of(model, role) / 8 for role, params in shape.params.items())
    return linear + 2.0 * model.embedding_params * bool(model.lm_head_params)


def kv_tokens(
    case: rows_of.Case, model: ModelSpec, shape: Shape, hardware: HardwareSpec
) -> float | None:
    """What 90 % of the memory leaves for the cache, in tokens of this workload's requests."""
    if case.workload.concurrency < 4 or hardware.kind == "cpu" or case.engine not in SIZED:
        return None
    d = case.deployment
    context = case.workload.prompt_tokens + case.workload.output_tokens / 2
    dtype = kv_dtype_of(model, d)
    request = sum(
        count * read_bytes * min(context / stride, span)
        for count, mixer in shape.mixers
        for span, stride, read_bytes, _, _ in spans(mixer, dtype, d.tensor_parallel)
    )
    ranks = d.tensor_parallel * d.pipeline_parallel * data_ranks(d)
    free = 0.9 * hardware.memory_bytes - weights_bytes(model, shape) / ranks - OTHER_BYTES
    # It ran, so one request fits; several attention copies hold a cache each.
    return max(free / max(request, 1.0), 1.0) * context * data_ranks(d)


class Resolver:
    """Names of rows -> documents, each once; counts what it cannot name."""

    def __init__(self) -> None:
        self.shapes: dict[int, Shape] = {}
        self.unnamed: Counter[str] = Counter()

    def item(self, row: dict[str, str], flags: Iterable[str]) -> Item | None:
        case = rows_of.case_of(row)
        observed = {f: v for f, v in case.observed.items() if f in flags}
        if not observed:
            return None
        try:
            model = stored_model(case.model, case.scheme, case.weight_dtype, case.engine)
            hardware = linked(cpu_slice(find_machine(case.device).hardware, case.threads))
        except AskError as error:
            self.unnamed[str(error).split(";")[0]] += 1
            return None
        shape = self.shapes.setdefault(id(model), shape_of(model))
        family = engine_family(case.deployment.engine, case.deployment.engine_version)
        tokens = kv_tokens(case, model, shape, hardware)
        return Item(case, model, shape, hardware, device_class(hardware), family, observed, tokens)


def read_items(
    rows: Sequence[dict[str, str]], flags: Iterable[str], rows_per_series: int, fitting: bool
) -> tuple[list[Item], Resolver, Counter[str]]:
    """All modelled primary rows, and what was left out, by rule; for fitting also thinned."""
    resolver, ruled_out = Resolver(), Counter[str]()
    items = []
    for row in rows:
        if not rows_of.plain_flags(row):
            continue
        if reason := rows_of.left_out(row):
            ruled_out[reason] += 1
        elif item := resolver.item(row, flags):
            items.append(item)
    warm = {rows_of.series(i.case) for i in items if _beyond_peak(i)}
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        reason = ""
        if rows_of.series(item.case) in warm:
            reason = "prompts served from a warm cache"
        elif _ends_early(item):
            reason = "output ended before its stated length"
        elif fitting and item.case.load_mode == "burst":
            reason = "a burst of hundreds, which the front end limits"
        groups[reason].append(item)
    ruled_out.update({reason: len(group) for reason, group in groups.items() if reason})
    kept = groups[""]
    return (_thin(kept, rows_per_series) if fitting else kept), resolver, ruled_out


def _beyond_peak(item: Item) -> bool:
    peaks = item.hardware.peak_flops_per_s
    compute = item.model.quantization.compute
    dtype = compute.get("mlp", compute.get("experts", "bf16"))
    peak = peaks.get(dtype) or max(peaks.get("bf16", 0.0), peaks.get("fp16", 0.0), peaks["fp32"])
    share = rows_of.prompt_flops_share(item.case, item.model.active_params, peak)
    return share > SUSTAINED_SHARE


def _ends_early(item: Item) -> bool:
    dense = item.case.arch == "dense"
    weights = weights_bytes(item.model, item.shape) if dense else 0
    return rows_of.ends_early(item.case, weights, item.hardware.bandwidth_bytes_per_s)


def _thin(items: list[Item], keep: int) -> list[Item]:
    groups: dict[Any, list[Item]] = defaultdict(list)
    for i in items:
        groups[(*rows_of.series(i.case), i.case.device, i.case.load_mode, i.case.scheme)].append(i)
    return [i for group in groups.values() for i in group[:: max(1, math.ceil(len(group) / keep))]]
