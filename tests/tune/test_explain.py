"""Why a pick is faster: only what moved beyond its intervals, or that it cannot be told."""

import pytest

from neoserve.measure.figures import Setting, judge_rows
from neoserve.measure.host import host_print
from neoserve.measure.pmu.judge import judge
from neoserve.schema.engine import EngineConfig
from neoserve.schema.pmu import CoreType, Counters, KernelFigures, Window
from neoserve.schema.trial import ClientFacts, PlannedRequest, RequestRow
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.explain import explain

V2 = CoreType("Neoverse V2 r0p1", "neoverse-v2", 8, "0x410fd4f1")


def kernel(cpu_s=10.0, wait_s=0.5, forced=100):
    return KernelFigures(
        length_s=10.0, user_s=cpu_s, system_s=0.0, num_threads=4, voluntary_switches=10,
        involuntary_switches=forced, migrations=0, minor_faults=0, major_faults=0,
        run_queue_wait_s=wait_s, throttled_s=None, pressure_cpu_share=None,
        pressure_memory_share=None, pressure_io_share=None, numa_misses=None,
    )  # fmt: skip


def counted(ipc, cpu_s, jitter=0.0, core=V2):
    windows = [
        Window({"cycles": 2.8e9, "instructions": 2.8e9 * ipc * (1 + sign * jitter)}, 1.0, 1.0, 1.0)
        for sign in (-1, 0, 1)
    ]
    judged = judge(windows, core)
    return Counters(
        tool="perf 6.1", rung=judged.rung, core=core, scope="process 1", figures=judged.figures,
        windows=tuple(windows), kernel=kernel(cpu_s),
    )  # fmt: skip


def accounted(**more):
    return Counters(tool="/proc", rung="proc", core=None, scope="process 1", kernel=kernel(**more),
                    reasons=("this guest's hypervisor shows no PMU of its cores",))  # fmt: skip


def trial(pmu, tokens_per_s=100.0):
    client = ClientFacts("asyncio", 1, "0", False, 0.0, 0.1, None, None)
    setting = Setting(
        workload=Workload(), slo=Slo(), engine=EngineConfig(engine="x"), facts=None,
        host=host_print(), client=client, salt="s", level=0.05, num_planned=1, stop="planned",
        counters={}, pmu=pmu, faults=(), usd_per_hour=None, price_source="", notes=(),
    )  # fmt: skip
    rows = [RequestRow(0.0, 0.0, 0.1, 0.2, 20, 5)]
    found = judge_rows(setting, rows, (PlannedRequest(0.0, 20, 5),))
    return found.replace(output_tokens_per_s=tokens_per_s)


def test_a_gain_is_told_by_what_moved_with_both_intervals():
    old = [trial(counted(1.0, s, 0.01)) for s in (9.9, 10.0, 10.1)]
    new = [trial(counted(1.5, s, 0.01), 200.0) for s in (9.9, 10.0, 10.1)]
    text = explain(new, old)
    assert "3 trials of the pick" in text[0]
    assert "95 %" in text[0]
    assert any(line.startswith("CPU time an output token fell from 10.0 (9.75 to 10.2) to 5.00")
               for line in text)  # fmt: skip
    assert any(line.startswith("Instructions a cycle rose from 1.00 (") for line in text)
    # 2.8e9 cycles a CPU second x IPC x CPU seconds a token: 28 M before, 21 M now
    assert any(line.startswith("Instructions an output token fell from 28") for line in text)


def test_what_did_not_move_is_not_told():
    old = [trial(counted(1.0 + s / 100, s)) for s in (8.0, 10.0, 12.0)]
    new = [trial(counted(1.02 + s / 100, s)) for s in (8.2, 9.9, 11.9)]
    (first, last) = explain(new, old)
    assert "intervals" in first
    assert last.startswith("No counter moved beyond the intervals")


def test_windows_of_one_trial_are_repeats_of_the_pipelines_figures_alone():
    text = explain([trial(counted(1.5, 5.0, 0.01))], [trial(counted(1.0, 10.0, 0.01))])
    assert any(line.startswith("Instructions a cycle rose") for line in text)
    assert not any("output token" in line for line in text)  # one window has no interval


def test_without_counters_it_says_so_and_why():
    old = [trial(accounted(cpu_s=s)) for s in (9.9, 10.0, 10.1)]
    new = [trial(accounted(cpu_s=s), 200.0) for s in (9.9, 10.0, 10.1)]
    text = explain(new, old)
    assert text[0].startswith("No hardware counters: this guest's hypervisor shows no PMU")
    assert "cannot be told" in text[0]
    assert any(line.startswith("CPU time an output token fell") for line in text)


@pytest.mark.parametrize(
    ("num_new", "num_old", "said"),
    [
        (1, 1, "Each side has a single trial, which has no interval"),
        (1, 3, "The pick has a single trial, which has no interval"),
        (3, 1, "The baseline has a single trial, which has no interval"),
        (3, 3, "Nothing of it moved beyond the intervals."),
    ],
)
def test_the_side_without_an_interval_is_named(num_new, num_old, said):
    trials = [trial(accounted(cpu_s=s)) for s in (9.9, 10.0, 10.1)]
    assert explain(trials[:num_new], trials[:num_old])[-1].startswith(said)


@pytest.mark.parametrize("sides", [(None, None), ("old", None)])
def test_nothing_counted(sides):
    made = [[trial(counted(1.0, 1.0) if side else None)] for side in sides]
    (line,) = explain(*made)
    assert "nothing was counted" in line


def test_unlike_cores_are_not_compared():
    other = V2.replace(identity="0x410fd840", family="neoverse-v3", slots=10)
    (line,) = explain([trial(counted(1.0, 1.0, core=other))], [trial(counted(1.0, 1.0))])
    assert "unlike cores" in line
