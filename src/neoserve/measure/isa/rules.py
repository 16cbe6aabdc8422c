"""What a kernel's name promises, and whether its code keeps it.

A name counts only with its code: PASS needs the instructions in an innermost loop of the function.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...schema.isa import IsaFunction, IsaKernel, IsaLoop, IsaVerdict
from .kleidiai import KernelName, parse_name

_INT8_MMLA = ("smmla.v", "smmla.z", "usmmla.v", "usmmla.z", "ummla.v", "ummla.z")
_INT8_DOT = ("sdot.v", "sdot.e", "sdot.z", "sdot.zi", "udot.v", "udot.e", "udot.z", "udot.zi",
             "usdot.v", "usdot.e", "usdot.z", "usdot.zi", "sudot.e", "sudot.zi")  # fmt: skip
_INT8_MOPA = ("smopa.za", "umopa.za", "usmopa.za", "sumopa.za")
_NEEDS = {
    ("int8", "mmla"): _INT8_MMLA, ("int8", "i8mm"): _INT8_MMLA, ("int8", "mopa"): _INT8_MOPA,
    ("int8", "dot"): _INT8_DOT, ("int8", "dotprod"): _INT8_DOT, ("int8", "sdot"): _INT8_DOT,
    ("bf16", "mmla"): ("bfmmla.v", "bfmmla.z"), ("bf16", "mopa"): ("bfmopa.za",),
    ("bf16", "dot"): ("bfdot.v", "bfdot.e", "bfdot.z", "bfdot.zi"),
}  # fmt: skip
# What any code of a precision would hold, whoever wrote it: told where no name helps.
TELLING = {"w4a8": _INT8_MMLA + _INT8_DOT, "w8a8": _INT8_MMLA + _INT8_DOT + _INT8_MOPA,
           "bf16": (*_NEEDS["bf16", "mmla"], *_NEEDS["bf16", "dot"], "bfmopa.za")}  # fmt: skip
_TELLING_WORDS = {"w4a8": "int8 dot or matrix products", "w8a8": "int8 dot or matrix products",
                  "bf16": "bf16 dot or matrix products"}  # fmt: skip

# Arm Compute Library's arm_gemm, also inside oneDNN: a64_interleaved_s8s32_mmla_8x12.
_ACL = re.compile(
    r"_ZN8arm_gemm\d+(?P<kernel>(?:a64|sve|sme|sme2)_(?:[A-Za-z0-9]+_)*?"
    r"(?P<types>bf16fp32|[su]8(?:[su]8)?(?:[su]32|qa|qs|qfp32|q|fp32))_"
    r"(?P<technique>mmla|dot|mopa)_[A-Za-z0-9_]+?)E[^.]*"
)
PREFIXES = (b"kai_", b"_ZN8arm_gemm")  # of every name that promise_of takes

_LEAST = 4  # of the needed instructions in a loop, and a tenth of it: chance hits in data are rarer
_SHARE = 0.1


class Promise(NamedTuple):
    """What a name says."""

    kernel: str  # the same for the function that is called and the one that it calls
    precision: str
    technique: str
    needs: tuple[str, ...]  # (): no encoding is known here


def promise_of(symbol: str) -> Promise | None:
    """None where the name tells no precision."""
    if (kai := parse_name(symbol)) is not None:
        return _of_kleidiai(symbol, kai)
    if acl := _ACL.fullmatch(symbol):
        kind = "bf16" if acl["types"] == "bf16fp32" else "int8"
        technique = acl["technique"]
        needs = _needs(kind, technique, acl["kernel"].partition("_")[0])
        precision = "bf16" if kind == "bf16" else "w8a8"
        return Promise(f"arm_gemm::{acl['kernel']}", precision, technique, needs)
    return None


def _of_kleidiai(symbol: str, name: KernelName) -> Promise | None:
    if not name.precision or name.operation not in ("run", "kernel"):
        return None
    kind = "bf16" if name.precision == "bf16" else "int8"
    kernel = symbol.removeprefix(f"kai_{name.operation}_")
    return Promise(
        kernel, name.precision, name.technique, _needs(kind, name.technique, name.engine)
    )


def _needs(kind: str, technique: str, engine: str) -> tuple[str, ...]:
    # SME2's dot products are multi-vector forms, which ENCODINGS lacks.
    if engine.startswith(("sme2", "qmx")) and "dot" in technique:
        return ()
    return _NEEDS.get((kind, technique), ())


def kernels_of(functions: Iterable[tuple[Promise, IsaFunction]]) -> tuple[IsaKernel, ...]:
    """One a kernel: it carries what it needs if any of its functions does."""
    grouped: dict[str, list[tuple[Promise, IsaFunction]]] = {}
    for promise, function in functions:
        grouped.setdefault(promise.kernel, []).append((promise, function))
    return tuple(
        _kernel(group[0][0], [loop for _, function in group for loop in function.loops])
        for _, group in sorted(grouped.items())
    )


def _kernel(promise: Promise, loops: Sequence[IsaLoop]) -> IsaKernel:
    fullest = max(loops, key=lambda loop: _held(loop, promise.needs), default=None)
    held = _held(fullest, promise.needs) if fullest else 0
    return IsaKernel(
        promise.kernel, promise.technique, promise.needs,
        any(_carries(loop, promise.needs) for loop in loops) if promise.needs else None,
        {f: n for f, n in fullest.forms.items() if f in promise.needs} if fullest and held else {},
        fullest.num_instructions if fullest and held else 0,
    )  # fmt: skip


def _held(loop: IsaLoop, needs: Sequence[str]) -> int:
    return sum(n for form, n in loop.forms.items() if form in needs)


def _carries(loop: IsaLoop, needs: Sequence[str]) -> bool:
    held = _held(loop, needs)
    return loop.is_code and held >= max(_LEAST, _SHARE * loop.num_instructions)


def judge(
    precision: str, kernels: Sequence[IsaKernel], unnamed: Sequence[IsaFunction]
) -> IsaVerdict:
    """PASS: kernels of this precision are there and each carries what its name promises.

    `unnamed` are the functions that hold any of the instructions and whose names promise nothing.
    """
    name = precision.upper()
    judged = [kernel for kernel in kernels if kernel.carries is not None]
    broken = [kernel.name for kernel in judged if not kernel.carries]
    left = len(kernels) - len(judged)
    more = f"; {left} more need SME2 forms that are not looked for" if left else ""
    if broken:
        reason = (f"{len(broken)} of {len(judged)} {name} kernels are without what their names "
                  f"promise: {_first(broken)}{more}")  # fmt: skip
        return IsaVerdict(precision, "FAIL", reason, tuple(kernels))
    if judged:
        forms = _either(kernel.found for kernel in judged)
        reason = (f"{len(judged)} of {len(judged)} {name} kernels hold {forms} in an innermost "
                  f"loop{more}")  # fmt: skip
        return IsaVerdict(precision, "PASS", reason, tuple(kernels))
    loops = sum(any(_carries(loop, TELLING[precision]) for loop in f.loops) for f in unnamed)
    if loops:
        more = (f"; native inner loops of {_TELLING_WORDS[precision]} that no name explains: "
                f"{loops}{more}")  # fmt: skip
    return IsaVerdict(precision, "ABSENT", f"no kernel is named as one for {name}{more}",
                      tuple(kernels))  # fmt: skip


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _either(found: Iterable[Mapping[str, int]]) -> str:
    names = sorted({form.partition(".")[0] for forms in found for form in forms})
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
