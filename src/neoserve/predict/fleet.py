"""The cheapest mix of replicas for one class of requests whose rate varies: an integer program.

Hours are sorted into levels of demand, and a level adds replicas to those of the level below: the
table that an autoscaler follows. With `add` replicas of an offer added at level s, hours(s) hours
at that level or above and starts(s) times that demand rises past it, in a curve that repeats,

    minimize    sum usd x (hours(s) + starts(s) x start_up) x add(s)  +  usd_reserved x all hours
    subject to  for each level l: sum over s <= l of capacity x add(s) >= demand(l) + reserve

where the reserve is `spares` times the largest capacity in use, so that the SLO is kept with any
of them missing. Solved by HiGHS through scipy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..errors import AskError
from ..schema.fleet import Purchase

GAP_SHARE = 0.005  # of the cost, that may be left unproven
MAX_NODES = 500  # of the search; what is unproven then is told
MAX_CURVE = 168  # different rates, before they are sorted into levels
_ALMOST = 1e-9  # relative: rounding, not another replica


class Offer(NamedTuple):
    """A kind for a class: what a replica carries within the SLO, and dollars an hour; None: not
    to be had like that."""

    name: str
    capacity_rps: float
    usd: float | None
    reserved_usd: float | None = None
    spot_usd: float | None = None
    start_up_h: float = 0.0  # billed before it serves


class Rules(NamedTuple):
    """What a mix has to bear."""

    spares: int = 1
    spot_loss_share: float = 0.25
    steps: int = 12
    gap_share: float = GAP_SHARE


class Line(NamedTuple):
    """Replicas of one offer, bought in one way, by level of demand."""

    offer: Offer
    purchase: Purchase
    usd: float  # an hour
    replicas: tuple[int, ...]


class Mix(NamedTuple):
    """The answer for one period of the curve."""

    levels: tuple[float, ...]  # requests/s, ascending
    hours: tuple[int, ...]  # at each level
    starts: tuple[int, ...]  # times that demand rises to it or past it, from below
    lines: tuple[Line, ...]
    usd: float
    usd_least: float  # proven

    def start_hours(self, line: Line) -> float:
        """Billed while replicas start."""
        if line.purchase == "reserved":
            return 0.0
        added = (b - a for a, b in pairwise((0, *line.replicas)))
        return line.offer.start_up_h * sum(n * s for n, s in zip(added, self.starts, strict=True))

    def replica_hours(self, line: Line) -> float:
        """That serve."""
        return float(sum(n * h for n, h in zip(line.replicas, self.hours, strict=True)))


def levels_of(demand: Sequence[float], steps: int) -> tuple[float, ...]:
    """At most `steps` rates, each of them one of the curve's, such that raising every hour to the
    next one adds least."""
    ordered = sorted(demand)
    if len(set(ordered)) > MAX_CURVE:  # a long curve: every so many-th rate stands for those below
        cuts = [math.ceil(len(ordered) * (i + 1) / MAX_CURVE) - 1 for i in range(MAX_CURVE)]
        ordered = [ordered[cuts[bisect_left(cuts, i)]] for i in range(len(ordered))]
    values = sorted(set(ordered))
    ends = [0, *(bisect_left(ordered, v) for v in values[1:]), len(ordered)]
    # best[j]: (hours x rate of the first j values, raised; cuts)
    none: tuple[float, tuple[int, ...]] = math.inf, ()
    best = [(0.0, none[1]), *[none] * len(values)]
    for _ in range(min(steps, len(values))):
        raised = list(best)
        for j in range(1, len(values) + 1):
            top = values[j - 1]
            for i in range(j):
                cost = best[i][0] + top * (ends[j] - ends[i])
                if cost < raised[j][0]:
                    raised[j] = cost, (*best[i][1], j)
        best = raised
    return tuple(values[j - 1] for j in best[-1][1])


def cheapest(offers: Sequence[Offer], demand: Sequence[float], rules: Rules) -> Mix:
    """The cheapest mix within `rules.gap_share`. Raises AskError where there are no offers."""
    levels = levels_of(demand, rules.steps)
    at = [bisect_left(levels, rate) for rate in demand]
    hours = tuple(at.count(i) for i in range(len(levels)))
    starts = tuple(sum(a < i <= b for a, b in zip([at[-1], *at], at, strict=False))
                   for i in range(len(levels)))  # fmt: skip
    program = _Program(undominated(offers, rules.spares), levels, hours, starts, rules)
    if not program.ways:
        raise AskError("no price is known for any kind that keeps the SLO; give usd_per_hour")
    counts, usd, least = program.solve()
    lines = tuple(
        Line(offer, purchase, price, found)
        for (offer, purchase, price), found in zip(program.ways, counts, strict=True)
        if any(found)
    )
    return Mix(levels, hours, starts, lines, usd, least)


def undominated(offers: Sequence[Offer], spares: int) -> list[Offer]:
    """Without those that some replicas of another, no larger one replace at no more cost."""

    def beats(i: int, j: int) -> bool:
        a, b = offers[i], offers[j]
        if spares and a.capacity_rps > b.capacity_rps:  # a larger one asks for a larger reserve
            return False
        num = math.ceil(b.capacity_rps / a.capacity_rps)
        prices = zip(a[2:5], b[2:5], strict=True)
        cheaper = all(y is None or (x is not None and num * x <= y) for x, y in prices)
        return cheaper and a.start_up_h <= b.start_up_h

    order = range(len(offers))
    return [
        offers[j] for j in order
        if not any(i != j and beats(i, j) and not (j < i and beats(j, i)) for i in order)
    ]  # fmt: skip


class _Program:
    """Columns: for each way to buy, what is added at each level (reserved: at the first alone);
    then for each capacity but the least, whether it is in use."""

    def __init__(
        self, offers: Sequence[Offer], levels: Sequence[float], hours: Sequence[int],
        starts: Sequence[int], rules: Rules,
    ) -> None:  # fmt: skip
        self.levels, self.rules = levels, rules
        self.ways: list[tuple[Offer, Purchase, float]] = []
        for offer in offers:
            bought: tuple[tuple[Purchase, float | None], ...] = (
                ("reserved", offer.reserved_usd), ("on-demand", offer.usd),
                ("spot", offer.spot_usd),
            )  # fmt: skip
            self.ways += [(offer, how, usd) for how, usd in bought if usd is not None]
        self.sizes = sorted({offer.capacity_rps for offer, _, _ in self.ways})
        self.cost: list[float] = []
        self.most: list[float] = []
        self.columns = [self._way(way, hours, starts) for way in self.ways]
        self.used = [self._column(0.0, 1.0) for _ in self.sizes[1:]]
        self.entries: list[tuple[int, int, float]] = []
        self.least: list[float] = []

    def _column(self, usd: float, most: float) -> int:
        self.cost.append(usd)
        self.most.append(most)
        return len(self.cost) - 1

    def _way(
        self, way: tuple[Offer, Purchase, float], hours: Sequence[int], starts: Sequence[int]
    ) -> list[int]:
        offer, purchase, usd = way
        most = self._enough(way, self.levels[-1])
        if purchase == "reserved":
            return [self._column(usd * sum(hours), most)]
        return [
            self._column(usd * (sum(hours[s:]) + starts[s] * offer.start_up_h), most)
            for s in range(len(self.levels))
        ]

    def _counts(self, offer: Offer, purchase: Purchase) -> float:
        """Requests/s that one replica is counted with."""
        lost = self.rules.spot_loss_share if purchase == "spot" else 0.0
        return offer.capacity_rps * (1.0 - lost)

    def _enough(self, way: tuple[Offer, Purchase, float], rate_rps: float) -> float:
        need = rate_rps + self.rules.spares * self.sizes[-1]
        return math.ceil(need / self._counts(*way[:2]) + _ALMOST)

    def _row(self, terms: Sequence[tuple[int, float]], least: float) -> None:
        self.entries += [(len(self.least), column, value) for column, value in terms]
        self.least.append(least)

    def _rows(self) -> None:
        spares = self.rules.spares if self.used else 0
        reserve = self.rules.spares * self.sizes[0]
        rises = [b - a for a, b in pairwise(self.sizes)]
        larger = [(used, -spares * rise) for used, rise in zip(self.used, rises, strict=True)]
        for level, rate in enumerate(self.levels):
            if rate <= 0.0:
                continue
            terms = [(column, self._counts(*way[:2]))
                     for way, columns in zip(self.ways, self.columns, strict=True)
                     for column in columns[: level + 1]]  # fmt: skip
            self._row([*terms, *larger], (rate + reserve) * (1.0 - _ALMOST))
        if not spares:
            return
        for smaller, column in pairwise(self.used):
            self._row([(smaller, 1.0), (column, -1.0)], 0.0)
        for way, columns in zip(self.ways, self.columns, strict=True):
            size = self.sizes.index(way[0].capacity_rps)
            if size:
                bound = self._enough(way, self.levels[-1])
                self._row([(self.used[size - 1], bound), *((c, -1.0) for c in columns)], 0.0)

    def solve(self) -> tuple[list[tuple[int, ...]], float, float]:
        """(replicas of each way by level, dollars, dollars that are proven to be needed)."""
        self._rows()
        x, least = _solved(self.cost, self.most, self.entries, self.least, self.rules.gap_share)
        counts = []
        for columns in self.columns:
            running, found = 0, []
            for level in range(len(self.levels)):
                running += x[columns[level]] if level < len(columns) else 0
                found.append(running)
            counts.append(tuple(found))
        usd = sum(c * n for c, n in zip(self.cost, x, strict=True))
        return counts, usd, min(least, usd)


def _solved(
    cost: Sequence[float], most: Sequence[float], entries: Sequence[tuple[int, int, float]],
    least: Sequence[float], gap_share: float,
) -> tuple[list[int], float]:  # fmt: skip
    """Whole numbers of least cost with entries . x >= least, and a proven bound. Same input, same
    answer: the search is limited in nodes, not in seconds."""
    if not least:
        return [0] * len(cost), 0.0
    try:
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array
    except ImportError:
        raise AskError(
            "a fleet is solved by HiGHS, which scipy brings: pip install 'neoserve[fleet]'"
        ) from None
    rows, columns, values = zip(*entries, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(len(least), len(cost)))
    found: Any = milp(
        np.array(cost), integrality=np.ones(len(cost)), bounds=Bounds(0, np.array(most)),
        constraints=LinearConstraint(matrix, np.array(least), np.inf),
        options={"mip_rel_gap": gap_share, "node_limit": MAX_NODES},
    )  # fmt: skip
    if found.x is None:
        raise AskError(f"no mix was found: {found.message}")
    return [round(float(n)) for n in found.x], float(found.mip_dual_bound)
