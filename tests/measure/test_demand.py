"""Demand by the hour: curves and traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.demand import read_curve, read_requests

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"


def test_a_curve_with_its_source(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    path.write_text("# where it is from\nhour,rate_rps\n0,1.5\n\n1,0\n")
    assert read_curve(path) == (1.5, 0.0)


@pytest.mark.parametrize("text", ["x", "-1", "nan", ""])
def test_a_bad_rate_is_named_by_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.csv"
    path.write_text(f"# a\nhour,rate_rps\n0,1.5\n1,{text}\n")
    with pytest.raises(AskError, match="line 4: rate_rps is"):
        read_curve(path)


def test_what_is_no_curve_is_left_to_traces(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    assert read_curve(path) is None


def test_requests_of_each_whole_hour_are_counted(tmp_path: Path) -> None:
    rows = [f"2024-05-12 {h:02}:{m:02}:00,100,10" for h, n in ((0, 6), (1, 3), (2, 1))
            for m in range(n)]  # fmt: skip
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows))
    rates, trace = read_requests(path)
    assert rates == (6 / 3600, 3 / 3600)  # the third hour has but begun
    assert len(trace) == 10


def test_less_than_an_hour_is_its_mean_rate(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                    "2024-05-12 00:00:00,9,9\n2024-05-12 00:00:10,9,9\n")  # fmt: skip
    assert read_requests(path)[0] == (0.1,)


@pytest.mark.parametrize(("name", "requests"), [("chat", 27_303_999), ("code", 16_803_695)])
def test_the_example_curves_hold_the_requests_that_were_published(
    name: str, requests: int
) -> None:
    curve = read_curve(EXAMPLES / f"{name}.csv")
    assert curve is not None
    assert len(curve) == 168
    assert sum(curve) * 3600 == pytest.approx(requests, rel=2e-3)  # rates have one decimal
