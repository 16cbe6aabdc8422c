import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure import arrivals
from neoserve.schema.workload import Workload

POISSON = Workload(arrival="poisson", rate_rps=5.0, seed=3)
RANDOM = [
    {"arrival": "poisson"},
    {"arrival": "gamma", "burstiness": 0.3},
    {"arrival": "mmpp", "burst_ratio": 3.0, "burst_share": 0.25, "burst_length_s": 1.0},
    {"arrival": "ramp"},
]
WORKLOADS = st.builds(
    lambda more, rate_rps, seed: Workload(rate_rps=rate_rps, seed=seed, **more),
    st.sampled_from(RANDOM),
    st.floats(0.01, 500),
    st.integers(0, 2**40),
)


def gaps(times):
    return [b - a for a, b in zip((0.0, *times), times, strict=False)]


@settings(max_examples=60)
@given(WORKLOADS, st.integers(1, 80))
def test_a_schedule_is_exact_in_number_ascending_and_repeats_with_its_seed(workload, num):
    times = arrivals.draw(workload, num)
    assert len(times) == num
    assert all(gap >= 0 for gap in gaps(times))
    assert times == arrivals.draw(workload, num)
    assert times != arrivals.draw(workload.replace(seed=workload.seed + 1), num)


@settings(max_examples=60)
@given(WORKLOADS, st.integers(1, 60), st.integers(0, 60))
def test_a_longer_schedule_starts_with_the_shorter_one(workload, num, more):
    if workload.arrival == "ramp":  # its slope depends on its length
        workload = workload.replace(arrival="poisson")
    assert arrivals.draw(workload, num + more)[:num] == arrivals.draw(workload, num)


@pytest.mark.parametrize("more", RANDOM)
def test_the_mean_rate_is_the_asked_one(more):
    """Over 40 seeds, within 4 standard errors."""
    workload = Workload(rate_rps=8.0, **more)
    last = [arrivals.draw(workload.replace(seed=seed), 400)[-1] for seed in range(40)]
    mean = sum(last) / 40
    error = math.sqrt(sum((t - mean) ** 2 for t in last) / 39 / 40)
    assert abs(mean - 400 / 8.0) < 4 * error
    assert error < 0.03 * mean


def test_constant_arrivals_are_evenly_spaced():
    times = arrivals.arrival_times_s(Workload(arrival="constant", rate_rps=4.0), 8)
    assert times == pytest.approx([0.25 * i for i in range(1, 9)])


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_asked_mean_and_burstiness(burstiness):
    workload = Workload(arrival="gamma", rate_rps=10.0, burstiness=burstiness, seed=1)
    drawn = gaps(arrivals.arrival_times_s(workload, 4000))
    average = sum(drawn) / len(drawn)
    variance = sum((g - average) ** 2 for g in drawn) / len(drawn)
    assert average == pytest.approx(0.1, rel=0.1)
    assert average**2 / variance == pytest.approx(burstiness, rel=0.15)


def test_a_ramp_starts_at_its_start_and_ends_as_far_above_the_mean():
    """Counts in the first and last tenth, over 50 seeds of 500 requests in 100 s."""
    workload = Workload(arrival="ramp", rate_rps=5.0, ramp_start_rps=1.0)
    first = last = 0
    for seed in range(50):
        times = arrivals.draw(workload.replace(seed=seed), 500)
        first += sum(t < 10 for t in times)
        last += sum(90 <= t < 99 for t in times)
    assert first == pytest.approx(50 * 10 * 1.4, abs=4 * math.sqrt(700))
    # 1 + 8 t/100 on average over 90 to 99 s; chance ends some schedules before
    assert last / 50 / 9 == pytest.approx(8.56, abs=0.6)


def test_bursts_have_their_share_and_their_rate():
    """On a path of 100,000 s: 2,000 bursts are expected."""
    workload = Workload(arrival="mmpp", rate_rps=10.0, burst_ratio=4.0, burst_share=0.1,
                        burst_length_s=5.0, seed=4)  # fmt: skip
    path, until_s, burst_s = arrivals._bursts(workload), 0.0, 0.0
    lengths_s = []
    while until_s < 100_000:
        piece = next(path)
        until_s += piece.length_s
        assert piece.rate_rps == pytest.approx(40.0) or piece.rate_rps == pytest.approx(20 / 3)
        if piece.rate_rps > 10:
            burst_s += piece.length_s
            lengths_s.append(piece.length_s)
    assert burst_s / until_s == pytest.approx(0.1, rel=0.1)
    assert sum(lengths_s) / len(lengths_s) == pytest.approx(5.0, rel=0.1)


def test_bursts_make_arrivals_clump():
    """Counts in 5 s bins: variance over mean is 1 for Poisson and far above for bursts."""
    def dispersion(workload):
        times = arrivals.draw(workload, 4000)
        counts = [0] * (int(times[-1] / 5) + 1)
        for t in times:
            counts[int(t / 5)] += 1
        mean = sum(counts) / len(counts)
        return sum((c - mean) ** 2 for c in counts) / len(counts) / mean

    assert dispersion(POISSON) == pytest.approx(1, abs=0.3)
    assert dispersion(POISSON.replace(arrival="mmpp")) > 3


def test_a_schedule_that_fails_its_law_is_refused(monkeypatch):
    monkeypatch.setattr(arrivals, "draw", lambda *_: tuple(0.2 * i for i in range(1, 200)))
    message = r"not poisson at 5 requests/s \(.* p-value .*\); take another seed than 3"
    with pytest.raises(AskError, match=message):
        arrivals.arrival_times_s(POISSON, 199)


@pytest.mark.parametrize(
    ("workload", "num", "message"),
    [
        (Workload(arrival="closed"), 5, "closed"),
        (Workload(arrival="poisson", rate_rps=0.0), 5, "rate"),
        (Workload(arrival="poisson", rate_rps=math.inf), 5, "rate"),
        (Workload(arrival="gamma", rate_rps=1.0, burstiness=0.0), 5, "burstiness"),
        (POISSON.replace(arrival="mmpp", burst_ratio=5.0, burst_share=0.2), 5, "ratio below 5"),
        (POISSON.replace(arrival="mmpp", burst_share=0.0), 5, "share between 0 and 1"),
        (POISSON.replace(arrival="ramp", ramp_start_rps=11.0), 5, "twice the mean"),
        (POISSON, 0, "at least 1"),
    ],
)
def test_bad_asks(workload, num, message):
    with pytest.raises(AskError, match=message):
        arrivals.arrival_times_s(workload, num)


def test_duration_becomes_a_number_of_requests():
    assert arrivals.num_requests_for(POISSON, 10) == 50
    assert arrivals.num_requests_for(POISSON, 0.01) == 1
