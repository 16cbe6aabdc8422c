"""Targets: files, wheels, packages, processes; each file with its digest."""

from __future__ import annotations

import hashlib
import mmap
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.isa.look import look
from neoserve.measure.isa.target import kind_of, map_file
from neoserve.schema.isa import IsaReport

from .files import DATA, fixture

MAPS = """
import mmap, sys
kept = []
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC,
                              flags=mmap.MAP_PRIVATE))
print("mapped", flush=True)
sys.stdin.read()
"""


def report(kind: str, target: str, **how: object) -> IsaReport:
    return look(kind, target, note=lambda _: None, **how)  # type: ignore[arg-type]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_a_file() -> None:
    found = report("file", str(DATA / "kernels.so"))
    (binary,) = found.binaries
    assert binary.sha256 == sha256(fixture("kernels.so"))
    assert binary.size_bytes == len(fixture("kernels.so"))
    # as written in kernels.S
    assert binary.forms == {"smmla.v": 13, "bfmmla.v": 4, "sdot.v": 3, "sdot.e": 1, "udot.v": 4,
                            "bfdot.v": 4}  # fmt: skip
    assert binary.in_inner_loops == binary.forms | {"smmla.v": 12}
    assert binary.num_in_data == 3
    assert (found.shows, found.verdict, found.precision) == ("presence", None, "")
    by_name = {function.name: function for function in binary.functions}
    (loop,) = by_name["kai_kernel_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm"].loops
    assert (loop.num_instructions, loop.forms, loop.macs) == (14, {"smmla.v": 8}, 8 * 32)
    (loop,) = by_name["kai_run_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod"].loops
    assert (loop.num_instructions, loop.macs) == (8, 3 * 16 + 8)
    assert len(by_name["anonymous_loops"].loops) == 2


@pytest.mark.parametrize(
    ("name", "verdicts"),
    [
        ("kernels.so", ["PASS", "PASS", "PASS"]),
        ("kernels_stripped.so", ["PASS", "PASS", "PASS"]),  # exported names are left
        ("kernels_broken.so", ["FAIL", "FAIL", "FAIL"]),
        ("kernels_bare.so", ["ABSENT", "ABSENT", "ABSENT"]),
    ],
)
def test_verdicts(name: str, verdicts: list[str]) -> None:
    for only_named in (False, True):
        (binary,) = report("file", str(DATA / name), only_named=only_named).binaries
        assert [verdict.verdict for verdict in binary.verdicts] == verdicts
    for precision, verdict in zip(("w4a8", "w8a8", "bf16"), verdicts, strict=True):
        assert report("file", str(DATA / name), precision=precision).verdict == verdict


def test_only_named_kernels_are_looked_at() -> None:
    (binary,) = report("file", str(DATA / "kernels.so"), only_named=True).binaries
    assert binary.forms == {"smmla.v": 13, "bfmmla.v": 4, "sdot.v": 3, "sdot.e": 1}
    assert binary.scanned_bytes < 400 < binary.code_bytes
    (bare,) = report("file", str(DATA / "kernels_bare.so"), only_named=True).binaries
    assert (bare.forms, bare.scanned_bytes) == ({}, 0)


def test_without_names_what_is_there_is_still_counted() -> None:
    (binary,) = report("file", str(DATA / "kernels_bare.so")).binaries
    assert binary.is_stripped
    assert binary.forms["smmla.v"] == 13 + 2  # two literals; nothing tells that they are
    assert {function.known_by for function in binary.functions} == {"eh_frame", "cluster"}
    assert "int8 dot or matrix products that no name explains: 4" in binary.verdicts[0].reason


def wheel(path: Path, members: dict[str, bytes]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return str(path)


def test_a_wheel_is_read_without_unpacking_it(tmp_path: Path) -> None:
    target = wheel(tmp_path / "e-1-py3-none-any.whl", {
        "e/__init__.py": b"\x7fELF, says this text", "e/lib/libk.so.1": fixture("kernels.so"),
        "e/bin/tool": fixture("kernels_bare.so"), "e/libx.so": fixture("x86.so"),
        "e/notes.so": b"text", "e/cut.so": fixture("kernels.so")[:5000],
    })  # fmt: skip
    found = report("wheel", target)
    assert [(b.name, b.architecture) for b in found.binaries] == [
        ("e/lib/libk.so.1", "aarch64"), ("e/bin/tool", "aarch64"), ("e/libx.so", "x86_64"),
    ]  # fmt: skip
    assert found.binaries[0].sha256 == sha256(fixture("kernels.so"))
    (skipped,) = found.skipped
    assert (skipped.name, "truncated" in skipped.reason) == ("e/cut.so", True)
    assert sorted(os.listdir(tmp_path)) == ["e-1-py3-none-any.whl"]
    asked = report("wheel", target, precision="w4a8")
    assert (asked.verdict, asked.reason.startswith("e/lib/libk.so.1: 2 of 2")) == ("PASS", True)
    assert {skipped.name for skipped in asked.skipped} == {"e/cut.so", "e/libx.so"}


def test_one_broken_library_fails_a_wheel(tmp_path: Path) -> None:
    target = wheel(tmp_path / "e.whl", {"a.so": fixture("kernels.so"),
                                        "b.so": fixture("kernels_broken.so")})  # fmt: skip
    found = report("wheel", target, precision="bf16")
    assert (found.verdict, found.reason.startswith("b.so: 1 of 1 BF16")) == ("FAIL", True)
    bare = wheel(tmp_path / "c.whl", {"a.so": fixture("kernels_bare.so"),
                                      "b.so": fixture("kernels_bare.so")})  # fmt: skip
    found = report("wheel", bare, precision="w4a8")
    assert (found.verdict, found.reason[:15]) == ("ABSENT", "none of 2 files")


def test_wheels_that_are_none(tmp_path: Path) -> None:
    whole = Path(wheel(tmp_path / "a.whl", {"a.so": fixture("kernels.so")}))
    cut = tmp_path / "cut.whl"
    cut.write_bytes(whole.read_bytes()[:-100])
    content = bytearray(whole.read_bytes())
    content[500:600] = bytes(100)
    bad = tmp_path / "bad.whl"
    bad.write_bytes(content)
    empty = wheel(tmp_path / "empty.whl", {"a.py": b""})
    x86 = wheel(tmp_path / "x86.whl", {"a.so": fixture("x86.so")})
    for target, said in (
        (str(cut), "no whole wheel"), (str(bad), "no whole wheel"), (empty, "holds no ELF file"),
        (x86, "a.so: is for x86_64"), (str(tmp_path / "none.whl"), "No such file"),
    ):  # fmt: skip
        with pytest.raises(AskError, match=said):
            report("wheel", target, precision="w4a8")


def test_what_a_target_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "numpy").touch()
    kinds = {
        "lib.so": "file", "libx.so.1": "file", "./torch": "file", "torch": "package",
        "numpy": "file", "torch-2.9.1-cp311-cp311-manylinux_2_28_aarch64.whl": "wheel",
        "onnxruntime": "package",
    }  # fmt: skip
    assert {target: kind_of(target) for target in kinds} == kinds


def test_an_installed_package() -> None:
    """Its libraries as its own list of files has them."""
    found = report("package", "xllamacpp")
    assert [binary.name for binary in found.binaries] == ["xllamacpp/xllamacpp.abi3.so"]
    import xllamacpp

    content = Path(xllamacpp.__file__).with_name("xllamacpp.abi3.so").read_bytes()
    assert found.binaries[0].sha256 == sha256(content)
    with pytest.raises(AskError, match="neither a file nor an installed package"):
        report("package", "no-such-package")
    with pytest.raises(AskError, match="holds no ELF file"):
        report("package", "pytest")


@pytest.fixture
def mapping(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that has a library mapped to be executed, as a child of another one."""
    library = tmp_path / "kernels.so"
    library.write_bytes(fixture("kernels.so"))
    child = subprocess.Popen([sys.executable, "-c", MAPS, library], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    yield child, library
    child.communicate()


def test_a_process_and_its_children(mapping: tuple[subprocess.Popen[bytes], Path]) -> None:
    child, library = mapping
    found = report("process", str(child.pid))
    by_name = {binary.name: binary for binary in found.binaries}
    assert by_name[str(library)].sha256 == sha256(library.read_bytes())
    others = set(by_name) - {str(library)}
    assert any("libc" in name for name in others)
    for name in others:
        assert by_name[name].sha256 == sha256(Path(name).read_bytes())
    above = report("process", str(os.getpid()), precision="w4a8", only_named=True)
    assert above.verdict == "PASS"
    assert str(library) in {binary.name for binary in above.binaries}


def test_a_library_that_is_deleted_is_not_mistaken(
    mapping: tuple[subprocess.Popen[bytes], Path],
) -> None:
    """The kernel keeps what is mapped; a file that took its name is not what runs."""
    child, library = mapping
    library.unlink()
    library.write_bytes(fixture("kernels_broken.so"))
    found = report("process", str(child.pid))
    mine = [b.sha256 for b in found.binaries if b.name == str(library)]
    left = [s.reason for s in found.skipped if s.name == str(library)]
    # root may read what is mapped; others are told that they cannot
    assert mine == [sha256(fixture("kernels.so"))] or "deleted or replaced" in left[0]


def test_processes_that_cannot_be_looked_into() -> None:
    for pid in ("999999999", "0"):
        with pytest.raises(AskError, match=f"process {pid} cannot be looked into"):
            report("process", pid)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, said in (
        ("empty", "is empty"), ("pipe", "no regular file"), ("missing", "No such file"),
        ("loop", "symbolic link"), ("nu\0ll", "null"), ("x" * 300, "too long"),
    ):  # fmt: skip
        with pytest.raises(AskError, match=said):
            map_file(tmp_path / name)
    with pytest.raises(AskError, match="a folder"):
        map_file(tmp_path)
    with pytest.raises(AskError, match="no regular file"):
        map_file(Path("/dev/null"))
    assert isinstance(map_file(DATA / "kernels.so"), mmap.mmap)


def test_code_that_is_in_no_file_is_told() -> None:
    script = (
        "import mmap, sys; m = mmap.mmap(-1, 3 << 20, prot=7, flags=mmap.MAP_PRIVATE); "
        "print('mapped', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE)  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    skipped = report("process", str(child.pid)).skipped
    child.communicate()
    (told,) = (s for s in skipped if "in no file" in s.name)
    assert int(told.name.split()[0]) >= 3 << 20
    assert "made at run time" in told.reason
