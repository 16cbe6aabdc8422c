"""Sums of steps, blocks of the cache, percentiles and the search, each against plain counting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_serve import server

from neoserve.predict.simulation.blocks import Blocks
from neoserve.predict.simulation.requests import Outcomes, Requests
from neoserve.predict.simulation.summary import highest_rate_rps, statistic, summarize
from neoserve.predict.simulation.sums import DecodeTime, total
from neoserve.schema.workload import Slo

AFFINE = DecodeTime(server().step)
EAGER = DecodeTime(server(enforce_eager=True).step)


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.floats(0, 100), st.integers(1, 3000)
)
def test_polynomials_of_degree_five_are_summed_exactly(
    factors: list[float], start: float, steps: int
) -> None:
    def f(x: float) -> float:
        return sum(a * (x / 1000) ** k for k, a in enumerate(factors))

    plain = math.fsum(f(start + i) for i in range(steps))
    size = math.fsum(abs(f(start + i)) for i in range(steps))
    assert total(f, start, steps) == pytest.approx(plain, rel=1e-9, abs=1e-9 * size)


@pytest.mark.parametrize("time", [AFFINE, EAGER])
@given(st.integers(1, 300), st.floats(1, 5000), st.integers(1, 600))
def test_a_run_is_the_sum_of_its_steps(
    time: DecodeTime, num: int, context: float, steps: int
) -> None:
    plain = math.fsum(time._step_s(0.0, 0.0, num, context + i) for i in range(steps))
    assert time.run_s(num, context, steps) == pytest.approx(plain, rel=1e-10)


@pytest.mark.parametrize("time", [AFFINE, EAGER])
@given(st.integers(1, 300), st.floats(1, 5000), st.integers(1, 600), st.floats(0.001, 1.1))
def test_the_first_step_that_ends_after_a_time(
    time: DecodeTime, num: int, context: float, most: int, share: float
) -> None:
    within_s = share * time.run_s(num, context, most)
    steps, seconds = time.steps_in(num, context, most, within_s)
    assert seconds == pytest.approx(time.run_s(num, context, steps), rel=1e-9)
    assert 1 <= steps <= most
    assert seconds >= within_s or steps == most
    if steps > 1:
        assert time.run_s(num, context, steps - 1) < within_s * (1 + 1e-12)


def test_a_linear_step_is_looked_at_four_times_a_stretch() -> None:
    time = DecodeTime(server().step)
    time.run_s(8, 1000.0, 100)
    assert set(time._lines) == {(8, 10), (8, 11)}
    assert None not in time._lines.values()


@given(
    st.integers(1, 20), st.lists(st.tuples(st.integers(1, 200), st.integers(0, 30)), max_size=12),
    st.integers(0, 100), st.integers(1, 100), st.integers(0, 200),
)  # fmt: skip
def test_blocks_grow_as_each_request_does(
    size: int, joined: list[tuple[int, int]], step: int, steps: int, spare: int
) -> None:
    blocks = Blocks(1e6, size)
    tokens = [own + age for own, age in joined]  # in the cache before `step`
    for own in tokens:
        blocks.join(own + 1 - step)
    def need(k: int) -> int:
        return sum(math.ceil((own + k) / size) - math.ceil(own / size) for own in tokens)

    assert blocks.growth(step, steps) == need(steps)
    blocks.free = spare
    fits = blocks.fitting(step, steps)
    assert need(fits) <= spare or fits == 0
    assert fits == steps or need(fits + 1) > spare
    for own in tokens:
        blocks.leave(own + 1 - step, step)
    assert blocks.free == spare + sum(math.ceil(own / size) for own in tokens)


REQUESTS = Requests([0.0] * 4, [10] * 4, [11, 11, 11, 1], [0] * 4)
FOUND = Outcomes(
    sent_s=[0.0] * 4, first_s=[1.0, 2.0, 3.0, 4.0], end_s=[2.0, 4.0, 6.0, 4.0], num_steps=9,
    prompt_s=1.0, slots_full_s=1.0, kv_full_s=4.0, preemptions=0, decode_request_s=6.0,
    elapsed_s=6.0, unfinished=0,
)  # fmt: skip


def test_figures_of_four_requests() -> None:
    found = summarize(REQUESTS, FOUND, Slo.parse_text("ttft:p50<2.6s; tpot:mean<150ms"), 0.5)
    assert (found.latency.ttft_s.mean, found.latency.ttft_s.p50) == (2.5, 2.5)
    assert found.latency.tpot_s.mean == pytest.approx(0.2)  # of those that have a second token
    assert found.latency.e2e_s.p95 == pytest.approx(4.0 + 0.85 * 2.0)
    assert found.meets_slo is False  # TPOT is 200 ms
    assert found.good_share == 0.25  # the first: 1 s and 100 ms
    assert (found.limit, found.num_decoding) == ("kv", 1.0)
    assert found.request_rate_rps == 0.5


def test_a_closed_loop_passes_what_little_says() -> None:
    found = summarize(REQUESTS._replace(concurrency=2), FOUND, None)
    assert found.request_rate_rps == pytest.approx(2 / 4.0)
    assert (found.meets_slo, found.good_share) == (None, 1.0)


@pytest.mark.parametrize(("text", "meets"), [
    ("ttft:p95<3.9s", True), ("ttft:p95<3.8s", False), ("ttft:mean<2.5s", True),
    ("e2e:p99<5.9s", False), ("quality<4%", None),
])  # fmt: skip
def test_a_target_is_judged_by_the_statistic_that_it_names(text: str, meets: bool | None) -> None:
    assert summarize(REQUESTS, FOUND, Slo.parse_text(text), 1.0).meets_slo is meets


def test_statistics_by_name() -> None:
    assert statistic([1.0, 2.0, 3.0], "mean") == 2.0
    assert statistic(range(1001), "p99.9") == pytest.approx(999.0)


@given(st.floats(1e-3, 1.0), st.floats(1e-6, 1.0))
def test_the_highest_rate_is_found_from_any_guess(limit: float, guess: float) -> None:
    found = highest_rate_rps(lambda rate: rate <= limit, guess, 1.0, 0.03)
    assert limit / 1.03 - 1e-12 <= found <= limit


def test_no_rate_and_every_rate() -> None:
    assert highest_rate_rps(lambda _: False, 0.5, 1.0) == 0.0
    assert highest_rate_rps(lambda _: True, 0.5, 1.0) == 1.0
