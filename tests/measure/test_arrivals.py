import math
import random

import pytest

from neoserve.errors import AskError
from neoserve.measure import arrivals
from neoserve.schema.workload import Workload

POISSON = Workload(arrival="poisson", rate_rps=5.0, seed=3)


def test_schedule_is_exact_in_number_and_repeats_with_its_seed():
    times = arrivals.arrival_times_s(POISSON, 500)
    assert len(times) == 500
    assert list(times) == sorted(times)
    assert times == arrivals.arrival_times_s(POISSON, 500)
    assert times != arrivals.arrival_times_s(POISSON.replace(seed=4), 500)
    assert times[-1] == pytest.approx(100, rel=0.2)


def test_constant_arrivals_are_evenly_spaced():
    times = arrivals.arrival_times_s(Workload(arrival="constant", rate_rps=4.0), 8)
    assert times == pytest.approx([0.25 * i for i in range(1, 9)])


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_gamma_gaps_have_the_asked_mean_and_burstiness(burstiness):
    workload = Workload(arrival="gamma", rate_rps=10.0, burstiness=burstiness, seed=1)
    times = arrivals.arrival_times_s(workload, 4000)
    gaps = [b - a for a, b in zip((0.0, *times), times, strict=False)]
    average = sum(gaps) / len(gaps)
    variance = sum((g - average) ** 2 for g in gaps) / len(gaps)
    assert average == pytest.approx(0.1, rel=0.1)
    assert average**2 / variance == pytest.approx(burstiness, rel=0.15)


@pytest.mark.parametrize(
    ("x", "shape", "expected"),
    [  # scipy.stats.gamma.cdf
        (1.0, 1.0, 0.6321205588285577),
        (2.0, 0.5, 0.9544997361036416),
        (3.0, 4.0, 0.35276811121776874),
        (0.0, 2.0, 0.0),
        (1e6, 2.0, 1.0),
    ],
)
def test_gamma_cdf(x, shape, expected):
    assert arrivals.gamma_cdf(x, shape, 1.0) == pytest.approx(expected, rel=1e-12)


def test_ks_rejects_no_more_often_than_its_level():
    rng = random.Random(0)
    p_values = [
        arrivals.ks_p_value([rng.random() for _ in range(40)], lambda x: x) for _ in range(2000)
    ]
    assert sum(p < 0.05 for p in p_values) / 2000 == pytest.approx(0.05, abs=0.015)
    assert sum(p < 0.001 for p in p_values) <= 8


def test_ks_accepts_a_perfect_fit():
    assert arrivals.ks_p_value([(i + 0.5) / 1000 for i in range(1000)], lambda x: x) == 1.0


@pytest.mark.parametrize(
    "gaps",
    [
        [0.2] * 200,  # constant is not Poisson
        [g for g in [random.Random(1).expovariate(5) for _ in range(30)] for _ in range(10)],
        [random.Random(2).expovariate(8) for _ in range(3000)],  # wrong rate
    ],
)
def test_wrong_gaps_are_refused(gaps):
    with pytest.raises(AskError, match="KS p-value"):
        arrivals.check_gaps(gaps, POISSON)


def test_uneven_constant_gaps_are_refused():
    with pytest.raises(AskError, match="constant"):
        arrivals.check_gaps([0.2, 0.21], Workload(arrival="constant", rate_rps=5.0))


@pytest.mark.parametrize(
    ("workload", "num", "message"),
    [
        (Workload(arrival="closed"), 5, "closed"),
        (Workload(arrival="poisson", rate_rps=0.0), 5, "rate"),
        (Workload(arrival="poisson", rate_rps=math.inf), 5, "rate"),
        (Workload(arrival="gamma", rate_rps=1.0, burstiness=0.0), 5, "burstiness"),
        (POISSON, 0, "at least 1"),
    ],
)
def test_bad_asks(workload, num, message):
    with pytest.raises(AskError, match=message):
        arrivals.arrival_times_s(workload, num)


def test_duration_becomes_a_number_of_requests():
    assert arrivals.num_requests_for(POISSON, 10) == 50
    assert arrivals.num_requests_for(POISSON, 0.01) == 1
