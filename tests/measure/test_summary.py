import random

import pytest

from neoserve.measure.summary import (
    cost_at,
    goodput_rps,
    judged,
    output_rate_interval,
    steady,
    summarize,
    summarize_itl,
    summarize_queue,
    tpot_s,
    ttft_s,
)
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo


def row(due_s, ttft=0.1, e2e=1.0, tokens=10, **more):
    return RequestRow(
        due_s=due_s, sent_s=due_s, first_token_s=due_s + ttft, last_token_s=due_s + e2e,
        prompt_tokens=5, output_tokens=tokens, **more,
    )  # fmt: skip


def failed(due_s):
    return RequestRow(due_s=due_s, sent_s=due_s, status="timeout", error="late")


def test_quantiles_and_their_intervals():
    shuffled = random.Random(1).sample(range(100), 100)
    rows = [row(float(i), ttft=(value + 1) / 100) for i, value in enumerate(shuffled)]
    summary = summarize(rows, ttft_s)
    assert (summary.num, summary.num_failed) == (100, 0)
    assert summary.mean == pytest.approx(0.505)
    assert summary.p50.value == pytest.approx(0.505)
    # 40 and 61 for known independence; this order gives a little away
    assert 0.33 <= summary.p50.low <= 0.40
    assert 0.61 <= summary.p50.high <= 0.68
    assert summary.p95.low < summary.p95.value < summary.p95.high
    assert summary.p99.high is None  # 100 values cannot bound it from above


def test_a_series_that_drifts_is_worth_few_requests():
    assert summarize([row(float(i), ttft=i + 1) for i in range(100)], ttft_s).p50.low is None


def test_failed_requests_are_infinitely_slow_not_absent():
    rows = [row(float(i)) for i in range(90)] + [failed(float(i)) for i in range(10)]
    summary = summarize(rows, ttft_s)
    assert (summary.num, summary.num_failed) == (100, 10)
    assert summary.p50.value == pytest.approx(0.1)
    assert summary.p95.value is None
    assert summary.mean == pytest.approx(0.1)


def test_one_token_has_no_tpot():
    assert summarize([row(0.0, tokens=1), row(1.0)], tpot_s).num == 1


def test_nothing_gives_nothing():
    summary = summarize([], ttft_s)
    assert (summary.num, summary.mean, summary.p95.value) == (0, None, None)
    assert steady([]).output_tokens_per_s is None
    assert steady([row(1.0)]).served_rps is None


def test_what_we_ended_is_not_judged():
    rows = [row(0.0), row(1.0, status="cancelled"), RequestRow(due_s=2.0, status="unsent")]
    assert judged(rows) == rows[:1]


def test_steady_rates_of_a_server_that_keeps_up():
    window = steady([row(i * 0.1, phase="warmup" if i < 100 else "measured") for i in range(1000)])
    assert window.offered_rps == pytest.approx(10, rel=0.01)
    assert window.served_rps == pytest.approx(10, rel=0.02)
    assert window.output_tokens_per_s == pytest.approx(100, rel=0.02)
    assert window.input_tokens_per_s == pytest.approx(50, rel=0.02)
    assert (window.from_s, window.until_s) == (pytest.approx(10.0), pytest.approx(99.9))
    assert window.load_limited


@pytest.mark.parametrize(("service_s", "load_limited"), [(0.08, True), (0.12, False)])
def test_load_limited_is_told_from_saturated(service_s, load_limited):
    rng = random.Random(5)
    due, free, rows = 0.0, 0.0, []
    for _ in range(400):  # one server, 10 requests a second
        due += rng.expovariate(10)
        free = max(free, due) + service_s
        rows.append(row(due, ttft=free - due - 0.01, e2e=free - due))
    assert steady(rows).load_limited is load_limited


def test_failures_are_not_load_limited():
    assert not steady([row(i * 0.1) for i in range(50)] + [failed(5.0)]).load_limited


def test_tokens_outside_the_window_do_not_count():
    slow = [row(float(i), ttft=0.5, e2e=1000.0, tokens=1001) for i in range(11)]
    window = steady([slow[0].replace(phase="warmup"), *slow[1:]])  # from 1 to 10
    # first tokens of those due at 1 to 9 s; the rest at about one token a second
    assert window.output_tokens_per_s == pytest.approx(
        (9 + sum(min(9, 9.5 - i) for i in range(10)) * 1000 / 999.5) / 9, rel=0.01
    )
    assert window.input_tokens_per_s == pytest.approx(5.0)


def test_goodput_counts_requests_that_kept_every_bound():
    slo = Slo.parse_text("ttft:p95<0.5s; tpot<0.2s; quality<4%")
    rows = [row(i * 0.1, ttft=0.1 if i % 4 else 0.6) for i in range(101)]
    rows += [failed(5.0), row(6.0, tokens=1)]
    # 1..100 are due in the window, 75 of them quick; the failed one counts not, the short one does
    assert goodput_rps(rows, slo, steady(rows)) == pytest.approx(76 / 10)
    assert goodput_rps(rows, Slo.parse_text("quality<4%"), steady(rows)) is None
    assert goodput_rps([], slo, steady([])) is None


def test_gaps_between_tokens_have_intervals_by_request():
    rng = random.Random(2)
    hits = 0
    for _ in range(200):  # gaps of one request are nearly one value
        rows = []
        for i in range(60):
            pace = rng.gauss(0.1, 0.02)
            gaps = tuple(pace + rng.gauss(0, 0.002) for _ in range(rng.randint(5, 30)))
            rows.append(row(float(i), itl_s=gaps))
        summary = summarize_itl(rows)
        hits += summary.p50.low <= 0.1 <= summary.p50.high
    assert 0.92 <= hits / 200 <= 0.995
    assert summary.num == sum(len(r.itl_s) for r in rows)


def test_gaps_of_few_requests_have_no_interval():
    summary = summarize_itl([row(0.0, itl_s=(0.1, 0.2, 0.3)), failed(1.0)])
    assert (summary.num, summary.num_failed) == (3, 1)
    assert (summary.p50.value, summary.p50.low, summary.p50.high) == (0.2, None, None)
    assert summarize_itl([]).p50.value is None
    alike = summarize_itl([row(float(i), itl_s=(0.1,) * 5) for i in range(20)])
    assert alike.p99.value == 0.1
    assert alike.p99.low == 0.1


def test_the_queue_is_of_those_that_the_server_told():
    summary = summarize_queue([row(0.0, queue_s=0.2), row(1.0), failed(2.0)])
    assert (summary.num, summary.mean) == (1, 0.2)
    assert summarize_queue([row(0.0)]).num == 0


def test_cost_at_a_rate():
    # 3.60 USD an hour are 0.001 a second; 1000 output tokens a second: 1 USD per million
    cost = cost_at(3.6, "list", 1000.0, 3000.0)
    assert cost.usd_per_mtok_output == pytest.approx(1.0)
    assert cost.usd_per_mtok_input == pytest.approx(1 / 3)
    assert cost.usd_per_mtok_total == pytest.approx(0.25)
    assert cost_at(3.6, "list", None, 3000.0) is None
    assert cost_at(3.6, "list", 0.0, 3000.0) is None


def test_the_output_rate_is_bounded_by_how_it_wandered():
    even = [row(i / 10, e2e=1.0) for i in range(600)]  # 10 tokens, ten times a second
    low, high = output_rate_interval(even, steady(even))
    assert 95 < low <= high < 105
    held = 0
    for seed in range(40):  # 10 tokens in 0.1 s, Poisson arrivals, ten a second
        rng, due, bursty = random.Random(seed), 0.0, []
        for _ in range(600):
            due += rng.expovariate(10)
            bursty.append(row(due, ttft=0.01, e2e=0.1))
        low, high = output_rate_interval(bursty, steady(bursty))
        held += low < 100 < high
        assert 0.05 < (high - low) / 100 < 0.4  # 1.96 x 2 / sqrt(600) is 0.16
    assert held >= 35
    assert output_rate_interval(even[:1], steady(even[:1])) is None
