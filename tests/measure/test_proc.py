"""What /proc says of processes, of this one and of made-up ones."""

import os
import shutil
import subprocess
import sys

import pytest

from neoserve.measure.engine import linker, proc


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


@pytest.fixture
def running():
    """Start a program that waits, with these libraries preloaded; its process id."""
    children = []

    def run(argv, preload=""):
        child = subprocess.Popen(
            argv, env=os.environ | {"LD_PRELOAD": preload}, stdout=subprocess.PIPE
        )
        children.append(child)
        return child

    yield run
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def python(running, code, preload=""):
    """Once it has run `code`."""
    child = running([sys.executable, "-uc", f"{code}\nprint(1)\nimport time; time.sleep(60)"],
                    preload)  # fmt: skip
    child.stdout.readline()
    return child.pid


def test_the_allocator_is_the_one_that_defines_malloc_first(running, libraries):
    real, other, empty = libraries["real"], libraries["other"], libraries["empty"]
    for preload, expected in (
        ("", "glibc"),
        (real, "libmimalloc.so.2.1"),
        (empty, "glibc"),  # mapped, but it defines no malloc
        (f"{empty} {real}", "libmimalloc.so.2.1"),
        # As vLLM does: its own allocator before the one that was asked for.
        (f"{other}:{real}", "libtcmalloc_minimal.so.4"),
    ):
        assert linker.allocator(python(running, "", preload)) == expected


def test_an_allocator_that_is_only_opened_later_is_not_it(running, libraries):
    pid = python(running, f"import ctypes; ctypes.CDLL({libraries['real']!r})")
    assert libraries["real"] in linker.loaded(pid)
    assert linker.allocator(pid) == "glibc"


def test_a_process_that_overwrote_its_environment(running, libraries):
    """setproctitle does, in vLLM's workers."""
    wipe = (
        "import ctypes\n"
        "table = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), 'environ')\n"
        "import itertools\n"
        "for i in itertools.count():\n"
        "    if not table[i]: break\n"
        "    ctypes.memset(table[i], 0, len(ctypes.string_at(table[i])))\n"
    )
    pid = python(running, wipe, libraries["real"])
    with open(f"/proc/{pid}/environ", "rb") as environ:
        assert b"LD_PRELOAD" not in environ.read()
    assert linker.allocator(pid) == "libmimalloc.so.2.1"


def test_a_library_that_is_gone_is_known_by_its_name(running, libraries, tmp_path):
    copy = shutil.copy(libraries["real"], tmp_path / "libjemalloc.so.2")
    pid = python(running, "", str(copy))
    os.unlink(copy)
    assert linker.allocator(pid) == "libjemalloc.so.2"


@pytest.mark.skipif(shutil.which("ldd") is None, reason="no ldd")
def test_the_order_is_the_linkers_own():
    """The part that ldd lists is loaded before all that Python opened later."""
    exe = os.path.realpath(sys.executable)
    said = subprocess.run(["ldd", exe], capture_output=True, text=True, check=True).stdout
    linked = [os.path.realpath(word) for word in said.split() if word.startswith("/")]
    loaded = linker.loaded(os.getpid())
    assert loaded[0] == exe
    assert sorted(loaded[1 : len(linked) + 1]) == sorted(linked)


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils is not installed")
def test_symbols_as_binutils_reads_them(libraries):
    for path in (*linker.loaded(os.getpid())[:12], *libraries.values()):
        said = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True,
                              check=True)  # fmt: skip
        names = {line.split()[-1].partition("@")[0] for line in said.stdout.splitlines()}
        assert linker.defines_malloc(path) == ("malloc" in names), path
    assert not linker.defines_malloc(__file__)


def test_what_cannot_be_read():
    assert linker.loaded(2**30) == []
    assert linker.allocator(2**30) == ""
    assert linker.loaded(1) == [] or os.geteuid() == 0  # another user's


def test_what_proc_says_of_us():
    facts, = proc.facts([os.getpid(), 2**30])
    assert facts.pid == os.getpid()
    assert facts.threads == sum(facts.affinity.values()) >= 1
    assert facts.allocator == "glibc"
    assert facts.name in (proc._read(proc._ROOT / "proc/self/comm"),)
    assert proc.thread_cpus(2**30) == {}


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
