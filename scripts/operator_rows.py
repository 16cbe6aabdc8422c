"""Kernel times as rows of a fit: each by the law that the planner has for it.

What sample_operators.py wrote. A served token shows the sum of a dozen kernels; these show the
kernels, so that the fit need not tell them apart by the total alone.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from latency_arrays import EXPERT_KINDS, Array, expert_share, matrix_share, overlap
from latency_items import keys_of

from neoserve.catalog.hardware import find_machine
from neoserve.predict.formats import MXFP8
from neoserve.schema.hardware import HardwareSpec

OPS = ("gemm", "moe", "prompt", "decode", "reduce")
GEMM_FLOOR_S, ATTENTION_FLOOR_S = 4e-6, 8e-6  # of an empty kernel, in the tables themselves
_DTYPE = {"fp8": 1, "fp8_block": 1, "sq": 2, "nvfp4": 3}  # place in Rows' dtype_share


class _Format(NamedTuple):
    """Of a table's dtype: what multiplies, bits a weight, and the kernels."""

    peak: str
    bits: float
    kind: str = ""


_FORMATS = {
    "bfloat16": _Format("bf16", 16), "fp8": _Format("fp8", 8, "fp8"),
    "fp8_block": _Format("fp8", 8 + 32 / 128**2, "block"), "sq": _Format("int8", 8, "int8"),
    "nvfp4": _Format("fp4", 4.5, "fp4"), "int4_wo": _Format("bf16", 4.125, "unpacked"),
    "int8_wo": _Format("bf16", 8, "unpacked"), "w4a16_mxfp4": _Format("bf16", 4.25, "unpacked"),
    "w4a8_mxfp4_mxfp8": _Format("fp8", 4.25, "fp8"),
}  # fmt: skip


class Operators:
    """One log observation a kernel; `keys` as Item.keys."""

    def __init__(self, rows: Sequence[Mapping[str, str]]) -> None:
        kept = [(row, find_machine(row["hardware"]).hardware) for row in rows]
        kept = [(row, hw) for row, hw in kept if _sound(row, hw)]
        self.keys = [keys_of(hw, row["engine"], row["version"]) for row, hw in kept]
        self.observed = np.log([float(row["latency_us"]) * 1e-6 for row, _ in kept])
        groups = [(row["op"], row["hardware"], row["engine"], row["version"], row["dtype"])
                  for row, _ in kept]  # fmt: skip
        sizes = Counter(groups)
        self.weights = np.array([sizes[group] ** -0.5 for group in groups])
        found = [_geometry(row, hw) for row, hw in kept]
        ops = np.array([OPS.index(row["op"]) for row, _ in kept])
        self._parts = [np.flatnonzero(ops == place) for place in range(len(OPS))]
        self._geometry = [
            {name: np.array([found[i][name] for i in part]) for name in found[0]}
            for part in self._parts
        ]

    def predict(self, c: Mapping[str, Array]) -> Array:
        """Log seconds under coefficients, one array each, bounded."""
        seconds = np.zeros(len(self.keys))
        laws = (_gemm_s, _moe_s, _attention_s, _attention_s, _reduce_s)
        for law, g, part in zip(laws, self._geometry, self._parts, strict=True):
            if part.size:
                seconds[part] = law(g, {name: value[part] for name, value in c.items()})
        return np.log(seconds)


def _memory(g: Mapping[str, Array], c: Mapping[str, Array]) -> tuple[Array, Array]:
    """Bytes per second of weights, and seconds of the activations."""
    plain = g["bandwidth"] * c["memory_share"]
    return plain * np.where(g["packed"], c["packed_share"], 1.0), g["moved"] / plain


def _gemm_s(g: Mapping[str, Array], c: Mapping[str, Array]) -> Array:
    memory, moved_s = _memory(g, c)
    kinds = (g[name][:, None] for name in ("dtype", "unpacked", "block"))
    flops = g["peak"] * matrix_share(*kinds, c)[:, 0]
    multiply_s = g["flops"] * (g["m"] + c["matrix_half_tokens"]) / flops
    return moved_s + GEMM_FLOOR_S + overlap(g["bytes"] / memory, multiply_s, c["overlap_power"])


def _moe_s(g: Mapping[str, Array], c: Mapping[str, Array]) -> Array:
    memory, moved_s = _memory(g, c)
    products = g["m"] * g["chosen"] + g["touched"] * c["expert_half_tokens"]
    flops = g["peak"] * c["matrix_share"] * c["expert_share"] * expert_share(g["expert_kind"], c)
    read_s = g["touched"] * g["bytes"] / (memory * c["expert_memory_share"])
    multiply_s = products * g["flops"] / flops
    return moved_s + c["expert_layer_s"] + overlap(read_s, multiply_s, c["overlap_power"])


def _attention_s(g: Mapping[str, Array], c: Mapping[str, Array]) -> Array:
    kv = g["bandwidth"] * c["kv_share"] * np.where(g["packed"], c["kv_packed_share"], 1.0)
    multiply_s = g["flops"] / (g["peak"] * c["attention_share"])
    return ATTENTION_FLOOR_S + overlap(g["bytes"] / kv, multiply_s, c["overlap_power"])


def _reduce_s(g: Mapping[str, Array], c: Mapping[str, Array]) -> Array:
    return np.asarray(
        c["collective_s"] * g["hops"] + g["bytes"] / (g["link"] * c["collective_share"])
    )


def read_operators(path: Path) -> Operators:
    """From the CSV that sample_operators.py wrote."""
    with path.open(newline="") as file:
        return Operators(list(csv.DictReader(file)))


def _sound(row: Mapping[str, str], hw: HardwareSpec) -> bool:
    """Not: formats that the device lacks."""
    if row["op"] == "reduce":
        return hw.link is not None
    if row["dtype"] == "w4a8_mxfp4_mxfp8" and hw.compute_capability not in MXFP8:
        return False
    return row["op"] in ("prompt", "decode") or (
        row["dtype"] in _FORMATS and _FORMATS[row["dtype"]].peak in hw.peak_flops_per_s
    )


def _geometry(row: Mapping[str, str], hw: HardwareSpec) -> dict[str, Any]:
    op = row["op"]
    m, n, k = (float(row[name] or 0) for name in ("m", "n", "k"))
    found: dict[str, Any] = {
        "bandwidth": hw.bandwidth_bytes_per_s, "m": m, "peak": 1.0,
        "bytes": 1.0, "flops": 1.0, "moved": 0.0, "packed": False, "dtype": 0, "block": False,
        "unpacked": False, "expert_kind": 0, "touched": 0.0, "chosen": 0.0, "hops": 1.0,
        "link": 1.0,
    }  # fmt: skip
    if op in ("gemm", "moe"):
        form = _FORMATS[row["dtype"]]
        params = n * k * (3.0 if op == "moe" else 1.0)
        found |= {"peak": hw.peak_flops_per_s[form.peak], "bytes": params * form.bits / 8,
                  "flops": 2.0 * params, "packed": form.bits < 16,
                  "dtype": _DTYPE.get(row["dtype"], 0), "block": form.kind == "block",
                  "unpacked": form.kind == "unpacked", "moved": 2.0 * m * (n + k)}  # fmt: skip
    if op == "moe":
        chosen, experts = float(row["chosen"]), float(row["experts"])
        found |= {"chosen": chosen, "touched": min(experts, m * chosen),
                  "moved": 2.0 * m * (2.0 * k + 3.0 * n * chosen),
                  "expert_kind": EXPERT_KINDS.index(form.kind) + 1 if form.kind else 0}  # fmt: skip
    if op in ("prompt", "decode"):
        heads, kv_heads, dim = (float(row[name]) for name in ("heads", "kv_heads", "head_dim"))
        pairs = m * n * n / 2 if op == "prompt" else m * n
        cached = 2.0 * dim * kv_heads * (1.0 if row["dtype"] == "fp8" else 2.0)
        found |= {"peak": hw.peak_flops_per_s["bf16"], "flops": 4.0 * heads * dim * pairs,
                  "packed": row["dtype"] == "fp8",
                  "bytes": m * n * cached if op == "decode" else 1.0}  # fmt: skip
    if op == "reduce" and hw.link:
        ranks = float(row["ranks"])
        found |= {"bytes": n * 2.0 * (ranks - 1) / ranks, "hops": np.log2(ranks),
                  "link": hw.link.bandwidth_bytes_per_s}  # fmt: skip
    return found
