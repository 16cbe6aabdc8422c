"""The exact command line of a deployment, for every engine."""

from __future__ import annotations

import shlex

from ..errors import AskError
from ..schema.engine import Deployment
from .vllm import serve_command

Words = list[str]


def command(model_id: str, deployment: Deployment, cpu_kv_bytes: int | None = None) -> str:
    """One shell line. Raises AskError for an engine without one."""
    if deployment.engine == "vllm":
        return serve_command(model_id, deployment, cpu_kv_bytes=cpu_kv_bytes)
    makers = {"sglang": _sglang, "llama.cpp": _llama_cpp, "tensorrt-llm": _tensorrt_llm}
    if deployment.engine not in makers:
        raise AskError(f"no command line is known for engine {deployment.engine!r}")
    return shlex.join(makers[deployment.engine](model_id, deployment))


def _optional(pairs: list[tuple[str, object]]) -> Words:
    return [word for flag, value in pairs if value is not None for word in (flag, str(value))]


def _sglang(model_id: str, d: Deployment) -> Words:
    words = ["python", "-m", "sglang.launch_server", "--model-path", model_id]
    words += _optional([
        ("--tp-size", d.tensor_parallel if d.tensor_parallel > 1 else None),
        ("--pp-size", d.pipeline_parallel if d.pipeline_parallel > 1 else None),
        ("--ep-size", d.tensor_parallel if d.expert_parallel else None),
        ("--context-length", d.max_model_len),
        ("--mem-fraction-static", d.gpu_memory_utilization),
        ("--max-running-requests", d.max_num_seqs),
        ("--chunked-prefill-size", d.max_num_batched_tokens),
        ("--quantization", "fp8" if d.weight_quant == "fp8" else None),
        ("--kv-cache-dtype", "fp8_e5m2" if d.kv_cache_dtype.startswith("fp8") else None),
    ])  # fmt: skip
    words += ["--disable-cuda-graph"] if d.enforce_eager else []
    return words + ([] if d.enable_prefix_caching else ["--disable-radix-cache"])


def _llama_cpp(model_id: str, d: Deployment) -> Words:
    slots, length = d.max_num_seqs or 4, d.max_model_len or 4096
    words = ["llama-server", "-m", model_id, "-c", str(slots * length), "-np", str(slots)]
    words += _optional([("-ub", d.max_num_batched_tokens)])
    if d.kv_cache_dtype.startswith(("fp8", "int8")):
        words += ["--cache-type-k", "q8_0", "--cache-type-v", "q8_0", "-fa", "on"]
    return words


def _tensorrt_llm(model_id: str, d: Deployment) -> Words:
    words = ["trtllm-serve", model_id]
    return words + _optional([
        ("--tp_size", d.tensor_parallel if d.tensor_parallel > 1 else None),
        ("--pp_size", d.pipeline_parallel if d.pipeline_parallel > 1 else None),
        ("--max_seq_len", d.max_model_len),
        ("--max_batch_size", d.max_num_seqs),
        ("--max_num_tokens", d.max_num_batched_tokens),
        ("--kv_cache_free_gpu_memory_fraction", d.gpu_memory_utilization),
    ])  # fmt: skip
