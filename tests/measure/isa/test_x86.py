"""x86-64: what GNU objdump reads in the same bytes."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from shutil import which

import pytest

from neoserve.measure.isa import x86
from neoserve.measure.isa.image import Image, read_image
from neoserve.measure.isa.target import parts

from .files import DATA, fixture, mapped

FMA = re.compile(r"vfn?m(add|sub)+\d+p[sd]")
NAMED = re.compile(r"vpdp\w+|tdp\w+|vdpbf16ps|vcvtne2?ps2bf16[xy]?")


def form_of(mnemonic: str, operands: str) -> str:
    """By what objdump writes (AT&T: the destination is last)."""
    if NAMED.fullmatch(mnemonic):
        return mnemonic.rstrip("xy") if mnemonic.startswith("vcvt") else mnemonic
    width = operands.split("{")[0].rpartition("%")[2][:3]
    return f"fma.{width}" if FMA.fullmatch(mnemonic) and width in ("ymm", "zmm") else ""


def by_objdump(path: Path, start: int, end: int) -> dict[str, int]:
    program = which("objdump") or which("x86_64-linux-gnu-objdump")
    if program is None:
        pytest.skip("objdump is not installed")
    done = subprocess.run(
        [program, "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={end}",
         path], capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0 or "x86-64" not in done.stdout:
        pytest.skip(f"{program} does not read x86-64")
    counts: Counter[str] = Counter()
    for line in done.stdout.splitlines():
        if found := re.match(r"\s*[0-9a-f]+:\s+(?:\{\w+\} )?(\S+)\s*(.*)", line):
            counts[form_of(found[1], found[2].partition(" #")[0])] += 1
    del counts[""]
    return dict(counts)


def image() -> Image:
    return read_image("x86.so", mapped(fixture("x86.so")))


def test_each_function_is_counted() -> None:
    """As written in x86.S."""
    found = x86.inspect(image())
    assert {function.name: function.forms for function in found.functions} == {
        "vnni": {"vpdpbusd": 3, "vpdpbusds": 1, "vpdpwssd": 1},
        "amx": {"tdpbf16ps": 1, "tdpbssd": 1, "tdpbusd": 1},
        "bf16": {"vcvtne2ps2bf16": 1, "vcvtneps2bf16": 1, "vdpbf16ps": 2},
        "fma": {"fma.ymm": 2, "fma.zmm": 1},
    }
    assert (found.num_functions, found.num_undecoded) == (6, 0)
    assert all(function.loops == () for function in found.functions)


def test_objdump_reads_the_same() -> None:
    found = x86.inspect(image())
    (section,) = found.functions and image().sections
    assert by_objdump(DATA / "x86.so", section.address, section.address + section.size) == (
        found.forms
    )


def test_without_names_the_unwind_table_gives_the_ranges(tmp_path: Path) -> None:
    stripped = tmp_path / "x86.so"
    program = which("strip") or "strip"
    done = subprocess.run([program, "-o", stripped, DATA / "x86.so"], capture_output=True,
                          check=False)  # fmt: skip
    if done.returncode != 0:
        pytest.skip("no strip for x86-64 here")
    # exported names stay in .dynsym; they are taken away by hand
    whole = read_image("x86.so", mapped(stripped.read_bytes()))
    bare = whole._replace(tables=())
    assert x86.inspect(bare).forms == x86.inspect(whole).forms
    nothing = bare._replace(unwind=type(bare.unwind)(bare.unwind.start[:0], bare.unwind.end[:0]))
    found = x86.inspect(nothing)
    assert (found.forms, found.functions) == ({}, ())
    assert found.num_undecoded >= sum(x86.inspect(whole).forms.values())  # said, not guessed


def test_a_real_library_as_objdump_reads_it() -> None:
    """The embedded engine's: its five fullest functions, each from its start to its end."""
    (part,) = parts("package", "xllamacpp")
    assert part.data is not None
    real = read_image(part.name, part.data)
    if real.architecture != "x86_64":
        pytest.skip("the embedded engine here is for another architecture")
    found = x86.inspect(real)
    assert found.functions
    import xllamacpp

    path = Path(xllamacpp.__file__).with_name("xllamacpp.abi3.so")
    for function in found.functions[:5]:
        end = function.address + function.size_bytes
        assert by_objdump(path, function.address, end) == function.forms
