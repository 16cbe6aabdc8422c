import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.measure.lengths import lengths, lognormal_tokens
from neoserve.schema.workload import Workload


def take(num, workload, seen=()):
    return list(itertools.islice(lengths(workload, seen), num))


def test_lengths_are_fixed_unless_asked():
    assert take(3, Workload(prompt_tokens=7, output_tokens=5)) == [(7, 5)] * 3


@pytest.mark.parametrize(("mean", "cv"), [(2, 0.5), (3, 2.0), (40, 1.0), (512, 0.4)])
def test_lognormal_keeps_mean_and_spread(mean, cv):
    rng = random.Random(f"{mean} {cv}")
    drawn = [lognormal_tokens(rng, mean, cv) for _ in range(40_000)]
    average = sum(drawn) / len(drawn)
    deviation = math.sqrt(sum((v - average) ** 2 for v in drawn) / len(drawn))
    assert average == pytest.approx(mean, abs=4 * deviation / 200)
    # rounding up by chance adds a variance of at most a quarter
    assert deviation == pytest.approx(math.sqrt((cv * mean) ** 2 + 1 / 6), rel=0.2)


def test_lognormal_is_lognormal():
    """The median of what lies above the first token, from its mean and deviation."""
    rng = random.Random(1)
    drawn = sorted(lognormal_tokens(rng, 1001, 1.0) - 1 for _ in range(4001))
    median = 1000 / math.sqrt(1 + 1.001**2)
    assert drawn[2000] == pytest.approx(median, rel=0.06)


@given(st.integers(0, 2**32), st.integers(1, 30), st.floats(0, 5))
def test_no_length_is_below_one(seed, mean, cv):
    workload = Workload(prompt_tokens=mean, prompt_tokens_cv=cv, output_tokens=1, seed=seed)
    assert all(p >= 1 and o == 1 for p, o in take(20, workload))


@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(0, 20))
def test_more_lengths_start_with_the_same(seed, num, more):
    workload = Workload(prompt_tokens_cv=0.5, output_tokens_cv=1.0, seed=seed)
    assert take(num + more, workload)[:num] == take(num, workload)


def test_empirical_lengths_keep_their_pairs():
    seen = [(10, 1), (20, 2), (30, 3)]
    drawn = take(3000, Workload(seed=2), seen)
    for pair in seen:
        assert drawn.count(pair) == pytest.approx(1000, abs=4 * math.sqrt(3000 * 2 / 9))


@pytest.mark.parametrize(
    "workload",
    [Workload(prompt_tokens=0), Workload(output_tokens=0), Workload(prompt_tokens_cv=-1.0),
     Workload(output_tokens_cv=math.inf), Workload(prompt_tokens_cv=math.nan)],
)  # fmt: skip
def test_bad_lengths(workload):
    with pytest.raises(AskError, match="coefficient"):
        lengths(workload)
