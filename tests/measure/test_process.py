import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from neoserve.errors import EngineFailed
from neoserve.measure.engine import leashed, proc
from neoserve.measure.engine.process import Process, free_port


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


def test_it_ends_before_it_is_ready(tmp_path):
    process = python("print('no memory'); raise SystemExit(3)", tmp_path)
    with pytest.raises(EngineFailed, match="engine ended before it was ready: no memory"):
        process.wait_until(lambda: False, 10, str.strip)
    process.stop()


def test_it_is_killed_before_it_is_ready(tmp_path):
    process = python("import os; print('half', flush=True); os.kill(os.getpid(), 9)", tmp_path)
    with pytest.raises(EngineFailed, match=r"killed \(SIGKILL\), as the kernel does .*: half"):
        process.wait_until(lambda: False, 10, str.strip)
    process.stop()
    assert process.killed_by()


def test_it_is_too_slow(tmp_path):
    process = python("import time; time.sleep(60)", tmp_path)
    with pytest.raises(EngineFailed, match="not ready within"):
        process.wait_until(lambda: False, 0.1, str)
    process.stop()


def test_it_cannot_be_started(tmp_path):
    with pytest.raises(EngineFailed, match="cannot be started"):
        Process("engine", ["/nonexistent/program"], {}, tmp_path / "log")


def test_cpus_that_this_host_does_not_have(tmp_path):
    with pytest.raises(EngineFailed, match=r"cannot be started: .*Invalid argument"):
        Process("engine", ["/bin/true"], {}, tmp_path / "log", cpus=[4095])


def test_it_runs_on_the_cpus_it_was_given(tmp_path):
    cpu = max(os.sched_getaffinity(0))
    process = Process("engine", ["sleep", "60"], {}, tmp_path / "log", cpus=[cpu])
    assert proc.thread_cpus(process.pid) == {str(cpu): 1}
    process.stop()
    assert len(os.sched_getaffinity(0)) > 1 or cpu == 0  # ours is as it was


def environ(pid):
    with open(f"/proc/{pid}/environ") as text:
        return dict(pair.split("=", 1) for pair in text.read().split("\0") if pair)


def test_its_environment_is_its_own(tmp_path):
    """LD_PRELOAD is for the engine, not for the program that watches it."""
    process = Process("engine", ["sleep", "60"], {"MARK": "1", "NOT": "a b"}, tmp_path / "log")
    seen = environ(process.pid)
    assert (seen["MARK"], seen["NOT"]) == ("1", "a b")
    assert "MARK" not in environ(process.group)
    assert not [name for name in seen if name.startswith("NEOSERVE_")]
    process.stop()


def test_it_outlives_the_thread_that_started_it(tmp_path):
    """PR_SET_PDEATHSIG would fire when the forking thread ends."""
    made = []
    thread = threading.Thread(
        target=lambda: made.append(Process("engine", ["sleep", "60"], {}, tmp_path / "log"))
    )
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert not made[0].has_ended()
    made[0].stop()


# A program with a child in its group, one in a session of its own, and one whose parent ended.
FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = ["sh", "-c", "trap '' TERM HUP; while :; do sleep 60; done"]
pids = [subprocess.Popen(deaf).pid, subprocess.Popen(deaf, start_new_session=True).pid]
orphan = subprocess.run(["sh", "-c", "setsid sleep 60 >&- 2>&- & echo $!"], capture_output=True)
print(os.getpid(), *pids, int(orphan.stdout), flush=True)
time.sleep(60)
"""


def family(process):
    process.wait_until(lambda: "\n" in process.log(), 10, str)
    return [int(word) for word in process.log().split()]


def test_who_leaves_the_group_is_ended_too(tmp_path):
    process = python(FAMILY, tmp_path)
    pids = family(process)
    assert set(pids) <= set(process.pids())
    assert len({os.getpgid(pid) for pid in pids}) == 3
    process.stop(grace_s=0.1)
    assert all(map(gone, pids))
    assert process.pids() == ()


def test_the_program_ends_and_takes_its_family_along(tmp_path):
    process = python(FAMILY.replace("time.sleep(60)", "sys.exit(3)"), tmp_path)
    process.wait_until(process.has_ended, 10, str)
    assert all(gone(int(word)) for word in process.log().split())
    process.stop()
    assert process._popen.returncode == 3


PARENT = """
import signal, sys, time
from pathlib import Path
from neoserve.measure.engine.process import Process
process = Process("engine", [sys.executable, "-uc", {family!r}], {{}}, Path({log!r}))
process.wait_until(lambda: "\\n" in process.log(), 10, str)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of the background ignores it
print(process.group, process.log(), flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_leaves_nothing(tmp_path, number):
    code = PARENT.format(family=FAMILY, log=str(tmp_path / "log"))
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert len(pids) == 5
    assert not any(map(gone, pids))
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    for pid in pids:
        wait_gone(pid)


def test_the_leash_holds_without_the_kernels_signal(tmp_path):
    """Closing our end of its stdin is enough."""
    process = python(FAMILY, tmp_path)
    pids = family(process)
    process._popen.stdin.close()
    for pid in (process.group, *pids):
        wait_gone(pid)
    process.stop()


def test_a_killed_leash_takes_the_program_along(tmp_path):
    process = Process("engine", ["sleep", "60"], {}, tmp_path / "log")
    os.kill(process.group, signal.SIGKILL)
    wait_gone(process.pid)
    process.stop()


def test_a_parent_that_died_early_is_noticed():
    """Its signal was sent before anybody could have asked for it."""
    order = json.dumps(leashed.Order(env={}, cpus=[], report=1))
    env = os.environ | {leashed.PARENT_VARIABLE: "1", leashed.ORDER_VARIABLE: order}
    done = subprocess.run(
        [sys.executable, "-IS", leashed.__file__, "--", "sleep", "60"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, timeout=20, check=False,
    )  # fmt: skip
    wait_gone(int(done.stdout))
    assert done.returncode == 128 + signal.SIGTERM


def test_a_free_port_is_free():
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert proc.is_listening(server.getsockname()[1], [os.getpid()])
        assert not proc.is_listening(server.getsockname()[1], [os.getppid()])
