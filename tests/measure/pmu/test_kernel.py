"""What the kernel accounts: beside getrusage, and on made-up trees."""

import os
import resource
import subprocess
import sys
import time

import pytest

from measure.trees import write
from neoserve.measure.pmu.kernel import Process, Snapshot, Thread, cpu_s, gained, snapshot

SPIN = "import time\nprint(1, flush=True)\nwhile True: pass"
NAP = "import time\nprint(1, flush=True)\nwhile True: time.sleep(0.005)"


@pytest.fixture
def program():
    children = []

    def run(code):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        children.append(child)
        child.stdout.readline()
        return child

    yield run
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def test_cpu_time_is_what_the_kernel_bills_at_the_end(program):
    child = program(SPIN)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    time.sleep(0.6)
    seen = cpu_s([child.pid])
    child.kill()
    child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    billed = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 0 < seen <= billed + 0.011


def test_a_program_that_naps_goes_to_sleep_and_one_that_spins_is_made_to_wait(program):
    napping, spinning = program(NAP), program(SPIN)
    pids = [napping.pid], [spinning.pid]
    before = [snapshot(p) for p in pids]
    time.sleep(0.6)
    nap, spin = (gained(b, snapshot(p)) for b, p in zip(before, pids, strict=True))
    assert nap.voluntary_switches >= 3
    assert spin.voluntary_switches == 0
    assert spin.cpu_s > nap.cpu_s
    assert spin.num_threads == 1
    assert spin.length_s >= 0.6
    assert spin.cpu_s + (spin.run_queue_wait_s or 0) <= spin.length_s + 0.05


def test_faults_are_counted(program):
    child = program("print(1, flush=True)\nimport time\ntime.sleep(0.3)\n"
                    "x = bytearray(64 << 20)\ntime.sleep(60)")  # fmt: skip
    before = snapshot([child.pid])
    deadline_s = time.monotonic() + 20
    found = gained(before, snapshot([child.pid]))
    while found.minor_faults < 50 and time.monotonic() < deadline_s:
        time.sleep(0.1)
        found = gained(before, snapshot([child.pid]))
    assert found.minor_faults >= 50  # 64 MiB by pages of 4 KiB, or of 2 MiB and some


def stat(user, system, minor, major):
    """proc(5): pid (comm) state ppid ... with fields 10, 12, 14 and 15."""
    fields = ["S", "1", "1", "1", "0", "-1", "4194304", str(minor), "0", str(major), "0",
              str(user), str(system), "0", "0", "20", "0", "1"]  # fmt: skip
    return f"7 (a) b) {' '.join(fields)}\n"


def test_every_figure_is_read(tmp_path):
    root = write(tmp_path, {
        "proc/7/stat": stat(250, 50, 11, 2),
        "proc/7/cgroup": "0::/pod/engine\n",
        "proc/7/task/7/status": "voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n",
        "proc/7/task/7/schedstat": "3000000000 1500000000 8\n",
        "proc/7/task/7/sched": "se.nr_migrations                             :   4\n",
        "proc/pressure/cpu": "some avg10=1.00 avg60=1 avg300=1 total=2000000\nfull total=9\n",
        "sys/devices/system/node/node0/numastat": "numa_hit 5\nnuma_miss 7\n",
        "sys/devices/system/node/node1/numastat": "numa_hit 5\nnuma_miss 1\n",
        "sys/fs/cgroup/pod/engine/cpu.stat": "nr_throttled 2\nthrottled_usec 500000\n",
    })  # fmt: skip
    found = snapshot([7], root)
    tick = os.sysconf("SC_CLK_TCK")
    assert found.processes == {7: Process(250 / tick, 50 / tick, 11, 2)}
    assert found.threads == {(7, 7): Thread(1.5, 5, 3, 4)}
    assert (found.pressure_s, found.numa_misses, found.throttled_s) == ({"cpu": 2.0}, 8, 0.5)


def test_version_1_cgroups_count_nanoseconds(tmp_path):
    root = write(tmp_path, {
        "proc/7/stat": stat(1, 0, 0, 0), "proc/7/cgroup": "3:cpuset:/\n2:cpu,cpuacct:/box\n",
        "sys/fs/cgroup/cpu/box/cpu.stat": "nr_periods 1\nthrottled_time 250000000\n",
    })  # fmt: skip
    assert snapshot([7], root).throttled_s == 0.25


def test_a_container_sees_the_mount_of_its_own_cgroup_alone(tmp_path):
    """The path is the host's where the container has no namespace of cgroups."""
    root = write(tmp_path, {
        "proc/7/stat": stat(1, 0, 0, 0), "proc/7/cgroup": "0::/system.slice/docker-1a.scope\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 9\nthrottled_usec 750000\n",
    })  # fmt: skip
    assert snapshot([7], root).throttled_s == 0.75


def test_gains_count_new_threads_from_their_start_and_know_what_is_unknown():
    before = Snapshot(10.0, {7: Process(1.0, 0.5, 100, 0)}, {(7, 7): Thread(1.0, 5, 3, 4)},
                      {"cpu": 2.0, "io": 1.0}, 8, None)  # fmt: skip
    after = Snapshot(14.0, {7: Process(4.0, 1.5, 150, 1)},
                     {(7, 7): Thread(2.0, 6, 3, None), (7, 8): Thread(0.5, 2, 1, None)},
                     {"cpu": 3.0}, 8, 0.1)  # fmt: skip
    found = gained(before, after)
    assert (found.length_s, found.user_s, found.system_s) == (4.0, 3.0, 1.0)
    assert (found.minor_faults, found.major_faults, found.num_threads) == (50, 1, 2)
    assert (found.run_queue_wait_s, found.voluntary_switches) == (1.5, 3)
    assert (found.involuntary_switches, found.migrations) == (1, None)
    assert (found.pressure_cpu_share, found.pressure_io_share) == (0.25, None)
    assert (found.numa_misses, found.throttled_s) == (0, None)


def test_a_process_that_has_ended_is_left_out():
    assert snapshot([2**22 + 1]).processes == {}
    assert cpu_s([2**22 + 1]) == 0.0
