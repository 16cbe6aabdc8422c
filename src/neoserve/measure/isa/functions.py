"""Which function an address belongs to: by symbols, unwind tables, or nearness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .encodings import Indexes
from .image import Image, SymbolTable

_FUNC, _IFUNC, _NOTYPE, _LOCAL = 2, 10, 0, 0
_GAP_BYTES = 4 * 512  # instructions further apart than this are of different unnamed kernels
_DOLLAR, _D, _X = b"$dx"


KnownBy = Literal["symtab", "dynsym", "eh_frame", "cluster"]


class Functions(NamedTuple):
    """Ranges of addresses, ascending; none overlaps the next."""

    start: Indexes
    end: Indexes
    table: Indexes  # index into Image.tables; -1: known by unwind data
    row: Indexes  # of the symbol

    def at(self, addresses: Indexes) -> Indexes:
        """Index of the function at each address, -1 where none is known."""
        if not len(self.start):
            return np.full(len(addresses), -1, np.int64)
        found = np.searchsorted(self.start, addresses, "right") - 1
        return np.where((found >= 0) & (addresses < self.end[found]), found, -1)


def functions(image: Image, chosen: Sequence[Indexes] | None = None) -> Functions:
    """Named ones first; between them those that only the unwind table knows.

    `chosen` are rows of each table, to know no others.
    """
    unwind = image.unwind.start if chosen is None else image.unwind.start[:0]
    starts, ends = [unwind], [image.unwind.end[: len(unwind)]]
    tables, rows = [np.full(len(unwind), -1, np.int64)], [np.full(len(unwind), -1, np.int64)]
    for i, table in enumerate(image.tables):
        row = _code_symbols(image, table) if chosen is None else chosen[i]
        starts.append(table.rows["value"][row].astype(np.int64))
        ends.append(starts[-1] + table.rows["size"][row].astype(np.int64))
        tables.append(np.full(len(row), i, np.int64))
        rows.append(row)
    start, end = np.concatenate(starts), np.concatenate(ends)
    table_of, row_of = np.concatenate(tables), np.concatenate(rows)
    # Of several at one address the first: names before none, .symtab before .dynsym, sized first.
    # One key sorts in a third of the time of three; addresses have at most 52 bits.
    rank = 2 * np.where(table_of < 0, len(image.tables), table_of) + (end == start)
    order = np.argsort(8 * start + rank)
    order = order[_kept(start[order], end[order])]
    start, end = start[order], end[order]
    return Functions(start, _ends(image, start, end), table_of[order], row_of[order])


def identity(image: Image, known: Functions, i: int) -> tuple[str, int, int, KnownBy]:
    """Name, address, size in bytes, and how it is known."""
    start, end = int(known.start[i]), int(known.end[i])
    if known.table[i] < 0:
        return f"sub_{start:x}", start, end - start, "eh_frame"
    table = image.tables[known.table[i]]
    known_by = cast(KnownBy, table.name.removeprefix("."))
    return table.text(int(known.row[i])), start, end - start, known_by


def _kept(start: Indexes, end: Indexes) -> npt.NDArray[np.bool_]:
    """The first at each address; and no label without a size inside what has one."""
    kept = np.ones(len(start), np.bool_)
    reach = np.maximum.accumulate(end)[:-1]
    kept[1:] = (start[1:] != start[:-1]) & ((end[1:] > start[1:]) | (start[1:] >= reach))
    return kept


def _ends(image: Image, start: Indexes, end: Indexes) -> Indexes:
    """Without a size a function goes on to the next one, or to the end of its section."""
    if not len(start):
        return end
    section_starts = np.array([s.address for s in image.sections], np.int64)
    section_ends = np.array([s.address + s.size for s in image.sections], np.int64)
    limit = section_ends[np.maximum(np.searchsorted(section_starts, start, "right") - 1, 0)]
    limit[:-1] = np.minimum(limit[:-1], start[1:])
    return np.where(end > start, np.minimum(end, limit), limit)


def _code_symbols(image: Image, table: SymbolTable) -> Indexes:
    """Functions, and what assembly exports without a type; in an executable section.

    Its local labels are within functions.
    """
    rows = table.rows
    kind, binding = rows["info"] & 15, rows["info"] >> 4
    is_code = (kind == _FUNC) | (kind == _IFUNC) | ((kind == _NOTYPE) & (binding != _LOCAL))
    found = np.flatnonzero(is_code & (rows["section"] != 0))
    value = rows["value"][found]
    inside = np.zeros(len(found), np.bool_)
    for section in image.sections:
        inside |= (value >= section.address) & (value < section.address + section.size)
    found = found[inside]
    return np.asarray(found[_byte(table, found, 0) != _DOLLAR], np.int64)


def _byte(table: SymbolTable, rows: Indexes, i: int) -> Indexes:
    at = np.minimum(table.rows["name"][rows].astype(np.int64) + i, len(table.strings) - 1)
    return table.strings[at].astype(np.int64)


class Literals(NamedTuple):
    """Where data begins and ends within code, by .symtab's mapping symbols: $d and $x."""

    place: Indexes  # ascending
    is_data: npt.NDArray[np.bool_]

    def runs(self, addresses: Indexes) -> Indexes:
        """The start of the data that each address lies in, -1 where none is said to be."""
        if not len(self.place):
            return np.full(len(addresses), -1, np.int64)
        found = np.maximum(np.searchsorted(self.place, addresses, "right") - 1, 0)
        is_data = self.is_data[found] & (self.place[found] <= addresses)
        return np.where(is_data, self.place[found], -1)


def literals(image: Image) -> Literals:
    """Of the first table that has mapping symbols."""
    for table in image.tables:
        rows = np.flatnonzero(table.rows["section"] != 0)
        rows = rows[_byte(table, rows, 0) == _DOLLAR]
        letter = _byte(table, rows, 1)
        rows = rows[((letter == _D) | (letter == _X)) & np.isin(_byte(table, rows, 2), (0, 46))]
        if len(rows):
            place = table.rows["value"][rows].astype(np.int64)
            is_data = _byte(table, rows, 1) == _D
            order = np.lexsort((is_data, place))
            return Literals(place[order], is_data[order])
    return Literals(np.zeros(0, np.int64), np.zeros(0, np.bool_))


def clusters(addresses: Indexes, known: Functions) -> Indexes:
    """Of each of these ascending addresses the number of its cluster, from 0: no far gap, and no
    known function between."""
    if not len(addresses):
        return addresses
    before = np.searchsorted(known.start, addresses)
    is_new = (np.diff(addresses) > _GAP_BYTES) | (np.diff(before) > 0)
    return np.concatenate([[0], np.cumsum(is_new)])
