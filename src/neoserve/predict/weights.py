"""Bytes of weights on one rank, by role, from parameters and number formats."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.engine import Deployment
from ..schema.model import Layer, ModelSpec
from ..schema.quantization import DTYPE_BITS


def bits_of(model: ModelSpec, role: str) -> float:
    """Stored bits of one weight of a role; roles that no scheme names stay in the model dtype."""
    return model.quantization.bits.get(role, float(DTYPE_BITS[model.dtype]))


def layer_bytes(model: ModelSpec, layer: Layer, tp: int, expert_ranks: int) -> dict[str, float]:
    """Bytes of one layer on one of `tp` ranks; experts are cut over `expert_ranks` instead.

    Norms, routers and convolutions are replicated or negligible: they are charged in full.
    """
    native = DTYPE_BITS[model.dtype] / 8
    ffn = layer.ffn
    return {
        "attention": sum(m.params for m in layer.mixers) * bits_of(model, "attention") / 8 / tp,
        "mlp": ffn.dense_params * bits_of(model, "mlp") / 8 / tp,
        "shared_experts": ffn.shared_params * bits_of(model, "shared_experts") / 8 / tp,
        "experts": ffn.num_experts * ffn.expert_params * bits_of(model, "experts") / 8
        / expert_ranks,
        "other": (
            sum(m.other_params for m in layer.mixers)
            + ffn.router_params + ffn.other_params + layer.norm_params
        ) * native,
    }  # fmt: skip


def pipeline_stages(num_layers: int, stages: int) -> list[range]:
    """Layers of each stage as vLLM cuts them (vllm/distributed/utils.py:get_pp_indices).

    An uneven rest goes to the stages from the last but one backwards, since the last stage
    also holds the head.
    """
    base, rest = divmod(num_layers, stages)
    sizes = [base] * stages
    for i in range(2, rest + 2):
        sizes[-i] += 1
    starts = [sum(sizes[:i]) for i in range(stages)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def stage_weights(model: ModelSpec, deployment: Deployment, stage: int) -> dict[str, float]:
    """Bytes by role on one rank of a pipeline stage."""
    tp = deployment.tensor_parallel
    stages = deployment.pipeline_parallel
    roles: dict[str, float] = {}
    layers = [model.layers[i] for i in pipeline_stages(len(model.layers), stages)[stage]]
    if stage == stages - 1 and deployment.num_speculative_tokens:
        layers += model.draft_layers
    for layer, count in _counted(layers):
        # Without expert parallelism each expert is cut over tp; with it each rank holds
        # whole experts, 1/tp of them: the same bytes.
        for role, num_bytes in layer_bytes(model, layer, tp, tp).items():
            roles[role] = roles.get(role, 0.0) + count * num_bytes
    native = DTYPE_BITS[model.dtype] / 8
    if stage == 0:
        roles["embedding"] = model.embedding_params * bits_of(model, "embedding") / 8 / tp
        roles["vision"] = model.vision_params * native
    if stage == stages - 1:
        head = model.lm_head_params
        if stages > 1 and not head:
            head = model.embedding_params  # a tied head is loaded again on the last stage
        roles["lm_head"] = head * bits_of(model, "lm_head") / 8 / tp
        roles["final"] = model.final_params * native
    return roles


def _counted(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Distinct layers and how often each stands; equal layers are the same object."""
    counts: dict[int, tuple[Layer, int]] = {}
    for layer in layers:
        _, seen = counts.get(id(layer), (layer, 0))
        counts[id(layer)] = (layer, seen + 1)
    return list(counts.values())
