"""Rows of a latency truth file as workloads, deployments and observations.

The row format is in docs/accuracy.md. A row carries flags (`single_tpot`, `ttft` ...)
that say which of its figures count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from ..schema.engine import Deployment
from ..schema.workload import Workload
from .latency_scripts import Script, script_of

FLAGS = (
    "single_tpot", "batched_tpot", "ttft", "batch_prefill", "prefill_rate", "e2e_single",
    "e2e_batched", "throughput", "tput256", "openloop_tpot", "openloop_ttft", "openloop_e2e",
)  # fmt: skip

_ENGINES = (
    ("vllm", "vllm"), ("1cat-vllm", "vllm"), ("sglang", "sglang"), ("tensorrt", "tensorrt-llm"),
    ("nvidia nim", "tensorrt-llm"), ("llama.cpp", "llama.cpp"), ("tgi", "tgi"), ("ibm tgis", "tgi"),
    ("lmdeploy", "lmdeploy"), ("turbomind", "lmdeploy"), ("rocm atom", "atom"),
    ("openvino", "openvino"), ("mlx", "mlx"), ("autoawq", "transformers"),
)  # fmt: skip
_SCHEMES = (
    (r"nvfp4", "nvfp4"), (r"mxfp4", "mxfp4"), (r"mxfp8", "mxfp8"),
    (r"fp8.*block|fp8_block", "fp8-block"), (r"fp8", "fp8"),
    (r"awq", "awq"), (r"w4a16|int4|4-bit", "w4a16"), (r"w8a16|int8 weight-only", "w8a16"),
    (r"w8a8|int8", "w8a8"), (r"fp16|bf16|float16", "none"),
)  # fmt: skip
_KV_DTYPES = {"fp8": "fp8", "fp8_": "fp8", "int8": "int8_per_token_head"}
_UNSTATED_PROMPT_TOKENS, _UNSTATED_OUTPUT_TOKENS = 220, 190  # ShareGPT means
_BENCH_TOKENS = 128  # llama-bench's own default
# Its rates over requests are 396 and 445 tokens at every load that it keeps up with: ShareGPT's
# prompts and answers together (215 and 198 tokens in its demos/continuous_batching), by two
# tokenizers.
_COUNTS_PROMPTS = "OpenVINO Model Server"
BEFORE_SPLIT = "2024.1"  # of llama.cpp, whose builds have numbers: one cache for all requests
_NEWER = {"vllm": ("2025-12", "0.11.0"), "llama.cpp": ("2025-08", BEFORE_SPLIT)}  # from, before it


class Case(NamedTuple):
    """One row, in our documents."""

    id: str
    source: str
    engine: str
    device: str
    arch: str
    model: str
    load_mode: str
    weight_dtype: str
    scheme: str  # "" where the row states none: the checkpoint's own
    workload: Workload
    deployment: Deployment
    burst_share: float  # of the requests that were sent at once, into an idle server
    bench_prompt_tokens: int  # of the prefill_rate figure
    rate_mean: bool  # TPOT is one over the mean of the requests' rates
    threads: int  # of a CPU run, 0 where not stated
    shared_cache: bool  # each query multiplies with all requests' tokens, and masks others'
    wait_steps: int  # decode steps that a new prompt is held back on purpose
    num_sent: int  # requests of an open load, on one replica; 0 where not stated
    varied: bool  # lengths are means of a wide distribution, so that a batch thins out at its end
    observed: dict[str, float]  # flag -> seconds or tokens per second


def number(row: Mapping[str, str], key: str, absent: float = math.nan) -> float:
    """A cell as a number, `absent` where it is blank."""
    text = row.get(key, "")
    try:
        return float(text) if text else absent
    except ValueError:
        return absent


def plain_flags(row: Mapping[str, str]) -> tuple[str, ...]:
    """Flags that count; those with ~ mark secondary rows."""
    return tuple(f for f in row.get("uses", "").split() if f in FLAGS)


def left_out(row: Mapping[str, str]) -> str:
    """Why a row is of a regime that this version does not model; "" when it is modelled."""
    if "disaggregated" in row.get("engine", ""):
        return "prefill and decode on separate devices"
    if row.get("spec_decode") == "yes":
        return "speculative decoding"
    return ""


def engine_of(row: Mapping[str, str]) -> tuple[str, str]:
    """(engine, version) in our words; a row without a version has that of its time."""
    text = row.get("engine", "").lower()
    engine = next((ours for theirs, ours in _ENGINES if text.startswith(theirs)), "compiled")
    found = re.match(r"\d+\.\d+(?:\.\d+)?", row.get("engine_version", ""))
    year = row.get("measured_year", "")
    version = found.group() if found else _version_of_its_time(engine, year, row.get("notes", ""))
    if "ampere opti" in text:
        version = "ampere"
    if "(v0 engine)" in row.get("engine_version", "").lower():
        version = "0.7.3"
    return engine, version


def _version_of_its_time(engine: str, year: str, notes: str) -> str:
    """Release dates: vLLM 0.12 December 2025; TensorRT-LLM 1.0 and SGLang 0.5 autumn 2025."""
    if year[:4] in ("2023", "2024"):
        return {"vllm": "0.5.0", "tensorrt-llm": "0.9.0", "sglang": "0.4.0",
                "llama.cpp": BEFORE_SPLIT}.get(engine, "")  # fmt: skip
    measured = re.search(r"measured=(\d{4}-\d{2})", notes)
    newer, before = _NEWER.get(engine, ("", ""))
    return before if measured and measured.group(1) < newer else ""


def _shared_cache(row: Mapping[str, str]) -> bool:
    """llama.cpp computed batches over one cache until its pull request 14363; flash attention skips
    what is masked. Ampere's builds follow with their release 3."""
    engine, version = engine_of(row)
    if version == "ampere":
        return not re.search(r"_r[3-9]", row.get("engine_version", ""))
    early = engine == "llama.cpp" and version == BEFORE_SPLIT
    return early and "flash attention on" not in row.get("notes", "")


def scheme_of(row: Mapping[str, str]) -> str:
    """The weight scheme's name; "gguf" stands for the type in `weight_dtype`."""
    text = row.get("weight_dtype", "").lower()
    if row.get("engine", "").startswith("llama.cpp") and text:
        return "gguf"
    return next((ours for pattern, ours in _SCHEMES if re.search(pattern, text)), "")


def case_of(row: Mapping[str, str]) -> Case:
    """A row as a workload, a deployment and what was observed."""
    script = _script(row)
    deployment, replicas = _deployment(row, script)
    in_flight = max(_in_flight(row), 1.0) / replicas
    prompt, output = (max(1, round(n * script.length_share)) for n in _lengths(row))
    mode = "offline" if _submits_all(row) else row.get("load_mode", "")
    rate = number(row, "request_rate", 0.0) / replicas
    workload = Workload(
        arrival="poisson" if mode == "open_loop" else "closed",
        rate_rps=rate,
        concurrency=max(1, round(in_flight)),
        prompt_tokens=prompt,
        output_tokens=output,
    )
    bench = re.search(r"pp(\d+)", row.get("notes", ""))
    threads = re.search(r"(\d+) threads", row.get("notes", ""))
    return Case(
        id=row.get("id", ""),
        source=row.get("source", ""),
        engine=deployment.engine,
        device=row.get("gpu_or_cpu", ""),
        arch=row.get("arch", ""),
        model=row.get("model", ""),
        load_mode=mode,
        weight_dtype=row.get("weight_dtype", ""),
        scheme=scheme_of(row),
        workload=workload,
        deployment=deployment,
        burst_share=_burst_share(row),
        bench_prompt_tokens=int(bench.group(1)) if bench else 0,
        rate_mean="mean per-request decode" in row.get("tpot_stat", ""),
        threads=int(threads.group(1)) if threads else 0,
        shared_cache=_shared_cache(row),
        wait_steps=script.wait_steps,
        num_sent=_num_sent(row, mode, replicas),
        varied=_varied(row, mode),
        observed=_observed(row),
    )


def _script(row: Mapping[str, str]) -> Script:
    return script_of(
        row.get("source", ""), engine_of(row)[0], row.get("model", ""), row.get("gpu_or_cpu", ""),
        _lengths(row), int(number(row, "tensor_parallel", 1.0)),
    )  # fmt: skip


def _deployment(row: Mapping[str, str], script: Script) -> tuple[Deployment, float]:
    engine, version = engine_of(row)
    devices = int(number(row, "num_devices", 1.0))
    tp = int(number(row, "tensor_parallel", float(devices)))
    pp = int(number(row, "pipeline_parallel", 1.0))
    data = int(number(row, "data_parallel", 1.0))
    expert_parallel = number(row, "expert_parallel", 1.0) > 1
    replicas = max(1, devices // max(tp * pp, 1)) if not expert_parallel else 1
    if expert_parallel and data <= 1:
        devices = tp * pp
    kv = row.get("kv_dtype", "").lower() or script.kv_dtype
    deployment = Deployment(
        hardware=row.get("gpu_or_cpu", ""),
        num_devices=devices // replicas,
        engine=engine,
        engine_version=version,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        expert_parallel=expert_parallel,
        kv_cache_dtype=_KV_DTYPES.get(kv[:4], "auto"),
        enable_prefix_caching=False,
        max_num_batched_tokens=script.step_tokens or None,
        replicas=replicas,
    )
    return deployment, float(replicas)


_REQUEST_COUNT = re.compile(r"request_count (\d+)")


def _submits_all(row: Mapping[str, str]) -> bool:
    """Whether an offline run hands the engine all its requests, whatever `concurrency` says.

    AccelMark's offline suite does: its rate is the same for 4, 16 and 64, and at 4 it exceeds
    what 4 requests could get from the whole memory bandwidth.
    """
    return bool(_REQUEST_COUNT.search(row.get("notes", ""))) and (
        "throughput note=output_only" in row.get("notes", "")
    )


def _in_flight(row: Mapping[str, str]) -> float:
    count = _REQUEST_COUNT.search(row.get("notes", "")) if _submits_all(row) else None
    return float(count.group(1)) if count else number(row, "concurrency", 1.0)


def _lengths(row: Mapping[str, str]) -> tuple[int, int]:
    bench = row.get("engine", "").startswith("llama.cpp")
    prompt = number(row, "isl", _BENCH_TOKENS if bench else _UNSTATED_PROMPT_TOKENS)
    output = number(row, "osl", _BENCH_TOKENS if bench else _UNSTATED_OUTPUT_TOKENS)
    return max(1, round(prompt)), max(1, round(output))


def _num_sent(row: Mapping[str, str], mode: str, replicas: float) -> int:
    if mode != "open_loop":
        return 0
    return round(number(row, "num_prompts", 0.0) / replicas)


def _varied(row: Mapping[str, str], mode: str) -> bool:
    """A mean that is no whole number: lengths of a real dataset."""
    broken = any("." in row.get(key, "") for key in ("isl", "osl"))
    return mode == "burst" and broken


def _burst_share(row: Mapping[str, str]) -> float:
    """Share of a closed loop's requests that its start sends at once; a median does not see it."""
    if row.get("load_mode") != "closed_loop" or "median" in row.get("ttft_stat", ""):
        return 0.0
    prompts, in_flight = number(row, "num_prompts"), number(row, "concurrency", 1.0)
    if math.isnan(prompts):
        # InferenceX sends ten requests for each one in flight.
        return 0.1 if row.get("ttft_stat", "").startswith(("mean", "not stated")) else 0.0
    return min(1.0, in_flight / prompts)


def _observed(row: Mapping[str, str]) -> dict[str, float]:
    tpot_s = number(row, "tpot_ms", number(row, "itl_ms")) / 1e3
    rate = number(row, "output_tok_s_total", number(row, "total_tok_s"))
    values = {
        "single_tpot": tpot_s, "batched_tpot": tpot_s, "openloop_tpot": tpot_s,
        "ttft": number(row, "ttft_ms") / 1e3, "batch_prefill": number(row, "ttft_ms") / 1e3,
        "openloop_ttft": number(row, "ttft_ms") / 1e3, "prefill_rate": number(row, "prefill_tok_s"),
        "e2e_single": number(row, "e2e_ms") / 1e3, "e2e_batched": number(row, "e2e_ms") / 1e3,
        "openloop_e2e": number(row, "e2e_ms") / 1e3, "throughput": rate, "tput256": rate,
    }  # fmt: skip
    found = {flag: values[flag] for flag in plain_flags(row) if values[flag] > 0}
    counts_prompts = math.isnan(number(row, "output_tok_s_total")) or (
        row.get("source", "").startswith(_COUNTS_PROMPTS)
    )
    if "throughput" in found and counts_prompts:
        found["total_rate"] = rate  # marks a rate that counts prompt tokens too
    notes = row.get("notes", "")
    # Where requests are "launched together" the rate counts their prompts' time, too: it equals
    # all tokens over the time until the last has ended.
    phase = r"decode-phase|sustained decode|decode tok/s is the batch"
    if re.search(phase, notes) and "launched together" not in notes:
        found["decode_rate"] = rate  # marks a rate without the prefill time
    return found


def prompt_flops_share(case: Case, active_params: int, peak_flops_per_s: float) -> float:
    """Of the replica's peak, what computing every prompt at the observed rate would take.

    Over one the prompts were not computed: the run hit a warm prefix cache.
    """
    tpot_s = case.observed.get("batched_tpot", math.nan)
    ttft_s = case.observed.get("ttft", math.nan)
    if case.load_mode != "closed_loop" or math.isnan(tpot_s + ttft_s):
        return 0.0
    cycle_s = ttft_s + (case.workload.output_tokens - 1) * tpot_s
    rate = case.workload.concurrency / cycle_s * case.workload.prompt_tokens
    return rate * 2.0 * active_params / (peak_flops_per_s * case.deployment.num_devices)


def ends_early(case: Case, weights_bytes: float, bandwidth_bytes_per_s: float) -> bool:
    """Whether a run is faster than reading the weights once a token: it gave fewer tokens.

    A model whose positions end before the stated lengths stops there without saying so.
    """
    e2e_s = case.observed.get("e2e_single", case.observed.get("e2e_batched", math.inf))
    floor_s = (case.workload.output_tokens - 1) * weights_bytes / bandwidth_bytes_per_s
    return e2e_s < 0.9 * floor_s / case.deployment.tensor_parallel


def series(case: Case) -> tuple[str, str, str, str]:
    """Rows of one protocol: a regime found in one row holds for all of them."""
    return case.source, case.engine, case.deployment.engine_version, case.model
