"""Which libraries an ELF file asks for, and whether it defines malloc.

Layout: System V ABI, "Object Files"; 64-bit little-endian, as all hosts of today's engines are.
"""

from __future__ import annotations

import functools
import mmap
import struct
from typing import NamedTuple

_SHT_STRTAB, _SHT_DYNAMIC, _SHT_DYNSYM = 3, 6, 11
_DT_NEEDED, _DT_SONAME = 1, 14


class Library(NamedTuple):
    """What the dynamic linker needs to know of a file."""

    soname: str
    needed: tuple[str, ...]
    has_malloc: bool


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


@functools.lru_cache(maxsize=1024)
def read_library(path: str) -> Library | None:
    """None where the file cannot be read, or is none of this kind."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _read(data) if data[:6] == b"\x7fELF\x02\x01" else None
    except (OSError, ValueError, struct.error, IndexError):
        return None


def _read(data: mmap.mmap) -> Library:
    sections = _sections(data)
    soname, needed = "", []
    has_malloc = False
    for section in sections:
        strings = sections[section.link].offset if section.link < len(sections) else 0
        if section.kind == _SHT_DYNAMIC:
            for tag, value in _pairs(data, section):
                if tag == _DT_NEEDED:
                    needed.append(_text(data, strings + value))
                elif tag == _DT_SONAME:
                    soname = _text(data, strings + value)
        elif section.kind == _SHT_DYNSYM:
            has_malloc = _defines_malloc(data, section, sections[section.link])
    return Library(soname, tuple(needed), has_malloc)


def _sections(data: mmap.mmap) -> list[_Section]:
    offset, = struct.unpack_from("<Q", data, 40)  # e_shoff
    entry_bytes, count = struct.unpack_from("<HH", data, 58)
    found = []
    for i in range(count):
        _, kind, _, _, start, size, link = struct.unpack_from("<IIQQQQI", data,
                                                              offset + i * entry_bytes)  # fmt: skip
        found.append(_Section(kind, start, size, link))
    return found


def _pairs(data: mmap.mmap, section: _Section) -> list[tuple[int, int]]:
    return list(struct.iter_unpack("<qQ", data[section.offset : section.offset + section.size]))


def _defines_malloc(data: mmap.mmap, symbols: _Section, strings: _Section) -> bool:
    names = data[strings.offset : strings.offset + strings.size]
    if b"malloc\0" not in names:  # also as the tail of a longer name
        return False
    table = data[symbols.offset : symbols.offset + symbols.size]
    # name, info, other, section (0: undefined), value, size
    return any(
        section and names.startswith(b"malloc\0", name)
        for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", table)
    )


def _text(data: mmap.mmap, offset: int) -> str:
    return data[offset : data.find(b"\0", offset)].decode(errors="replace")
