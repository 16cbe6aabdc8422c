"""What buckets allow to be said, against the values that were put into them."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as Published

from neoserve.measure.engine.histogram import Histogram, histograms

BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5)
values = st.lists(st.floats(0.001, 5.0), min_size=1, max_size=60)


def published(values_s: list[float]) -> str:
    """The text of Prometheus' own client."""
    registry = CollectorRegistry()
    told = Published("vllm:time_to_first_token_seconds", "x", ["engine"], registry=registry,
                     buckets=BOUNDS)  # fmt: skip
    for number, value in enumerate(values_s):
        told.labels(engine=str(number % 2)).observe(value)
    return generate_latest(registry).decode()


@given(values, st.sampled_from([0.5, 0.9, 0.95]))
def test_the_bucket_holds_the_quantile(values_s: list[float], p: float) -> None:
    found = histograms(published(values_s))["ttft"]
    low_s, high_s = found.quantile_bounds_s(p)
    true_s = sorted(values_s)[max(1, math.ceil(p * len(values_s))) - 1]
    assert low_s < true_s <= high_s
    assert found.num == len(values_s)
    assert math.isclose(found.sum_s, sum(values_s))


@given(values, st.floats(0.01, 4.0))
def test_misses_are_bounded(values_s: list[float], limit_s: float) -> None:
    fewest, most = histograms(published(values_s))["ttft"].misses(limit_s)
    assert fewest <= sum(value > limit_s for value in values_s) <= most
    if limit_s in BOUNDS:
        assert fewest == most


def test_a_window_is_what_came_since() -> None:
    before, now = (histograms(published([0.2] * num))["ttft"] for num in (3, 10))
    window = now.since(before)
    assert window is not None
    assert window.num == 7
    assert math.isclose(window.sum_s, 7 * 0.2)
    assert before.since(now) is None  # a restart


def test_per_request_means_go_before_single_gaps() -> None:
    line = '{}_bucket{{le="+Inf"}} {}\n'
    text = line.format("vllm:inter_token_latency_seconds", 90)
    assert histograms(text)["tpot"].name == "vllm:inter_token_latency_seconds"
    text += line.format("vllm:request_time_per_output_token_seconds", 9)
    assert histograms(text)["tpot"] == Histogram(
        "vllm:request_time_per_output_token_seconds", (math.inf,), (9.0,), 0.0
    )
    assert histograms("") == {}
