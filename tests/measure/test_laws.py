import itertools
import random
import runpy
from pathlib import Path

import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure import laws
from neoserve.measure.arrivals import check_sent, draw, law_tests
from neoserve.schema.workload import Workload

MAKE = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "arrivals.py"))["GENERATORS"]
OURS = [
    {"arrival": "poisson"},
    {"arrival": "gamma", "burstiness": 0.3},
    {"arrival": "gamma", "burstiness": 4.0},
    {"arrival": "mmpp", "burst_length_s": 4.0},
    {"arrival": "ramp"},
]


def exponentials(seed, n):
    rng = random.Random(seed)
    return [rng.expovariate(1.0) for _ in range(n)]


def no_more_than(level, count, trials):
    """The count is within chance of the level; 1e-4 for all such asserts together."""
    return scipy.stats.binom.sf(count - 1, trials, level) > 1e-5


@pytest.mark.parametrize("n", [5, 12, 60, 300])
def test_each_test_rejects_no_more_often_than_its_level(n):
    tests = [
        laws.law_tests(gaps, list(itertools.accumulate(gaps)))
        for gaps in (exponentials(f"{n} {i}", n) for i in range(600))
    ]
    for p_values in zip(*tests, strict=True):
        for level in (0.05, 0.01, 0.001):
            assert no_more_than(level, sum(p < level for p in p_values), len(p_values))


def test_dispersion_and_autocorrelation_are_uniform_under_their_law():
    """Calibrated in the middle and in both tails, by scipy's KS test of the p-values."""
    gaps = [exponentials(i, 80) for i in range(800)]
    for p_value in (laws.dispersion_p_value, laws.autocorrelation_p_value):
        assert scipy.stats.kstest([p_value(g) for g in gaps], "uniform").pvalue > 1e-4


@pytest.mark.parametrize("n", [4, 5, 6])
def test_autocorrelation_has_the_moments_of_all_orders(n):
    values = exponentials(n, n)
    ranks = [sorted(values).index(v) - (n - 1) / 2 for v in values]
    products = [
        sum(a * b for a, b in itertools.pairwise(order)) for order in itertools.permutations(ranks)
    ]
    mean = sum(products) / len(products)
    deviation = (sum((p - mean) ** 2 for p in products) / len(products)) ** 0.5
    mine = sum(a * b for a, b in itertools.pairwise(ranks))
    expected = 2 * scipy.stats.norm.sf(abs(mine - mean) / deviation)
    assert laws.autocorrelation_p_value(values) == pytest.approx(expected, rel=1e-9)


@given(
    st.floats(0.05, 60), st.floats(0.01, 4), st.floats(0.1, 10)
)
def test_gamma_cdf_is_scipys(shape, relative, scale):
    x = shape * scale * relative
    expected = scipy.stats.gamma.cdf(x, shape, scale=scale)
    assert laws.gamma_cdf(x, shape, scale) == pytest.approx(expected, rel=1e-9, abs=1e-14)


@settings(max_examples=50)
@given(st.integers(0, 10**6), st.integers(20, 200), st.floats(0.5, 2))
def test_ks_is_scipys(seed, n, scale):
    values = [scale * v for v in exponentials(seed, n)]
    expected = scipy.stats.kstest(values, "expon").pvalue
    p_value = laws.ks_p_value(values, scipy.stats.expon.cdf)
    assert p_value == pytest.approx(expected, abs=0.02 if expected > 0.1 else 0.005)


def test_full_seconds_is_a_binomial_test():
    times_s = [i + 0.37 for i in range(200)] + [200.0, 201.0]
    expected = scipy.stats.binom.sf(1, 202, 1e-3)
    assert laws.full_seconds_p_value(times_s) == pytest.approx(expected, rel=1e-9)
    assert laws.full_seconds_p_value([0.5, 7.0, 7.0, 7.0002]) > 1e-3  # one cluster, one place


@pytest.mark.parametrize("rate_rps", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("more", OURS)
def test_our_schedules_are_rejected_no_more_often_than_the_level(more, rate_rps):
    workload = Workload(rate_rps=rate_rps, **more)
    p_values = [
        law_tests(workload.replace(seed=seed), draw(workload.replace(seed=seed), 150))
        for seed in range(100)
    ]
    for of_one_test in zip(*p_values, strict=True):
        assert no_more_than(0.05, sum(p < 0.05 for p in of_one_test), len(of_one_test))


@pytest.mark.parametrize("rate_rps", [0.5, 5.0, 50.0])
@pytest.mark.parametrize(
    ("name", "test"),
    [
        ("constant", "dispersion"),
        ("GuideLLM", "dispersion"),
        ("inference-perf", "full seconds"),
    ],
)
def test_faulty_generators_are_refused(name, test, rate_rps):
    workload = Workload(arrival="poisson", rate_rps=rate_rps)
    failed = []
    for seed in range(20):
        seeded = workload.replace(seed=seed)
        failed.append(law_tests(seeded, MAKE[name](seeded, 300)).failed())
    assert sum(map(bool, failed)) >= 19  # of 20, at the level of 1e-3 that refuses
    assert any(test in reason for reason in failed)


def test_guidellm_fault_shows_in_the_order_of_gaps_too():
    workload = Workload(arrival="poisson", rate_rps=5.0, seed=1)
    assert law_tests(workload, MAKE["GuideLLM"](workload, 300)).autocorrelation_p < 1e-6


def test_another_rate_is_refused():
    workload = Workload(arrival="poisson", rate_rps=5.0, seed=2)
    times_s = draw(workload.replace(rate_rps=6.5), 300)
    assert law_tests(workload, times_s).ks_p < 1e-3
    assert "KS" in law_tests(workload, times_s).failed()


def test_a_burst_passed_off_as_poisson_is_refused():
    workload = Workload(arrival="mmpp", rate_rps=5.0, burst_share=0.2, burst_ratio=4.5, seed=1)
    times_s = draw(workload, 600)
    assert law_tests(workload, times_s).failed() == ""
    assert law_tests(workload.replace(arrival="poisson"), times_s).failed() != ""


def test_requests_that_left_on_time_follow_the_law():
    workload = Workload(arrival="poisson", rate_rps=20.0, seed=5)
    due_s = draw(workload, 300)
    rng = random.Random(1)
    sent_s = [t + rng.expovariate(1000) for t in due_s]  # a millisecond late
    assert check_sent(workload, due_s, sent_s) == ""
    assert check_sent(workload, due_s, sent_s[:120]) == ""  # ended early
    assert check_sent(workload, due_s, []) == ""


def test_requests_that_waited_for_a_tick_do_not():
    workload = Workload(arrival="poisson", rate_rps=20.0, seed=5)
    due_s = draw(workload, 300)
    ticks_s = [0.5 * (t // 0.5 + 1) for t in due_s]
    reason = check_sent(workload, due_s, ticks_s)
    assert reason.startswith("requests did not leave as poisson arrivals at 20 requests/s")
    assert check_sent(workload.replace(arrival="constant"), due_s, ticks_s) == ""


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_gaps_are_no_evidence(n):
    gaps = exponentials(3, n)
    assert laws.law_tests(gaps, list(itertools.accumulate(gaps))).failed() == ""
