"""Order statistics against numpy-style definitions, exact binomial sums and simulation."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.special import betainc

from neoserve import stats

values = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


@given(values)
def test_quantile_ends_are_the_extremes(data: list[float]) -> None:
    assert stats.quantile(data, 0) == min(data)
    assert stats.quantile(data, 1) == max(data)


@given(values, st.floats(0, 1), st.floats(0, 1))
def test_quantile_grows_with_p(data: list[float], p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert stats.quantile(data, low) <= stats.quantile(data, high)


def test_quantile_is_type_7() -> None:
    # numpy.quantile([1, 2, 3, 4], [.25, .5, .95]) -> 1.75, 2.5, 3.85
    data = [4.0, 1.0, 3.0, 2.0]
    assert [stats.quantile(data, p) for p in (0.25, 0.5, 0.95)] == pytest.approx([1.75, 2.5, 3.85])


def test_quantile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        stats.quantile([], 0.5)


def exact_pmf(k: int, n: int, p: Fraction) -> Fraction:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("n", [1, 7, 59, 200])
@pytest.mark.parametrize("p", [Fraction(1, 20), Fraction(1, 2), Fraction(99, 100)])
def test_binomial_equals_exact_rational_arithmetic(n: int, p: Fraction) -> None:
    for k in range(0, n + 1, max(1, n // 7)):
        assert stats.binomial_pmf(k, n, float(p)) == pytest.approx(
            float(exact_pmf(k, n, p)), rel=1e-9, abs=1e-300
        )
        exact = sum(exact_pmf(i, n, p) for i in range(k + 1))
        assert stats.binomial_cdf(k, n, float(p)) == pytest.approx(float(exact), rel=1e-9)


def test_binomial_at_the_ends() -> None:
    assert stats.binomial_pmf(0, 5, 0.0) == 1.0
    assert stats.binomial_pmf(5, 5, 1.0) == 1.0
    assert stats.binomial_pmf(3, 5, 1.0) == 0.0


def test_59_clean_requests_are_the_fewest_that_bound_p95_from_above() -> None:
    # One-sided 95 % is the upper half of a two-sided 90 % interval: 0.95^59 < 0.05 < 0.95^58.
    assert math.isfinite(stats.quantile_interval(list(range(59)), 0.95, 0.90)[1])
    assert stats.quantile_interval(list(range(58)), 0.95, 0.90)[1] == math.inf


def test_one_value_bounds_nothing() -> None:
    assert stats.quantile_interval([3.0], 0.5) == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [3, 10, 20])
def test_certainty_is_bounded_by_no_value(n: int) -> None:
    assert stats.quantile_interval(list(range(n)), 0.5, 1.0) == (-math.inf, math.inf)


@pytest.mark.parametrize(("n", "p"), [(40, 0.5), (200, 0.95)])
def test_interval_covers_the_true_quantile_as_often_as_it_says(n: int, p: float) -> None:
    rng = random.Random(7)
    truth = -math.log(1 - p)  # quantile of the unit exponential
    hits = 0
    for _ in range(1500):
        low, high = stats.quantile_interval([rng.expovariate(1) for _ in range(n)], p)
        hits += low <= truth <= high
    # exact coverage is at least 95 %; 1,500 draws put 3 sd at 1.7 points
    assert 0.933 <= hits / 1500 <= 0.995


def test_mean_is_exactly_rounded() -> None:
    assert stats.mean([1e16, 1.0, -1e16]) == pytest.approx(1 / 3)


def test_seven_values_bound_nothing_at_a_confidence_of_all_but_one_ulp() -> None:
    # P(all below the 0.3-quantile) = 0.3 ** 7 = 0.02 %, far more than the tail; the probabilities
    # of 0 to 7 sum to less than one by rounding
    almost = math.nextafter(1.0, 0.0)
    assert stats.quantile_interval(range(7), 0.3, almost) == (-math.inf, math.inf)


@given(st.floats(0, 1, allow_subnormal=False), st.floats(0.01, 5000), st.floats(0.01, 5000))
def test_beta_cdf_is_scipys(x: float, a: float, b: float) -> None:
    assert stats.beta_cdf(x, a, b) == pytest.approx(betainc(a, b, x), rel=1e-8, abs=1e-12)


def test_beta_cdf_where_a_quotient_of_the_fraction_is_zero() -> None:
    # 1 - (a + b) x / (a + 1) = 0; Beta(1, b) has a closed form
    assert stats.beta_cdf(0.5, 1, 3) == pytest.approx(1 - 0.5**3)
    assert stats.beta_cdf(-1, 1, 3) == 0.0
    assert stats.beta_cdf(1, 1, 3) == 1.0
    with pytest.raises(ArithmeticError, match="converge"):
        stats.beta_cdf(0.5, 1e13, 1e13)


@pytest.mark.parametrize("n", [1, 20, 1000, 10_000])
@pytest.mark.parametrize("p", [0.01, 0.05, 0.5, 0.99])
def test_binomial_cdf_is_scipys(n: int, p: float) -> None:
    for k in {-1, 0, 1, int(n * p), int(n * p + 3 * math.sqrt(n * p)), n, n + 1}:
        assert stats.binomial_cdf(k, n, p) == pytest.approx(
            scipy.stats.binom.cdf(k, n, p), rel=1e-8, abs=1e-13
        )


@pytest.mark.parametrize(("misses", "num"), [(0, 59), (1, 10), (7, 7), (13, 400), (50, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
def test_clopper_pearson_is_scipys(misses: int, num: int, confidence: float) -> None:
    exact = scipy.stats.binomtest(misses, num).proportion_ci(confidence, "exact")
    assert stats.clopper_pearson(misses, num, confidence) == pytest.approx(
        (exact.low, exact.high), abs=1e-9
    )


def test_clopper_pearson_of_real_counts_is_between_those_of_whole_ones() -> None:
    _, less = stats.clopper_pearson(2, 60)
    _, high = stats.clopper_pearson(2.5, 60)
    _, more = stats.clopper_pearson(3, 60)
    assert less < high < more
    assert stats.clopper_pearson(0, 0) == (0.0, 1.0)


def test_a_quantile_of_dependent_values_has_the_ranks_of_fewer() -> None:
    data = list(range(400))
    # of 100 independent values the ranks 40 and 61 bound the median (scipy: binom.ppf)
    assert stats.quantile_interval(data, 0.5, num_independent=100) == (156.0, 243.0)
    assert stats.quantile_interval(data, 0.5, num_independent=5.9) == (-math.inf, math.inf)
    assert stats.quantile_interval(data, 0.5, num_independent=0.5) == (-math.inf, math.inf)
    assert stats.quantile_interval([], 0.5) == (-math.inf, math.inf)


def crossing(test: stats.SequentialShare, share: float, num: int) -> tuple[float, float]:
    """P(any pass bound is crossed), P(any fail bound) by a dense recursion over all paths."""
    found = []
    for bound, beyond in ((test.pass_bound, -1), (test.fail_bound, 1)):
        alive, crossed = np.zeros(num + 2), 0.0
        alive[0] = 1.0
        for n in range(1, num + 1):
            alive = alive * (1 - share) + np.concatenate(([0.0], alive[:-1])) * share
            counts = np.arange(num + 2)
            out = counts <= bound(n) if beyond < 0 else counts >= bound(n)
            crossed += alive[out].sum()
            alive[out] = 0.0
        found.append(float(crossed))
    return found[0], found[1]


@pytest.mark.parametrize("planned", [1, 59, 200, 1000])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_a_sequential_test_errs_as_often_as_it_says(planned: int, share: float) -> None:
    passed, failed = crossing(stats.SequentialShare(share, 0.05, planned), share, planned)
    assert passed <= 0.05 + 1e-12
    assert failed <= 0.05 + 1e-12
    if planned == 1000:  # little of the level is lost to whole numbers
        assert passed >= 0.04
        assert failed >= 0.04


def test_real_counts_are_judged_between_whole_ones() -> None:
    test = stats.SequentialShare(0.05, 0.05, 400, stats.late)
    first = {k: next(n for n in range(401) if test.pass_bound(n) == k) for k in (0, 1, 2)}
    for k in (0, 1):
        assert test.proves(k, first[k])
        assert not test.proves(k, first[k] - 1)
        half = (first[k] + first[k + 1]) / 2
        assert test.proves(k + 0.5, half)
        assert not test.proves(k + 0.5, half - 1)
        assert test.proves(k + 0.5, first[k + 1])
    assert not test.proves(2.5, first[0])
    last = test.pass_bound(400)
    assert not test.proves(last + 0.9, 400)  # one more would need more than was planned
    fails = test.fail_bound(50)
    assert test.disproves(fails + 0.9, 50)
    assert test.disproves(fails, 49.5)
    assert not test.disproves(fails - 0.1, 50)


def test_a_sequential_test_goes_on_after_what_was_planned() -> None:
    passed, failed = crossing(stats.SequentialShare(0.05, 0.05, 100), 0.05, 300)
    assert passed <= 0.05 + 1e-12
    assert failed <= 0.05 + 1e-12


def test_bounds_of_a_sequential_test() -> None:
    test = stats.SequentialShare(0.05, 0.05, 59)
    assert test.pass_bound(58) == -1
    assert test.pass_bound(59) == 0  # 0.95 ** 59 < 0.05, and no look before could pass
    assert test.fail_bound(1) > 1
    late = stats.SequentialShare(0.05, 0.05, 400)
    passes = [late.pass_bound(n) for n in range(401)]
    fails = [late.fail_bound(n) for n in range(401)]
    assert passes == sorted(passes)
    assert fails == sorted(fails)
    assert all(passed < failed for passed, failed in zip(passes, fails, strict=True))
    # no sooner than a fixed-size test of that many: 1 of 93, 3 of 153 (MLPerf's table)
    assert passes.index(1) >= 93
    assert passes.index(3) >= 153


@pytest.mark.parametrize("bad", [(0.0, 0.05, 10), (1.0, 0.05, 10), (0.05, 0.0, 10), (0.05, 0.1, 0)])
def test_a_sequential_test_of_nothing(bad: tuple[float, float, int]) -> None:
    with pytest.raises(ValueError, match="planned"):
        stats.SequentialShare(*bad)


@given(st.lists(st.one_of(st.integers(-5, 5), st.just(math.inf)), max_size=40))
def test_ranks_are_scipys(data: list[float]) -> None:
    assert stats.ranks(data) == pytest.approx(list(scipy.stats.rankdata(data)))


def test_autocorrelation_time_of_a_known_process() -> None:
    # x' = 0.8 x + e: tau = (1 + 0.8) / (1 - 0.8) = 9; of its ranks 6/pi sum asin(0.8^k / 2) -> 8.7
    noise = np.random.default_rng(3).normal(size=40_000)
    series = lfilter([1.0], [1.0, -0.8], noise).tolist()
    assert stats.autocorrelation_time(series) == pytest.approx(8.7, rel=0.12)
    assert stats.autocorrelation_time(noise[:4000].tolist()) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("data", [[], [1.0], [2.0] * 50, [1.0, math.inf]])
def test_what_shows_no_dependence(data: list[float]) -> None:
    assert stats.autocorrelation_time(data) == 1.0


def test_a_trend_is_worth_a_few_values_and_alternation_all() -> None:
    assert stats.autocorrelation_time(list(range(100))) > 20
    assert stats.autocorrelation_time([0.0, 1.0] * 50) == 1.0


def test_dependence_allows_for_what_cannot_be_seen() -> None:
    assert stats.dependence([]) == 1.0
    assert stats.dependence([1.0] * 100) == pytest.approx(1.2)
    assert stats.dependence(list(range(100))) > 2 * stats.autocorrelation_time(list(range(100))) - 1


def test_block_bootstrap_covers_the_mean_of_a_dependent_series() -> None:
    rng = np.random.default_rng(5)
    hits = naive = 0
    for seed in range(80):
        noise = rng.normal(size=300)
        series = lfilter([1.0], [1.0, -0.6], noise)[100:].tolist()
        low, high = stats.block_bootstrap_interval(series, stats.mean, seed=seed, resamples=100)
        hits += low <= 0 <= high
        low, high = stats.block_bootstrap_interval(
            series, stats.mean, block=1, seed=seed, resamples=100
        )
        naive += low <= 0 <= high
    assert hits / 80 >= 0.85  # nominal 95 %; blocks of finite length lose some
    assert naive / 80 <= 0.80  # what taking them for independent gives


def test_block_bootstrap_is_repeatable() -> None:
    data = [float(i * i % 17) for i in range(60)]
    twice = [stats.block_bootstrap_interval(data, stats.mean, seed=4) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0] != stats.block_bootstrap_interval(data, stats.mean, seed=5)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 50)), min_size=1, max_size=12))
def test_isotonic_is_scipys(points: list[tuple[float, int]]) -> None:
    shares, weights = zip(*points, strict=True)
    expected = scipy.optimize.isotonic_regression(list(shares), weights=list(weights)).x
    assert stats.isotonic(shares, weights) == pytest.approx(list(expected), abs=1e-9)


def test_slope_is_scipys() -> None:
    times, heights = [0.0, 1.0, 4.0, 4.5], [2.0, 1.0, 7.0, 3.0]
    expected = scipy.stats.linregress(times, heights).slope
    assert stats.slope(times, heights) == pytest.approx(expected)
    assert stats.slope([1.0, 1.0], heights[:2]) == 0.0


@pytest.mark.parametrize("freedom", [1, 2, 7, 30, 400])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_students_t_is_scipys(freedom, level):
    expected = scipy.stats.t.ppf((1 + level) / 2, freedom)
    assert stats.t_quantile(freedom, level) == pytest.approx(expected, rel=1e-6)


def test_the_interval_of_a_mean_is_scipys():
    values = [3.0, 4.5, 2.5, 6.0]
    low, high = scipy.stats.t.interval(0.95, 3, 3.0 + 1.0, scipy.stats.sem(values))
    assert stats.mean_interval(values) == pytest.approx((4.0, low, high))
