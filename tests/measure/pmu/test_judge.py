"""Windows to figures: the rules that take figures away, intervals, rungs."""

import json
import math
from pathlib import Path

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure.pmu.checks import identity_check, sum_check, window_checks
from neoserve.measure.pmu.cores import named_core
from neoserve.measure.pmu.judge import judge, rates, rounds
from neoserve.schema.pmu import Window

DATA = Path(__file__).parents[2] / "data" / "pmu"
PUBLISHED = json.loads((DATA / "published.json").read_text())
V2 = named_core("v2")
# 2.8 GHz, half of the slots filled, nine of ten operations kept, 1.1 operations an instruction.
GOOD = {
    "cycles": 2.8e9, "stall_slot": 11.2e9, "stall_slot_frontend": 3.2e9,
    "stall_slot_backend": 8.0e9, "op_spec": 11.2e9, "op_retired": 10.08e9,
    "br_mis_pred": 2.8e6, "instructions": 9.16e9,
}  # fmt: skip


def window(counts, cpu_s=1.0, clock_s=1.0):
    return Window(dict(counts), 1.0, clock_s, cpu_s)


def test_all_events_together_give_level_1():
    found = judge([window(GOOD)], V2)
    assert (found.rung, found.reasons) == ("topdown", ())
    assert found.formula == "Arm, telemetry-solution"
    assert found.figures["retiring_share"].value == pytest.approx(0.45)
    assert found.figures["frontend_bound_share"].value == pytest.approx(1 / 7 - 0.001)
    assert found.figures["retiring_share"].low is None  # one window has no spread
    assert {check.name for check in found.checks} == {"coverage", "clock", "sum", "identity"}


def test_pairs_give_what_the_whole_group_gives():
    """Two counters: cycles and one event at a time, in windows of unlike length."""
    pairs = [
        window({"cycles": GOOD["cycles"] * k, name: GOOD[name] * k}, cpu_s=k, clock_s=k)
        for k, name in enumerate((n for n in GOOD if n != "cycles"), start=1)
    ]
    together, apart = judge([window(GOOD)], V2), judge(pairs, V2)
    assert apart.rung == "topdown"
    for name, one in together.figures.items():
        assert apart.figures[name].value == pytest.approx(one.value), name


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.8, 1.2), min_size=2, max_size=9))
def test_the_interval_is_students(factors):
    windows = [window(GOOD | {"instructions": GOOD["instructions"] * f}) for f in factors]
    found = judge(windows, V2).figures["instructions_per_cycle"]
    each = [GOOD["instructions"] * f / GOOD["cycles"] for f in factors]
    half = scipy.stats.t.ppf(0.975, len(each) - 1) * scipy.stats.sem(each)
    assert found.num_windows == len(factors)
    assert found.high - found.low == pytest.approx(2 * half, abs=1e-9)
    assert (found.high + found.low) / 2 == pytest.approx(sum(each) / len(each))


def test_rounds_hold_every_group_once():
    a, b = {"cycles": 1.0, "instructions": 1.0}, {"cycles": 1.0, "op_spec": 1.0}
    found = rounds([window(c) for c in (a, b, a, b, a)])
    assert [len(part) for part in found] == [2, 2]  # the last lacks a group


def test_slots_that_do_not_add_up_are_rejected():
    found = judge([window(GOOD | {"stall_slot_backend": 4.0e9})], V2)
    assert found.rung == "ipc"
    assert "retiring_share" not in found.figures
    assert found.figures["instructions_per_cycle"].value == pytest.approx(9.16 / 2.8)
    assert "add up to 82.1%" in found.reasons[0]


def test_retiring_that_the_operations_do_not_bear_out_is_rejected():
    """STALL_SLOT of another width: 5 slots' worth of stalls on a core of 8."""
    half = {"stall_slot": 4.0e9, "stall_slot_frontend": 1.0e9, "stall_slot_backend": 3.0e9}
    found = judge([window(GOOD | half)], V2)
    assert found.rung == "ipc"
    assert "retiring 73.9% against 45.0%" in found.reasons[0]


@pytest.mark.parametrize("case", PUBLISHED["identity"], ids=lambda c: c["source"][:40])
def test_the_identity_on_published_pairs(case):
    shares = {"retiring_share": case["retiring_share"]}
    rates = {"instructions": case["instructions_per_cycle"]}
    assert identity_check(shares, rates, named_core(case["core"])).holds is case["holds"]


def test_published_shares_add_up_within_three_points():
    shares = {"frontend_bound_share": 0.1242, "backend_bound_share": 0.3907,
              "retiring_share": 0.4001, "bad_speculation_share": 0.0863}  # fmt: skip
    assert sum_check(shares).holds  # Arm's README: 100.13 %
    assert not sum_check(shares | {"retiring_share": 0.45}).holds
    assert not sum_check(shares | {"retiring_share": -0.1, "backend_bound_share": 0.89}).holds


@pytest.mark.parametrize(
    ("counted_s", "used_s", "holds"),
    [(8.0, 8.1, True), (0.0003, 8.0, False), (8.0, 2.0, False), (0.0, 0.0, False)],
)
def test_counters_have_to_cover_the_engine(counted_s, used_s, holds):
    """0.3 ms is what `perf stat -- sleep` saw of an engine that ran for 8 s."""
    counts = {"cycles": 2.5e9 * counted_s or 1.0, "instructions": 3e9 * counted_s}
    windows = [window(counts, cpu_s=used_s, clock_s=counted_s)]
    assert all(check.holds for check in window_checks(windows)) is holds
    found = judge(windows, V2)
    assert (found.rung == "ipc") is holds
    assert bool(found.figures) is holds


def test_cycles_that_no_core_makes_are_rejected():
    found = judge([window(GOOD | {"cycles": 28e9})], V2)
    assert found.rung == "proc"
    assert "28.00 GHz" in found.reasons[0]


def test_events_that_stay_nought_are_not_counted():
    """Linux on a virtual Arm PMU takes STALL_SLOT and counts none (tests/data/pmu)."""
    text = (DATA / "arm-guest-topdown.json").read_text()
    from neoserve.measure.pmu.importing.read import read_text

    found = read_text(text, "guest", named_core("v1"))
    assert found.rung == "none"
    assert not found.figures
    assert "0 all the time under load" in found.reasons[0]


def test_rates_use_the_cycles_of_their_own_groups():
    found = rates([window({"cycles": 10.0, "instructions": 20.0}),
                   window({"cycles": 100.0, "op_spec": 50.0})])  # fmt: skip
    assert found == {"cycles": 1.0, "instructions": 2.0, "op_spec": 0.5}
    assert not math.isnan(sum(found.values()))
