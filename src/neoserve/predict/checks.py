"""The engine's own checks before any memory is counted."""

from __future__ import annotations

from ..schema.engine import Deployment, EngineProfile
from ..schema.model import Mixer, ModelSpec

# Model classes of vLLM without the SupportsPP interface.
NO_PIPELINE = (
    "Gemma3nForCausalLM", "Gemma3nForConditionalGeneration", "HrmTextForCausalLM",
    "Mamba2ForCausalLM", "Zamba2ForCausalLM",
)  # fmt: skip


def refusal_of(model: ModelSpec, deployment: Deployment, profile: EngineProfile) -> str:
    """Why the engine would not build the model. "" if it would."""
    tp = deployment.tensor_parallel
    if profile.engine == "vllm":
        refusal = _vllm(model, deployment, profile) or _vllm_options(model, deployment, profile)
        if refusal:
            return refusal
    if model.num_heads % tp:
        return f"{model.num_heads} attention heads cannot be cut over tensor_parallel {tp}"
    for layer in dict.fromkeys(model.layers):
        for mixer in layer.mixers:
            refusal = _state(mixer, tp) if mixer.state else _attention(mixer, tp)
            if refusal:
                return refusal
    if deployment.num_speculative_tokens and not model.draft_layers:
        return f"{model.id} has no multi-token-prediction head of its own"
    return ""


def _vllm(model: ModelSpec, deployment: Deployment, profile: EngineProfile) -> str:
    asked = deployment.engine_version or profile.versions.split(",")[0].removeprefix(">=")
    if model.vllm_until == "0.0":
        return f"vLLM does not serve {model.architecture}"
    if model.vllm_until and _key(asked) > _key(model.vllm_until):
        return (
            f"vLLM serves {model.architecture} until {model.vllm_until} only; "
            f"ask for it with --engine-version {model.vllm_until}"
        )
    return model.vllm_refusal


def _vllm_options(model: ModelSpec, deployment: Deployment, profile: EngineProfile) -> str:
    """Options that vLLM refuses for a kind of layer (checked against vLLM 0.32)."""
    mixers = {m for layer in model.layers for m in layer.mixers}
    dtype = deployment.kv_cache_dtype
    if deployment.pipeline_parallel > 1 and model.architecture in NO_PIPELINE:
        return f"vLLM cannot cut {model.architecture} into pipeline stages"
    if deployment.block_size and deployment.block_size % 16 and profile.device == "gpu":
        return f"block_size {deployment.block_size} is not a multiple of 16"
    if deployment.disable_hybrid_kv_cache_manager and any(m.state for m in mixers):
        return "disable_hybrid_kv_cache_manager is refused for a model with request states"
    if any(m.latent_dim for m in mixers) and (dtype == "fp8_e5m2" or "per_token" in dtype):
        return f"no backend of latent attention has kv_cache_dtype {dtype}"
    if deployment.decode_context_parallel > 1:
        return next(filter(None, (_context_parallel(m, deployment) for m in mixers)), "")
    return ""


def _context_parallel(mixer: Mixer, deployment: Deployment) -> str:
    if mixer.state or mixer.latent_dim:
        return ""
    tp, dcp = deployment.tensor_parallel, deployment.decode_context_parallel
    if mixer.window_tokens:
        return "decode_context_parallel is refused for layers with a window"
    if tp <= mixer.num_kv_heads or dcp > tp // mixer.num_kv_heads:
        return (
            f"decode_context_parallel {dcp} needs tensor_parallel of at least "
            f"{dcp * mixer.num_kv_heads} for {mixer.num_kv_heads} KV heads; it is {tp}"
        )
    return ""


def _key(version: str) -> tuple[int, ...]:
    """Leading numbers: 0.24.1rc2 → (0, 24, 1)."""
    found = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)


def _attention(mixer: Mixer, tp: int) -> str:
    heads = mixer.num_kv_heads
    if mixer.latent_dim or not heads or heads % tp == 0 or tp % heads == 0:
        return ""
    return f"{heads} KV heads can be neither cut over nor copied to {tp} ranks"


def _state(mixer: Mixer, tp: int) -> str:
    state = mixer.state
    assert state is not None
    if state.rows % tp or state.conv_dim % tp:
        return f"the {mixer.kind} state cannot be cut over tensor_parallel {tp}"
    # vLLM, mamba_mixer2.py: groups are cut, or a single one is copied
    if state.groups > 1 and state.groups % tp:
        return f"{state.groups} state groups cannot be cut over tensor_parallel {tp}"
    return ""
