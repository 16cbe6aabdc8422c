"""Coefficients of a machine without losses, and of one like those we know."""

from __future__ import annotations

from typing import Any

IDEAL: dict[str, Any] = {
    "device_class": "test", "engine": "test", "memory_share": 1.0, "packed_share": 1.0,
    "kv_share": 1.0, "matrix_share": 1.0, "matrix_half_tokens": 0.0, "dtype_share": {},
    "unpack_share": 1.0, "core_drag": 0.0, "attention_share": 1.0,
    "overlap_power": 64.0, "expert_share": 1.0,
    "expert_dtype_share": {}, "kv_packed_share": 1.0,
    "expert_memory_share": 1.0, "expert_half_tokens": 0.0, "state_share": 1.0,
    "scan_share": 1.0, "state_layer_s": 0.0,
    "layer_s": 0.0, "expert_layer_s": 0.0, "launch_s": 0.0, "step_s": 0.0, "request_step_s": 0.0,
    "admission_s": 0.0, "request_serial_s": 0.0,
    "prompt_token_s": 0.0, "collective_s": 0.0, "collective_share": 1.0,
    "expert_imbalance": 1.0,
    "convoy_odds": 0.0, "block_share": 1.0,
}  # fmt: skip
REAL = {
    **IDEAL, "memory_share": 0.8, "matrix_share": 0.6, "kv_share": 0.6, "attention_share": 0.4,
    "matrix_half_tokens": 16.0, "overlap_power": 2.5, "layer_s": 5e-6, "launch_s": 1e-4,
    "step_s": 5e-4, "request_step_s": 1e-5, "collective_s": 8e-6, "collective_share": 0.6,
    "expert_layer_s": 1e-5, "dtype_share": {"fp8": 0.8}, "unpack_share": 0.7,
    "core_drag": 0.01, "packed_share": 0.9,
}  # fmt: skip
