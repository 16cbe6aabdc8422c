"""Small dense symmetric systems: a dozen unknowns, so no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

Matrix = list[list[float]]


def dot(a: Sequence[float], b: Sequence[float]) -> float:
    """Inner product."""
    return math.fsum(map(mul, a, b))


def apply(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    """Matrix times vector."""
    return [dot(row, vector) for row in matrix]


def cholesky(matrix: Sequence[Sequence[float]]) -> Matrix:
    """Lower triangle whose square is the matrix. Raises ValueError unless positive definite."""
    lower: Matrix = []
    for i, row in enumerate(matrix):
        made: list[float] = []
        for j in range(i):
            made.append((row[j] - dot(made, lower[j][:j])) / lower[j][j])
        left = row[i] - dot(made, made)
        if not left > 0.0:
            raise ValueError(f"row {i} of a matrix that is not positive definite")
        lower.append([*made, math.sqrt(left)])
    return lower


def solve(lower: Matrix, right: Sequence[float]) -> list[float]:
    """x of (L Lᵀ) x = right, from `cholesky`."""
    half: list[float] = []
    for i, row in enumerate(lower):
        half.append((right[i] - dot(row[:i], half)) / row[i])
    found = [0.0] * len(half)
    for i in reversed(range(len(half))):
        above = math.fsum(lower[k][i] * found[k] for k in range(i + 1, len(half)))
        found[i] = (half[i] - above) / lower[i][i]
    return found


def inverse(matrix: Sequence[Sequence[float]]) -> Matrix:
    """Of a positive definite matrix. Raises ValueError."""
    lower = cholesky(matrix)
    size = len(lower)
    return [solve(lower, [float(i == j) for j in range(size)]) for i in range(size)]


def log_det(matrix: Sequence[Sequence[float]]) -> float:
    """Natural logarithm of the determinant of a positive definite matrix. Raises ValueError."""
    return 2.0 * math.fsum(math.log(row[-1]) for row in cholesky(matrix))


def quadratic(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> float:
    """vᵀ M v."""
    return dot(vector, apply(matrix, vector))
