"""What a window of buckets says of an SLO and of a capacity."""

from __future__ import annotations

import math

import pytest

from neoserve.measure.engine.histogram import Histogram
from neoserve.schema.watch import Capacity, WatchedTarget
from neoserve.schema.workload import Slo
from neoserve.tune.drift import drift, unlike_traffic, watched

BOUNDS = (0.5, 1.0, 2.0, math.inf)
CERTIFIED = Capacity(source="r", basis="measured", rate_rps=4.0, prompt_tokens=512,
                     output_tokens=128)  # fmt: skip


def one(slo: str, counts: tuple[float, ...], sum_s: float = 1.0) -> WatchedTarget:
    seen = {"ttft": Histogram("x", BOUNDS, counts, sum_s)}
    return watched(Slo.parse_text(slo), seen, {})[0]


@pytest.mark.parametrize(
    ("slo", "counts", "state", "bucket"),
    [
        ("ttft:p95<1s", (190, 200, 200, 200), "met", (0.0, 0.5)),
        ("ttft:p95<1s", (100, 150, 200, 200), "missed", (1.0, 2.0)),
        ("ttft:p95<1s", (100, 150, 180, 200), "missed", (2.0, None)),
        ("ttft:p95<1.5s", (100, 180, 200, 200), "unknown", (1.0, 2.0)),  # within a bucket
        ("ttft:p95<1s", (10, 10, 10, 10), "unknown", (0.0, 0.5)),  # 59 without a miss, at least
        ("ttft:p95<1s", (59, 59, 59, 59), "met", (0.0, 0.5)),
        ("ttft:p95<1s", (58, 58, 58, 58), "unknown", (0.0, 0.5)),
    ],
)
def test_a_percentile(
    slo: str, counts: tuple[float, ...], state: str, bucket: tuple[float, float | None]
) -> None:
    found = one(slo, counts)
    assert (found.state, (found.low_s, found.high_s)) == (state, bucket)


def test_what_buckets_leave_open_is_said() -> None:
    found = one("ttft:p95<1.5s", (100, 180, 200, 200))
    assert (found.miss_share_low, found.miss_share_high) == (0.0, 0.1)
    assert "0 to 20 of 200 requests above the limit; the limit lies within a bucket" in found.reason


def test_means() -> None:
    assert one("ttft:mean<1s", (10, 10, 10, 10), 9.0).state == "met"
    assert one("ttft:mean<1s", (10, 10, 10, 10), 11.0).state == "missed"
    found = watched(Slo.parse_text("tpot:mean<10ms; ttft:p95<1s"), {}, {"tpot": (0.02, 50.0)})
    assert [(t.state, t.num) for t in found] == [("missed", 50), ("unknown", 0)]
    assert "no histogram" in found[1].reason


MISSED = WatchedTarget(target="t", state="missed", reason="")
MET = MISSED.replace(state="met")
PREDICTED = Capacity(source="p", basis="predicted", rate_rps=4.0, low_rps=2.0, high_rps=7.0)


@pytest.mark.parametrize(
    ("target", "capacity", "rate", "state"),
    [
        (MET, CERTIFIED, 3.0, "within"), (MET, None, None, "within"),
        (MISSED, CERTIFIED, 3.9, "drift"), (MISSED, CERTIFIED, 4.1, "overload"),
        (MISSED, PREDICTED, 1.9, "drift"), (MISSED, PREDICTED, 2.1, "overload"),
        (MISSED, None, 3.0, "unknown"), (MISSED, CERTIFIED, None, "unknown"),
        (MISSED.replace(state="unknown"), CERTIFIED, 3.0, "unknown"),
    ],
)  # fmt: skip
def test_drift_is_a_miss_where_it_should_have_held(
    target: WatchedTarget, capacity: Capacity | None, rate: float | None, state: str
) -> None:
    found, share, _ = drift([target], capacity, rate)
    assert found == state
    assert share == (rate / 4.0 if capacity and rate else None)


def test_other_traffic_is_said() -> None:
    assert unlike_traffic(CERTIFIED, 500.0, 130.0) == ""
    assert "prompts of 900 tokens where 512 were certified" in unlike_traffic(CERTIFIED, 900, 128)
    assert unlike_traffic(None, 900.0, 1.0) == ""
