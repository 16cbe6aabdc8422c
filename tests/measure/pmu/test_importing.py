"""Counters of other tools. Of topdown-tool, APerf and Performix only their documented formats are
to be had: the tables here are written by those documents, and say so."""

from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.pmu.cores import named_core
from neoserve.measure.pmu.importing.read import read_file, read_text

DATA = Path(__file__).parents[2] / "data" / "pmu"
V1, V2 = named_core("v1"), named_core("v2")


def test_a_real_pair_of_a_virtual_pmu():
    """QEMU counts an instruction every second cycle."""
    found = read_file(DATA / "arm-guest-pair.json", V1)
    assert (found.basis, found.rung) == ("imported", "ipc")
    assert found.figures["instructions_per_cycle"].value == pytest.approx(0.5, rel=1e-6)
    assert found.windows[0].counts["cycles"] == 522_276_880


@pytest.mark.parametrize("name", ["arm-guest-intervals.json", "arm-guest-intervals.csv"])
def test_intervals_give_an_interval(name):
    found = read_file(DATA / name, V1).figures["instructions_per_cycle"]
    assert found.num_windows == 3
    assert found.low <= 0.5 <= found.high
    assert found.high - found.low < 1e-6


def test_events_that_took_turns_are_refused():
    found = read_file(DATA / "arm-guest-multiplexed.json", V1)
    assert found.rung == "none"
    assert any("r8 was on a counter for 27.0% of the time" in r for r in found.reasons) or (
        "27.0%" in found.reasons[0]
    )


@pytest.mark.parametrize("name", ["perf-6.1-no-pmu.json", "perf-6.1-no-pmu.csv",
                                  "perf-7.2-no-pmu.json", "perf-7.2-no-pmu.csv"])  # fmt: skip
def test_nothing_counted_is_said(name):
    found = read_file(DATA / name, V2)
    assert found.rung == "none"
    assert "cycles is <not supported>" in found.reasons[0]


def perf_json(counts, running=100.0):
    return "\n".join(
        f'{{"counter-value" : "{value:.6f}", "unit" : "", "event" : "{event}", '
        f'"event-runtime" : 1, "pcnt-running" : {running:.2f}}}'
        for event, value in counts.items()
    )


def test_perfs_own_names_of_level_1():
    counts = {"cpu_cycles": 1e9, "stall_slot": 4e9, "stall_slot_frontend": 1e9,
              "stall_slot_backend": 3e9, "op_retired": 3.6e9, "op_spec": 4e9, "br_mis_pred": 0.0,
              "inst_retired": 3.3e9}  # fmt: skip
    found = read_text(perf_json(counts), "f", V2)
    assert found.rung == "ipc"  # a branch is predicted wrong now and then: 0 is not counted
    found = read_text(perf_json(counts | {"br_mis_pred": 1e5}), "f", V2)
    assert found.rung == "topdown"
    assert found.figures["retiring_share"].value == pytest.approx(0.45)
    raw = {"cpu_cycles": "r11", "stall_slot": "r3f", "stall_slot_frontend": "r3e",
           "stall_slot_backend": "armv8_pmuv3_0/event=0x3d/", "op_retired": "r3a",
           "op_spec": "r3B", "br_mis_pred": "r10", "inst_retired": "r08"}  # fmt: skip
    same = read_text(perf_json({raw[n]: c for n, c in counts.items()} | {"r10": 1e5}), "f", V2)
    assert same.figures == found.figures
    assert read_text(perf_json(counts, running=66.87), "f", V2).rung == "none"


HEADER = "time,group,stage,level,metric,value,units"
TOPDOWN = """time,group,stage,level,metric,value,units
,Topdown_L1,1,1,Backend Bound,39.07,%
,Topdown_L1,1,1,Bad Speculation,8.63,%
,Topdown_L1,1,1,Frontend Bound,12.42,%
,Topdown_L1,1,1,Retiring,40.01,%
,Cycle_Accounting,2,,Backend Stalled Cycles,36.08,%
,General,2,,Instructions Per Cycle,3.258,per cycle
,MPKI,2,,L1D Cache MPKI,1.173,"misses per 1,000 instructions"
"""


def test_topdown_tools_metrics():
    """Columns and values of its README.CPU.md (9f63141), a Neoverse V2."""
    found = read_text(TOPDOWN, "neoverse_v2_metrics.csv", V2)
    assert (found.tool, found.rung, found.formula) == ("topdown-tool", "topdown", "topdown-tool")
    assert found.figures["retiring_share"].value == pytest.approx(0.4001)
    assert found.figures["l1d_mpki"].value == pytest.approx(1.173)
    assert {check.name: check.holds for check in found.checks} == {"sum": True, "identity": True}
    broken = read_text(TOPDOWN.replace("40.01", "60.01"), "f", V2)
    assert broken.rung == "stalls"
    assert "add up to 120.1%" in broken.reasons[0]


def test_topdown_tools_intervals_and_groups_that_share_a_metric():
    text = ("time,group,stage,level,metric,value,units\n"
            "0.10,General,2,,Instructions Per Cycle,1.0,per cycle\n"
            "0.10,Other,2,,Instructions Per Cycle,1.0,per cycle\n"
            "0.20,General,2,,Instructions Per Cycle,2.0,per cycle\n"
            "0.30,General,2,,Instructions Per Cycle,,per cycle\n")  # fmt: skip
    found = read_text(text, "f", V2).figures["instructions_per_cycle"]
    assert (found.value, found.num_windows) == (1.5, 2)


def test_topdown_tools_events():
    text = ("run,time,event,value\n1,,CPU_CYCLES,1000\n1,,INST_RETIRED,2500\n"
            "2,,CPU_CYCLES,2000\n2,,STALL_BACKEND,500\n2,,STALL_FRONTEND,\n")  # fmt: skip
    found = read_text(text, "f", V2)
    assert found.rung == "stalls"
    assert found.figures["instructions_per_cycle"].value == 2.5
    assert found.figures["backend_stall_share"].value == 0.25
    assert "STALL_FRONTEND was not counted" in found.reasons


APERF = """processed_perf_stat_data = {"data_name":"perf_stat","data_format":"time_series",
"runs":{"run1":{"metrics":{
"ipc":{"metric_name":"ipc","series":[{"series_name":"CPU0","time_diff":[0,1],"values":[9.0,9.0]},
{"series_name":"Aggregate","time_diff":[0,1],"values":[1.4,1.6],"is_aggregate":true}]},
"stall-backend-pkc":{"metric_name":"stall-backend-pkc","series":[{"series_name":"Aggregate",
"time_diff":[0,1],"values":[424.0,426.0],"is_aggregate":true}]}},"sorted_metric_names":[]}}}

perf_stat_findings = {"per_run_findings": {}}
"""


def test_aperfs_report():
    """As its source writes data/js/perf_stat.js (data_formats.rs, 1b094aa)."""
    found = read_text(APERF, "perf_stat.js", V2)
    assert (found.tool, found.rung) == ("APerf", "stalls")
    assert found.figures["instructions_per_cycle"].value == pytest.approx(1.5)
    assert found.figures["backend_stall_share"].value == pytest.approx(0.425)


def test_performix_tables_of_metric_and_value():
    """As `apx render query` draws them: cells between heavy bars."""
    text = ("┏━━━━┳━━━━┓\n┃ metric ┃ value ┃\n┣━━━━╋━━━━┫\n┃ Frontend Bound ┃ 12.42 ┃\n"
            "┃ Backend Bound ┃ 39.07 ┃\n┃ Retiring ┃ 40.01 ┃\n┃ Bad Speculation ┃ 8.63 ┃\n"
            "┗━━━━┻━━━━┛\n")  # fmt: skip
    found = read_text(text, "Performix run 1", V2)
    assert (found.tool, found.rung) == ("Arm Performix", "topdown")
    row = "┃ retiring ┃ ipc ┃\n┃ 40.01 ┃ 3.258 ┃\n"
    assert read_text(row, "f", V2).figures["instructions_per_cycle"].value == 3.258
    with pytest.raises(AskError, match="its columns are function, samples"):
        read_text("┃ function ┃ samples ┃\n┃ main ┃ 9 ┃\n┃ f ┃ 1 ┃\n", "f", V2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("once upon a time\n", "no line of perf stat"),
        (f"{HEADER}\n,A,1,1,Wonder,1,%\n", "none of the metrics"),
        (f"{HEADER}\n,A,1,1,Retiring,much,%\n", "'much' is no number"),
        ("processed_perf_stat_data = {]", "no time series of APerf"),
    ],
)
def test_what_is_none_is_refused(text, says):
    with pytest.raises(AskError, match=says):
        read_text(text, "the file", V2)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(AskError, match="cannot be read: No such file"):
        read_file(tmp_path / "none", V2)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(AskError, match="is no text"):
        read_file(tmp_path / "bytes", V2)
