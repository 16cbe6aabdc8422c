"""IsaReport: which dot and matrix products a binary holds, and what its kernels promise."""

from __future__ import annotations

from typing import Literal

from .base import Document

Verdict = Literal["PASS", "FAIL", "ABSENT"]
PRECISIONS = ("w4a8", "w8a8", "bf16")


class IsaLoop(Document, frozen=True):
    """An innermost loop that holds some of the instructions."""

    address: int
    num_instructions: int
    forms: dict[str, int]  # smmla.v → how many in one pass
    macs: int  # multiply-accumulates in one pass, at vectors of 128 bits
    is_code: bool  # every word of it is in an allocated group of A64


class IsaFunction(Document, frozen=True):
    """A function that holds some of the instructions."""

    name: str  # as in the file; made from the address where the file names none
    address: int
    size_bytes: int
    known_by: Literal["symtab", "dynsym", "eh_frame", "cluster"]
    forms: dict[str, int]
    loops: tuple[IsaLoop, ...] = ()  # innermost ones; of AArch64 alone


class IsaKernel(Document, frozen=True):
    """A kernel whose name says its precision, and so what it has to be made of."""

    name: str
    technique: str
    needs: tuple[str, ...]  # any of these forms, in an innermost loop
    carries: bool | None  # null: not judged, there is no encoding here for what it needs
    found: dict[str, int]  # of the needed forms, in its fullest innermost loop
    loop_instructions: int  # of that loop; 0: there is none


class IsaVerdict(Document, frozen=True):
    """One precision in one binary."""

    precision: str
    verdict: Verdict
    reason: str  # a sentence
    kernels: tuple[IsaKernel, ...] = ()


class IsaBinary(Document, frozen=True, kw_only=True):
    """One ELF file."""

    name: str  # path, or the member of a wheel
    sha256: str
    size_bytes: int
    architecture: Literal["aarch64", "x86_64"]
    code_bytes: int  # of its executable sections
    scanned_bytes: int  # of them; less where only named kernels were asked for
    num_functions: int  # that its symbols or unwind table know
    is_stripped: bool  # no .symtab: names of exported functions are left at most
    forms: dict[str, int]
    in_inner_loops: dict[str, int]  # of them; AArch64 alone
    num_in_data: int = 0  # words that look like one, in what .symtab says is data; not counted
    num_undecoded: int = 0  # places that look like one in no known function; of x86-64 alone
    functions: tuple[IsaFunction, ...] = ()
    verdicts: tuple[IsaVerdict, ...] = ()  # AArch64 alone


class IsaSkipped(Document, frozen=True):
    """A part of the target that was not read."""

    name: str
    reason: str


# Version history: 1, first.
class IsaReport(Document, frozen=True, kw_only=True):
    """What a file, wheel, package or process holds. That it is there does not say that it ran."""

    schema: str = "neoserve/isa/1"
    basis: str = "measured"
    shows: Literal["presence"] = "presence"  # never execution
    target: str
    kind: Literal["file", "wheel", "package", "process"]
    precision: str = ""  # that was asked for; "": none
    verdict: Verdict | None = None  # null: no precision was asked for
    reason: str = ""
    binaries: tuple[IsaBinary, ...]
    skipped: tuple[IsaSkipped, ...] = ()
