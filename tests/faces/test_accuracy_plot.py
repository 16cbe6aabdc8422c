"""The picture of predicted against measured, read back as XML."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from neoserve.faces.accuracy_plot import PANELS, SIDE, accuracy_svg
from neoserve.faces.latency import Answer
from neoserve.predict.latency_rows import case_of
from neoserve.schema.spread import MetricSpread, Spread

NS = {"s": "http://www.w3.org/2000/svg"}
WIDTH = 0.5  # log half width of the interval
SPREAD = Spread(
    device_class="", engine="", setting="new", num_sources=0,
    metrics={"ttft": MetricSpread(
        quantiles={"0.9": (-WIDTH, WIDTH)}, law=((0.05, -WIDTH), (0.95, WIDTH)), scale=1.0,
        by_arch={}, by_mode={}, by_load={}, rows=1, sources=1,
    )},
)  # fmt: skip


def answer(observed: float, predicted: float | None, arch: str = "dense") -> Answer:
    return Answer(case_of({"arch": arch}), "ttft", observed, predicted, "", "nvidia-hopper")


def panel(*found: Answer) -> ElementTree.Element:
    root = ElementTree.fromstring(accuracy_svg(found, SPREAD, "a < b"))
    groups = root.findall("s:g", NS)
    assert len(groups) == len(PANELS)
    return groups[[p.flags for p in PANELS].index(("ttft",))]


def dots(group: ElementTree.Element) -> list[tuple[float, float, float, str]]:
    return [
        (float(c.get("cx", 0)), float(c.get("cy", 0)), float(c.get("r", 0)), c.get("fill", ""))
        for c in group.findall("s:circle", NS)
    ]


def test_what_is_right_lies_on_the_diagonal() -> None:
    for x, y, _, _ in dots(panel(answer(0.01, 0.01), answer(0.1, 0.1), answer(10.0, 10.0))):
        assert x == pytest.approx(SIDE - y, abs=1.01)  # whole pixels


def test_too_high_a_prediction_lies_above_it() -> None:
    found = dots(panel(answer(0.1, 1.0), answer(1.0, 0.1)))
    above = {(x < SIDE / 2, y < SIDE / 2) for x, y, _, _ in found}
    assert above == {(True, True), (False, False)}  # small measured, high up; and the other


def test_rows_in_one_cell_are_one_larger_dot() -> None:
    one = dots(panel(answer(0.1, 0.1), answer(10.0, 10.0)))
    many = dots(panel(*[answer(0.1, 0.1)] * 30, answer(10.0, 10.0)))
    assert len(one) == len(many) == 2
    assert many[0][2] > one[0][2] == one[1][2] == many[1][2]
    assert len({colour for *_, colour in dots(panel(answer(1, 1), answer(1, 1, "moe")))}) == 2


def test_the_band_is_as_far_from_the_diagonal_as_the_interval_is_wide() -> None:
    group = panel(answer(0.01, 0.01), answer(10.0, 10.0))
    solid, *dashed = group.findall("s:line", NS)
    assert solid.get("stroke-dasharray") is None
    assert len(dashed) == 2

    def offset(line: ElementTree.Element) -> float:
        x, y = float(line.get("x1", 0)), float(line.get("y1", 0))
        return (SIDE - y) - x

    pixels = SIDE / (3 * 1.12) * WIDTH / math.log(10)  # three decades and their margins
    assert offset(solid) == pytest.approx(0.0, abs=0.2)
    assert sorted(map(offset, dashed)) == [
        pytest.approx(-pixels, abs=0.3), pytest.approx(pixels, abs=0.3),
    ]  # fmt: skip


def test_what_is_not_answered_is_not_drawn() -> None:
    assert dots(panel(answer(0.1, None))) == []
    assert len(dots(panel(answer(0.1, None), answer(0.2, 0.2)))) == 1
