"""What may be measured of a server, how long it takes, and what of it is a figure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from ...schema.trial import RequestRow
from ...schema.workload import Workload
from ...stats import mean, quantile
from .fit import Figure

PROMPTS = (16, 48, 128, 320, 768)
OUTPUTS = (2, 16, 48)
IN_FLIGHT = (1, 2, 4, 8, 16, 64)
_ROUNDS, _LEAST = 3, 6  # answers of each place in a closed loop, and in all
_SET_UP_S = 1.0  # of a load, beside its requests
LEAST_LOG_SD = 0.015  # of a mean of so few requests
EXPECTED_LOG_SD = 0.03  # of a figure before it is measured, by its requests alone


def slot_context_tokens() -> int:
    """Of a request: room for the longest of them."""
    return 256 * math.ceil((PROMPTS[-1] + OUTPUTS[-1] + 1) / 256)


def candidates(context_tokens: int, slots: int) -> list[Workload]:
    """Closed loads: short and long prompts and answers, one, some and many in flight."""
    in_flight = sorted({n for n in IN_FLIGHT if n <= slots} | {min(slots, IN_FLIGHT[-1])})
    return [
        Workload(arrival="closed", concurrency=n, prompt_tokens=prompt, output_tokens=output)
        for prompt, output, n in itertools.product(PROMPTS, OUTPUTS, in_flight)
        if prompt + output <= context_tokens
    ]


def num_requests(workload: Workload) -> int:
    """Measured ones. As many again as are in flight warm the server up."""
    return max(_LEAST, _ROUNDS * workload.concurrency)


def cost_s(workload: Workload, seconds: Mapping[str, float]) -> float:
    """How long a load takes, by what is predicted of it."""
    each_s = seconds["ttft_s"] + (workload.output_tokens - 1) * seconds.get("tpot_s", 0.0)
    rounds = 1 + math.ceil(num_requests(workload) / workload.concurrency)
    return _SET_UP_S + rounds * each_s


def figures(workload: Workload, rows: Sequence[RequestRow]) -> dict[str, Figure]:
    """TTFT and TPOT of the measured requests: the median of requests that ran alone, else the mean.

    A load of the rest of the host that passes by shifts few of the requests that ran alone, and
    a median not at all.
    """
    served = [row for row in rows if row.phase == "measured" and row.status == "ok"]
    found = {}
    for name, values in (
        ("ttft_s", [row.ttft_s for row in served]),
        ("tpot_s", [row.tpot_s for row in served]),
    ):
        known = [value for value in values if value is not None and value > 0]
        if len(known) >= 2:
            found[name] = _figure(known, workload.concurrency)
    return found


def _figure(values: Sequence[float], in_flight: int) -> Figure:
    if in_flight == 1:
        centre = quantile(values, 0.5)
        # 1.4826 x the median deviation is a normal's sd; a median's error is 1.25 x a mean's
        apart = 1.4826 * quantile([abs(v - centre) for v in values], 0.5)
        error = 1.25 * apart / math.sqrt(len(values))
    else:
        centre = mean(values)
        variance = math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1)
        error = math.sqrt(variance / len(values))
    return Figure(math.log(centre), max(LEAST_LOG_SD, error / centre))
