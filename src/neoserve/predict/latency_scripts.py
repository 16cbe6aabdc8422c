"""What a source's published scripts set where its rows are silent.

InferenceX (github.com/SemiAnalysisAI/InferenceX, `benchmarks/`, read at ac1998a50 of 2025-10-20 and
843c6254f of 2026-08-22) draws lengths evenly from 80 % to 100 % of those stated
(`random-range-ratio: 0.8`) and starts each engine with settings that its results leave out.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Script(NamedTuple):
    """Settings of a run that its row does not state."""

    length_share: float = 1.0  # mean length over the one stated
    kv_dtype: str = ""
    step_tokens: int = 0  # max_num_batched_tokens; 0: the engine's default
    wait_steps: int = 0  # decode steps that new prompts wait for company


class _Rule(NamedTuple):
    model: str
    engine: str
    device: str
    kv_dtype: str
    step_tokens: int  # below 100: times the prompt's length


# First match counts; each from the script `{model}_{precision}_{device}[_trt].sh`.
_INFERENCEX = (
    _Rule("70b", "tensorrt-llm", "", "fp8", 16384),
    _Rule("70b", "vllm", "", "fp8", 8192),
    _Rule("gpt-oss", "tensorrt-llm", "h200", "auto", 20000),
    _Rule("gpt-oss", "tensorrt-llm", "", "fp8", 20000),
    _Rule("gpt-oss", "vllm", "h[12]00", "auto", 8192),
    _Rule("gpt-oss", "vllm", "", "fp8", 8192),
    _Rule("minimax", "vllm", "h100", "auto", 0),
    _Rule("minimax", "vllm", "h200", "fp8", 32768),
    _Rule("minimax", "vllm", "", "fp8", 2),
    _Rule("minimax", "tensorrt-llm", "", "fp8", 0),
    _Rule("deepseek", "tensorrt-llm", "", "fp8", 0),
    _Rule("deepseek", "sglang", "h200", "auto", 32768),
    _Rule("deepseek", "sglang", "", "fp8", 16384),
    _Rule("qwen3.5", "sglang", "", "fp8", 16384),
    _Rule("glm-5", "sglang", "h200", "auto", 0),
    _Rule("glm-5", "sglang", "", "fp8", 32768),
    _Rule("kimi", "vllm", "h200", "auto", 0),
)
_COMPANY_STEPS = 20  # batch_wait_timeout_iters of the Llama scripts at 1024/1024 under 8 ranks


def script_of(source: str, engine: str, model: str, device: str, lengths: tuple[int, int],
              tensor_parallel: int) -> Script:  # fmt: skip
    """What is known of a row's run beyond the row; nothing for most sources."""
    if "InferenceX export" not in source:
        return Script()
    name, place = model.lower(), device.lower()
    found = next(
        (
            rule
            for rule in _INFERENCEX
            if rule.model in name and rule.engine == engine and re.search(rule.device, place)
        ),
        _Rule("", "", "", "", 0),
    )
    tokens = found.step_tokens * (lengths[0] if found.step_tokens < 100 else 1)
    company = (
        found.model == "70b"
        and engine == "tensorrt-llm"
        and lengths == (1024, 1024)
        and tensor_parallel < 8
    )
    return Script(0.9, found.kv_dtype, tokens, _COMPANY_STEPS if company else 0)
