"""The KV cache that an engine says it has, beside the one that the planner predicts for it."""

from __future__ import annotations

from ..catalog.engines import find_profile
from ..catalog.models import find_model
from ..errors import Error
from ..measure.engine.driver import flag_value
from ..measure.machine import describe
from ..predict.kv import capacity, layout
from ..schema.engine import Deployment, EngineConfig
from ..schema.trial import EngineFacts, HostPrint
from ..units import GIB, parse_bytes, show_count

_SPACE = "VLLM_CPU_KVCACHE_SPACE"


def kv_note(config: EngineConfig, facts: EngineFacts | None, model: str, host: HostPrint) -> str:
    """One sentence where vLLM on CPUs was told how much memory to use; "" where it was not."""
    if facts is None or config.engine != "vllm" or facts.kv_tokens is None:
        return ""
    given = flag_value(config.argv, "--kv-cache-memory-bytes")
    space = config.env.get(_SPACE, "")
    if given is None and not space.isdigit():
        return ""
    num_bytes = int(space) * GIB if given is None else parse_bytes(given)
    told = f"KV cache: the engine has {show_count(facts.kv_tokens)} tokens"
    try:
        predicted = _predicted(config, facts, model, host, num_bytes)
    except (Error, ValueError) as error:
        return f"{told}; the planner cannot predict that: {error}"
    agree = "as predicted" if predicted == facts.kv_tokens else f"{show_count(predicted)} predicted"
    return f"{told}, {agree}"


def _predicted(
    config: EngineConfig, facts: EngineFacts, model: str, host: HostPrint, num_bytes: int
) -> int:
    seqs, batch = (flag_value(config.argv, f"--max-num-{what}") for what in
                   ("seqs", "batched-tokens"))  # fmt: skip
    length = facts.context_tokens or 2048
    deployment = Deployment(
        max_model_len=length,
        max_num_seqs=int(seqs) if seqs else None,
        block_size=facts.block_size_tokens,
    )
    profile = find_profile("vllm", config.version.split()[-1], "cpu")
    spec, hardware = find_model(model, online=False), describe(host, 1.0, "")
    found = capacity(
        layout(spec, deployment, profile, hardware), spec, deployment, profile, [num_bytes],
        length, int(batch) if batch else length,
    )  # fmt: skip
    return found.kv.kv_tokens
