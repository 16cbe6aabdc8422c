"""What a host lets us count: of made-up hosts, and of this one."""

import pytest

from neoserve.measure.pmu.cores import named_core
from neoserve.measure.pmu.events import events_of, groups, level1, sizes
from neoserve.measure.pmu.perf import find_perf
from neoserve.measure.pmu.probe import core_pmus, probe


def host(tmp_path, devices=("software", "tracepoint"), flags="fpu hypervisor", paranoid=None):
    for name in devices:
        (tmp_path / "sys/bus/event_source/devices" / name).mkdir(parents=True)
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text(
        "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nstepping\t: 1\n"
        f"flags\t\t: {flags}\n"
    )
    if paranoid is not None:
        (tmp_path / "proc/sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    return tmp_path


def test_a_guest_without_pmu_is_told_so_and_costs_no_probe(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")  # no perf could be started
    found = probe(host(tmp_path, ("breakpoint", "msr", "software", "tracepoint", "uprobe")))
    assert not found.counts
    assert found.core.family == "zen4"
    assert found.reasons == (
        "this guest's hypervisor shows no PMU of its cores: /sys/bus/event_source/devices has none",
    )


@pytest.mark.parametrize("name", ["cpu", "cpu_core", "armv8_pmuv3", "armv8_pmuv3_0",
                                  "armv8_neoverse_v2"])  # fmt: skip
def test_pmus_of_cores(tmp_path, name):
    assert core_pmus(host(tmp_path, (name, "msr", "uncore_imc_0", "arm_spe_0", "power"))) == [name]


def test_without_perf_the_reason_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    found = probe(host(tmp_path / "host", ("cpu",)))
    assert not found.counts
    assert "perf is not installed" in found.reasons[0]


def test_an_ubuntu_wrapper_without_its_perf(tmp_path, monkeypatch):
    script = tmp_path / "perf"
    says = "WARNING: perf not found for kernel 6.8.0-1009"
    script.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_perf() == f"{script} does not run: {says}"


def test_an_old_perf_is_refused(tmp_path, monkeypatch):
    script = tmp_path / "perf"
    script.write_text("#!/bin/sh\necho perf version 5.4.0-150\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert "older than 5.10" in find_perf()


@pytest.mark.parametrize("key", ["v1", "n2", "v2", "v3", "n3", "zen4", "zen5", "goldencove",
                                 "icelake"])  # fmt: skip
def test_level_1_is_asked_first_and_groups_hold_cycles(key):
    core = named_core(key)
    names = list(events_of(core))
    assert set(level1(core)) <= set(names[: 3 + len(level1(core))])
    for size in sizes(names):
        made = groups(core, names, size)
        assert {name for group in made for name in group} == set(names)
        assert all("cycles" in group for group in made)
        assert all(len(group) <= size for group in made if "slots" not in group)


def test_two_counters_make_pairs_of_cycles_and_one():
    made = groups(named_core("v2"), ["cycles", "instructions", "stall_slot"], 2)
    assert made == [("cycles", "instructions"), ("cycles", "stall_slot")]


def test_slots_lead_their_group():
    made = groups(named_core("icelake"), events_of(named_core("icelake")), 5)
    assert made[0][0] == "slots"


def test_arm_codes_are_those_of_the_manual():
    """perf's raw form; Arm ARM and the Neoverse V2 TRM."""
    found = events_of(named_core("v2"))
    assert {n: found[n] for n in ("cycles", "instructions", "stall_slot", "op_retired", "op_spec",
                                  "br_mis_pred", "ase_sve_int8_spec", "stall_backend_mem")} == {
        "cycles": "r11", "instructions": "r8", "stall_slot": "r3f", "op_retired": "r3a",
        "op_spec": "r3b", "br_mis_pred": "r10", "ase_sve_int8_spec": "r80e3",
        "stall_backend_mem": "r4005",
    }  # fmt: skip


def test_a_kernel_that_lets_nobody_count(tmp_path, monkeypatch):
    """perf of Linux 6.1 ends with 255 and a page of advice; the setting is what helps."""
    script = tmp_path / "perf"
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo perf version 6.1.187 && exit\n'
        "echo 'Access to performance monitoring is limited.' >&2\nexit 255\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = probe(host(tmp_path / "host", ("cpu",), paranoid=4))
    assert not found.counts
    assert "kernel.perf_event_paranoid is 4" in found.reasons[0]
    allowed = probe(host(tmp_path / "other", ("cpu",), paranoid=2))
    assert "Access to performance monitoring is limited" in allowed.reasons[0]
