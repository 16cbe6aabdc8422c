"""Innermost loops by back edges: a branch to an earlier address of the same function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .encodings import Indexes, Words

_MAX_WORDS = 2048  # of a loop
_SPAN_WORDS = 1 << 20  # read at once


class Loops(NamedTuple):
    """Ranges of word indexes, both ends in the loop, ascending by their ends."""

    first: Indexes
    last: Indexes
    is_inner: npt.NDArray[np.bool_]  # contains no other back edge

    def inner_at(self, indexes: Indexes) -> Indexes:
        """Index of the innermost loop around each word, -1 where there is none.

        None contains another, so their starts ascend with their ends, and the first that ends
        behind a word is around it if any is.
        """
        inner = np.flatnonzero(self.is_inner)
        if not len(inner):
            return np.full(len(indexes), -1, np.int64)
        at = np.minimum(np.searchsorted(self.last[inner], indexes), len(inner) - 1)
        found = inner[at]
        is_around = (self.first[found] <= indexes) & (indexes <= self.last[found])
        return np.where(is_around, found, -1)


def loops_near(words: Words, indexes: Indexes, owner: Indexes) -> Loops:
    """Loops around these ascending word indexes. `owner` gives starts of functions as indexes."""
    firsts, lasts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for start, end in _windows(indexes, len(words)):
        first, last = _back_edges(words[start:end])
        firsts.append(first + start)
        lasts.append(last + start)
    first, last = np.concatenate(firsts), np.concatenate(lasts)
    keep = np.searchsorted(owner, first, "right") == np.searchsorted(owner, last, "right")
    first, last = first[keep], last[keep]
    # A loop contains an earlier-ending one if that one starts not before it.
    is_inner = np.ones(len(first), np.bool_)
    if len(first):
        is_inner[1:] = np.maximum.accumulate(first)[:-1] < first[1:]
    return Loops(first, last, is_inner)


def _windows(indexes: Indexes, size: int) -> list[tuple[int, int]]:
    """What is within a loop's length of any of them, in pieces that do not overlap."""
    if not len(indexes):
        return []
    cuts = np.flatnonzero(np.diff(indexes) > 2 * _MAX_WORDS) + 1
    starts = indexes[np.concatenate([[0], cuts])] - _MAX_WORDS
    ends = indexes[np.concatenate([cuts - 1, [len(indexes) - 1]])] + _MAX_WORDS + 1
    spans = zip(np.maximum(starts, 0).tolist(), np.minimum(ends, size).tolist(), strict=True)
    return list(spans)


def _back_edges(words: Words) -> tuple[Indexes, Indexes]:
    """(target, branch) of those that go back, by their branch."""
    target, at = _branches(words)
    back = (target < at) & (target >= at - _MAX_WORDS) & (target >= 0)
    return target[back], at[back]


def _branches(words: Words) -> tuple[Indexes, Indexes]:
    """(target, branch) of B, B.cond, CBZ, CBNZ, TBZ, TBNZ, by their branch."""
    is_b = (words & np.uint32(0xFC000000)) == 0x14000000
    is_cond = (words & np.uint32(0xFF000000)) == 0x54000000
    is_compare = (words & np.uint32(0x7E000000)) == 0x34000000
    is_test = (words & np.uint32(0x7E000000)) == 0x36000000
    at = np.flatnonzero(is_b | is_cond | is_compare | is_test)
    word = words[at]
    near = np.where(is_test[at], _signed(word, 5, 14), _signed(word, 5, 19))
    offset = np.where(is_b[at], _signed(word, 0, 26), near)
    return at + offset, at


def _signed(word: Words, low: int, bits: int) -> Indexes:
    value = (word >> np.uint32(low)).astype(np.int64) & ((1 << bits) - 1)
    return value - ((value >> (bits - 1)) << bits)


_NOP = 0xD503201F
# mask, value: UDF, B, BR, RET, BRK and HLT; after them execution goes elsewhere
_ENDS = ((0xFFFF0000, 0), (0xFC000000, 0x14000000), (0xFEFF0000, 0xD61F0000),
         (0xFFDF0000, 0xD65F0000), (0xFF80001F, 0xD4000000))  # fmt: skip


def is_reached(words: Words, index: int) -> bool:
    """Whether execution goes on from the word before, or a near branch goes there."""
    if _falls_into(words, index):
        return True
    start = max(0, index - _MAX_WORDS)
    target, _ = _branches(words[start : index + _MAX_WORDS])
    return bool((target + start == index).any())


def _falls_into(words: Words, index: int) -> bool:
    """NOPs that align are passed over."""
    before = index - 1
    while before >= 0 and words[before] == _NOP:
        before -= 1
    if before < 0:
        return False
    word = int(words[before])
    return not any(word & mask == value for mask, value in _ENDS)


def is_code(words: Words) -> bool:
    """Whether no word lies where A64's top level has nothing: bits 28 to 25 (DDI 0487, C4.1)."""
    group = (words >> np.uint32(25)) & np.uint32(15)
    reserved = (group == 1) | (group == 3) | ((group == 0) & ((words >> np.uint32(31)) == 0))
    return not bool(reserved.any())
