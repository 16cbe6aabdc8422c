import os
import sys
import threading
import time

import pytest

from neoserve.errors import EngineFailed
from neoserve.measure.engine import proc
from neoserve.measure.engine.process import Process


def gone(pid):
    """Ended, or a zombie that somebody has to reap."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_gone(pid, timeout_s=10.0):
    deadline = time.monotonic() + timeout_s
    while not gone(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(0.02)


def python(code, tmp_path, name="engine"):
    return Process(name, [sys.executable, "-uc", code], {"X": "1"}, tmp_path / "logs/e.log")


def test_stop_ends_the_whole_group(tmp_path):
    process = python(
        "import subprocess, time; p = subprocess.Popen(['sleep', '60']); "
        "print(p.pid); time.sleep(60)",
        tmp_path,
    )
    process.wait_until(lambda: "\n" in process.log(), 10, str)
    grandchild = int(process.log())
    process.stop()
    process.stop()
    wait_gone(grandchild)
    assert process.has_ended()


def test_a_deaf_process_is_killed(tmp_path):
    process = python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('x'); time.sleep(60)",
        tmp_path,
    )
    process.wait_until(lambda: "x" in process.log(), 10, str)
    process.stop(grace_s=0.1)
    assert gone(process.pid)


def test_children_of_a_leader_that_ended_are_ended_too(tmp_path):
    process = python("import subprocess; print(subprocess.Popen(['sleep', '60']).pid)", tmp_path)
    process.wait_until(process.has_ended, 10, str)
    grandchild = int(process.log())
    assert not gone(grandchild)
    process.stop()
    wait_gone(grandchild)


def test_it_ends_before_it_is_ready(tmp_path):
    process = python("print('no memory'); raise SystemExit(3)", tmp_path)
    with pytest.raises(EngineFailed, match="engine ended before it was ready: no memory"):
        process.wait_until(lambda: False, 10, str.strip)
    process.stop()


def test_it_is_too_slow(tmp_path):
    process = python("import time; time.sleep(60)", tmp_path)
    with pytest.raises(EngineFailed, match="not ready within"):
        process.wait_until(lambda: False, 0.1, str)
    process.stop()


def test_it_cannot_be_started(tmp_path):
    with pytest.raises(EngineFailed, match="cannot be started"):
        Process("engine", ["/nonexistent/program"], {}, tmp_path / "log")


def test_it_outlives_the_thread_that_started_it(tmp_path):
    """PR_SET_PDEATHSIG would fire when the forking thread ends."""
    code = (
        "from neoserve.measure.engine.leash import tie_to_parent as t; t(); print('tied'); "
        "import time; time.sleep(60)"
    )
    made = []
    thread = threading.Thread(target=lambda: made.append(python(code, tmp_path)))
    thread.start()
    thread.join()
    process = made[0]
    process.wait_until(lambda: "tied" in process.log(), 10, str)
    time.sleep(0.3)
    assert not process.has_ended()
    process.stop()


def test_the_leash_holds_without_the_kernel(tmp_path):
    """Closing our end of stdin is enough."""
    code = (
        "import neoserve.measure.engine.leash as l, sys, time; sys.platform = 'other'; "
        "l.tie_to_parent(); print('tied'); time.sleep(60)"
    )
    process = python(code, tmp_path)
    process.wait_until(lambda: "tied" in process.log(), 10, str)
    process._popen.stdin.close()
    wait_gone(process.pid)
    process.stop()


def test_a_parent_that_died_early_is_noticed(tmp_path):
    code = (
        "import os, neoserve.measure.engine.leash as l; os.environ[l.PARENT_VARIABLE] = '1'; "
        "l.tie_to_parent(); print('alive')"
    )
    process = python(code, tmp_path)
    process.wait_until(process.has_ended, 10, str)
    assert "alive" not in process.log()
    process.stop()


def test_what_proc_says_of_us():
    assert proc.affinity(os.getpid())
    assert proc.allocator(os.getpid())
    assert proc.affinity(2**30) == ()
    assert proc.allocator(2**30) == ""


@pytest.mark.parametrize(
    ("maps", "allocator"),
    [
        ("7f 0 0 0 0 /usr/lib/libc.so.6\n7f 0 0 0 0 [heap]\n", "glibc"),
        ("7f 0 0 0 0 /usr/lib/libtcmalloc_minimal.so.4\n7f 0 0 0 0 /lib/libc.so.6\n",
         "libtcmalloc_minimal.so.4"),
        ("7f 0 0 0 0 /lib/ld-musl-x86_64.so.1\n", "musl"),
    ],
)  # fmt: skip
def test_allocators(tmp_path, maps, allocator):
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/maps").write_text(maps)
    assert proc.allocator(5, tmp_path) == allocator


def test_threads_bound_apart_are_seen(tmp_path):
    for thread, cpus in ((5, "0"), (6, "1"), (7, "1")):
        (tmp_path / f"proc/5/task/{thread}").mkdir(parents=True)
        (tmp_path / f"proc/5/task/{thread}/status").write_text(f"Cpus_allowed_list:\t{cpus}\n")
    assert proc.affinity(5, tmp_path) == ("0", "1")
