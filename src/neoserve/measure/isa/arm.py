"""One AArch64 image: hits, the functions and loops around them, the kernels that names promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...schema.isa import PRECISIONS, IsaFunction, IsaLoop, IsaVerdict
from .encodings import PRODUCTS, Indexes, Words, macs, scan, tally
from .functions import Functions, KnownBy, Literals, clusters, functions, identity, literals
from .image import Image
from .loops import is_code, is_reached, loops_near
from .rules import PREFIXES, Promise, judge, kernels_of, promise_of


class Region(NamedTuple):
    """Words that are scanned together."""

    address: int
    words: Words


class Found(NamedTuple):
    """Of one image."""

    scanned_bytes: int
    num_functions: int
    forms: dict[str, int]
    in_inner_loops: dict[str, int]
    num_in_data: int
    functions: tuple[IsaFunction, ...]
    verdicts: tuple[IsaVerdict, ...]


class _Hits(NamedTuple):
    """Columns, in the order of addresses."""

    address: Indexes
    form: npt.NDArray[np.uint8]
    loop: Indexes  # index into the list of innermost loops; -1: in none


def inspect(image: Image, *, only_named: bool = False) -> Found:
    """Scan all executable sections, or only the functions whose names promise something."""
    rows, promised = _promised(image)
    known = functions(image, rows if only_named and _all_sized(image, rows) else None)
    regions = _named_regions(image, known, promised) if only_named else _regions(image)
    data = literals(image)
    scanned = [_scan(region, known, data) for region in regions]
    loops = [loop for _, found, _ in scanned for loop in found]
    hits = _joined([(hits, len(found)) for hits, found, _ in scanned])
    found = _functions(image, known, hits, loops)
    by_address = {function.address: function for function in found}
    named = [
        (promise, by_address.get(address) or IsaFunction("", address, 0, "symtab", {}))
        for address, promise in promised.items()
    ]
    unnamed = [function for function in found if function.address not in promised]
    verdicts = tuple(
        judge(p, kernels_of([n for n in named if n[0].precision == p]), unnamed) for p in PRECISIONS
    )
    return Found(
        sum(4 * len(region.words) for region in regions), len(known.start), tally(hits.form),
        tally(hits.form[hits.loop >= 0]), sum(in_literals for _, _, in_literals in scanned), found,
        verdicts,
    )  # fmt: skip


def _regions(image: Image) -> list[Region]:
    return [Region(s.address, _words(image, s.offset, s.size)) for s in image.sections]


def _words(image: Image, offset: int, size: int) -> Words:
    return np.frombuffer(image.data, "<u4", size // 4, offset)


def _promised(image: Image) -> tuple[list[Indexes], dict[int, Promise]]:
    """Rows of each table whose names promise something; address → what."""
    rows: list[Indexes] = []
    found: dict[int, Promise] = {}
    for table in image.tables:
        mine = []
        for row in np.concatenate([table.starting(prefix) for prefix in PREFIXES]).tolist():
            promise = promise_of(table.text(row))
            address = int(table.rows["value"][row])
            if promise is not None and any(
                section.address <= address < section.address + section.size
                for section in image.sections
            ):
                found.setdefault(address, promise)
                mine.append(row)
        rows.append(np.array(mine, np.int64))
    return rows, found


def _all_sized(image: Image, rows: Sequence[Indexes]) -> bool:
    """Or where a function ends is said by where the next one starts."""
    return all(bool(t.rows["size"][row].all()) for t, row in zip(image.tables, rows, strict=True))


def _named_regions(image: Image, known: Functions, promised: dict[int, Promise]) -> list[Region]:
    regions = []
    for index in np.unique(known.at(np.array(list(promised), np.int64))).tolist():
        start, end = int(known.start[index]), int(known.end[index])
        for section in image.sections:
            if index >= 0 and section.address <= start < section.address + section.size:
                offset = section.offset + start - section.address
                regions.append(Region(start, _words(image, offset, end - start)))
    return regions


def _scan(region: Region, known: Functions, data: Literals) -> tuple[_Hits, list[IsaLoop], int]:
    """Hits with their innermost loops, and how many words were literals that look like one."""
    index, form = scan(region.words)
    is_data = _are_literals(region, data.runs(region.address + 4 * index))
    index, form = index[~is_data], form[~is_data]
    around = loops_near(region.words, index, (known.start - region.address) // 4)
    inner, number = np.unique(around.inner_at(index), return_inverse=True)
    skipped = int(len(inner) > 0 and inner[0] < 0)  # the hits outside of innermost loops
    loops = []
    for i, inside in enumerate(_grouped(number, len(inner))):
        if i >= skipped:
            first, last = int(around.first[inner[i]]), int(around.last[inner[i]])
            words = region.words[first : last + 1]
            work = macs(region.words[index[inside]], form[inside])
            loops.append(IsaLoop(region.address + 4 * first, len(words), tally(form[inside]),
                                 int(work.sum()), is_code(words)))  # fmt: skip
    hits = _Hits(region.address + 4 * index, form, number.astype(np.int64) - skipped)
    return hits, loops, int(is_data.sum())


def _are_literals(region: Region, runs: Indexes) -> npt.NDArray[np.bool_]:
    """Data, unless execution reaches it: assembly writes instructions as .word, too, where its
    assembler may not know them (arm_gemm::a64_gemm_s8_8x12)."""
    is_data = runs >= 0
    for run in np.unique(runs[is_data]).tolist():
        if is_reached(region.words, (run - region.address) // 4):
            is_data &= runs != run
    return is_data


def _grouped(number: Indexes, count: int) -> list[Indexes]:
    """Places of each number from 0 to `count`."""
    if not count:
        return []
    order = np.argsort(number, kind="stable")
    return np.split(order, np.searchsorted(number[order], np.arange(1, count)))


def _joined(parts: Sequence[tuple[_Hits, int]]) -> _Hits:
    """Of several regions; loops are counted on."""
    address, form, loop = [np.zeros(0, np.int64)], [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
    before = 0
    for hits, num_loops in parts:
        address.append(hits.address)
        form.append(hits.form)
        loop.append(np.where(hits.loop >= 0, hits.loop + before, -1))
        before += num_loops
    return _Hits(np.concatenate(address), np.concatenate(form), np.concatenate(loop))


def _functions(
    image: Image, known: Functions, hits: _Hits, loops: Sequence[IsaLoop]
) -> tuple[IsaFunction, ...]:
    """Those that hold hits, most products first; what no function covers, by nearness."""
    owner = known.at(hits.address)
    alone = owner < 0
    owner[alone] = len(known.start) + clusters(hits.address[alone], known)
    present, number = np.unique(owner, return_inverse=True)
    found = []
    for i, inside in enumerate(_grouped(number, len(present))):
        of_loops = np.unique(hits.loop[inside])
        found.append(IsaFunction(
            *_identity(image, known, int(present[i]), hits.address[inside]),
            tally(hits.form[inside]),
            tuple(loops[loop] for loop in of_loops[of_loops >= 0].tolist()),
        ))  # fmt: skip
    return tuple(sorted(found, key=_fullest))


def _fullest(function: IsaFunction) -> tuple[int, int, int]:
    forms = function.forms
    num_products = sum(num for form, num in forms.items() if form in PRODUCTS)
    return -num_products, -sum(forms.values()), function.address


def _identity(
    image: Image, known: Functions, owner: int, addresses: Indexes
) -> tuple[str, int, int, KnownBy]:
    """As `identity`, also of a cluster."""
    if owner >= len(known.start):
        start, end = int(addresses[0]), int(addresses[-1]) + 4
        return f"cluster_{start:x}", start, end - start, "cluster"
    return identity(image, known, owner)
