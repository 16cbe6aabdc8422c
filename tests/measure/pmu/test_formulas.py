"""Our formulas beside the kernel's own metrics, and beside figures that others published."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure.pmu.cores import arm_core, named_core
from neoserve.measure.pmu.events import level1
from neoserve.measure.pmu.formulas import figures, level1_shares

from .expressions import Metrics

DATA = Path(__file__).parents[2] / "data" / "pmu"
METRICS = json.loads((DATA / "perf_metrics.json").read_text())

# Our events, as the kernel names them.
ARM = {
    "cycles": "CPU_CYCLES", "instructions": "INST_RETIRED", "inst_spec": "INST_SPEC",
    "stall_slot": "STALL_SLOT", "stall_slot_frontend": "STALL_SLOT_FRONTEND",
    "stall_slot_backend": "STALL_SLOT_BACKEND", "op_retired": "OP_RETIRED", "op_spec": "OP_SPEC",
    "br_mis_pred": "BR_MIS_PRED", "stall_frontend_flush": "STALL_FRONTEND_FLUSH",
    "stall_frontend": "STALL_FRONTEND", "stall_backend": "STALL_BACKEND",
    "br_mis_pred_retired": "BR_MIS_PRED_RETIRED", "l1d_cache_refill": "L1D_CACHE_REFILL",
    "l2d_cache_refill": "L2D_CACHE_REFILL", "ll_cache_miss_rd": "LL_CACHE_MISS_RD",
    "ase_spec": "ASE_SPEC", "vfp_spec": "VFP_SPEC", "sve_inst_spec": "SVE_INST_SPEC",
    "ld_spec": "LD_SPEC", "st_spec": "ST_SPEC",
}  # fmt: skip
X86 = {
    "cycles": "CPU_CLK_UNHALTED.THREAD", "instructions": "INST_RETIRED.ANY",
    "slots": "TOPDOWN.SLOTS", "topdown_retiring": "topdown-retiring",
    "topdown_bad_spec": "topdown-bad-spec", "topdown_fe_bound": "topdown-fe-bound",
    "topdown_be_bound": "topdown-be-bound", "uop_dropping": "INT_MISC.UOP_DROPPING",
    "clears_count": "INT_MISC.CLEARS_COUNT", "l1d_cache_refill": "MEM_LOAD_RETIRED.L1_MISS",
    "l2d_cache_refill": "MEM_LOAD_RETIRED.L2_MISS",
    "ll_cache_miss_rd": "MEM_LOAD_RETIRED.L3_MISS",
}  # fmt: skip
AMD = {
    "cycles": "ls_not_halted_cyc", "op_retired": "ex_ret_ops", "op_spec": "de_src_op_disp.all",
    "no_ops_frontend": "de_no_dispatch_per_slot.no_ops_from_frontend",
    "no_ops_backend": "de_no_dispatch_per_slot.backend_stalls",
    "no_ops_smt": "de_no_dispatch_per_slot.smt_contention",
}  # fmt: skip
# Their metric -> our figure, and their unit.
ARM_FIGURES = {
    "frontend_bound": ("frontend_bound_share", 100), "backend_bound": ("backend_bound_share", 100),
    "retiring": ("retiring_share", 100), "bad_speculation": ("bad_speculation_share", 100),
    "ipc": ("instructions_per_cycle", 1), "l1d_cache_mpki": ("l1d_mpki", 1),
    "frontend_stalled_cycles": ("frontend_stall_share", 100),
    "backend_stalled_cycles": ("backend_stall_share", 100), "l2_cache_mpki": ("l2_mpki", 1),
    "ll_cache_read_mpki": ("llc_read_mpki", 1), "branch_mpki": ("branch_mpki", 1),
    "load_percentage": ("load_share", 100), "store_percentage": ("store_share", 100),
    "simd_percentage": ("simd_share", 100), "scalar_fp_percentage": ("fp_share", 100),
    "sve_all_percentage": ("sve_share", 100),
}  # fmt: skip
INTEL_FIGURES = {
    "tma_frontend_bound": ("frontend_bound_share", 1),
    "tma_backend_bound": ("backend_bound_share", 1), "tma_retiring": ("retiring_share", 1),
    "tma_bad_speculation": ("bad_speculation_share", 1),
    "tma_info_memory_l1mpki": ("l1d_mpki", 1), "tma_info_memory_l2mpki": ("l2_mpki", 1),
    "tma_info_memory_l3mpki": ("llc_read_mpki", 1),
}  # fmt: skip
AMD_FIGURES = {
    "frontend_bound": ("frontend_bound_share", 1), "backend_bound": ("backend_bound_share", 1),
    "retiring": ("retiring_share", 1), "bad_speculation": ("bad_speculation_share", 1),
    "smt_contention": ("smt_contention_share", 1),
}  # fmt: skip
SLOTS = {"v1": 8, "n2": 5, "n2-r0p0": 5, "v2": 8, "n3": 5}
PER_CYCLE = st.floats(min_value=1e-3, max_value=10.0)  # as far apart as counts of one second are


def tables(key):
    if key in ("icelake", "goldencove"):
        return X86, INTEL_FIGURES
    return (AMD, AMD_FIGURES) if key.startswith("zen") else (ARM, ARM_FIGURES)


@pytest.mark.parametrize("key", METRICS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_each_figure_is_the_kernels_metric_of_that_core(key, data):
    names, theirs = tables(key)
    counts = {ours: 3e9 * data.draw(PER_CYCLE, label=ours) for ours in names}
    kernel = Metrics(METRICS[key], {names[n]: c for n, c in counts.items()}, SLOTS.get(key))
    rates = {name: count / counts["cycles"] for name, count in counts.items()}
    core = named_core(key)
    if METRICS[key]["cpuid"].startswith("0x"):
        core = arm_core(int(METRICS[key]["cpuid"], 16))
    found = figures(core, rates)
    compared = [metric for metric in theirs if metric in kernel.exprs]
    assert len(compared) >= 5
    for metric in compared:
        figure, unit = theirs[metric]
        assert found[figure] == pytest.approx(kernel.value(metric) / unit, rel=1e-9, abs=1e-9), (
            metric
        )


def test_level_1_of_v3_is_that_of_n3_with_twice_the_slots():
    """Linux 7.2 has no metrics of V3; Arm's guide gives N3's with ten slots."""
    rates = {"stall_slot": 3.0, "stall_slot_frontend": 1.0, "stall_slot_backend": 2.0,
             "op_retired": 6.3, "op_spec": 7.0, "stall_frontend_flush": 0.01}  # fmt: skip
    found = level1_shares(named_core("v3"), rates)
    assert found == pytest.approx({
        "frontend_bound_share": 1.0 / 10 - 0.01,
        "backend_bound_share": 2.0 / 10,
        "retiring_share": 0.9 * 0.7,
        "bad_speculation_share": 0.1 * 0.7 + 0.01,
    })  # fmt: skip


@pytest.mark.parametrize(
    "case", json.loads((DATA / "published.json").read_text())["level1"], ids=lambda c: c["core"]
)
def test_published_counts_give_the_published_shares(case):
    counts = case["counts"]
    rates = {n: c / case.get("cycles_of", {}).get(n, counts["cycles"]) for n, c in counts.items()}
    found = level1_shares(named_core(case["core"]), rates)
    for figure, (value, tolerance) in case["published"].items():
        assert found[figure] == pytest.approx(value, abs=tolerance), figure


def test_a_core_without_slot_events_has_no_level_1():
    core = arm_core(0x413FD0C1)
    assert (core.name, level1(core)) == ("Neoverse N1 r3p1", ())
    assert level1_shares(core, {"instructions": 1.0}) == {}


def test_a_missing_event_leaves_its_figures_out():
    rates = {"instructions": 1.5, "stall_backend": 0.4, "cycles": 1.0}
    assert figures(named_core("v2"), rates) == {
        "instructions_per_cycle": 1.5, "backend_stall_share": 0.4,
    }  # fmt: skip
