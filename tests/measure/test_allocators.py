import shutil
from pathlib import Path

import pytest

from neoserve.measure.allocators import bundled_with_vllm, installed
from neoserve.measure.engine.linker import defines_malloc

LIBC = next(
    (p for p in map(Path, ("/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
                           "/lib64/libc.so.6")) if p.is_file()), None,
)  # fmt: skip


@pytest.mark.skipif(LIBC is None, reason="no C library where it usually is")
def test_what_defines_malloc_is_found_by_its_name(tmp_path):
    assert defines_malloc(str(LIBC))
    debian, own = tmp_path / "usr/lib/x86_64-linux-gnu", tmp_path / "usr/local/lib"
    for folder in (debian, own):
        folder.mkdir(parents=True)
    for path in (debian / "libtcmalloc.so.4", debian / "libtcmalloc_minimal.so.4",
                 own / "libmimalloc.so.2.1"):  # fmt: skip
        shutil.copy(LIBC, path)
    shutil.copy(LIBC.with_name("libm.so.6"), debian / "libjemalloc.so.2")  # defines no malloc
    assert installed(tmp_path) == {
        "tcmalloc": str(debian / "libtcmalloc_minimal.so.4"),
        "mimalloc": str(own / "libmimalloc.so.2.1"),
    }
    assert installed(own) == {}


def test_the_one_that_a_vllm_brings(tmp_path):
    program = tmp_path / "bin/vllm"
    assert bundled_with_vllm(str(program)) == ""
    libs = tmp_path / "lib/python3.12/site-packages/vllm/libs"
    libs.mkdir(parents=True)
    (libs / "libtcmalloc_minimal-1a2b.so.4").touch()
    assert bundled_with_vllm(str(program)).endswith("libtcmalloc_minimal-1a2b.so.4")
