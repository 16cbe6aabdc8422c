"""AArch64 encodings of dot and matrix products: ``word & mask == value``.

Source: Arm Architecture Reference Manual, DDI 0487; each row is assembled and disassembled by
binutils in the tests. Forms: v NEON vectors, e by element, z SVE vectors, zi SVE by element, za
SME outer products.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint32]
Indexes = npt.NDArray[np.int64]


class Encoding(NamedTuple):
    """One instruction in one form."""

    form: str
    mask: int
    value: int
    macs: int = 0  # multiply-accumulates at 128-bit vectors; 0: it converts or switches a mode
    half_mask: int = 0  # a word with ``word & half_mask == half_value`` does half of them
    half_value: int = 0


_Q, _D = 1 << 30, 1 << 22  # NEON's 128-bit vectors; SVE's 64-bit sums

ENCODINGS = (
    Encoding("smmla.v", 0xFFE0FC00, 0x4E80A400, 32),
    Encoding("ummla.v", 0xFFE0FC00, 0x6E80A400, 32),
    Encoding("usmmla.v", 0xFFE0FC00, 0x4E80AC00, 32),
    Encoding("bfmmla.v", 0xFFE0FC00, 0x6E40EC00, 16),
    Encoding("sdot.v", 0xBFE0FC00, 0x0E809400, 16, _Q),
    Encoding("udot.v", 0xBFE0FC00, 0x2E809400, 16, _Q),
    Encoding("usdot.v", 0xBFE0FC00, 0x0E809C00, 16, _Q),
    Encoding("bfdot.v", 0xBFE0FC00, 0x2E40FC00, 8, _Q),
    Encoding("bfmlal.v", 0xBFE0FC00, 0x2EC0FC00, 4),  # Q: even or odd elements
    Encoding("sdot.e", 0xBFC0F400, 0x0F80E000, 16, _Q),
    Encoding("udot.e", 0xBFC0F400, 0x2F80E000, 16, _Q),
    Encoding("usdot.e", 0xBFC0F400, 0x0F80F000, 16, _Q),
    Encoding("sudot.e", 0xBFC0F400, 0x0F00F000, 16, _Q),
    Encoding("bfdot.e", 0xBFC0F400, 0x0F40F000, 8, _Q),
    Encoding("bfmlal.e", 0xBFC0F400, 0x0FC0F000, 4),
    Encoding("bfcvtn", 0xBFFFFC00, 0x0EA16800),
    Encoding("bfcvt", 0xFFFFFC00, 0x1E634000),
    Encoding("smmla.z", 0xFFE0FC00, 0x45009800, 32),
    Encoding("usmmla.z", 0xFFE0FC00, 0x45809800, 32),
    Encoding("ummla.z", 0xFFE0FC00, 0x45C09800, 32),
    Encoding("bfmmla.z", 0xFFE0FC00, 0x6460E400, 16),
    Encoding("fmmla.z.s", 0xFFE0FC00, 0x64A0E400, 8),
    Encoding("fmmla.z.d", 0xFFE0FC00, 0x64E0E400, 4),  # of vectors of 256 bits or more, halved
    Encoding("sdot.z", 0xFFA0FC00, 0x44800000, 16, _D, _D),
    Encoding("udot.z", 0xFFA0FC00, 0x44800400, 16, _D, _D),
    Encoding("usdot.z", 0xFFE0FC00, 0x44807800, 16),
    Encoding("bfdot.z", 0xFFE0FC00, 0x64608000, 8),
    Encoding("bfmlalb.z", 0xFFE0FC00, 0x64E08000, 4),
    Encoding("bfmlalt.z", 0xFFE0FC00, 0x64E08400, 4),
    Encoding("sdot.zi", 0xFFA0FC00, 0x44A00000, 16, _D, _D),
    Encoding("udot.zi", 0xFFA0FC00, 0x44A00400, 16, _D, _D),
    Encoding("usdot.zi", 0xFFE0FC00, 0x44A01800, 16),
    Encoding("sudot.zi", 0xFFE0FC00, 0x44A01C00, 16),
    Encoding("bfdot.zi", 0xFFE0FC00, 0x64604000, 8),
    Encoding("bfmlalb.zi", 0xFFE0F400, 0x64E04000, 4),
    Encoding("bfmlalt.zi", 0xFFE0F400, 0x64E04400, 4),
    Encoding("smopa.za", 0xFFE0001C, 0xA0800000, 64),
    Encoding("umopa.za", 0xFFE0001C, 0xA1A00000, 64),
    Encoding("usmopa.za", 0xFFE0001C, 0xA1800000, 64),
    Encoding("sumopa.za", 0xFFE0001C, 0xA0A00000, 64),
    Encoding("bfmopa.za", 0xFFE0001C, 0x81800000, 32),
    Encoding("fmopa.za.s", 0xFFE0001C, 0x80800000, 16),
    Encoding("fmopa.za.h", 0xFFE0001C, 0x81A00000, 32),
    Encoding("fmopa.za.d", 0xFFE00018, 0x80C00000, 4),
    Encoding("smstart", 0xFFFFFBFF, 0xD503437F),  # streaming mode, with or without ZA
    Encoding("smstop", 0xFFFFFBFF, 0xD503427F),
    Encoding("smstart.za", 0xFFFFFFFF, 0xD503457F),  # ZA alone
    Encoding("smstop.za", 0xFFFFFFFF, 0xD503447F),
)

FORMS = tuple(encoding.form for encoding in ENCODINGS)
PRODUCTS = frozenset(encoding.form for encoding in ENCODINGS if encoding.macs)


def _interesting() -> npt.NDArray[np.bool_]:
    """Of the upper halves of words: which any encoding may have."""
    halves = np.arange(1 << 16, dtype=np.uint32)
    found = np.zeros(1 << 16, dtype=np.bool_)
    for encoding in ENCODINGS:
        found |= (halves & (encoding.mask >> 16)) == encoding.value >> 16
    return found


_INTERESTING = _interesting()
_CHUNK_WORDS = 1 << 20  # what is kept beside the file stays some megabytes


class Hits(NamedTuple):
    """Words of a section that are one of the instructions, in the order of addresses."""

    place: Indexes  # of the word in the section
    form: npt.NDArray[np.uint8]  # index into ENCODINGS


def scan(words: Words) -> Hits:
    """Every instruction of ENCODINGS in little-endian words, whatever their alignment."""
    indexes, forms = [], []
    upper = words.view(np.uint16)[1::2]
    for start in range(0, len(words), _CHUNK_WORDS):
        near = np.flatnonzero(_INTERESTING[upper[start : start + _CHUNK_WORDS]])
        index, form = _exact(words[start : start + _CHUNK_WORDS][near])
        indexes.append(near[index] + start)
        forms.append(form)
    if not indexes:
        return Hits(np.zeros(0, np.int64), np.zeros(0, np.uint8))
    return Hits(np.concatenate(indexes), np.concatenate(forms))


def _exact(words: Words) -> tuple[Indexes, npt.NDArray[np.uint8]]:
    form = np.full(len(words), len(ENCODINGS), dtype=np.uint8)
    for i, encoding in enumerate(ENCODINGS):
        form[(words & np.uint32(encoding.mask)) == np.uint32(encoding.value)] = i
    index = np.flatnonzero(form != len(ENCODINGS))
    return index, form[index]


def macs(words: Words, forms: npt.NDArray[np.uint8]) -> Indexes:
    """Multiply-accumulates of each instruction, at 128 bits a vector."""
    found = np.array([e.macs for e in ENCODINGS], dtype=np.int64)[forms]
    half_mask = np.array([e.half_mask for e in ENCODINGS], dtype=np.uint32)[forms]
    half_value = np.array([e.half_value for e in ENCODINGS], dtype=np.uint32)[forms]
    halved = (half_mask != 0) & ((words & half_mask) == half_value)
    return np.where(halved, found // 2, found)


def tally(forms: npt.NDArray[np.uint8]) -> dict[str, int]:
    """Form → how many, of those that occur."""
    counts = np.bincount(forms, minlength=len(ENCODINGS))
    return {FORMS[i]: int(counts[i]) for i in np.flatnonzero(counts)}
