import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.cores import (
    host_cpus,
    machine_cores,
    parse_cpus,
    physical_cores,
    show_cpus,
    split,
)


def topology(root, siblings):
    """Each text is one core's list of CPUs."""
    for text in siblings:
        for cpu in parse_cpus(text):
            folder = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{text}\n")
    return root


def test_two_cores_one_each(tmp_path):
    topology(tmp_path, ["0", "1"])
    assert split([0, 1], 1, root=tmp_path) == ("0", "1", False, "")


def test_no_core_is_free(tmp_path):
    topology(tmp_path, ["0", "1"])
    assert split([0, 1], 2, root=tmp_path) == (
        "0-1", "0-1", True,
        "the client shares cores with the engine: 2 threads on 2 cores leave none free",
    )  # fmt: skip
    assert "1 thread on 1 core leave" in split([1], 1, root=tmp_path).note


def test_threads_of_a_core_stay_together(tmp_path):
    """Eight CPUs of four cores, as EC2 x86 numbers them."""
    topology(tmp_path, ["0,4", "1,5", "2,6", "3,7"])
    assert physical_cores(range(8), tmp_path) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert split(range(8), 3, root=tmp_path)[:3] == ("0-2,4-6", "3,7", False)
    assert split(range(8), 2, 3, root=tmp_path)[:3] == ("0-1,4-5", "2-3,6-7", False)
    assert split(range(8), 5, root=tmp_path).shares


def test_an_engine_that_takes_what_it_is_given(tmp_path):
    topology(tmp_path, [str(cpu) for cpu in range(16)])
    assert split(range(16), None, 2, root=tmp_path) == ("0-13", "14-15", False, "")


def test_too_few_cores_for_the_clients_processes(tmp_path):
    topology(tmp_path, ["0", "1", "2"])
    plan = split([0, 1, 2], 2, 4, root=tmp_path)
    assert plan[:3] == ("0-1", "2", False)
    assert plan.note == "4 client processes share 1 CPU: the rest is the engine's"


def test_a_quota_gives_nobody_cores_of_its_own(tmp_path):
    topology(tmp_path, [str(cpu) for cpu in range(8)])
    plan = split(range(8), 4, quota_cores=2.5, root=tmp_path)
    assert "a CPU quota of 2.5 cores is less than 8 CPUs" in plan.note


def test_a_client_that_pins_itself_narrows_nobody():
    allowed = os.sched_getaffinity(0)
    assert set(host_cpus()) == allowed
    os.sched_setaffinity(0, {max(allowed)})
    try:
        assert set(host_cpus()) == allowed
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_kernel_that_tells_no_topology(tmp_path):
    assert physical_cores([3, 1], tmp_path) == [[1], [3]]


@given(
    cores=st.integers(1, 12), ways=st.integers(1, 2), threads=st.integers(1, 14),
    workers=st.integers(1, 6),
)  # fmt: skip
def test_a_split_loses_and_doubles_no_cpu(tmp_path_factory, cores, ways, threads, workers):
    siblings = [",".join(str(core + way * cores) for way in range(ways)) for core in range(cores)]
    root = topology(tmp_path_factory.mktemp("host"), siblings)
    plan = split(range(cores * ways), threads, workers, root=root)
    engine, client = set(parse_cpus(plan.engine_cpus)), set(parse_cpus(plan.client_cpus))
    assert plan.shares == (threads >= cores)
    if not plan.shares:
        assert engine | client == set(range(cores * ways))
        assert not engine & client
        assert len(physical_cores(engine, root)) >= threads
        assert all(set(core) <= engine or set(core) <= client
                   for core in physical_cores(range(cores * ways), root))  # fmt: skip


@pytest.mark.parametrize(
    ("cpus", "text"), [([0, 1, 2, 5], "0-2,5"), ([3], "3"), ([0, 2, 3], "0,2-3"), ([], "")]
)
def test_lists_as_the_kernel_writes_them(cpus, text):
    assert show_cpus(cpus) == text
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["phys", "0-", "1,,2", "-1", "0:3"])
def test_other_lists_are_refused(text):
    with pytest.raises(AskError, match="no list of CPUs; expected one such as 0-3,8"):
        parse_cpus(text)


def test_cores_of_the_whole_machine(tmp_path):
    assert machine_cores(tmp_path) == 0  # a kernel that tells none
    for cpu, siblings in enumerate(["05", "0a", "05", "0a"]):  # masks, two threads a core
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings").write_text(f"{siblings}\n")
    assert machine_cores(tmp_path) == 2
