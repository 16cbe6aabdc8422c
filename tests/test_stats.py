"""Order statistics against numpy-style definitions, exact binomial sums and simulation."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
