"""The exact ``vllm serve`` command of a deployment."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from ..errors import AskError
from ..schema.engine import Deployment
from ..units import GIB

# Weight formats that vLLM makes itself while it loads; the others are in the checkpoint.
_ONLINE_QUANTIZATION = {"fp8": "fp8"}

_Value = str | int | float | None


def serve_command(
    model_id: str, deployment: Deployment, *, cpu_kv_bytes: int | None = None, port: int = 8000
) -> str:
    """One shell line; flags only where they differ from vLLM's defaults.

    `cpu_kv_bytes` is for the CPU backend, which takes its KV cache from the environment.
    Raises AskError for another engine, or a weight format that needs another checkpoint.
    """
    words = ["vllm", "serve", *serve_args(model_id, deployment)]
    if port != 8000:
        words += ["--port", str(port)]
    environment = serve_environment(cpu_kv_bytes)
    return " ".join([f"{k}={shlex.quote(v)}" for k, v in environment.items()] + [shlex.join(words)])


def serve_environment(cpu_kv_bytes: int | None) -> dict[str, str]:
    """What the CPU backend reads from its environment; nothing on GPUs."""
    if cpu_kv_bytes is None:
        return {}
    # An integer of GiB; 0 would mean vLLM's own choice.
    return {"VLLM_CPU_KVCACHE_SPACE": str(max(1, cpu_kv_bytes // GIB))}


def serve_args(model_id: str, deployment: Deployment) -> list[str]:
    """The arguments after ``vllm serve``."""
    if deployment.engine != "vllm":
        raise AskError(f"a vLLM command cannot run engine {deployment.engine!r}")
    words = [model_id]
    for flag, value in _valued(deployment):
        words += [flag, str(value)]
    return words + [flag for flag, is_set in _switches(deployment) if is_set]


def _valued(d: Deployment) -> Iterator[tuple[str, _Value]]:
    default = Deployment()
    for flag, value, usual in (
        ("--tensor-parallel-size", d.tensor_parallel, default.tensor_parallel),
        ("--pipeline-parallel-size", d.pipeline_parallel, default.pipeline_parallel),
        ("--decode-context-parallel-size", d.decode_context_parallel, 1),
        ("--quantization", _quantization(d.weight_quant), None),
        ("--kv-cache-dtype", d.kv_cache_dtype, default.kv_cache_dtype),
        ("--max-model-len", d.max_model_len, None),
        ("--max-num-seqs", d.max_num_seqs, None),
        ("--max-num-batched-tokens", d.max_num_batched_tokens, None),
        ("--gpu-memory-utilization", d.gpu_memory_utilization, None),
        ("--block-size", d.block_size, None),
        ("--mamba-cache-dtype", d.mamba_cache_dtype, default.mamba_cache_dtype),
        ("--mamba-ssm-cache-dtype", d.mamba_ssm_cache_dtype, default.mamba_ssm_cache_dtype),
        ("--speculative-config", _speculative(d.num_speculative_tokens), None),
    ):
        if value != usual:
            yield flag, value


def _switches(d: Deployment) -> Iterator[tuple[str, bool]]:
    yield "--enforce-eager", d.enforce_eager
    yield "--enable-expert-parallel", d.expert_parallel
    yield "--no-enable-prefix-caching", not d.enable_prefix_caching
    yield "--async-scheduling", d.async_scheduling is True
    yield "--no-async-scheduling", d.async_scheduling is False
    yield "--disable-hybrid-kv-cache-manager", d.disable_hybrid_kv_cache_manager


def _quantization(weight_quant: str) -> str | None:
    if weight_quant in ("checkpoint", "none", "auto"):
        return None
    if weight_quant not in _ONLINE_QUANTIZATION:
        raise AskError(
            f"vLLM does not make {weight_quant!r} weights while it loads: name a checkpoint that "
            "is stored so, with weight_quant 'checkpoint'"
        )
    return _ONLINE_QUANTIZATION[weight_quant]


def _speculative(num_tokens: int) -> str | None:
    if not num_tokens:
        return None
    return json.dumps({"method": "mtp", "num_speculative_tokens": num_tokens})
