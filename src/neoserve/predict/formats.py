"""Number formats on a device: what multiplies and at which rate."""

from __future__ import annotations

from typing import NamedTuple

from ..schema.coefficients import Coefficients
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from .weights import bits_of

_HALF = {"bfloat16": ("bf16", "fp16", "fp32"), "float16": ("fp16", "bf16", "fp32"),
         "float32": ("fp32", "bf16", "fp16")}  # fmt: skip
_PLAIN = ("", "bf16", "fp16", "fp32")
MXFP8 = ("10.0", "10.3")  # tensor cores that multiply mxfp4 by mxfp8 (B200, B300)
_VECTOR_INT8 = 4.0  # int8 over fp32 in vector units: llama.cpp leaves AMX tiles alone


class Route(NamedTuple):
    """What multiplies one role's weights on a device, whatever share of its peak that reaches."""

    dtype: str
    peak_flops_per_s: float
    bits: float  # stored, per weight
    native: bool  # False: unpacked to 16 bits where they are stored in fewer

    @property
    def unpacked(self) -> bool:
        """Whether weights are widened before each product (vLLM: Marlin)."""
        return not self.native and self.bits < 16

    @property
    def by_blocks(self) -> bool:
        """fp8 with scales by blocks of 128 x 128."""
        return self.native and self.dtype == "fp8" and 8 < self.bits < 8.1

    @property
    def kind(self) -> str:
        """Which kernels multiply: unpacked, block, or the dtype."""
        return "unpacked" if self.unpacked else "block" if self.by_blocks else self.dtype


class Path(NamedTuple):
    """How the products of one role run: at which rate, reading how many bits a weight."""

    flops_per_s: float
    bytes_per_s: float
    bits: float
    note: str = ""


def _half_dtype(model: ModelSpec, hardware: HardwareSpec) -> str:
    peaks = hardware.peak_flops_per_s
    return next(dtype for dtype in (*_HALF[model.dtype], *peaks) if dtype in peaks)


def half_flops_per_s(model: ModelSpec, hardware: HardwareSpec) -> float:
    """Peak of the format that attention multiplies in."""
    return hardware.peak_flops_per_s[_half_dtype(model, hardware)]


def cores_share(hardware: HardwareSpec, coefficients: Coefficients) -> float:
    """Of all cores' products, what they reach together: they wait for each other."""
    return 1.0 / (1.0 + coefficients.core_drag * cores_of(hardware))


def cores_of(hardware: HardwareSpec) -> int:
    """That share each product: a GPU's are not counted."""
    return hardware.cores if hardware.kind == "cpu" else 0


def route_of(model: ModelSpec, role: str, hardware: HardwareSpec, engine: str) -> Route:
    """What multiplies a role's weights on this device.

    A format that the device lacks is unpacked to 16 bits, and 16 bits that it lacks fall back to
    the other 16-bit format or to fp32 (V100 and T4 have no bf16).
    """
    asked = model.quantization.compute.get(role, "")
    peaks = hardware.peak_flops_per_s
    if asked == "mxfp8":
        asked = "fp8" if hardware.compute_capability in MXFP8 else "bf16"
    if asked == "int8" and engine == "llama.cpp" and "amx_int8" in hardware.isa:
        vector = _VECTOR_INT8 * peaks.get("fp32", peaks["int8"])
        peaks = {**peaks, "int8": min(peaks["int8"], vector)}
    native = asked in peaks and asked not in _PLAIN
    dtype = asked if native else _half_dtype(model, hardware)
    return Route(dtype, peaks[dtype], bits_of(model, role), native)


def resolve_path(
    model: ModelSpec, role: str, hardware: HardwareSpec, coefficients: Coefficients
) -> Path:
    """The rates that a role's products reach by these coefficients."""
    route = route_of(model, role, hardware, coefficients.engine)
    if role == "experts":
        share = coefficients.expert_share * coefficients.expert_dtype_share.get(route.kind, 1.0)
    else:
        share = coefficients.dtype_share.get(route.dtype, 1.0)
        share *= coefficients.unpack_share if route.unpacked else 1.0
        share *= coefficients.block_share if route.by_blocks else 1.0
    packed = coefficients.packed_share if route.bits < 16 else 1.0
    asked, half = model.quantization.compute.get(role, ""), _half_dtype(model, hardware)
    return Path(
        flops_per_s=route.peak_flops_per_s
        * coefficients.matrix_share
        * share
        * cores_share(hardware, coefficients),
        bytes_per_s=hardware.bandwidth_bytes_per_s * coefficients.memory_share * packed,
        bits=route.bits,
        note="" if route.native else _note(model, role, hardware, asked, half),
    )


def _note(model: ModelSpec, role: str, hardware: HardwareSpec, asked: str, half: str) -> str:
    if asked and asked not in _PLAIN:
        return f"{hardware.name} does not multiply {asked}: {role} weights are unpacked to {half}"
    wanted = _HALF[model.dtype][0]
    return f"{hardware.name} has no {wanted} peak: {half} is used" if half != wanted else ""
