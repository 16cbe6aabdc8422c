"""Intervals of a mean by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from .binomial import beta_quantile


@cache
def t_quantile(freedom: int, level: float = 0.95) -> float:
    """The t that lies within ± with this chance: t² / (t² + f) is Beta(1/2, f/2)."""
    share = beta_quantile(level, 0.5, freedom / 2)
    return math.sqrt(freedom * share / (1 - share))


def mean_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Mean, low and high of two values or more that are as good as normal and independent."""
    num = len(values)
    middle = math.fsum(values) / num
    spread = math.fsum((value - middle) ** 2 for value in values) / (num - 1)
    half = t_quantile(num - 1, level) * math.sqrt(spread / num)
    return middle, middle - half, middle + half
