"""`neoserve isa`: exit codes, the document, the sentence on presence."""

from __future__ import annotations

import importlib.util
import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from neoserve.faces.isa import readable

from .conftest import Cli

DATA = Path(__file__).parents[1] / "data" / "isa"
KERNELS, BROKEN, BARE = (
    str(DATA / f"{name}.so") for name in ("kernels", "kernels_broken", "kernels_bare")
)
X86 = str(DATA / "x86.so")
PRESENT = "Present is not executed: this says what the files hold, not what has run."


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((KERNELS,), 0, "W4A8 PASS: 2 of 2 W4A8 kernels hold sdot or smmla in an innermost loop"),
        ((BROKEN,), 0, "W4A8 FAIL"),  # nothing was asked for
        ((KERNELS, "--precision", "w4a8"), 0, "PASS for W4A8: 2 of 2"),
        ((KERNELS, "--precision", "bf16", "--kernels"), 0, "PASS for BF16: 1 of 1"),
        ((BROKEN, "--precision", "w8a8"), 1, "FAIL for W8A8: 1 of 1 W8A8 kernels are without what "
         "their names promise: arm_gemm::a64_interleaved_s8s32_mmla_8x12."),
        ((BARE, "--precision", "w4a8"), 1, "ABSENT for W4A8: no kernel is named as one"),
        ((X86,), 0, "vpdpbusd            3"),
    ],
)  # fmt: skip
def test_exit_codes(cli: Cli, words: tuple[str, ...], code: int, said: str) -> None:
    found = cli("isa", *words)
    assert (found.code, found.err) == (code, "")
    assert said in " ".join(found.out.split("\n  ")).replace("\n", " ") or said in found.out
    assert PRESENT in found.out
    assert all(len(line) <= 100 for line in found.out.splitlines() if str(DATA) not in line)


def test_present_is_never_called_executed(cli: Cli) -> None:
    for name in (KERNELS, BROKEN, BARE, X86):
        text = cli("isa", name).out.replace(PRESENT, "")
        assert "execut" not in text
        assert " run" not in text.replace("kai_run", "")
        document = cli("isa", name, "--json")
        assert document.document["shows"] == "presence"
        assert "execut" not in document.out


def test_the_document(cli: Cli) -> None:
    found = cli("isa", KERNELS, "--json", "--precision", "w4a8").document
    assert (found["schema"], found["verdict"], found["kind"]) == ("neoserve/isa/1", "PASS", "file")
    (binary,) = found["binaries"]
    kernels = binary["verdicts"][0]["kernels"]
    assert [(k["name"], k["found"], k["loop_instructions"]) for k in kernels] == [
        ("matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm", {"smmla.v": 8}, 14),
        ("matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod",
         {"sdot.v": 3, "sdot.e": 1}, 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no/such/lib.so",), "No such file"),
        (("no-such-package",), "neither a file nor an installed package"),
        ((str(DATA),), "a folder"),
        (("/dev/null",), "no regular file"),
        ((str(DATA / "make.sh"),), "it is a script"),
        ((str(DATA / "encodings.txt"),), "it is text"),
        ((X86, "--precision", "w4a8"), "is for x86_64; --precision w4a8 is about kernels for"),
        ((X86, "--kernels"), "is for x86_64; --kernels is about"),
        ((KERNELS, "--precision", "w2a2"), "invalid choice"),
        ((KERNELS, "--pid", "1"), "give one target"),
        ((), "give one target"),
        (("--pid", "999999999"), "cannot be looked into"),
        (("--pid", "-5"), "--pid"),
    ],
)
def test_bad_asks(refused: Callable[..., str], words: tuple[str, ...], said: str) -> None:
    assert said in refused("isa", *words)


def test_files_that_are_no_binaries(refused: Callable[..., str], tmp_path: Path) -> None:
    whole = Path(KERNELS).read_bytes()
    contents = {
        "empty": (b"", "is empty"), "cut": (whole[: len(whole) // 2], "is truncated"),
        "random": (b"\x9f" + random.Random(0).randbytes(100_000), "is no ELF file"),
        "text": (b"smmla v0.4s, v1.16b, v2.16b kai_matmul\n" * 50, "it is text"),
    }  # fmt: skip
    for name, (content, said) in contents.items():
        (tmp_path / name).write_bytes(content)
        for precision in ((), ("--precision", "w4a8")):
            assert said in refused("isa", str(tmp_path / name), *precision)
    os.mkfifo(tmp_path / "pipe")
    assert "pipe or device" in refused("isa", str(tmp_path / "pipe"))


@pytest.mark.parametrize("seed", range(50))
def test_random_bytes_never_pass(cli: Cli, tmp_path: Path, seed: int) -> None:
    """Bare, and behind the header of a real library."""
    noise = random.Random(seed).randbytes(60_000)
    for start in (b"", Path(KERNELS).read_bytes()[:64], Path(KERNELS).read_bytes()):
        (tmp_path / "random.so").write_bytes(start[:64] + noise[64 : 64 + len(start) or None])
        assert cli("isa", str(tmp_path / "random.so"), "--precision", "w4a8").code in (1, 2)


def test_what_is_not_installed_is_said(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "iced_x86" else 1)
    assert refused("isa", KERNELS).endswith("needs iced-x86: pip install 'neoserve[isa]'\n")


def test_a_wheel_is_told_file_by_file(cli: Cli, tmp_path: Path) -> None:
    """Progress on stderr; each file has its verdict, and all of them one."""
    quiet = bytearray(Path(BARE).read_bytes())
    for at in range(0x1C0, 0xC80, 4):
        quiet[at : at + 4] = (0xD503201F).to_bytes(4, "little")
    target = tmp_path / "e-1-py3-none-any.whl"
    with zipfile.ZipFile(target, "w") as archive:
        archive.write(KERNELS, "e/a.so")
        archive.write(BARE, "e/b.so")
        archive.write(X86, "e/c.so")
        archive.writestr("e/d.so", bytes(quiet))
    found = cli("isa", str(target), "--precision", "w4a8")
    assert (found.code, found.err.split()) == (0, ["e/a.so", "e/b.so", "e/c.so", "e/d.so"])
    for line in (
        "W4A8 PASS: 2 of 2", "W4A8 ABSENT: no kernel", "PASS for W4A8: e/a.so: 2 of 2 W4A8 kernels",
        "  and 3 more (--json lists them)", "Files without any such instruction: 1",
        "Not looked into: 1\n  e/c.so: is for x86_64",
    ):  # fmt: skip
        assert line in found.out


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        # readings by GNU c++filt, without parameters
        ("_ZN8arm_gemm31a64_interleaved_s8s32_mmla_8x12EPKaS1_Piiii",
         "arm_gemm::a64_interleaved_s8s32_mmla_8x12"),
        ("_ZN12_GLOBAL__N_18tinyBLASILi8EE4gemmEv", "(anonymous)::tinyBLAS<>"),
        ("_ZL41ggml_compute_forward_flash_attn_ext_tiledPK1a",
         "ggml_compute_forward_flash_attn_ext_tiled"),
        ("_ZNK3abc3defEv", "abc::def"), ("_Z3fooi", "foo"),
        ("ggml_vec_dot", "ggml_vec_dot"), ("_ZSt4cout", "_ZSt4cout"), ("_ZN999abc", "abc"),
    ],
)  # fmt: skip
def test_readable_names(symbol: str, text: str) -> None:
    assert readable(symbol) == text
