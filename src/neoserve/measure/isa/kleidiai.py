"""Names of KleidiAI's matrix kernels, by the grammar of its own sources (v1.30, 495f652)."""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = re.compile(
    r"kai_(?P<operation>run|kernel|get_[a-z0-9_]+?)_i?matmul(?:_clamp)?"
    r"_(?P<dst>bf16|f16|f32|i32|qai8|qsi8)_(?P<lhs>[a-z0-9]+)_(?P<rhs>[a-z0-9]+)"
    r"(?:_(?:i32|f32|f16|f16p|u32|opt32))*"  # further operands, a variant of the loop
    r"(?:_(?P<tile>[0-9]+[a-z]*x[0-9a-zx]+))?"
    r"(?:_(?:i32|f32|f16|f16p|u32|opt32))*"
    r"_(?P<engine>neon|sve2p1|sve2|sve|sme2p1|sme2|sme1|sme|qmx)"
    r"(?:_(?P<technique>dotprod|dot|sdot|i8mm|mla|mmla|mopa|mop4_mopa|mop4))?"
    r"(?:_(?P<core>cortex[a-z0-9]+))?"
)

_INT8 = re.compile(r"q[as]i8")
_INT4 = re.compile(r"q[as][iu]4c")


class KernelName(NamedTuple):
    """The parts of a name such as kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4c32p8x8_4x8_neon_i8mm."""

    operation: str  # run, kernel, or get_ and what is asked of it
    dst: str
    lhs: str  # activations
    rhs: str  # weights
    tile: str  # rows x columns (x depth); "": not said
    engine: str
    technique: str  # "": not said
    core: str  # that it is scheduled for; "": any

    @property
    def precision(self) -> str:
        """w4a8, w8a8 or bf16; "" for others."""
        if _INT8.match(self.lhs):
            return "w4a8" if _INT4.match(self.rhs) else "w8a8" if _INT8.match(self.rhs) else ""
        is_bf16 = self.lhs.startswith("bf16") and self.rhs.startswith("bf16")
        return "bf16" if is_bf16 else ""


def parse_name(name: str) -> KernelName | None:
    """None where it is no name of a KleidiAI matrix kernel."""
    found = _NAME.fullmatch(name)
    return None if found is None else KernelName(*(part or "" for part in found.groups()))
