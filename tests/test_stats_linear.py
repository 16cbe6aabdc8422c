"""Small dense systems against numpy, which is independent of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve.stats.linear import apply, cholesky, inverse, log_det, quadratic, solve


@st.composite
def systems(draw):
    """A symmetric positive definite matrix and a right side."""
    size = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    a = rng.standard_normal((size, size + 2))
    return (a @ a.T + 1e-3 * np.eye(size)).tolist(), rng.standard_normal(size).tolist()


@given(systems())
def test_as_numpy(system):
    matrix, right = system
    lower = cholesky(matrix)
    assert solve(lower, right) == pytest.approx(np.linalg.solve(matrix, right), rel=1e-6)
    assert np.array(inverse(matrix)) == pytest.approx(np.linalg.inv(matrix), rel=1e-6, abs=1e-9)
    assert log_det(matrix) == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-9, abs=1e-9)
    assert apply(matrix, right) == pytest.approx(np.array(matrix) @ right, abs=1e-12)
    assert quadratic(matrix, right) == pytest.approx(np.array(right) @ matrix @ right)


def test_what_is_not_positive_definite_is_refused():
    with pytest.raises(ValueError, match="row 1"):
        cholesky([[1.0, 2.0], [2.0, 1.0]])
