"""What perf prints, as it printed it: see the README beside the files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.pmu.output import read

DATA = Path(__file__).parents[2] / "data" / "pmu"


def lines(name):
    return read((DATA / name).read_text(), name)


@pytest.mark.parametrize("name", [f"perf-{v}-no-pmu.{e}" for v in ("6.1", "7.2")
                                  for e in ("json", "csv")])  # fmt: skip
def test_a_host_without_pmu_counts_only_what_the_kernel_knows(name):
    """perf ended with exit code 0 each time."""
    found = {line.event: line for line in lines(name)}
    for event in ("cycles", "instructions"):
        assert found[event].value is None
        assert found[event].problem == "<not supported>"
        assert not found[event].is_whole
    assert found["task-clock"].unit == "msec"
    assert 0.5 < found["task-clock"].value < 1.0
    assert found["context-switches"].value == 1


def test_both_formats_hold_the_same_counts_of_an_arm_guest():
    json, csv = lines("arm-guest-intervals.json"), lines("arm-guest-intervals.csv")
    assert [line.event for line in json] == [line.event for line in csv]
    assert [line.event for line in json] == ["r11", "r8", "task-clock"] * 3
    assert [round(line.at_s, 1) for line in csv] == [0.2] * 3 + [0.4] * 3 + [0.5] * 3
    assert json[0].value == 198_184_748  # the line says "198184748.000000"
    assert csv[0].value == 198_158_384
    assert all(line.is_whole for line in (*json, *csv))


def test_events_that_took_turns_are_not_whole():
    found = {line.event: line for line in lines("arm-guest-multiplexed.json")}
    assert found["r11"].running_share == 0.26
    assert not found["r11"].is_whole
    assert found["task-clock"].is_whole


def test_user_space_alone_is_told_by_the_modifier():
    found = lines("arm-guest-user-only.json")
    assert [(line.event, line.user_only) for line in found] == [
        ("r11", True), ("r8", True), ("task-clock", False),
    ]  # fmt: skip


def test_a_comma_before_the_brace_and_lines_of_metrics_alone():
    """perf 6.8 writes both (`-M TopdownL1 -j`, its release notes)."""
    text = (
        '{"counter-value" : "1.000000", "unit" : "", "event" : "slots", "pcnt-running" : 100, }\n'
        '{"metric-value" : "29.2", "metric-unit" : "%  tma"}\n'
    )
    assert [(line.event, line.value) for line in read(text, "x")] == [("slots", 1.0)]


def test_other_separators_and_pmu_names():
    (line,) = read("12;;armv8_pmuv3_0/event=0x3f/u;99;100.00;;\n", "x")
    assert (line.event, line.value, line.user_only) == ("armv8_pmuv3_0/event=0x3f/", 12.0, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "printed nothing"),
        ("# started on Tue\n\n", "printed nothing"),
        ("hello world\n", "no line of perf stat"),
        ("CPU0,12,,cycles,99,100.00,,\n", "without -A"),
        ('{"counter-value" : \n', "no output of perf stat -j"),
    ],
)
def test_what_is_none_is_refused(text, says):
    with pytest.raises(AskError, match=says):
        read(text, "the file")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text):
    try:
        for line in read(text, "x"):
            assert line.event
    except AskError:
        pass
