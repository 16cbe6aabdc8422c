"""Time that ranks spend on each other: all-reduce, expert dispatch, pipeline hand-over."""

from __future__ import annotations

import math

from ..schema.coefficients import Coefficients
from ..schema.engine import Deployment
from ..schema.hardware import HardwareSpec
from .shape import Shape

_PCIE4_BYTES_PER_S = 32e9  # x16, where the data sheet is silent
_STAGED = 3.0  # latency of an exchange through the host, over one by a link


def data_ranks(deployment: Deployment) -> int:
    """Copies of the attention layers that share one set of experts (DP attention with EP)."""
    if not deployment.expert_parallel:
        return 1
    return max(1, deployment.num_devices // deployment.devices_per_replica)


def collectives(
    shape: Shape,
    hidden: int,
    hardware: HardwareSpec,
    deployment: Deployment,
    coefficients: Coefficients,
) -> tuple[float, float]:
    """Seconds per step whatever its size, and per token, of all collectives and hand-overs."""
    tp, pp, data = deployment.tensor_parallel, deployment.pipeline_parallel, data_ranks(deployment)
    link = hardware.link
    bandwidth = link.bandwidth_bytes_per_s if link else hardware.pcie_bandwidth_bytes_per_s
    bandwidth = (bandwidth or _PCIE4_BYTES_PER_S) * coefficients.collective_share
    latency_s = coefficients.collective_s * (1.0 if link else _STAGED)
    row_bytes = 2.0 * hidden
    fixed_s = token_s = 0.0
    if tp > 1:
        reduces = 2.0 * shape.num_blocks
        fixed_s += reduces * latency_s * math.log2(tp)
        token_s += reduces * row_bytes * 2.0 * (tp - 1) / tp / bandwidth
    if data > 1:
        # Dispatch and combine: every rank sends its tokens to the ranks of their experts.
        fixed_s += 2.0 * shape.moe_layers * latency_s * math.log2(tp * data)
        token_s += 2.0 * shape.moe_layers * row_bytes * (data - 1) / bandwidth
    if pp > 1:
        fixed_s += (pp - 1) * latency_s
        token_s += (pp - 1) * row_bytes / bandwidth
    return fixed_s, token_s
