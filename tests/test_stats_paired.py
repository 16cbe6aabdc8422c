"""Paired statistics against scipy."""

import math
import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from neoserve import stats


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_an_exact_binomial_test(only_a, only_b):
    expected = scipy.stats.binomtest(only_a, only_a + only_b).pvalue if only_a + only_b else 1.0
    assert stats.mcnemar(only_a, only_b) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_of_a_textbook():
    # Fay 2011, "Exact McNemar's test and matching confidence intervals": 2 and 9 of 11, p = 0.065
    assert stats.mcnemar(2, 9) == pytest.approx(0.0654, abs=5e-5)


def scipy_change(before, after, words, method):
    def loss(before, after, words, axis):
        return (before.sum(axis) - after.sum(axis)) / words.sum(axis)

    found = scipy.stats.bootstrap(
        (before, after, words), loss, paired=True, vectorized=True, n_resamples=20_000,
        method=method, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    return math.expm1(found.low), math.expm1(found.high)


@pytest.mark.parametrize("skewed", [False, True])
def test_the_interval_is_scipys(skewed):
    rng = np.random.default_rng(7)
    words = rng.integers(40, 120, 28)
    noise = rng.exponential(3, 28) if skewed else rng.normal(2, 3, 28)
    before = -4.0 * words + rng.normal(0, 20, 28)
    after = before - noise
    rows = (before.tolist(), after.tolist(), words.tolist())
    found = stats.paired_bootstrap(*rows, resamples=20_000)
    low, high = scipy_change(before, after, words, "BCa")
    width = high - low
    assert found.share == pytest.approx(math.exp(noise.sum() / words.sum()) - 1)
    assert found.low == pytest.approx(low, abs=0.03 * width)
    assert found.high == pytest.approx(high, abs=0.03 * width)


def test_pairs_are_far_narrower_than_two_samples():
    """What makes a document hard is the same for both."""
    rng = random.Random(3)
    words = [50] * 30
    before = [-200 + rng.gauss(0, 40) for _ in words]
    found = stats.paired_bootstrap(before, [x - rng.gauss(1, 0.5) for x in before], words)
    assert found.low < found.share < found.high
    assert found.high - found.low < 0.02


def test_no_change_is_certain():
    values = [-30.0, -50.5, -41.25, -77.0]
    assert stats.paired_bootstrap(values, values, [10, 20, 15, 30]) == (0, 0, 0)


@given(st.lists(st.tuples(st.floats(-500, -1), st.floats(-5, 5), st.integers(5, 200)),
                min_size=3, max_size=12), st.integers(0, 9))  # fmt: skip
def test_the_interval_holds_between_the_extremes(rows, seed):
    before, moves, words = zip(*rows, strict=True)
    after = [b + m for b, m in zip(before, moves, strict=True)]
    found = stats.paired_bootstrap(before, after, words, resamples=200, seed=seed)
    again = stats.paired_bootstrap(before, after, words, resamples=200, seed=seed)
    each = [math.expm1((b - a) / w) for b, a, w in zip(before, after, words, strict=True)]
    assert found == again
    assert min(each) - 1e-9 <= found.low <= found.high <= max(each) + 1e-9


def test_too_few_documents():
    with pytest.raises(ValueError, match="two documents"):
        stats.paired_bootstrap([-1.0], [-2.0], [3])
