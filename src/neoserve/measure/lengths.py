"""How long prompts and answers are: fixed, lognormal, or as a trace has them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence

from ..errors import AskError
from ..schema.workload import Workload

Lengths = tuple[int, int]  # tokens of the prompt, tokens of the answer


def lengths(workload: Workload, seen: Sequence[Lengths] = ()) -> Iterator[Lengths]:
    """Prompt and answer tokens of one request after another, without end. Raises AskError.

    `seen` are lengths of real requests: pairs are drawn from them, so that long prompts keep
    their answers. Without them the workload's means and coefficients of variation are used.
    """
    rng = random.Random(f"lengths {workload.seed}")  # not the arrivals' numbers
    if seen:
        return (rng.choice(seen) for _ in iter(int, 1))
    prompt = (workload.prompt_tokens, workload.prompt_tokens_cv)
    output = (workload.output_tokens, workload.output_tokens_cv)
    for name, (mean_tokens, cv) in (("prompt", prompt), ("output", output)):
        if mean_tokens < 1 or not 0 <= cv < math.inf:
            raise AskError(
                f"{name} tokens are {mean_tokens} with coefficient of variation {cv:g}; "
                "give a mean of at least 1 and a coefficient of 0, for fixed lengths, or above"
            )
    if all(cv == 0 or mean_tokens == 1 for mean_tokens, cv in (prompt, output)):
        return itertools.repeat((prompt[0], output[0]))
    return ((lognormal_tokens(rng, *prompt), lognormal_tokens(rng, *output)) for _ in iter(int, 1))


def lognormal_tokens(rng: random.Random, mean_tokens: int, cv: float) -> int:
    """One length of at least 1 whose expectation is exactly `mean_tokens`.

    What lies above the first token is lognormal with the asked standard deviation. It is rounded
    up as often as its fraction says: rounding to the nearest would move the mean.
    """
    if cv == 0 or mean_tokens == 1:
        return mean_tokens
    above = mean_tokens - 1
    sigma2 = math.log1p((cv * mean_tokens / above) ** 2)
    value = rng.lognormvariate(math.log(above) - sigma2 / 2, math.sqrt(sigma2))
    return 1 + math.floor(value + rng.random())
