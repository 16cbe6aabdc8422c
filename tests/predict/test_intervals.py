"""Intervals around predictions: bounds, verdicts, and what they are built from."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from asking import LLAMA, predicted
from hypothesis import given
from hypothesis import strategies as st

from neoserve.predict.intervals import (
    LARGEST_FACTOR,
    arch_of,
    bounds,
    load_band,
    share_below,
    thin_note,
)
from neoserve.schema.spread import MetricSpread, Spread
from neoserve.schema.workload import Workload

METRIC = MetricSpread(
    quantiles={"0.5": (-0.05, 0.1), "0.8": (-0.1, 0.3), "0.9": (-0.2, 0.4), "0.95": (-0.3, 0.5)},
    law=((0.05, -0.2), (0.1, -0.1), (0.25, -0.05), (0.75, 0.1), (0.9, 0.3), (0.95, 0.4)),
    scale=1.5,
    by_arch={"moe": 2.0},
    by_mode={"burst": 1.2},
    by_load={"1": 0.5, ">128": 1.5},
    rows=100,
    sources=10,
)
arches = st.sampled_from(["dense", "moe", "hybrid"])
modes = st.sampled_from(["single_stream", "closed_loop", "burst", "open_loop", "offline"])
loads = st.floats(1, 1000)


@pytest.mark.parametrize(
    ("in_flight", "band"),
    [(1, "1"), (1.5, "2-8"), (8, "2-8"), (9, "9-32"), (32, "9-32"), (128, "33-128"),
     (129, ">128")],
)  # fmt: skip
def test_loads_are_sorted_by_size(in_flight: float, band: str) -> None:
    assert load_band("closed_loop", in_flight) == band
    assert load_band("open_loop", in_flight) == ""


def test_bounds_are_quantiles_times_the_groups_factors() -> None:
    low, high = bounds(METRIC, "dense", "closed_loop", 4) or (0, 0)
    assert (math.log(low), math.log(high)) == (pytest.approx(-0.3), pytest.approx(0.6))
    low, high = bounds(METRIC, "moe", "burst", 1) or (0, 0)
    scale = 1.5 * 2.0 * 1.2 * 0.5
    assert (math.log(low), math.log(high)) == (
        pytest.approx(-0.2 * scale), pytest.approx(0.4 * scale),
    )  # fmt: skip


def test_groups_together_widen_so_far_and_no_further() -> None:
    low, _ = bounds(METRIC, "moe", "burst", 500) or (0, 0)  # 1.5 x 2 x 1.2 x 1.5 = 5.4
    assert math.log(low) == pytest.approx(-0.2 * LARGEST_FACTOR)


def test_a_level_that_is_not_kept_has_no_bounds() -> None:
    assert bounds(METRIC, "dense", "closed_loop", 4, level=0.99) is None


@given(arches, modes, loads)
def test_bounds_nest_and_hold_the_prediction(arch: str, mode: str, load: float) -> None:
    found = [bounds(METRIC, arch, mode, load, level) for level in (0.5, 0.8, 0.9, 0.95)]
    for inner, outer in pairwise(found):
        assert inner is not None
        assert outer is not None
        assert outer[0] <= inner[0] <= 1.0 <= inner[1] <= outer[1]


@given(arches, modes, loads, st.floats(0.1, 10), st.floats(0.1, 10))
def test_more_time_holds_more_benches(
    arch: str, mode: str, load: float, a: float, b: float
) -> None:
    low, high = sorted((a, b))
    shares = [share_below(METRIC, arch, mode, load, f) for f in (0.0, low, high, 1e6)]
    assert shares == sorted(shares)
    assert all(0 <= s <= 1 for s in shares)


@pytest.mark.parametrize(("level", "tail"), [(0.5, 0.25), (0.8, 0.1), (0.9, 0.05)])
def test_shares_and_bounds_agree(level: float, tail: float) -> None:
    low, high = bounds(METRIC, "dense", "closed_loop", 4, level) or (0, 0)
    assert share_below(METRIC, "dense", "closed_loop", 4, low) == pytest.approx(tail)
    assert share_below(METRIC, "dense", "closed_loop", 4, high) == pytest.approx(1 - tail)


# in an answer


CLOSED = Workload(concurrency=16, prompt_tokens=1000, output_tokens=200)


def test_an_answer_carries_intervals_around_its_values() -> None:
    answer = predicted(workload=CLOSED)
    assert set(answer.interval) == {
        "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "max_rate_rps",
    }  # fmt: skip
    assert answer.latency is not None
    assert answer.throughput is not None
    values = {
        "ttft_s": answer.latency.ttft_s.mean, "tpot_s": answer.latency.tpot_s.mean,
        "e2e_s": answer.latency.e2e_s.mean,
        "output_tokens_per_s": answer.throughput.output_tokens_per_s,
        "max_rate_rps": answer.throughput.max_rate_rps,
    }  # fmt: skip
    for name, interval in answer.interval.items():
        value = values[name]
        assert value is not None
        assert 0 < interval.low <= value <= interval.high, name
        assert interval.level == 0.9


def test_an_open_load_s_output_is_its_own_rate() -> None:
    answer = predicted(workload=Workload(arrival="poisson", rate_rps=0.5))
    assert "output_tokens_per_s" not in answer.interval
    assert {"ttft_s", "tpot_s"} <= set(answer.interval)


def test_an_endless_queue_has_no_interval() -> None:
    answer = predicted(workload=Workload(arrival="poisson", rate_rps=1e4), slo="ttft<1s")
    assert "ttft_s" not in answer.interval
    assert answer.slo_share == 0.0


def test_without_an_slo_the_highest_rate_is_wrong_as_throughput_is() -> None:
    interval = predicted(workload=CLOSED).interval
    rate, output = interval["max_rate_rps"], interval["output_tokens_per_s"]
    assert rate.high / rate.low == pytest.approx(output.high / output.low, rel=1e-6)


def test_within_an_slo_a_rate_is_less_sure_than_without() -> None:
    free = predicted(workload=CLOSED).interval["max_rate_rps"]
    told = predicted(workload=CLOSED, slo="tpot<15ms").interval["max_rate_rps"]
    assert told.high / max(told.low, 1e-9) > free.high / free.low


def test_a_verdict_says_how_sure_it_is() -> None:
    answer = predicted(workload=CLOSED)
    assert answer.latency is not None
    tpot_s = answer.latency.tpot_s.mean or 0.0
    shares = []
    for share in (0.5, 0.95, 1.05, 2.0, 10.0):
        judged = predicted(workload=CLOSED, slo=f"tpot<{tpot_s * share}s")
        assert judged.slo_share is not None
        assert judged.meets_slo == (share > 1)
        shares.append(judged.slo_share)
        if share == 0.95:
            assert judged.slo_note.startswith("misses in expectation; the 90% interval of TPOT")
        if share == 1.05:
            assert judged.slo_note.startswith("meets in expectation; the 90% interval of TPOT")
    assert shares == sorted(shares)
    assert shares[0] < 0.2
    assert shares[-1] > 0.9


def test_a_pair_that_few_measured_says_so() -> None:
    spread = Spread(
        device_class="amd-rdna", engine="sglang", setting="new", num_sources=0, metrics={}
    )
    assert "no public bench measured sglang on a device of class amd-rdna" in thin_note(spread)
    assert "one public bench" in thin_note(spread.replace(num_sources=1))
    assert thin_note(spread.replace(num_sources=2)) == ""
    assert thin_note(spread.replace(setting="seen")) == ""
    answer = predicted(on="graviton4", workload=CLOSED)
    assert any("no public bench measured" in note for note in answer.assumptions)


@pytest.mark.parametrize(
    ("name", "arch"),
    [(LLAMA, "dense"), ("openai/gpt-oss-20b", "moe"), ("deepseek-ai/DeepSeek-V3", "moe"),
     ("Qwen/Qwen3-Next-80B-A3B-Instruct", "moe"), ("Qwen/Qwen3.5-27B", "hybrid")],
)  # fmt: skip
def test_models_are_sorted_as_benchmarks_sort_them(name: str, arch: str) -> None:
    from neoserve.catalog.models import find_model

    assert arch_of(find_model(name, online=False)) == arch
