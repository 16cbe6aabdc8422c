"""What /proc says of processes, of this one and of made-up ones."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from neoserve.measure.engine import proc
from neoserve.measure.engine.elf import read_library


def wait_exec(pid, name):
    """Until the child has become the program."""
    deadline = time.monotonic() + 10
    while name not in proc._read(proc._ROOT / f"proc/{pid}/comm"):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A libmimalloc.so that does define malloc, and one that only has the name."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler to make libraries with")
    folder = tmp_path_factory.mktemp("lib")
    forward = (
        "#include <stddef.h>\n"
        "void *__libc_malloc(size_t); void __libc_free(void *);\n"
        "void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);\n"
        "void *malloc(size_t n) { return __libc_malloc(n); }\n"
        "void free(void *p) { __libc_free(p); }\n"
        "void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }\n"
        "void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }\n"
    )
    made = {}
    for name, code in (
        ("real/libmimalloc.so.2.1", forward),
        ("other/libtcmalloc_minimal.so.4", forward),
        ("empty/libmimalloc.so", "int unused;"),
    ):
        path = folder / name
        path.parent.mkdir()
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-fno-builtin", "-x", "c", "-", "-o", path],
            input=code, text=True, check=True,
        )  # fmt: skip
        made[name.partition("/")[0]] = str(path)
    return made


def allocator_with(preload):
    child = subprocess.Popen(["sleep", "60"], env=os.environ | {"LD_PRELOAD": preload})
    try:
        wait_exec(child.pid, "sleep")
        time.sleep(0.1)
        return proc.allocator(child.pid)
    finally:
        child.kill()
        child.wait()


def test_the_allocator_is_the_one_that_defines_malloc_first(libraries):
    real, other, empty = libraries["real"], libraries["other"], libraries["empty"]
    assert allocator_with("") == "glibc"
    assert allocator_with(real) == "libmimalloc.so.2.1"
    assert allocator_with(empty) == "glibc"  # mapped, but it does not define malloc
    assert allocator_with(f"{empty} {real}") == "libmimalloc.so.2.1"
    # As vLLM does: its own allocator before the one that was asked for.
    assert allocator_with(f"{other}:{real}") == "libtcmalloc_minimal.so.4"


def test_an_allocator_that_is_only_opened_later_is_not_it(libraries):
    code = f"import ctypes, sys, time; ctypes.CDLL({libraries['real']!r}); print(1); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        assert libraries["real"] in proc._mapped(child.pid, proc._ROOT)
        assert proc.allocator(child.pid) == "glibc"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils is not installed")
def test_libraries_as_binutils_reads_them():
    path = os.path.realpath(
        next(p for p in proc._mapped(os.getpid(), proc._ROOT) if "libc.so" in p)
    )
    said = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True)
    library = read_library(path)
    assert f"soname: [{library.soname}]" in said.stdout
    assert all(f"Shared library: [{name}]" in said.stdout for name in library.needed)
    assert library.has_malloc
    assert read_library(__file__) is None
    assert read_library("/nowhere") is None


def test_what_proc_says_of_us():
    facts, = proc.facts([os.getpid(), 2**30])
    assert facts.pid == os.getpid()
    assert facts.threads == sum(facts.affinity.values()) >= 1
    assert facts.allocator == "glibc"
    assert facts.name in (proc._read(proc._ROOT / "proc/self/comm"),)
    assert proc.thread_cpus(2**30) == {}
    assert proc.allocator(2**30) == ""
    assert proc.environ(2**30) == {}


def test_threads_bound_apart_are_seen(tmp_path):
    for thread, cpus in ((5, "0"), (6, "1"), (7, "1")):
        (tmp_path / f"proc/5/task/{thread}").mkdir(parents=True)
        (tmp_path / f"proc/5/task/{thread}/status").write_text(f"Cpus_allowed_list:\t{cpus}\n")
    assert proc.thread_cpus(5, tmp_path) == {"0": 1, "1": 2}


def test_descendants_leave_out_the_dead_and_strangers(tmp_path):
    for pid, state, parent in ((2, "S", 1), (3, "S", 2), (4, "Z", 2), (5, "R", 3), (9, "S", 1)):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/stat").write_text(f"{pid} (a) b) {state} {parent} 0 0")
    assert proc.descendants(2, tmp_path) == (3, 5)
    assert proc.descendants(9, tmp_path) == ()


def test_a_library_that_cannot_be_read_is_known_by_its_name(tmp_path):
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/maps").write_text("7f-80 r-xp 0 0 0 /nowhere/libjemalloc.so.2\n")
    (tmp_path / "proc/5/environ").write_text("LD_PRELOAD=libjemalloc.so.2\0")
    assert proc.allocator(5, tmp_path) == "libjemalloc.so.2"
