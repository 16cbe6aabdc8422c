"""Predictions against public KV-cache measurements: one row in, one comparison out.

Two kinds of rows: what vLLM's own allocator computed for stated bytes (`oracle_case`), and what
engines printed at start-up (`log_case`), where the printed GiB leave a range of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import AskError
from ..schema.base import Document
from ..schema.engine import Deployment, EngineProfile
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..units import GIB
from .checks import refusal_of
from .kv import Layout, blocks_per_request, capacity, in_flight_tokens, layout
from .memory import budget, footprint, resolved
from .pools import pool_tokens

PRINTED_GIB = 0.005 * GIB  # logs print two decimals
PRINTED_X = 0.005


CHOSEN = "version chosen afterwards"  # a basis: the case agrees, and confirms little


class Case(Document, frozen=True):
    """One comparison. `exact` is null where nothing could be compared."""

    id: str
    family: str
    observed: dict[str, Any]
    predicted: dict[str, Any]
    exact: bool | None
    basis: str  # stated | assumed | end-to-end | refused | unanswered
    note: str = ""
    memory_error_share: float | None = None  # of available KV bytes, where the log decides it


def deployment_of(row: Mapping[str, Any], profile: EngineProfile, hybrid: bool) -> Deployment:
    """The deployment that a truth row states; what it leaves out is the engine's default."""
    flags = row.get("other_flags") or {}
    spec = row.get("speculative_config") or flags.get("speculative_config") or {}
    own_head = spec.get("method") == "mtp"
    caching = row.get("enable_prefix_caching", flags.get("enable_prefix_caching"))
    if caching is None:
        caching = profile.prefix_caching_hybrid_default or not hybrid
    dtype = row.get("kv_cache_dtype") or "auto"
    return Deployment(
        engine=profile.engine,
        tensor_parallel=row.get("tensor_parallel") or 1,
        pipeline_parallel=row.get("pipeline_parallel") or 1,
        decode_context_parallel=flags.get("decode_context_parallel_size") or 1,
        kv_cache_dtype={"bf16": "bfloat16", "float8_e4m3fn": "fp8", "fp4_e2m1": "nvfp4"}.get(
            dtype, dtype
        ),
        enable_prefix_caching=bool(caching),
        async_scheduling=_async(row, flags),
        max_model_len=row.get("max_model_len") or _length(row),
        max_num_batched_tokens=row.get("max_num_batched_tokens")
        or flags.get("max_num_batched_tokens"),
        max_num_seqs=flags.get("max_num_seqs"),
        gpu_memory_utilization=row.get("gpu_memory_utilization")
        or flags.get("mem_fraction_static"),
        block_size=row.get("requested_block_size"),
        enforce_eager=bool(row.get("enforce_eager")),
        num_speculative_tokens=spec.get("num_speculative_tokens", 0) if own_head else 0,
        mamba_ssm_cache_dtype=flags.get("mamba_ssm_cache_dtype") or "auto",
        mamba_cache_dtype=flags.get("mamba_cache_dtype") or "auto",
        disable_hybrid_kv_cache_manager=bool(flags.get("disable_hybrid_kv_cache_manager")),
    )


def _async(row: Mapping[str, Any], flags: Mapping[str, Any]) -> bool | None:
    value = row.get("async_scheduling", flags.get("async_scheduling"))
    return None if value is None else bool(value)


def _length(row: Mapping[str, Any]) -> int | None:
    stated = row.get("max_concurrency")
    return stated.get("tokens_per_request") if isinstance(stated, Mapping) else None


def is_hybrid(model: ModelSpec) -> bool:
    """Attention and recurrent states together."""
    states = {m.state is not None for layer in model.layers for m in layer.mixers}
    return states == {True, False}


def oracle_case(
    row: Mapping[str, Any], model: ModelSpec, profile: EngineProfile, hardware: HardwareSpec
) -> Case:
    """Blocks, tokens, concurrency and groups for stated bytes, or a refusal."""
    deployment = deployment_of(row, profile, is_hybrid(model))
    observed = {k: row.get(k) for k in ("num_blocks", "kv_tokens", "max_concurrency")}
    observed["groups"] = _observed_groups(row)
    if row.get("error"):
        observed = {"error": row["error"]}
    refusal = refusal_of(model, deployment, profile)
    predicted: dict[str, Any] = {"error": refusal}
    if not refusal and row.get("available_bytes") is not None:
        deployment = resolved(deployment, model, hardware, profile)
        answer = capacity(
            layout(model, deployment, profile, hardware), model, deployment, profile,
            [row["available_bytes"]] * deployment.pipeline_parallel,
            deployment.max_model_len or 0, deployment.max_num_batched_tokens or 0,
        )  # fmt: skip
        refusal, kv = answer.refusal, answer.kv
        predicted = {
            "num_blocks": kv.num_blocks, "kv_tokens": kv.kv_tokens,
            "max_concurrency": kv.max_concurrency,
            "groups": sorted([g.num_layers, g.blocks_per_request] for g in kv.groups),
        }  # fmt: skip
        if refusal:
            predicted = {"error": refusal}
    exact = bool(row.get("error")) == bool(refusal) and (
        bool(refusal) or _equal(observed, predicted)
    )
    return Case(
        id=row["id"], family=str(row.get("family")), observed=observed, predicted=predicted,
        exact=exact, basis="stated",
    )  # fmt: skip


def _observed_groups(row: Mapping[str, Any]) -> list[list[int]]:
    return sorted([g["num_layers"], g["blocks_per_request"]] for g in row.get("groups") or ())


def _equal(observed: Mapping[str, Any], predicted: Mapping[str, Any]) -> bool:
    return all(
        abs(predicted[k] - v) <= 1e-9 * abs(v) if isinstance(v, float) else predicted[k] == v
        for k, v in observed.items()
    )


def log_case(
    row: Mapping[str, Any],
    model: ModelSpec,
    profiles: Sequence[EngineProfile],
    hardware: HardwareSpec | None,
    default_hardware: HardwareSpec,
) -> Case:
    """What an engine printed. `profiles` are those that the row's version may mean, the likeliest
    first; a development build's number says little about its age."""
    cases = [_log_case(row, model, p, hardware or default_hardware) for p in profiles]
    best = next((c for c in cases if c.exact), cases[0])
    versions = profiles[cases.index(best)].versions
    if best is not cases[0]:
        note = f"{best.note}; exact only as {versions}, a version chosen after the likeliest missed"
        best = best.replace(note=note.strip("; "), basis=CHOSEN)
    elif len(profiles) > 1 and best.exact:
        note = f"{best.note}; the version is not decided, read as {versions}"
        best = best.replace(note=note.strip("; "))
    if hardware is None:
        return best
    return best.replace(memory_error_share=_memory_error(row, model, profiles[0], hardware))


def _log_case(
    row: Mapping[str, Any], model: ModelSpec, profile: EngineProfile, hardware: HardwareSpec
) -> Case:
    observed = _printed(row)
    deployment = deployment_of(row, profile, is_hybrid(model))
    basis, note = _basis(row, model, deployment)
    base = Case(id=row["id"], family=row["family"], observed=observed, predicted={}, exact=None,
                basis=basis, note=note)  # fmt: skip
    try:
        deployment = resolved(deployment, model, hardware, profile)
        if profile.rule != "vllm":
            return _pool_case(row, model, deployment, base)
        available = row.get("available_kv_gib")
        if available is None:
            return _end_to_end(model, deployment, profile, hardware, base)
        plan = layout(model, deployment, profile, hardware)
    except AskError as error:
        return base.replace(basis="unanswered", note=str(error))
    ranges = _ranges(plan, deployment, profile, available * GIB)
    exact = all(_inside(ranges.get(k), v) for k, v in observed.items() if k in ranges)
    return base.replace(predicted=ranges, exact=exact if observed else None)


def _printed(row: Mapping[str, Any]) -> dict[str, Any]:
    concurrency = row.get("max_concurrency") or {}
    values = {
        "kv_tokens": row.get("kv_tokens"),
        "num_blocks": row.get("num_gpu_blocks"),
        "max_concurrency": concurrency.get("x"),
        "attention_block_size": row.get("attention_block_size"),
    }
    return {k: v for k, v in values.items() if v is not None}


def _basis(row: Mapping[str, Any], model: ModelSpec, deployment: Deployment) -> tuple[str, str]:
    """Whether the stated values decide the case, and what is assumed if not."""
    flags = row.get("other_flags") or {}
    spec = flags.get("speculative_config") or {}
    if spec and spec.get("method") != "mtp":
        return "assumed", "a draft model of unknown shape is left out"
    if row.get("available_kv_gib") is None and not row.get("sglang"):
        return "end-to-end", "available bytes are not printed; predicted from device and settings"
    if row.get("tensor_parallel") is None and row.get("model_weights_gib") is None:
        return "stated", "tensor_parallel taken as 1"
    quant = row.get("weight_quant")
    if quant and deployment.kv_cache_dtype == "auto" and not model.quantization.method:
        return "stated", "the checkpoint's own KV scheme is not in the given config: taken as auto"
    return "stated", ""


def _ranges(
    plan: Layout, deployment: Deployment, profile: EngineProfile, available: float
) -> dict[str, list[float]]:
    """Smallest and largest value of each figure that the rounding of the printed GiB allows."""
    pool = max(plan.bytes_per_block)
    low = max(0, int((available - PRINTED_GIB) // pool) - 1)
    high = int((available + PRINTED_GIB) // pool) + 1
    length = deployment.max_model_len or 1
    in_flight = in_flight_tokens(deployment, profile, deployment.max_num_batched_tokens or 0)
    need = blocks_per_request(plan, deployment, length, in_flight)
    if profile.log_definition == "concurrency-x-length":
        tokens = [int(low / need * length), int(high / need * length) + 1]
    else:
        groups, dcp = len(plan.groups), deployment.decode_context_parallel
        tokens = [b // groups * plan.block_tokens * dcp for b in (low, high)]
        tokens[1] += plan.block_tokens
    return {
        "num_blocks": [low, high],
        "kv_tokens": list(map(float, tokens)),
        "max_concurrency": [low / need - PRINTED_X, high / need + PRINTED_X],
        "attention_block_size": [plan.block_tokens, plan.block_tokens],
    }


def _inside(bounds: Sequence[float] | None, value: float) -> bool:
    return bounds is None or bounds[0] <= value <= bounds[1]


def _pool_case(
    row: Mapping[str, Any], model: ModelSpec, deployment: Deployment, base: Case
) -> Case:
    """SGLang: a pool of tokens; the printed sizes of K and V decide it."""
    printed = row.get("sglang") or {}
    sizes = [printed[k] for k in ("k_size_gb", "v_size_gb", "kv_size_gb") if printed.get(k)]
    if not sizes:
        return base.replace(basis="end-to-end", note="no pool size is printed")
    slack = PRINTED_GIB * len(sizes)
    total = sum(sizes) * GIB
    low, high = (pool_tokens(model, deployment, total + s) for s in (-slack, slack))
    observed = row.get("kv_tokens")
    exact = observed is not None and low - 1 <= observed <= high + 1
    return base.replace(predicted={"kv_tokens": [low, high]}, exact=exact)


def _end_to_end(
    model: ModelSpec, deployment: Deployment, profile: EngineProfile, hardware: HardwareSpec,
    base: Case,
) -> Case:  # fmt: skip
    memory = budget(footprint(model, deployment), deployment, profile, hardware)
    answer = capacity(
        layout(model, deployment, profile, hardware), model, deployment, profile,
        [memory.available_kv_bytes] * deployment.pipeline_parallel,
        deployment.max_model_len or 0, deployment.max_num_batched_tokens or 0,
    ).kv  # fmt: skip
    predicted = {
        "kv_tokens": answer.kv_tokens, "num_blocks": answer.num_blocks,
        "max_concurrency": answer.max_concurrency,
        "attention_block_size": answer.block_size_tokens,
    }  # fmt: skip
    shown = {k: v for k, v in predicted.items() if k in base.observed}
    return base.replace(predicted=shown, exact=None)


def _memory_error(
    row: Mapping[str, Any], model: ModelSpec, profile: EngineProfile, hardware: HardwareSpec
) -> float | None:
    """Relative error of available KV bytes from device and settings alone."""
    available = row.get("available_kv_gib")
    utilization = row.get("gpu_memory_utilization")
    if available is None or utilization is None or profile.rule != "vllm":
        return None
    deployment = deployment_of(row, profile, is_hybrid(model))
    stated = row.get("gpu_mem_reported_gib")
    if stated:
        hardware = hardware.replace(reported_memory_bytes=int(stated * GIB))
    deployment = resolved(deployment, model, hardware, profile)
    memory = budget(footprint(model, deployment), deployment, profile, hardware)
    predicted = memory.available_kv_bytes
    weights = row.get("model_weights_gib")
    if weights and row.get("weight_quant") and not model.quantization.method:
        # the given config is the unquantized base's: only the log knows this checkpoint's size
        predicted += memory.weights_bytes - int(weights * GIB)
    return predicted / (float(available) * GIB) - 1.0


def by_family(cases: Iterable[Case]) -> dict[str, dict[str, int]]:
    """Counts of cases, answered and exact ones for each family."""
    table: dict[str, dict[str, int]] = {}
    for case in cases:
        row = table.setdefault(case.family, {"cases": 0, "answered": 0, "exact": 0})
        row["cases"] += 1
        row["answered"] += case.exact is not None or case.basis == "end-to-end"
        row["exact"] += bool(case.exact)
    return table
