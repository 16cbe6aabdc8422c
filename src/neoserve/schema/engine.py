"""Deployment, EngineProfile, EngineConfig: which engine, with which settings."""

from __future__ import annotations

import re

from .base import Document

V1_FROM = (0, 8)  # vLLM made its V1 engine the default in 0.8.0


def release_of(version: str) -> tuple[int, int] | None:
    """``"0.11.2rc1"`` → (0, 11); None where a text does not begin like that."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None


def is_v0(engine: str, version: str) -> bool:
    """Whether this is vLLM from before its V1 engine; no version is the newest."""
    release = release_of(version)
    return engine.lower() == "vllm" and release is not None and release < V1_FROM


class Deployment(Document, frozen=True):
    """A serving configuration, in the engine's own words. None: the engine's default."""

    hardware: str = ""
    num_devices: int = 1
    engine: str = "vllm"
    engine_version: str = ""  # "" = newest profile
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: bool = False
    decode_context_parallel: int = 1
    weight_quant: str = "checkpoint"  # as stored, or a name of catalog.quantization
    kv_cache_dtype: str = "auto"
    enforce_eager: bool = False
    enable_prefix_caching: bool = True
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    block_size: int | None = None
    async_scheduling: bool | None = None
    mamba_ssm_cache_dtype: str = "auto"
    mamba_cache_dtype: str = "auto"
    num_speculative_tokens: int = 0  # by the checkpoint's own MTP head
    disable_hybrid_kv_cache_manager: bool = False
    replicas: int = 1

    @property
    def devices_per_replica(self) -> int:
        """Devices one copy of the model runs on."""
        return self.tensor_parallel * self.pipeline_parallel


class EngineProfile(Document, frozen=True):
    """How one span of engine versions behaves, where memory or time depends on it.

    Where a behaviour was read stands in `notes`; the profiles in catalog/data/engines.json were
    read from the sources of vLLM 0.9 to 0.32 release by release.
    """

    engine: str
    versions: str  # ">=0.29,<0.34"
    device: str  # gpu, cpu or any
    rule: str  # whose allocator: vllm, sglang, llama.cpp, trtllm
    default_utilization: float
    in_flight_batches: int  # batches reserved on top of a window, async scheduling on
    in_flight_batches_sync: int
    log_definition: str  # of "KV cache size": concurrency-x-length, blocks-per-group, pool, cells
    null_block: bool  # one block is held back when one request is checked to fit
    graph_memory_reserved: bool  # subtracted before the KV cache is sized
    prefix_caching_hybrid_default: bool
    state_checkpoint_kinds: tuple[str, ...]  # mixers that hold one more block with prefix caching
    padding_ratio: float  # layer types this close in number share one group size, padded
    sampler_bytes_per_logit: float  # of the warm-up on max_num_seqs x vocab
    default_block_size: int
    default_max_num_seqs: int = 0  # 0: by device, as vLLM chooses
    default_max_num_batched_tokens: int = 0
    huge_batch_bytes: int = 0  # devices from here on get the largest default batch; 0: none
    mla_blocks: dict[str, tuple[int, int]] = {}  # compute capability major -> (16 bit, fp8)
    notes: dict[str, str] = {}


class EngineConfig(Document, frozen=True):
    """The exact process: argv and environment, as they are run."""

    engine: str  # llama.cpp, vllm, sglang, or url for one that was running already
    version: str = ""
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""  # of a server that was running already; argv is empty then
    model: str = ""  # the name that requests ask for; "": the first that the server lists
