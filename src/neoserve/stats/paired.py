"""Two configurations on the same documents or questions: what changed, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from .binomial import binomial_cdf
from .order import quantile

_RESAMPLES = 3000


class Change(NamedTuple):
    """A relative change with its two-sided interval: 0.04 is 4 % more."""

    share: float
    low: float
    high: float


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p-value that both are right equally often (McNemar 1947).

    Only questions that one of the two answers right say anything: a binomial of a half.
    """
    n = only_a + only_b
    return min(1.0, 2 * binomial_cdf(min(only_a, only_b), n, 0.5)) if n else 1.0


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    num_words: Sequence[int],
    *,
    level: float = 0.95,
    resamples: int = _RESAMPLES,
    seed: int = 0,
) -> Change:
    """Change of word perplexity from logprobs of the same documents, which are drawn anew.

    Documents are drawn whole and with both their logprobs, so that how hard a document is drops
    out. Bias-corrected and accelerated (Efron 1987), which a monotone scale is nothing to: bounds
    of the mean loss a word are those of perplexity. Raises ValueError for fewer than two.
    """
    losses = [a - b for a, b in zip(before, after, strict=True)]
    if len(losses) != len(num_words) or len(losses) < 2:
        raise ValueError("a paired bootstrap needs two documents or more, each with its words")
    mean = _ratio(losses, num_words)
    drawn = _draws(losses, num_words, resamples, seed)
    tail = (1 - level) / 2
    lower, upper = _corrected(tail, mean, drawn, _acceleration(losses, num_words))
    bounds = (mean, quantile(drawn, lower), quantile(drawn, upper))
    return Change(*(math.expm1(bound) for bound in bounds))


def _ratio(losses: Sequence[float], words: Sequence[int]) -> float:
    return math.fsum(losses) / sum(words)


def _draws(losses: Sequence[float], words: Sequence[int], num: int, seed: int) -> list[float]:
    import random  # a planner never bootstraps, and the module is slow to import

    rng = random.Random(seed)
    n = len(losses)
    drawn = []
    for _ in range(num):
        pick = itemgetter(*[int(rng.random() * n) for _ in range(n)])
        drawn.append(sum(pick(losses)) / sum(pick(words)))
    return drawn


def _acceleration(losses: Sequence[float], words: Sequence[int]) -> float:
    """A sixth of the skewness of the jackknife."""
    total, num_words = math.fsum(losses), sum(words)
    left = [(total - a) / (num_words - b) for a, b in zip(losses, words, strict=True)]
    centre = math.fsum(left) / len(left)
    moves = [centre - value for value in left]
    power = math.fsum(move**2 for move in moves)
    return math.fsum(move**3 for move in moves) / (6 * power**1.5) if power > 0 else 0.0


def _corrected(
    tail: float, mean: float, drawn: Sequence[float], acceleration: float
) -> tuple[float, float]:
    """The quantiles of the draws that bound the interval."""
    from statistics import NormalDist  # slow to import, as above

    normal = NormalDist()
    below = sum(value < mean for value in drawn)
    equal = sum(value == mean for value in drawn)
    share = (below + equal / 2) / len(drawn)
    if not 0 < share < 1:  # only draws beyond all the data could do that
        return tail, 1 - tail
    bias = normal.inv_cdf(share)

    def moved(p: float) -> float:
        z = bias + normal.inv_cdf(p)
        return normal.cdf(bias + z / (1 - acceleration * z))

    return moved(tail), moved(1 - tail)
