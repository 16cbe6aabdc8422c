"""Money: the same hourly cost divided by each kind of token, and a fleet for a rate.

`usd_per_mtok_output`, `_input` and `_total` are three readings of one bill: each divides the
whole hourly cost by that one count. They are not to be added up.
"""

from __future__ import annotations

import math

from ..errors import AskError
from ..schema.hardware import Price
from ..schema.prediction import Cost, Fleet

HOURS_PER_MONTH = 730.0  # 8,760 / 12
COST_DIVISOR = (
    "the whole hourly cost is divided by output, by input and by total tokens in turn: "
    "the three prices are alternatives, not parts"
)


def hourly_usd(price: Price, num_devices: int, priced_devices: int = 1) -> float:
    """Cost of `num_devices` devices of which `priced_devices` cost one price.

    Machines are rented whole: three devices of an eight-device instance cost the instance.
    """
    return price.usd_per_hour * math.ceil(num_devices / max(priced_devices, 1))


def price_basis(price: Price) -> str:
    """Whose price it is: "published, AWS us-east-1 on-demand, 2026-07-20", or "given"."""
    if not price.source:
        return "given"
    parts = (price.source, price.region, price.kind)
    said = " ".join(part for part in parts if part)
    return f"published, {said}" + (f", {price.date}" if price.date else "")


def cost_of(
    usd_per_hour: float,
    basis: str,
    output_tokens_per_s: float,
    input_tokens_per_s: float,
    utilization_share: float = 1.0,
) -> Cost:
    """Cost at a throughput. `utilization_share` is the part of each hour that is busy.

    Rates are those of a busy hour; a replica that idles half of it costs twice as much a token.
    """
    if not 0.0 < utilization_share <= 1.0:
        raise AskError(f"utilization {utilization_share!r} is outside 0..1; give 0.6 or 60%")
    return Cost(
        usd_per_hour=usd_per_hour,
        price_basis=basis,
        utilization_share=utilization_share,
        usd_per_mtok_output=_usd_per_mtok(usd_per_hour, output_tokens_per_s * utilization_share),
        usd_per_mtok_input=_usd_per_mtok(usd_per_hour, input_tokens_per_s * utilization_share),
        usd_per_mtok_total=_usd_per_mtok(
            usd_per_hour, (output_tokens_per_s + input_tokens_per_s) * utilization_share
        ),
        usd_per_month=usd_per_hour * HOURS_PER_MONTH,
    )


def _usd_per_mtok(usd_per_hour: float, tokens_per_s: float) -> float:
    if tokens_per_s <= 0.0:
        return math.inf
    return usd_per_hour / (tokens_per_s * 3600.0) * 1e6


def volume_rps(
    output_tokens_per_month: float, output_tokens: int, utilization_share: float = 1.0
) -> float:
    """Requests a second, in busy hours, of a monthly volume of output tokens."""
    busy_s = HOURS_PER_MONTH * 3600.0 * utilization_share
    return output_tokens_per_month / max(output_tokens, 1) / busy_s


def fleet_for(rate_rps: float, max_rate_rps: float, usd_per_hour: float | None) -> Fleet:
    """Replicas that carry a rate, each at most at its own highest rate. Raises AskError."""
    if max_rate_rps <= 0.0:
        raise AskError("no rate meets the SLO on this deployment; relax the SLO or choose another")
    # One part in 10^9 over a whole number is rounding, not another machine.
    replicas = max(1, math.ceil(rate_rps / max_rate_rps - 1e-9))
    return fleet_of(replicas, rate_rps, max_rate_rps, usd_per_hour)


def fleet_of(
    replicas: int, rate_rps: float, max_rate_rps: float, usd_per_hour: float | None
) -> Fleet:
    """So many replicas under a rate; `usd_per_hour` is the price of one."""
    hourly = None if usd_per_hour is None else replicas * usd_per_hour
    return Fleet(
        replicas=replicas,
        rate_rps=rate_rps,
        capacity_rps=replicas * max_rate_rps,
        idle_share=1.0 - rate_rps / (replicas * max_rate_rps),
        usd_per_hour=hourly,
        usd_per_month=None if hourly is None else hourly * HOURS_PER_MONTH,
    )
