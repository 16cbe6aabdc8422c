import random

import pytest

from neoserve.measure.summary import judged, steady, summarize, tpot_s, ttft_s
from neoserve.schema.trial import RequestRow


def row(due_s, ttft=0.1, e2e=1.0, tokens=10, **more):
    return RequestRow(
        due_s=due_s, sent_s=due_s, first_token_s=due_s + ttft, last_token_s=due_s + e2e,
        prompt_tokens=5, output_tokens=tokens, **more,
    )  # fmt: skip


def failed(due_s):
    return RequestRow(due_s=due_s, sent_s=due_s, status="timeout", error="late")


def test_quantiles_and_their_intervals():
    rows = [row(float(i), ttft=(i + 1) / 100) for i in range(100)]
    summary = summarize(rows, ttft_s)
    assert (summary.num, summary.num_failed) == (100, 0)
    assert summary.mean == pytest.approx(0.505)
    assert summary.p50.value == pytest.approx(0.505)
    assert summary.p50.low == pytest.approx(0.40)
    assert summary.p50.high == pytest.approx(0.61)
    assert summary.p95.low < summary.p95.value < summary.p95.high
    assert summary.p99.high is None  # 100 values cannot bound it from above


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
    window = steady([row(i * 0.1) for i in range(1000)])
    assert window.offered_rps == pytest.approx(10, rel=0.01)
    assert window.served_rps == pytest.approx(10, rel=0.02)
    assert window.output_tokens_per_s == pytest.approx(100, rel=0.02)
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
    window = steady(slow)  # from 1 to 10
    # first tokens of those due at 1 to 9 s; the rest at about one token a second
    assert window.output_tokens_per_s == pytest.approx(
        (9 + sum(min(9, 9.5 - i) for i in range(10)) * 1000 / 999.5) / 9, rel=0.01
    )
