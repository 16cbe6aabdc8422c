"""ELF files: what is executable in them, and which functions they name.

pyelftools reads the headers; tables of hundreds of thousands of rows are numpy views of the file.
Layouts: System V ABI, "Object Files"; Linux Standard Base, "Exception Frames"; ELF for the Arm
64-bit Architecture, "Mapping symbols".
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile

from ...errors import AskError
from .encodings import Indexes

_SHF_EXECINSTR, _PF_X = 4, 1
_HEADER_BYTES = 64
_ARCHITECTURES = {"EM_AARCH64": "aarch64", "EM_X86_64": "x86_64"}
_KINDS = {"ET_EXEC", "ET_DYN"}
_STARTS = {
    b"PK\x03\x04": "a zip archive", b"!<arch>\n": "an archive of object files",
    b"MZ": "for Windows", b"\xcf\xfa\xed\xfe": "for macOS", b"\xca\xfe\xba\xbe": "for macOS",
    b"\x1f\x8b": "gzip data", b"#!": "a script",
}  # fmt: skip
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip

_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
    ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("row_bytes", "<u8"),
])  # fmt: skip
_NULL, _PROGBITS, _NOBITS = 0, 1, 8
_MAX_ADDRESS = 1 << 52  # of user space, on both architectures at their widest

Symbols = npt.NDArray[np.void]


class Header(NamedTuple):
    """What a section header says."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


class Section(NamedTuple):
    """Executable bytes: where in memory, where in the file."""

    name: str
    address: int
    offset: int
    size: int


class SymbolTable(NamedTuple):
    """Rows of _SYMBOL and the bytes that their names are in."""

    name: str  # of its section: .symtab or .dynsym
    rows: Symbols
    strings: npt.NDArray[np.uint8]

    def text(self, row: int) -> str:
        """The name of a symbol."""
        start = int(self.rows["name"][row])
        strings = self.strings[start : start + 4096].tobytes()
        return strings.partition(b"\0")[0].decode(errors="replace")

    def starting(self, prefix: bytes) -> Indexes:
        """Rows whose names start so; no name is read for the others."""
        found = np.arange(len(self.rows), dtype=np.int64)
        for i, byte in enumerate(prefix):
            at = self.rows["name"][found].astype(np.int64) + i
            inside = at < len(self.strings)
            found, at = found[inside], at[inside]
            found = found[self.strings[at] == byte]
        return found


class Unwind(NamedTuple):
    """Ranges of functions by .eh_frame, ascending; assembly often has none there."""

    start: Indexes
    end: Indexes  # the start itself where it is not said


class Image(NamedTuple):
    """One ELF file."""

    name: str
    data: mmap.mmap
    architecture: str
    sections: tuple[Section, ...]
    tables: tuple[SymbolTable, ...]
    unwind: Unwind

    def bytes_of(self, section: Section) -> npt.NDArray[np.uint8]:
        """A view of the file."""
        return np.frombuffer(self.data, np.uint8, section.size, section.offset)


def read_image(name: str, data: mmap.mmap) -> Image:
    """Raises AskError where this is no whole ELF file of code for aarch64 or x86-64."""
    if data[:4] != b"\x7fELF":
        raise AskError(f"{name} is no ELF file: it is {_kind(data[:512])}; expected a library or "
                       "program for Linux")  # fmt: skip
    try:
        return _read(name, data)
    except (ELFError, ConstructError, ValueError, KeyError, IndexError, OverflowError,
            AttributeError, TypeError, UnicodeDecodeError) as error:  # fmt: skip
        # pyelftools trusts offsets; a mapping refuses to seek beyond its end by ValueError
        raise AskError(f"{name} is truncated or damaged: its ELF headers cannot be read "
                       f"({type(error).__name__}); get the file again") from None  # fmt: skip


def _kind(start: bytes) -> str:
    for magic, kind in _STARTS.items():
        if start.startswith(magic):
            return kind
    if start.isascii() and not any(byte < 7 for byte in start):
        return "text"
    return f"data that starts with {start[:4].hex(' ')}"


def _read(name: str, data: mmap.mmap) -> Image:
    size = len(data)
    if size < _HEADER_BYTES:
        raise AskError(f"{name} is truncated: {size} bytes hold no ELF header; get the file again")
    elf = ELFFile(cast(IO[bytes], data))
    architecture = _ARCHITECTURES.get(str(elf["e_machine"]), "")
    if elf.elfclass != 64 or not elf.little_endian or not architecture:
        raise AskError(f"{name} is for {_machine(elf)}; expected code for aarch64 or x86-64")
    if elf["e_type"] not in _KINDS:
        raise AskError(f"{name} is no program or library but {_type(elf)}; expected what a linker "
                       "or compiler made to run")  # fmt: skip
    _check_whole(name, elf, size)
    headers = _headers(elf, data)
    present = (h.offset + h.size for h in headers if h.kind not in (_NOBITS, _NULL))
    _refuse_beyond(name, max(present, default=0), size)
    sections = _executable(elf, headers)
    if not sections:
        raise AskError(f"{name} holds no code (a separate file of debug data?); expected a library "
                       "or program")  # fmt: skip
    if any(section.address + section.size > _MAX_ADDRESS for section in sections):
        raise AskError(f"{name} is damaged: it has code at addresses that no process has; get the "
                       "file again")  # fmt: skip
    by_name = {header.name: header for header in headers if header.kind != _NOBITS}
    tables = tuple(
        SymbolTable(
            title,
            _rows(data, by_name[title], _SYMBOL),
            _rows(data, headers[by_name[title].link], np.dtype(np.uint8)),
        )
        for title in (".symtab", ".dynsym")
        if title in by_name and headers[by_name[title].link].size
    )
    return Image(name, data, architecture, sections, tables, _unwind(by_name, data))


def _machine(elf: ELFFile) -> str:
    bits, order = elf.elfclass, "" if elf.little_endian else ", big-endian"
    return f"{elf.get_machine_arch()} ({bits} bit{order})"


def _type(elf: ELFFile) -> str:
    kind = elf["e_type"]
    return {"ET_REL": "an object file", "ET_CORE": "a core dump"}.get(kind, f"of type {kind}")


def _check_whole(name: str, elf: ELFFile, size: int) -> None:
    """The tables of headers, and the segments, lie inside the file."""
    end = max(elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"],
              elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"])  # fmt: skip
    if end <= size:
        end = max((s["p_offset"] + s["p_filesz"] for s in elf.iter_segments()), default=0)
    _refuse_beyond(name, end, size)


def _headers(elf: ELFFile, data: mmap.mmap) -> list[Header]:
    """By numpy: pyelftools reads the hash tables of symbols with them, a tenth of a second."""
    count = elf.num_sections()
    if not count:
        return []
    rows = np.frombuffer(data, _SECTION, count, elf["e_shoff"])
    names = rows[elf.get_shstrndx()]
    start, end = int(names["offset"]), int(names["offset"]) + int(names["size"])
    found = []
    for name, kind, flags, address, offset, size, link, *_ in rows.tolist():
        title = data[start + name : min(end, start + name + 256)].partition(b"\0")[0]
        found.append(
            Header(title.decode(errors="replace"), kind, flags, address, offset, size, link)
        )
    return found


def _refuse_beyond(name: str, end: int, size: int) -> None:
    if end > size:
        raise AskError(f"{name} is truncated: its headers speak of {end} bytes, it has {size}; get "
                       "the file again")  # fmt: skip


def _executable(elf: ELFFile, headers: Sequence[Header]) -> tuple[Section, ...]:
    """By sections; by segments where a file has none."""
    found = [
        Section(h.name, h.address, h.offset, h.size)
        for h in headers
        if h.flags & _SHF_EXECINSTR and h.kind == _PROGBITS and h.size
    ]
    if not headers:
        found = [
            Section("", s["p_vaddr"], s["p_offset"], s["p_filesz"])
            for s in elf.iter_segments()
            if s["p_type"] == "PT_LOAD" and s["p_flags"] & _PF_X and s["p_filesz"]
        ]
    return tuple(sorted(found, key=lambda section: section.address))


def _rows(data: mmap.mmap, header: Header, row: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(data, row, header.size // row.itemsize, header.offset)


_ENCODED = b"\x01\x1b\x03\x3b"  # version, then how offsets are written; all linkers do it so
_TABLE = 12  # bytes before the table


def _unwind(by_name: Mapping[str, Header], data: mmap.mmap) -> Unwind:
    """Starts by .eh_frame_hdr's search table, ends by the entries that it points at."""
    header, entries = by_name.get(".eh_frame_hdr"), by_name.get(".eh_frame")
    none = np.zeros(0, np.int64)
    if header is None or header.size < _TABLE:
        return Unwind(none, none)
    at = header.offset
    count = int.from_bytes(data[at + 8 : at + _TABLE], "little")
    if data[at : at + 4] != _ENCODED or count > (header.size - _TABLE) // 8:
        return Unwind(none, none)
    table = np.frombuffer(data, "<i4", 2 * count, at + _TABLE).astype(np.int64)
    start, entry = (table.reshape(-1, 2) + header.address).T
    return Unwind(start, _ends(data, entries, start, entry))


def _ends(data: mmap.mmap, section: Header | None, start: Indexes, entry: Indexes) -> Indexes:
    """An entry is its length, its CIE, the start relative to this field, and the size."""
    if section is None:
        return start
    view = np.frombuffer(data, np.uint8, section.size, section.offset)
    offset = entry - section.address
    inside = (offset >= 0) & (offset + 16 <= len(view))
    offset = np.where(inside, offset, 0)
    begin, size = (_words_at(view, offset + i) for i in (8, 12))
    told = entry + 8 + (begin - ((begin >> 31) << 32))
    return np.where(inside & (told == start), start + size, start)


def _words_at(view: npt.NDArray[np.uint8], offset: Indexes) -> Indexes:
    parts = [view[offset + i].astype(np.int64) << (8 * i) for i in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]
