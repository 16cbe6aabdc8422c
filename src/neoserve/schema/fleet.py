"""A fleet for demand that varies: what is asked, and the cheapest mix that keeps each SLO."""

from __future__ import annotations

from typing import Literal

from .base import Document
from .engine import Deployment
from .workload import Workload

Purchase = Literal["reserved", "on-demand", "spot"]


class FleetKind(Document, frozen=True, kw_only=True):
    """Something to rent. Prices are of the thing named (an instance, or one device); null: as the
    catalog has it, and where it has none it cannot be bought like that."""

    on: str
    usd_per_hour: float | None = None  # on demand
    reserved_usd_per_hour: float | None = None  # paid for every hour, used or not
    spot_usd_per_hour: float | None = None
    start_up_s: float | None = None  # null: as of the fleet


class FleetClass(Document, frozen=True, kw_only=True):
    """One model under one SLO. `demand` is requests per second, hour by hour, or a file of it."""

    name: str
    model: str
    slo: str
    demand: tuple[float, ...] | str
    peak_rps: float | None = None  # scales the curve: its highest hour has this rate
    workload: Workload = Workload()  # lengths; its arrivals are Poisson
    on: tuple[str, ...] = ()  # kinds that it may run on; (): all
    weight_quant: tuple[str, ...] | None = None
    kv_cache_dtype: tuple[str, ...] | None = None
    interruptible: bool = False  # whether spot is allowed
    spares: int = 1  # replicas that may be missing: N+1


class FleetAsk(Document, frozen=True, kw_only=True):
    """All of a fleet. The curve of each class repeats."""

    schema: str = "neoserve/fleet-ask/1"
    kinds: tuple[FleetKind, ...]
    classes: tuple[FleetClass, ...]
    start_up_s: float = 300.0  # from the order until a replica serves; paid
    billing_s: float = 60.0  # a start is billed in whole ones of these
    spot_loss_share: float = 0.25  # of the spot replicas, counted as gone at any time
    headroom_share: float = 0.0  # capacity above each hour's mean rate
    steps: int = 12  # levels of demand in the table that an autoscaler follows
    engine: str = "vllm"
    catalog: str = ""
    online: bool = True
    sensitivity: bool = True


class FleetOption(Document, frozen=True, kw_only=True):
    """One kind for one class: a replica is one rental with all that runs on it. Null: `reason`."""

    on: str
    deployment: Deployment | None = None
    capacity_rps: float | None = None  # highest rate of a replica within the SLO
    usd_per_hour: float | None = None
    reserved_usd_per_hour: float | None = None
    spot_usd_per_hour: float | None = None
    price_basis: str = ""
    usd_per_mtok_output_full: float | None = None  # on demand, always at capacity
    start_up_s: float = 0.0
    command: str = ""
    reason: str = ""


class FleetUse(Document, frozen=True, kw_only=True):
    """One line of a mix."""

    on: str
    purchase: Purchase
    least: int  # replicas, over the hours
    most: int
    replica_hours: float  # that serve, in the period of the curve
    start_hours: float  # paid while they start
    usd_per_hour: float  # of one
    usd_per_month: float


class FleetStep(Document, frozen=True, kw_only=True):
    """What runs up to a rate: one line of the autoscaler's table."""

    up_to_rps: float
    hours: int  # of the period
    replicas: tuple[int, ...]  # in the order of `uses`
    capacity_rps: float  # with the spares missing and spot reclaimed


class FleetCheck(Document, frozen=True, kw_only=True):
    """A replica at the peak hour with the spares missing, simulated on another schedule."""

    on: str
    rate_rps: float
    ttft_p95_s: float | None
    tpot_p95_s: float | None
    meets_slo: bool | None


class FleetMix(Document, frozen=True, kw_only=True):
    """The cheapest mix of one class. Null: `reason`."""

    name: str
    model: str
    workload: Workload
    slo: str
    demand_rps: tuple[float, ...]
    options: tuple[FleetOption, ...]
    uses: tuple[FleetUse, ...] = ()
    steps: tuple[FleetStep, ...] = ()
    checks: tuple[FleetCheck, ...] = ()
    usd_per_month: float | None = None
    usd_per_month_least: float | None = None  # proven: no mix of the rules costs less
    usd_per_month_fixed: float | None = None  # on demand, the peak's fleet held all hours
    utilization_share: float | None = None  # of the capacity that is paid for
    usd_per_mtok_output: float | None = None  # at the real use, idle hours and spares included
    usd_per_mtok_output_full: float | None = None  # the same replicas, always at capacity
    reason: str = ""


# Version history: 1, first.
class FleetPlan(Document, frozen=True, kw_only=True):
    """The cheapest mix of every class, and what would change it."""

    schema: str = "neoserve/fleet-plan/1"
    basis: str = "predicted"
    classes: tuple[FleetMix, ...]
    usd_per_month: float | None  # of all; null where a class has none
    sensitivity: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    summary: str
