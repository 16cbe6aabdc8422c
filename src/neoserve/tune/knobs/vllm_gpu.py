"""vLLM on GPUs. Read from the sources of vLLM 0.11 to 0.32."""

from __future__ import annotations

from collections.abc import Iterator

from ...catalog.engines import profile_or_newest
from ...predict.memory import default_batch
from ...schema.space import Knob
from ..host import HostFacts
from . import Asked, KnownGood, switch, weights, words
from .vllm_cpu import batching

_ARGS = "vllm/engine/arg_utils.py"
_DOCS = "docs.vllm.ai, optimization and tuning"


def knobs(facts: HostFacts, asked: Asked) -> tuple[Knob, ...]:
    """All of them, for these GPUs and this version."""
    version = ".".join(map(str, asked.version))
    profile = profile_or_newest("vllm", version, "gpu")
    tokens, seqs = 2048, 256
    if facts.machine is not None:
        tokens, seqs = default_batch(facts.machine.hardware, 1, profile.huge_batch_bytes)
    share = f"{profile.default_utilization:g}"
    return (
        *_parallel(facts),
        *_formats(facts),
        Knob("memory-share", ("0.8", "0.85", "0.9", "0.92", "0.95"), share,
             flag="--gpu-memory-utilization",
             meaning="Of each GPU's memory that vLLM may take; what the weights leave is KV cache.",
             source="vllm/config/cache.py"),
        *batching(asked, seqs, tokens),
        switch("eager", "--enforce-eager", "off", "No CUDA graphs.", _ARGS),
        *_choice(asked),
    )  # fmt: skip


def notes(facts: HostFacts, asked: Asked) -> Iterator[str]:  # noqa: ARG001
    """What is not in the space, and why."""
    if not facts.gpus:
        yield "no GPU was found: nvidia-smi lists none"
    elif facts.machine is None:
        yield (
            f"{facts.gpus[0].name} is not in the catalog: vLLM's own batch sizes on it are guessed"
        )
    elif not _has_fp8(facts):
        yield f"quantization, kv-dtype: {facts.gpus[0].name} has no FP8 units"


def _parallel(facts: HostFacts) -> Iterator[Knob]:
    num = len(facts.gpus)
    if num > 1:
        yield Knob(
            "tensor-parallel", words(2**k for k in range(num.bit_length()) if 2**k <= num), "1",
            flag="--tensor-parallel-size", meaning="GPUs that share each layer.", source=_ARGS,
        )  # fmt: skip


def _has_fp8(facts: HostFacts) -> bool:
    return facts.machine is not None and "fp8" in facts.machine.hardware.peak_flops_per_s


def _formats(facts: HostFacts) -> Iterator[Knob]:
    if _has_fp8(facts):
        yield Knob(
            "quantization", ("fp8",), "as stored", flag="--quantization", changes_output=True,
            meaning="Weights are made FP8 while they are loaded, activations at each step.",
            source="docs.vllm.ai, quantization, FP8",
        )  # fmt: skip
        yield Knob(
            "kv-dtype", ("fp8",), "as the model", flag="--kv-cache-dtype", changes_output=True,
            meaning="Number format of cached keys and values: half the bytes, twice the requests.",
            source="docs.vllm.ai, quantized KV cache",
        )  # fmt: skip


def _choice(asked: Asked) -> Iterator[Knob]:
    if knob := weights(asked, "A checkpoint of the same model, quantized in another way."):
        yield knob


def known_good(facts: HostFacts) -> tuple[KnownGood, ...]:
    """What vLLM's makers advise for GPUs."""
    wide = KnownGood(
        {"batched-tokens": "8192"}, "prompts in fewer steps",
        f"{_DOCS}: max_num_batched_tokens of 8192 and more for throughput",
    )  # fmt: skip
    found = [
        wide,
        KnownGood({"batched-tokens": "2048"}, "short steps: decoding requests wait less",
                  f"{_DOCS}: smaller max_num_batched_tokens, better ITL"),
        KnownGood({"memory-share": "0.95"}, "more KV cache, fewer preemptions",
                  f"{_DOCS}: raise gpu_memory_utilization against preemption"),
    ]  # fmt: skip
    if _has_fp8(facts):
        fp8 = {"quantization": "fp8"}
        found.insert(0, KnownGood(fp8, "half the bytes of each step",
                                  "docs.vllm.ai, quantization, FP8"))  # fmt: skip
        found.insert(1, KnownGood(fp8 | {"kv-dtype": "fp8"}, "and of each cached token",
                                  "docs.vllm.ai, quantized KV cache"))  # fmt: skip
    return tuple(found)
