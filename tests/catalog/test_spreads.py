"""The bundled intervals: what is kept, for whom, and how it is put together."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from neoserve.catalog.coefficients import coefficients_for
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.intervals import benches_of, known_by, resolve_spread, spread_for, table
from neoserve.predict.intervals import bounds
from neoserve.predict.latency_rows import FLAGS

H100 = coefficients_for(find_machine("H100-SXM").hardware, "vllm", "0.11.0")


def test_every_metric_has_nested_bounds_around_the_prediction() -> None:
    for setting in ("new", "seen"):
        metrics = table()["settings"][setting]
        assert set(metrics) == set(FLAGS)
        for name, entry in metrics.items():
            found = [entry["quantiles"][level] for level in ("0.5", "0.8", "0.9", "0.95")]
            for (low, high), (outer_low, outer_high) in pairwise(found):
                assert outer_low <= low <= 0 <= high <= outer_high, (setting, name)
            shares = [share for share, _ in entry["law"]]
            values = [value for _, value in entry["law"]]
            assert (shares, values) == (sorted(shares), sorted(values)), (setting, name)
            assert entry["sources"] >= 1
            assert entry["rows"] >= 20


def test_a_group_s_factor_is_between_a_quarter_and_four() -> None:
    for entries in table()["settings"].values():
        for entry in entries.values():
            for name, factors in entry.items():
                if name.startswith("by_"):
                    assert all(0.2 < f < 5 for f in factors.values()), name


def test_benches_are_counted_once_each() -> None:
    rows = [("a", "hopper", "vllm"), ("a", "hopper", "vllm"), ("a", "gddr", "vllm"),
            ("b", "hopper", "sglang")]  # fmt: skip
    assert benches_of(rows) == {
        "hopper|vllm": 1, "gddr|vllm": 1, "hopper|sglang": 1, "hopper": 2, "gddr": 1,
        "vllm": 1, "sglang": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("device_class", "family", "known"),
    [("hopper", "vllm", "pair"), ("gddr", "sglang", "both"), ("gddr", "tgi", "one"),
     ("volta", "vllm", "one"), ("volta", "tgi", "neither")],
)  # fmt: skip
def test_what_others_measured_has_a_name(device_class: str, family: str, known: str) -> None:
    benches = benches_of([("a", "hopper", "vllm"), ("a", "gddr", "vllm"),
                          ("b", "hopper", "sglang")])  # fmt: skip
    assert known_by(benches, device_class, family) == known


def test_a_spread_is_the_table_s_factors_multiplied() -> None:
    whole = {
        "benches": {"hopper|vllm": 1, "hopper": 1, "vllm": 1},
        "settings": {"new": {"ttft": {
            "rows": 30, "sources": 3, "quantiles": {"0.9": [-0.1, 0.2]}, "law": [[0.5, 0.0]],
            "by_class": {"hopper": 0.5}, "by_engine": {"vllm": 1.2}, "by_known": {"pair": 0.9},
            "by_arch": {"moe": 2.0},
        }}},
    }  # fmt: skip
    metric = resolve_spread(whole, "hopper", "vllm", "new").metrics["ttft"]
    assert metric.scale == pytest.approx(0.5 * 1.2 * 0.9)
    low, high = bounds(metric, "moe", "closed_loop", 4) or (0, 0)
    assert math.log(high) == pytest.approx(0.2 * 0.54 * 2.0)
    assert math.log(low) == pytest.approx(-0.1 * 0.54 * 2.0)
    other = resolve_spread(whole, "volta", "tgi", "new")
    assert (other.metrics["ttft"].scale, other.num_sources) == (1.0, 0)


def test_what_a_profile_corrected_counts_as_seen() -> None:
    assert spread_for(H100).setting == "new"
    assert spread_for(H100, "seen").setting == "seen"
    assert spread_for(H100.replace(calibration="measured here")).setting == "seen"


def test_spreads_of_coefficients_are_those_of_their_narrowest_group() -> None:
    from neoserve.catalog.intervals import coefficient_spreads

    whole = {"coefficients": {
        "memory_share": {
            "value": 0.8, "residual_log_median": 0.1,
            "by_class": {"hopper": {"factor": 1.1, "residual_log_median": 0.2}},
            "by_pair": {"hopper|vllm": {"factor": 1.1, "residual_log_median": 0.05}},
        },
        "layer_s": {"value": 1e-5, "residual_log_median": 0.1},
        "fixed": {"value": 1.0, "rows": 0},
    }}  # fmt: skip
    to_deviation = 1 / 0.6745  # of a normal law's median absolute deviation
    found = coefficient_spreads(whole, "hopper", "vllm")
    assert found == {
        "memory_share": pytest.approx(0.05 * to_deviation, abs=1e-3),
        "layer_s": pytest.approx(0.1 * to_deviation, abs=1e-3),
    }
    assert coefficient_spreads(whole, "hopper", "tgi")["memory_share"] == pytest.approx(
        0.2 * to_deviation, abs=1e-3
    )
