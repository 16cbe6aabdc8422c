"""What may be measured of a server, how long it takes, and what of it is a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from ...schema.trial import RequestRow
from ...schema.workload import Workload
from ...stats import quantile
from .fit import Figure

PROMPTS = (16, 48, 128, 320, 768)
OUTPUTS, OUTPUTS_TOGETHER = (4, 16, 48), (12, 32)
IN_FLIGHT = (1, 2, 4, 8, 16, 64)
_ALONE, _TOGETHER, _ROUNDS = 6, 20, 4  # answers: of one place, of several, of each of them
# Answers of equal length end in the same step, and their successors start in the same one: a closed
# loop of them falls into step, in a way that chance decides and that lasts.
OUTPUT_CV = 0.4
_SET_UP_S = 1.0  # of a load, beside its requests
LEAST_LOG_SD = 0.015  # of a mean of so few requests
EXPECTED_LOG_SD = 0.03  # of a figure before it is measured, by its requests alone


def slot_context_tokens() -> int:
    """Of a request: room for the longest of them."""
    return 256 * math.ceil((PROMPTS[-1] + (1 + 3 * OUTPUT_CV) * OUTPUTS[-1]) / 256)


def candidates(context_tokens: int, slots: int) -> list[Workload]:
    """Closed loads: short and long prompts and answers, one, some and many in flight."""
    in_flight = sorted({n for n in IN_FLIGHT if n <= slots} | {min(slots, IN_FLIGHT[-1])})
    return [
        Workload(arrival="closed", concurrency=n, prompt_tokens=prompt, output_tokens=output,
                 output_tokens_cv=OUTPUT_CV if n > 1 else 0.0)
        for prompt, n in itertools.product(PROMPTS, in_flight)
        for output in (OUTPUTS if n == 1 else OUTPUTS_TOGETHER)
        if prompt + (1 + 3 * OUTPUT_CV) * output <= context_tokens
    ]  # fmt: skip


def num_requests(workload: Workload) -> int:
    """Measured ones. As many again as are in flight warm the server up."""
    if workload.concurrency == 1:
        return _ALONE
    return max(_TOGETHER, _ROUNDS * workload.concurrency)


def cost_s(workload: Workload, seconds: Mapping[str, float]) -> float:
    """How long a load takes, by what is predicted of it."""
    each_s = seconds["ttft_s"] + (workload.output_tokens - 1) * seconds.get("tpot_s", 0.0)
    rounds = 1 + math.ceil(num_requests(workload) / workload.concurrency)
    return _SET_UP_S + rounds * each_s


def figures(workload: Workload, rows: Sequence[RequestRow]) -> dict[str, Figure]:
    """TTFT and TPOT of the measured requests.

    Of those that ran alone the median: what passes by on the rest of the host shifts few of them.
    Of those that ran together the mean, of TPOT by tokens: short answers that wait for another's
    prompt would count for more than they are.
    """
    served = [row for row in rows if row.phase == "measured" and row.status == "ok"]
    take = _median if workload.concurrency == 1 else _mean
    found = {}
    for name, pairs in (
        ("ttft_s", [(row.ttft_s, 1) for row in served]),
        ("tpot_s", [(row.tpot_s, row.output_tokens - 1) for row in served]),
    ):
        known = [(value, weight) for value, weight in pairs if value is not None and value > 0]
        if len(known) >= 2:
            found[name] = take(known)
    return found


def _median(pairs: Sequence[tuple[float, int]]) -> Figure:
    values = [value for value, _ in pairs]
    centre = quantile(values, 0.5)
    # 1.4826 x the median deviation is a normal's sd; a median's error is 1.25 x a mean's
    apart = 1.4826 * quantile([abs(v - centre) for v in values], 0.5)
    return _with_error(centre, 1.25 * apart / math.sqrt(len(values)))


def _mean(pairs: Sequence[tuple[float, int]]) -> Figure:
    """Weighted, with the error of a ratio of two sums."""
    total = sum(weight for _, weight in pairs)
    centre = math.fsum(value * weight for value, weight in pairs) / total
    square = math.fsum((weight * (value - centre)) ** 2 for value, weight in pairs)
    return _with_error(centre, math.sqrt(square) / total)


def _with_error(centre: float, error: float) -> Figure:
    return Figure(math.log(centre), max(LEAST_LOG_SD, error / centre))
