"""What no server exceeds: products at full peak, weights at full bandwidth, nothing else."""

from __future__ import annotations

from ..schema.claims import Ceiling
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from .formats import route_of
from .shape import shape_of
from .weights import stage_weights

_CACHED = 2  # weights of twice the cache still come from it in part


def ceiling_of(
    model: ModelSpec,
    hardware: HardwareSpec,
    num_devices: int = 1,
    socket: HardwareSpec | None = None,
) -> Ceiling:
    """Attention, KV cache and everything but the linear layers cost nothing here.

    `socket`: of a slice of a CPU, whose bandwidth it may draw while its neighbours are idle.
    """
    shape = shape_of(model)
    experts = {"experts": sum(layers * chosen * size for layers, _, chosen, size in shape.experts)}
    prompt_s = head_s = step_bytes = 0.0
    for role, params in (shape.params | experts).items():
        if not params:
            continue
        route = route_of(model, role, hardware, "vllm")
        step_bytes += params * route.bits / 8
        token_s = 2.0 * params / route.peak_flops_per_s / num_devices
        if role == "lm_head":
            head_s = token_s
        else:
            prompt_s += token_s
    whole = socket or hardware
    bandwidth = hardware.bandwidth_bytes_per_s * num_devices
    return Ceiling(
        weights_bytes=sum(stage_weights(model, Deployment(), 0).values()),
        step_bytes=step_bytes,
        prompt_token_s=prompt_s,
        output_token_s=prompt_s + head_s,
        bandwidth_bytes_per_s=bandwidth,
        most_bandwidth_bytes_per_s=max(bandwidth, whole.bandwidth_bytes_per_s * num_devices),
        fits_cache=step_bytes <= _CACHED * whole.l3_bytes * num_devices,
    )
