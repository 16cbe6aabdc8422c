"""ELF files, whole and not."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from shutil import which

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.isa import arm, x86
from neoserve.measure.isa.functions import functions
from neoserve.measure.isa.image import read_image

from .decoded import form_of
from .files import DATA, fixture, mapped, without_sections


def image(content: bytes):
    return read_image("lib.so", mapped(content))


def refusal(content: bytes) -> str:
    with pytest.raises(AskError) as found:
        image(content)
    assert str(found.value).startswith("lib.so ")
    return str(found.value)


def test_sections_and_symbols_are_those_that_pyelftools_reads() -> None:
    found = image(fixture("kernels.so"))
    with (DATA / "kernels.so").open("rb") as file:
        elf = ELFFile(file)
        text = elf.get_section_by_name(".text")
        assert found.architecture == "aarch64"
        assert [section.name for section in found.sections] == [".plt", ".text"]
        assert found.sections[1][1:] == (text["sh_addr"], text["sh_offset"], text["sh_size"])
        for table in found.tables:
            symbols = list(elf.get_section_by_name(table.name).iter_symbols())
            assert [table.text(i) for i in range(len(table.rows))] == [s.name for s in symbols]
            kai = [i for i, s in enumerate(symbols) if s.name.startswith("kai_")]
            assert table.starting(b"kai_").tolist() == kai
            assert len(kai) == 4
        named = {
            s["st_value"]: (s.name, s["st_value"] + s["st_size"])
            for s in elf.get_section_by_name(".symtab").iter_symbols()
            if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]
        }
    known = functions(found)
    for i, start in enumerate(known.start.tolist()):
        name = found.tables[known.table[i]].text(int(known.row[i]))
        if start in named:
            assert (name, int(known.end[i])) == named[start]
        else:  # without .size: to the end of its section
            assert (name, int(known.end[i])) == (
                "anonymous_loops",
                text["sh_addr"] + text["sh_size"],
            )
    assert len(named) == 6


def test_unwind_data_tells_functions_of_a_file_without_names() -> None:
    """Starts and sizes are those that pyelftools reads in the same entries."""
    found = image(fixture("kernels_bare.so"))
    with (DATA / "kernels_bare.so").open("rb") as file:
        headers = [
            entry.header
            for entry in ELFFile(file).get_dwarf_info().EH_CFI_entries()
            if isinstance(entry, FDE)
        ]
    ranges = {h["initial_location"]: h["initial_location"] + h["address_range"] for h in headers}
    known = functions(found)
    assert dict(zip(known.start.tolist(), known.end.tolist(), strict=True)) == ranges
    assert len(ranges) == 6
    assert set(known.table.tolist()) == {-1}


@pytest.mark.parametrize("name", ["kernels.so", "kernels_bare.so", "x86.so"])
def test_a_file_that_ends_early_is_never_read(name: str) -> None:
    content = fixture(name)
    for cut in [*range(1, 200), *range(200, len(content), 61), len(content) - 1]:
        said = refusal(content[:cut])
        assert "truncated" in said or "is no ELF file" in said, cut


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"%PDF-1.7 and more text\n", "it is text"),
        (b"#!/bin/sh\n", "it is a script"),
        (b"PK\x03\x04" + bytes(60), "it is a zip archive"),
        (b"MZ" + bytes(100), "it is for Windows"),
        (b"\xcf\xfa\xed\xfe" + bytes(100), "it is for macOS"),
        (b"!<arch>\n", "an archive of object files"),
        (bytes(1000), "data that starts with 00 00 00 00"),
        (b"\x7fELF", "truncated"),
        (b"\x7fELF" + bytes(100), "cannot be read"),
    ],
)
def test_what_is_no_elf_file(content: bytes, said: str) -> None:
    assert said in refusal(content)


def changed(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


@pytest.mark.parametrize(
    ("at", "new", "said"),
    [
        (18, b"\xf3\x00", "is for RISC-V (64 bit); expected code for aarch64 or x86-64"),
        (18, b"\x28\x00", "is for ARM (64 bit)"),
        (18, b"\xcd\xab", "is for"),
        (16, b"\x01\x00", "an object file"),
        (16, b"\x04\x00", "a core dump"),
    ],
)
def test_what_is_for_others(at: int, new: bytes, said: str) -> None:
    assert said in refusal(changed(fixture("kernels.so"), at, new))


def test_a_file_of_debug_data_holds_no_code() -> None:
    """All that is left of its sections is their size."""
    content = bytearray(fixture("kernels.so"))
    with (DATA / "kernels.so").open("rb") as file:
        elf = ELFFile(file)
        for i in range(elf.num_sections()):
            if elf.get_section(i)["sh_flags"] & 4:
                at = elf["e_shoff"] + i * elf["e_shentsize"] + 4
                content[at : at + 4] = (8).to_bytes(4, "little")  # SHT_NOBITS
    assert "holds no code" in refusal(bytes(content))


def field(section: str, offset: int) -> int:
    """Where in kernels.so a section's header has a field."""
    with (DATA / "kernels.so").open("rb") as file:
        elf = ELFFile(file)
        return elf["e_shoff"] + elf.get_section_index(section) * elf["e_shentsize"] + offset


def test_damaged_headers() -> None:
    content = fixture("kernels.so")
    assert "at addresses that no process has" in refusal(
        changed(content, field(".text", 16), b"\xff" * 8)
    )
    nameless = image(changed(content, field(".strtab", 32), bytes(8)))  # its size
    assert [table.name for table in nameless.tables] == [".dynsym"]
    assert "cannot be read (IndexError)" in refusal(
        changed(content, field(".symtab", 40), b"\xff" * 4)  # which section its names are in
    )
    # a symbol of a kernel at no address that a file can have
    at = content.index(image(content).tables[1].rows[1].tobytes())
    for only_named in (False, True):
        arm.inspect(image(changed(content, at + 8, b"\xff" * 8)), only_named=only_named)


def test_without_section_headers_the_segments_are_read() -> None:
    whole = arm.inspect(image(fixture("kernels_bare.so")))
    segments = arm.inspect(image(without_sections(fixture("kernels_bare.so"))))
    # headers and constants lie there, too, and two words of them look like a product
    assert segments.forms == whole.forms | {"bfmmla.z": 2}
    assert segments.scanned_bytes > whole.scanned_bytes
    assert {function.known_by for function in segments.functions} == {"cluster"}
    assert [v.verdict for v in segments.verdicts] == ["ABSENT"] * 3


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """Bytes of headers and tables changed: an AskError or an answer, never another error."""
    name = data.draw(st.sampled_from(["kernels.so", "kernels_bare.so", "x86.so"]))
    content = bytearray(fixture(name))
    # headers at both ends, dynamic symbols and unwind tables; code is in the middle
    place = st.one_of(st.integers(0, 0x460), st.integers(len(content) - 2200, len(content) - 1),
                      st.integers(0xC00, 0x1100))  # fmt: skip
    for at in data.draw(st.lists(place, min_size=1, max_size=4)):
        new = data.draw(st.sampled_from([b"\0", b"\xff", b"\x80", b"\x7f" * 4, b"\xff" * 8]))
        content[at : at + len(new)] = new[: len(content) - at]
    try:
        found = image(bytes(content))
    except AskError:
        return
    inspect = arm.inspect if found.architecture == "aarch64" else x86.inspect
    assert inspect(found).scanned_bytes <= len(content) * 16


@pytest.mark.parametrize("seed", range(20))
def test_random_code_under_real_names_fails(seed: int) -> None:
    """The symbols promise, the bytes do not keep it."""
    content = bytearray(fixture("kernels.so"))
    found = image(bytes(content))
    for section in found.sections:
        noise = random.Random(seed).randbytes(section.size)
        content[section.offset : section.offset + section.size] = noise
    verdicts = arm.inspect(image(bytes(content))).verdicts
    assert [verdict.verdict for verdict in verdicts] == ["FAIL"] * 3


def test_objdump_counts_the_same() -> None:
    program = which("aarch64-linux-gnu-objdump")
    if program is None:
        pytest.skip("aarch64-linux-gnu-objdump is not installed")
    # one is written as .word, which objdump shows as such
    for name, as_data in (("kernels.so", {"smmla.v": 1}), ("kernels_broken.so", {})):
        out = subprocess.run([program, "-d", "--no-show-raw-insn", "-M", "no-aliases", DATA / name],
                             capture_output=True, text=True, check=True).stdout  # fmt: skip
        lines = [line.split("\t") for line in out.splitlines() if "\t" in line]
        counts = Counter(form_of(line[1], [*line, ""][2]) for line in lines)
        del counts[""]
        assert arm.inspect(image(fixture(name))).forms == counts + Counter(as_data)
