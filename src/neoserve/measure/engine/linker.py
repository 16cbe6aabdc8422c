"""Whose malloc a running process calls, as its dynamic linker has decided it.

Neither the mapped files nor the environment say so: a mapped library may have been opened later
or define no malloc, and programs that set their own title (vLLM's workers) overwrite the
environment that /proc shows. The linker's own list is read from the process's memory, which the
kernel lets a process do with its descendants.

Layouts: System V ABI, "Object Files" and "Dynamic Linking"; glibc's link.h, and musl's, which is
the same. 64-bit little-endian, as all hosts of today's engines are.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

_AT_PHDR, _AT_PHNUM = 3, 5
_PT_DYNAMIC, _PT_PHDR = 2, 6
_DT_NULL, _DT_DEBUG = 0, 21
_SHT_DYNSYM = 11
_MAX_LIBRARIES = 4096

# A file that is gone is known by its name alone.
_ALLOCATORS = ("tcmalloc", "jemalloc", "mimalloc", "rpmalloc", "hoard", "scudo", "snmalloc")


def allocator(pid: int) -> str:
    """The first library in the linker's order that defines malloc; "" where that is unreadable.

    "glibc" and "musl" for the C libraries, otherwise the file's name.
    """
    for path in loaded(pid):
        if defines_malloc(path):
            return _short(path)
    return ""


def loaded(pid: int) -> list[str]:
    """The program and its libraries in the order in which symbols are looked up.

    Empty where the process has ended, is linked statically, or may not be read.
    """
    try:
        auxv = dict(struct.iter_unpack("<QQ", Path(f"/proc/{pid}/auxv").read_bytes()))
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            names = _link_map(memory, auxv[_AT_PHDR], auxv[_AT_PHNUM])
        names = [os.readlink(f"/proc/{pid}/exe"), *names[1:]] if names else []
    except (OSError, KeyError, ValueError, struct.error):
        return []
    return [os.path.realpath(name) for name in names if name.startswith("/")]


def _link_map(memory: BinaryIO, headers: int, count: int) -> list[str]:
    """Names of the linker's list; the program's own is empty."""
    bias, dynamic = 0, 0
    for kind, _, _, address, _, _, _, _ in struct.iter_unpack(
        "<IIQQQQQQ", _at(memory, headers, 56 * count)
    ):
        if kind == _PT_PHDR:
            bias = headers - address
        elif kind == _PT_DYNAMIC:
            dynamic = address
    node = _first_node(memory, bias + dynamic) if dynamic else 0
    names: list[str] = []
    while node and len(names) < _MAX_LIBRARIES:
        _, name, _, node = struct.unpack("<QQQQ", _at(memory, node, 32))  # l_addr … l_next
        names.append(_string(memory, name))
    return names


def _first_node(memory: BinaryIO, address: int) -> int:
    """By DT_DEBUG, which holds the address of r_debug: its version, then the list's head."""
    while True:
        tag, value = struct.unpack("<qQ", _at(memory, address, 16))
        if tag == _DT_DEBUG and value:
            return int(struct.unpack("<Q", _at(memory, value + 8, 8))[0])
        if tag == _DT_NULL:
            return 0
        address += 16


def _at(memory: BinaryIO, address: int, size: int) -> bytes:
    memory.seek(address)
    return memory.read(size)


def _string(memory: BinaryIO, address: int) -> str:
    found = b""
    while b"\0" not in found and len(found) < 4096:
        part = _at(memory, address + len(found), 64 - (address + len(found)) % 64)
        if not part:
            break
        found += part
    return found.partition(b"\0")[0].decode(errors="replace")


@functools.lru_cache(maxsize=1024)
def defines_malloc(path: str) -> bool:
    """Whether this ELF file has a malloc for others; by its name where it cannot be read."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data[:6] == b"\x7fELF\x02\x01" and _has_malloc(data)
    except (OSError, ValueError, struct.error, IndexError):
        return any(name in Path(path).name for name in _ALLOCATORS)


class _Section(NamedTuple):
    kind: int
    start: int
    size: int
    link: int


def _has_malloc(data: mmap.mmap) -> bool:
    sections = _sections(data)
    for symbols in sections:
        if symbols.kind != _SHT_DYNSYM:
            continue
        strings = sections[symbols.link]
        names = data[strings.start : strings.start + strings.size]
        if b"malloc\0" not in names:  # also as the tail of a longer name
            return False
        table = data[symbols.start : symbols.start + symbols.size]
        # name, info, other, section (0: undefined), value, size
        return any(
            section and names.startswith(b"malloc\0", name)
            for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", table)
        )
    return False


def _sections(data: mmap.mmap) -> list[_Section]:
    (offset,) = struct.unpack_from("<Q", data, 40)  # e_shoff
    entry_bytes, count = struct.unpack_from("<HH", data, 58)
    found = []
    for i in range(count):
        at = offset + i * entry_bytes
        _, kind, _, _, start, size, link = struct.unpack_from("<IIQQQQI", data, at)
        found.append(_Section(kind, start, size, link))
    return found


def _short(path: str) -> str:
    name = Path(path).name
    if name.startswith(("libc.so", "libc-2")):
        return "glibc"
    return "musl" if name.startswith(("ld-musl", "libc.musl")) else name
