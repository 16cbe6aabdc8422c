"""x86-64: VNNI, AMX, AVX512-BF16 and fused multiply-adds, by iced on functions' ranges.

Instructions vary in length, so a function is decoded from its start. Only functions are decoded
whose bytes hold a VEX or EVEX prefix with an opcode of interest (Intel SDM, volume 2, 2.3 and 2.7).
Capstone 5 knows neither AMX nor AVX512-BF16.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import iced_x86
import numpy as np
import numpy.typing as npt

from ...schema.isa import IsaFunction
from .encodings import Indexes
from .functions import functions, identity
from .image import Image

# Of the opcode map 0F38.
_VNNI, _BF16, _AMX = (0x50, 0x51, 0x52, 0x53, 0xD2, 0xD3), (0x52, 0x72), (0x5C, 0x5E, 0x6C)
_FMA = tuple(high | low for high in (0x90, 0xA0, 0xB0) for low in (6, 7, 8, 0xA, 0xC, 0xE))
_OPCODES = np.isin(np.arange(256), [*_VNNI, *_BF16, *_AMX, *_FMA])
_VEX, _EVEX, _MAP_0F38 = 0xC4, 0x62, 2

_NAMED = re.compile(r"E?VEX_(VPDP[A-Z]+|TDP[A-Z0-9]+|TCMM[A-Z0-9]+|VDPBF16PS|VCVTNE2?PS2BF16)_.*")
_MULTIPLY_ADD = re.compile(r"E?VEX_VFN?M[ADSUB]+\d+P[SD]_([YZ]MM)_.*")


def _forms() -> dict[int, str]:
    """iced's numbers of encodings → what is counted; multiply-adds by width, from 256 bits on."""
    found = {}
    for name, code in vars(iced_x86.Code).items():
        if named := _NAMED.fullmatch(name):
            found[code] = named[1].lower()
        elif multiply_add := _MULTIPLY_ADD.fullmatch(name):
            found[code] = f"fma.{multiply_add[1].lower()}"
    return found


_FORMS = _forms()


class Found(NamedTuple):
    """Of one image."""

    scanned_bytes: int
    num_functions: int
    forms: dict[str, int]
    functions: tuple[IsaFunction, ...]
    num_undecoded: int  # places that look like such an instruction in no known function


def inspect(image: Image) -> Found:
    """Every function that holds one of the instructions."""
    known = functions(image)
    found, undecoded = [], 0
    for section in image.sections:
        code = image.bytes_of(section)
        owner = known.at(section.address + _candidates(code))
        undecoded += int((owner < 0).sum())
        for i in np.unique(owner[owner >= 0]).tolist():
            start, end = int(known.start[i]), int(known.end[i])
            body = code[start - section.address : end - section.address].tobytes()
            if forms := count(body):
                found.append(IsaFunction(*identity(image, known, i), forms))
    total: dict[str, int] = {}
    for function in found:
        for form, num in function.forms.items():
            total[form] = total.get(form, 0) + num
    found.sort(key=lambda f: (-sum(f.forms.values()), f.address))
    code_bytes = sum(section.size for section in image.sections)
    return Found(code_bytes, len(known.start), dict(sorted(total.items())), tuple(found), undecoded)


def _candidates(code: npt.NDArray[np.uint8]) -> Indexes:
    """Offsets of bytes that may start such an instruction."""
    vex = np.flatnonzero(code[:-4] == _VEX)
    vex = vex[((code[vex + 1] & 31) == _MAP_0F38) & _OPCODES[code[vex + 3]]]
    evex = np.flatnonzero(code[:-4] == _EVEX)
    evex = evex[((code[evex + 1] & 7) == _MAP_0F38) & _OPCODES[code[evex + 4]]]
    return np.sort(np.concatenate([vex, evex]))


def count(body: bytes) -> dict[str, int]:
    """Form → how many in these bytes, decoded from the first on."""
    forms: Counter[str] = Counter()
    for code, num in Counter(i.code for i in iced_x86.Decoder(64, body)).items():
        if form := _FORMS.get(code):
            forms[form] += num
    return dict(sorted(forms.items()))
