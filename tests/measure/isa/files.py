"""The fixtures as mappings, and libraries made from them."""

from __future__ import annotations

import mmap
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "isa"
SHOFF, SHNUM = slice(40, 48), slice(60, 62)  # e_shoff, e_shnum of an ELF64 header


def mapped(content: bytes) -> mmap.mmap:
    data = mmap.mmap(-1, len(content))
    data.write(content)
    data.seek(0)
    return data


def fixture(name: str) -> bytes:
    return (DATA / name).read_bytes()


def without_sections(content: bytes) -> bytes:
    """As sstrip leaves a file: only its segments are described."""
    changed = bytearray(content)
    changed[SHOFF], changed[SHNUM] = bytes(8), bytes(2)
    changed[62:64] = bytes(2)  # e_shstrndx
    return bytes(changed)
