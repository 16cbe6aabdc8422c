import os
import subprocess
import sys

import pytest

from neoserve.measure import usage

BURN = "import time\nwhile time.process_time() < {s}: pass\nprint(1, flush=True)\n"


def test_a_tree_counts_those_that_have_ended():
    """A child that burns 0.2 s and ends, a parent that burns 0.1 s and waits."""
    code = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN.format(s=0.2)!r}])\n"
        f"{BURN.format(s=0.1)}\nsys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child.stdout.readline()
    child.stdout.readline()
    here = usage.snapshot(child.pid)
    child.communicate()
    assert here.engine_s >= 0.28  # ticks of 10 ms, rounded down for each of two processes
    ended = os.times()
    assert here.engine_s <= ended.children_user + ended.children_system + 0.02
    assert usage.tree_cpu_s(child.pid) == 0.0


def write(root, stat, pids):
    (root / "proc").mkdir()
    (root / "proc/stat").write_text(stat)
    for pid, parent, ticks in pids:
        (root / f"proc/{pid}").mkdir()
        fields = ["S", parent, *[0] * 9, *ticks]
        (root / f"proc/{pid}/stat").write_text(f"{pid} (a b) {' '.join(map(str, fields))}")


def test_what_others_used(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 10)
    hz = usage._TICK_HZ
    before, after = tmp_path / "a", tmp_path / "b"
    before.mkdir()
    after.mkdir()
    # user nice system idle iowait irq softirq steal
    write(before, f"cpu 9 9 9 9\ncpu0 {hz} 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n"
          "cpu2 0 0 0 0 0 0 0\n",
          [(10, 1, (0, 0, 0, 0)), (11, 10, (0, 0, 0, 0)), (12, 11, (0, 0, 0, 0))])  # fmt: skip
    write(after, f"cpu0 {3 * hz} 0 {hz} 0 9 0 0 7\ncpu1 {hz} {hz} 0 0 0 {hz} {hz} 0\n"
          f"cpu2 {99 * hz} 0 0 0 0 0 0 0\n",
          [(10, 1, (hz, 0, 0, 0)), (11, 10, (0, 0, hz, 0)), (12, 11, (hz, hz, 0, 0))])  # fmt: skip
    first = usage.snapshot(11, (0, 1), before)._replace(at_s=5.0)
    later = usage.snapshot(11, (0, 1), after)._replace(at_s=7.0)
    spent = first.until(later)
    assert spent.engine_s == 3.0
    assert spent.client_s == 1.0
    # 2 + 1 s on CPU 0 and 4 s on CPU 1, less 4 s of ours, over 2 s
    assert spent.others_cores == 1.5


def test_without_an_engine_and_without_proc(tmp_path):
    first = usage.snapshot(root=tmp_path)
    spent = first.until(usage.snapshot(root=tmp_path)._replace(at_s=first.at_s + 1))
    assert (spent.engine_s, spent.others_cores) == (None, None)


def test_this_host_says_how_busy_it_is():
    cpus = os.sched_getaffinity(0)
    before = usage.snapshot(cpus=cpus)
    sum(i for i in range(3_000_000))
    spent = before.until(usage.snapshot(cpus=cpus))
    assert spent.client_s > 0
    assert 0 <= spent.others_cores <= os.cpu_count() + 1
    assert before.host_s == pytest.approx(usage.host_cpu_s(cpus), abs=60)
