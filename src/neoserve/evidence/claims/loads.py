"""A point that served all it was offered, and percentiles of few requests."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Literal

from ...errors import AskError
from ...schema.claims import ClaimedPoint, ClaimVerdict
from ...stats import quantile_interval
from ...units import significant
from .figures import setting
from .money import served_rps

LIMIT_SHARE = Fraction(9, 10)  # served of offered: what lacks is the run's end, which drains
CONFIDENCE = 0.95
State = Literal["load-limited", "saturated", "unknown"]
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


def state_of(point: ClaimedPoint) -> State:
    """Whether the load or the machine set the throughput."""
    served = served_rps(point)
    if served is None or point.request_rate_rps is None or not point.is_capacity:
        return "unknown"
    offered = setting(point.request_rate_rps, f"{point.name}: request_rate_rps")
    return "load-limited" if (served / offered).high >= LIMIT_SHARE else "saturated"


def check_load(point: ClaimedPoint) -> list[ClaimVerdict]:
    """Whether the throughput of an open load is a capacity."""
    state, served = state_of(point), served_rps(point)
    if state == "unknown" or served is None:
        return []
    offered = setting(point.request_rate_rps or 0, f"{point.name}: request_rate_rps")
    part = served / offered
    is_limited = state == "load-limited"
    return [
        ClaimVerdict(
            subject=point.name, what="capacity",
            claimed=f"capacity of {significant(served.middle, 4)} requests/s",
            verdict="UNPROVEN" if is_limited else "HOLDS",
            arithmetic=f"{served.show()} served ÷ {offered.show()} offered = "
                       f"{part.middle:.1%}",
            reason="Load-limited: it served what it was offered, so its capacity is this or more."
            if is_limited else "It served clearly less than it was offered: it was saturated.",
        )
    ]  # fmt: skip


def check_tails(point: ClaimedPoint) -> list[ClaimVerdict]:
    """Whether so many requests bound a percentile from above."""
    if not point.percentiles:
        return []
    if point.num_requests is None:
        return [_tail(point, name, None) for name in point.percentiles]
    count = setting(point.num_requests, f"{point.name}: num_requests").low
    if count.denominator != 1 or count > 10**7:
        raise AskError(
            f"{point.name}: num_requests is {point.num_requests}; expected a whole number"
        )
    return [_tail(point, name, int(count)) for name in point.percentiles]


def _tail(point: ClaimedPoint, name: str, count: int | None) -> ClaimVerdict:
    match = _PERCENTILE.fullmatch(name.strip().lower())
    if match is None or not 0 < float(match[1]) < 100:
        raise AskError(f"{point.name}: percentiles has {name!r}; expected one such as p99")
    p = float(match[1]) / 100
    if count is None:
        return ClaimVerdict(
            subject=point.name, what="percentile", claimed=name, verdict="UNPROVEN",
            arithmetic="num_requests is not printed",
            reason="Of how many requests it is decides how far it can be trusted.",
        )  # fmt: skip
    none_beyond, tail = p**count, (1 - CONFIDENCE) / 2
    needed = math.ceil(math.log(tail) / math.log(p))
    low, high = quantile_interval(range(1, count + 1), p, CONFIDENCE) if count <= 10**5 else (1, 1)
    is_bounded = none_beyond <= tail
    ranks = (
        f"; its {CONFIDENCE:.0%} interval is from rank {low:.0f} to rank {high:.0f} of {count}"
        if is_bounded and count <= 10**5 and math.isfinite(low) else ""
    )  # fmt: skip
    reason = (
        f"{count} requests bound it from above."
        if is_bounded
        else f"{count} requests do not bound it from above: that takes {needed}. They bound "
        f"p{100 * tail ** (1 / count):.3g}."
    )
    return ClaimVerdict(
        subject=point.name, what="percentile", claimed=f"{name} of {count} requests",
        verdict="HOLDS" if is_bounded else "UNPROVEN",
        arithmetic=f"chance that none of {count} is beyond the true {name}: {p:g}^{count} = "
                   f"{none_beyond:.2g}{ranks}",
        reason=reason,
    )  # fmt: skip
