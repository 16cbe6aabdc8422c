"""How engines choose what a step computes, as read in their schedulers."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from ...schema.engine import Deployment, is_v0
from ..server import Limits

Reserve = Literal["prompt", "output"]

LLAMA_CPP_BATCH = 2048  # n_batch of llama-server: tokens of one llama_decode
V0_WATERMARK = 0.01  # vLLM V0 BlockSpaceManager: of the blocks, kept free when a prompt is admitted
# SGLang: new_token_ratio after its decay, of the tokens that running requests may still give.
SGLANG_RESERVE = 0.1


class Policy(NamedTuple):
    """One scheduler. Requests are admitted in the order of their arrival."""

    name: str
    step_tokens: int  # prompt tokens and decoding requests of a step
    slots: int  # requests that run at once
    mixed: bool = True  # prompts and decoding requests share a step; else prompts go first
    chunked: bool = True  # a prompt is cut where the step is full
    reserve: Reserve = "prompt"  # room in the KV cache that is taken at admission
    watermark: float = 0.0  # share of the KV cache that an admission leaves free
    future: float = 0.0  # share of the coming tokens that it leaves free; blocks of one token then
    static: bool = False  # a new batch starts when the last one has ended
    micro_tokens: int = 0  # a step is computed in passes of so many tokens; 0: in one


def vllm_v1(step_tokens: int, slots: int) -> Policy:
    """v1/core/sched/scheduler.py: running requests first, then prompts while tokens are left."""
    return Policy("vllm v1", step_tokens, slots)


def vllm_v0(step_tokens: int, slots: int) -> Policy:
    """core/scheduler.py `_schedule_default`: whole prompts first, decoding when none waits."""
    return Policy(
        "vllm v0", step_tokens, slots, mixed=False, chunked=False, watermark=V0_WATERMARK
    )


def sglang(step_tokens: int, slots: int) -> Policy:
    """managers/scheduler.py `get_next_batch_to_run`: a prefill batch whenever there can be one."""
    return Policy("sglang", step_tokens, slots, mixed=False, future=SGLANG_RESERVE)


def tensorrt_llm(step_tokens: int, slots: int) -> Policy:
    """In-flight batching, GUARANTEED_NO_EVICT, without chunked context (the default)."""
    return Policy("tensorrt-llm", step_tokens, slots, chunked=False, reserve="output")


def llama_cpp(step_tokens: int, slots: int) -> Policy:
    """server.cpp `update_slots`: decoding slots, then prompts up to n_batch, in passes of
    `step_tokens` (n_ubatch)."""
    batch = max(step_tokens, LLAMA_CPP_BATCH)
    return Policy("llama.cpp", batch, slots, micro_tokens=step_tokens)


def static_batching(step_tokens: int, slots: int) -> Policy:
    """A batch is filled, answered to its longest answer, and only then replaced."""
    return Policy("static", step_tokens, slots, mixed=False, reserve="output", static=True)


def policy_of(deployment: Deployment, limits: Limits, seqs: int) -> Policy:
    """The scheduler of a deployment; `seqs` is its max_num_seqs."""
    tokens = max(1, math.floor(limits.chunk_tokens))
    make = {"sglang": sglang, "llama.cpp": llama_cpp, "tensorrt-llm": tensorrt_llm}.get(
        deployment.engine, vllm_v1
    )
    if is_v0(deployment.engine, deployment.engine_version):
        make = vllm_v0
    return make(tokens, max(1, seqs))
