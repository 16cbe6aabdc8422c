"""Counting for real: the kernel's own events by perf, and hosts with and without counters."""

import subprocess
import sys
import threading
import time

import pytest

from neoserve.errors import EngineFailed
from neoserve.measure.pmu import Scope, Steady, collect, this_host, tree, workers
from neoserve.measure.pmu.collect import Collector, window_of
from neoserve.measure.pmu.kernel import cpu_s
from neoserve.measure.pmu.output import Line
from neoserve.measure.pmu.perf import Perf, counting, find_perf, try_events
from neoserve.measure.pmu.probe import Host
from neoserve.schema.trial import RequestRow

PERF = find_perf()
needs_perf = pytest.mark.skipif(isinstance(PERF, str), reason=str(PERF))
NO_PMU = Host(None, None, {}, 0, ("made up: none",))


@pytest.fixture
def spinning():
    child = subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"],
                             stdout=subprocess.PIPE)  # fmt: skip
    child.stdout.readline()
    yield child.pid
    child.kill()
    child.wait()
    child.stdout.close()


@needs_perf
def test_perf_counts_the_window_and_nothing_else(spinning):
    with counting(PERF, Scope((spinning,)), ["task-clock", "context-switches"]) as switched:
        time.sleep(0.5)  # before it is switched on: not counted
        used_s = cpu_s([spinning])
        switched.on()
        time.sleep(0.5)
        switched.off()
        used_s = cpu_s([spinning]) - used_s
        time.sleep(0.3)
        found = {line.event: line for line in switched.lines()}
    assert found["task-clock"].value / 1e3 == pytest.approx(used_s, abs=0.03)
    assert found["task-clock"].is_whole


@needs_perf
def test_a_refusal_is_told_in_perfs_words(spinning):
    with (
        pytest.raises(EngineFailed, match=r"perf does not count: .*no-such-event"),
        counting(PERF, Scope((spinning,)), ["no-such-event"]),
    ):
        pass
    with pytest.raises(EngineFailed):
        try_events(PERF, ["no-such-event"], 0.2)


@needs_perf
def test_events_of_the_kernel_stand_in_for_counters(spinning):
    """The whole collector, on events that every kernel counts; no rule knows their names."""
    words = {"cycles": "task-clock", "instructions": "context-switches"}
    host = Host(PERF, None, words, 2, ())
    found = collect(host, Scope((spinning,)), 2.5)
    assert found.tool == f"perf {PERF.version}" or found.rung == "proc"
    assert len(found.windows) >= 1
    assert found.kernel.cpu_s > 0
    coverage = next(check for check in found.checks if check.name == "coverage")
    assert coverage.holds or "nothing ran" in coverage.says, coverage.says


def test_a_host_without_counters_gives_the_kernels_word(spinning):
    found = collect(NO_PMU, Scope((spinning,)), 0.5)
    assert (found.rung, found.tool, found.figures) == ("proc", "/proc", {})
    assert found.reasons == ("made up: none",)
    assert found.kernel.length_s > 0.2
    assert found.kernel.user_s > 0
    assert found.scope == f"process {spinning}"


def test_cpus_without_counters_give_nothing():
    found = collect(NO_PMU, Scope(cpus="0"), 0.3)
    assert (found.rung, found.kernel) == ("none", None)


def line(event, value=1.0, share=1.0, problem=""):
    return Line(event, value, "", share, problem)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([line("r11"), line("r8", None, 0.0, "<not counted>")], "instructions was <not counted>"),
        ([line("r11"), line("r8", 5.0, 0.33)], "on a counter for 33.0% of the time"),
        ([line("r11")], "instructions was not printed"),
    ],
)
def test_counts_that_are_not_whole_are_refused(lines, says):
    host = Host(None, None, {"cycles": "r11", "instructions": "r8"}, 2, ())
    assert says in window_of(("cycles", "instructions"), host, lines, 1.0, 1.0)


def test_perf_that_fails_under_load_is_given_up_and_told(spinning, tmp_path):
    script = tmp_path / "perf"
    script.write_text("#!/bin/sh\necho 'No permission to enable r11 event.' >&2\nexit 255\n")
    script.chmod(0o755)
    broken = Host(
        Perf(str(script), "6.1"), None, {"cycles": "r11", "instructions": "r8"}, 2, ()
    )
    over = threading.Event()
    threading.Timer(1.5, over.set).start()
    found = Collector(broken, Scope((spinning,))).run(over, 1.0)
    assert found.rung == "proc"
    assert "No permission to enable r11" in found.reasons[0]


def rows(*statuses):
    return [RequestRow(due_s=float(i), status=status) for i, status in enumerate(statuses)]


def test_the_window_is_from_the_first_to_the_last_measured_arrival(spinning):
    began_s = time.monotonic()
    with Steady((spinning,), [1, 2], 1.0, NO_PMU) as steady:
        steady.look(rows("ok", "unsent", "unsent"))
        time.sleep(0.8)  # warm-up: not in the window
        steady.look(rows("ok", "cancelled", "unsent"))
        time.sleep(0.4)
        steady.look(rows("ok", "ok", "cancelled"))
        time.sleep(0.8)  # the drain
    assert steady.counters.kernel.length_s < time.monotonic() - began_s - 0.8


def test_a_load_that_ends_before_its_window_has_none(spinning):
    with Steady((spinning,), [1], 1.0, NO_PMU) as steady:
        steady.look(rows("ok", "unsent"))
    assert steady.counters is None
    with Steady((), [0], 1.0, NO_PMU) as steady:
        steady.look(rows("ok"))
    assert steady.counters is None


def test_workers_are_told_by_name_where_an_engine_names_them(tmp_path):
    for pid, name in ((10, "vllm"), (11, "VLLM::EngineCor"), (12, "python3")):
        (tmp_path / f"proc/{pid}").mkdir(parents=True)
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
    assert workers((10, 11, 12), tmp_path) == (11,)
    assert workers((10, 12, 99), tmp_path) == (10, 12)


def test_a_tree_holds_what_was_started():
    child = subprocess.Popen(["sh", "-c", "sleep 30 & wait"])
    try:
        deadline_s = time.monotonic() + 10
        while len(tree(child.pid)) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        found = tree(child.pid)
        assert found[0] == child.pid
        assert len(found) == 2
    finally:
        subprocess.run(["kill", *map(str, tree(child.pid))], check=False)
        child.wait()


def test_this_host_is_probed_once():
    assert this_host() is this_host()
    assert this_host().counts or this_host().reasons
