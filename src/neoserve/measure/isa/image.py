"""ELF files: what is executable in them, and which functions they name.

pyelftools reads the headers; tables of hundreds of thousands of rows are numpy views of the file.
Layouts: System V ABI, "Object Files"; Linux Standard Base, "Exception Frames"; ELF for the Arm
64-bit Architecture, "Mapping symbols".
"""

from __future__ import annotations

import mmap
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

Symbols = npt.NDArray[np.void]


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
    sections = _executable(elf)
    if not sections:
        raise AskError(f"{name} holds no code (a separate file of debug data?); expected a library "
                       "or program")  # fmt: skip
    headers = {section.name: section for section in elf.iter_sections()}
    tables = []
    for title in (".symtab", ".dynsym"):
        if title in headers and headers[title]["sh_type"] != "SHT_NOBITS":
            strings = elf.get_section(headers[title]["sh_link"])
            tables.append(SymbolTable(
                title, _rows(data, headers[title], _SYMBOL),
                _rows(data, strings, np.dtype(np.uint8)),
            ))  # fmt: skip
    return Image(name, data, architecture, sections, tuple(tables), _unwind(elf, data))


def _machine(elf: ELFFile) -> str:
    bits, order = elf.elfclass, "" if elf.little_endian else ", big-endian"
    return f"{elf.get_machine_arch()} ({bits} bit{order})"


def _type(elf: ELFFile) -> str:
    kind = elf["e_type"]
    return {"ET_REL": "an object file", "ET_CORE": "a core dump"}.get(kind, f"of type {kind}")


def _check_whole(name: str, elf: ELFFile, size: int) -> None:
    """Everything that the headers speak of lies inside the file."""
    ends = [elf["e_phoff"] + elf["e_phnum"] * elf["e_phentsize"],
            elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]]  # fmt: skip
    if max(ends) <= size:
        ends += [s["p_offset"] + s["p_filesz"] for s in elf.iter_segments()]
        ends += [
            s["sh_offset"] + s["sh_size"]
            for s in elf.iter_sections()
            if s["sh_type"] not in ("SHT_NOBITS", "SHT_NULL")
        ]
    if max(ends) > size:
        raise AskError(f"{name} is truncated: its headers speak of {max(ends)} bytes, it has "
                       f"{size}; get the file again")  # fmt: skip


def _executable(elf: ELFFile) -> tuple[Section, ...]:
    """By sections; by segments where a file has none."""
    found = [
        Section(s.name, s["sh_addr"], s["sh_offset"], s["sh_size"])
        for s in elf.iter_sections()
        if s["sh_flags"] & _SHF_EXECINSTR and s["sh_type"] == "SHT_PROGBITS" and s["sh_size"]
    ]
    if not elf.num_sections():
        found = [
            Section("", s["p_vaddr"], s["p_offset"], s["p_filesz"])
            for s in elf.iter_segments()
            if s["p_type"] == "PT_LOAD" and s["p_flags"] & _PF_X and s["p_filesz"]
        ]
    return tuple(sorted(found, key=lambda section: section.address))


def _rows(data: mmap.mmap, header: Any, row: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(data, row, header["sh_size"] // row.itemsize, header["sh_offset"])


_ENCODED = b"\x01\x1b\x03\x3b"  # version, then how offsets are written; all linkers do it so
_TABLE = 12  # bytes before the table


def _unwind(elf: ELFFile, data: mmap.mmap) -> Unwind:
    """Starts by .eh_frame_hdr's search table, ends by the entries that it points at."""
    header, entries = map(elf.get_section_by_name, (".eh_frame_hdr", ".eh_frame"))
    none = np.zeros(0, np.int64)
    if header is None or header["sh_type"] == "SHT_NOBITS" or header["sh_size"] < _TABLE:
        return Unwind(none, none)
    at = header["sh_offset"]
    count = int.from_bytes(data[at + 8 : at + _TABLE], "little")
    if data[at : at + 4] != _ENCODED or count > (header["sh_size"] - _TABLE) // 8:
        return Unwind(none, none)
    table = np.frombuffer(data, "<i4", 2 * count, at + _TABLE).astype(np.int64)
    start, entry = (table.reshape(-1, 2) + header["sh_addr"]).T
    return Unwind(start, _ends(data, entries, start, entry))


def _ends(data: mmap.mmap, section: Any, start: Indexes, entry: Indexes) -> Indexes:
    """An entry is its length, its CIE, the start relative to this field, and the size."""
    if section is None or section["sh_type"] == "SHT_NOBITS":
        return start
    view = np.frombuffer(data, np.uint8, section["sh_size"], section["sh_offset"])
    offset = entry - section["sh_addr"]
    inside = (offset >= 0) & (offset + 16 <= len(view))
    offset = np.where(inside, offset, 0)
    begin, size = (_words_at(view, offset + i) for i in (8, 12))
    told = entry + 8 + (begin - ((begin >> 31) << 32))
    return np.where(inside & (told == start), start + size, start)


def _words_at(view: npt.NDArray[np.uint8], offset: Indexes) -> Indexes:
    parts = [view[offset + i].astype(np.int64) << (8 * i) for i in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]
