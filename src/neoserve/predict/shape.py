"""What the step time needs of a model, summed over its layers once for all deployments."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..schema.model import Mixer, ModelSpec

ROLES = ("attention", "mlp", "experts", "shared_experts", "lm_head")


class Shape(NamedTuple):
    """What the step time needs of a model's layers, summed once for all deployments."""

    params: dict[str, int]  # by role
    experts: tuple[tuple[int, int, int, int], ...]  # (layers, experts, per token, params of one)
    mixers: tuple[tuple[int, Mixer], ...]
    num_blocks: float  # decoder layers; one that is only mixer or only feed-forward counts half
    moe_layers: int
    state_layers: int
    active_params: int  # of all layers, for one token


def shape_of(model: ModelSpec) -> Shape:
    """Sums over layers; identical layers are looked at once."""
    params = dict.fromkeys(ROLES, 0)
    params["lm_head"] = model.lm_head_params or model.embedding_params
    experts: Counter[tuple[int, int, int]] = Counter()
    mixers: Counter[Mixer] = Counter()
    blocks, active = 0.0, 0
    for layer, count in Counter(model.layers).items():
        ffn = layer.ffn
        mixed = sum(m.params for m in layer.mixers)
        params["attention"] += count * mixed
        params["mlp"] += count * ffn.dense_params
        params["shared_experts"] += count * ffn.shared_params
        params["experts"] += count * ffn.num_experts * ffn.expert_params
        active += count * (mixed + ffn.active_params)
        blocks += count * 0.5 * (bool(layer.mixers) + bool(ffn.total_params))
        mixers.update({m: count * layer.mixers.count(m) for m in set(layer.mixers)})
        if ffn.num_experts:
            experts[ffn.num_experts, ffn.experts_per_token, ffn.expert_params] += count
    return Shape(
        params=params,
        experts=tuple((count, *shape) for shape, count in experts.items()),
        mixers=tuple((count, mixer) for mixer, count in mixers.items()),
        num_blocks=blocks,
        moe_layers=sum(experts.values()),
        state_layers=sum(count for mixer, count in mixers.items() if mixer.state),
        active_params=active,
    )
