"""The list that is tried, in order: what is known to be good first, then what is far from it.

Engine defaults, the user's own list, known-good settings, the planner's order, and points far
from all before them. The same arguments give the same list.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..schema.space import DEFAULT, Candidate, Knob, Origin, Rejected, Space
from .host import HostFacts
from .planner import MODELLED, Planner
from .rules import broken_rule
from .space import canonical, known_good

POOL = 512  # points that are looked at where there are too many to look at all
MAX_REJECTED = 50  # of the pool's; reasons repeat
_WORTH = 0.7  # of the best prediction: below, the planner's advice is not to try it


class Listed(NamedTuple):
    """Candidates in the order to try them, the engine's defaults first, and those refused."""

    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejected, ...]


def candidates(
    space: Space, facts: HostFacts, *, limit: int, seed: int = 0, planner: Planner | None = None
) -> Listed:
    """At most `limit` candidates, each legal and unlike the others; the defaults are always one.

    Without a planner none is ordered by prediction, and memory and SLO are not looked at. Half of
    what defaults, the user and experts leave goes to the planner.
    """
    picked = _Picked(space, facts, planner)
    picked.add(Candidate({}, "default"), is_checked=False)
    for candidate in space.given:
        picked.add(candidate)
    for setting in known_good(space, facts)[: max(0, limit - picked.num)]:
        picked.add(Candidate(setting.knobs, "known-good"))
    if planner is not None:
        room = (limit - picked.num + 1) // 2
        picked.add_all(_by_prediction(space, picked, planner, seed), picked.num + room)
    picked.add_all(_space_filling(space, picked, seed), limit)
    return Listed(tuple(picked.found[: max(1, limit)]), tuple(picked.rejected))


class _Picked:
    """What is on the list so far, and what was refused."""

    def __init__(self, space: Space, facts: HostFacts, planner: Planner | None) -> None:
        self.space, self.facts, self.planner = space, facts, planner
        self.found: list[Candidate] = []
        self.rejected: list[Rejected] = []
        self._seen: set[str] = set()
        self._reasons: set[str] = set()

    @property
    def num(self) -> int:
        return len(self.found)

    def add(self, candidate: Candidate, is_checked: bool = True) -> None:
        """If it is new and legal. Of the pool only the first refusal for each reason is kept."""
        plain = canonical(self.space, candidate)
        if plain.id in self._seen:
            return
        self._seen.add(plain.id)
        reason = ""
        if is_checked:
            reason = broken_rule(self.space, plain, self.facts, self.planner)
        if not reason:
            if plain.predicted_rps is None and self.planner is not None:
                plain = plain.replace(predicted_rps=self.planner.predicted_rps(plain))
            self.found.append(plain)
        elif plain.origin in ("given", "known-good") or (
            reason not in self._reasons and len(self.rejected) < MAX_REJECTED
        ):
            self._reasons.add(reason)
            self.rejected.append(Rejected(plain, reason))

    def add_all(self, ordered: Iterable[Candidate], until: int) -> None:
        """The first ones that are new and legal, until there are so many."""
        if self.num >= until:
            return
        for candidate in ordered:
            self.add(candidate)
            if self.num >= until:
                return


def _by_prediction(
    space: Space, picked: _Picked, planner: Planner, seed: int
) -> Iterator[Candidate]:
    """Best first; of those with equal prediction the one that leaves the client a core, then the
    one that changes least. Those far from the best are left to the space-filling rest.

    Where none is predicted to keep the SLO they are ordered by what they can serve at all.
    """
    names = set(MODELLED.get(space.engine, ()))
    knobs = [knob for knob in space.knobs if knob.name in names]
    pool = _pool(space, knobs, seed, "predicted")
    legal = [c for c in pool if not broken_rule(space, c, picked.facts)]
    rated = [c.replace(predicted_rps=planner.predicted_rps(c)) for c in legal]
    rates = [c.predicted_rps or 0.0 for c in rated]
    if not any(rates):
        rates = [planner.saturation_rps(c) or 0.0 for c in rated]
    best, last = max(rates, default=0.0), math.inf
    for rate, *_, candidate in sorted(
        (-float(f"{rate:.3g}"), planner.shares_cores(c), len(c.knobs), c.show(), i, c)
        for i, (rate, c) in enumerate(zip(rates, rated, strict=True))
        if rate > 0.0 and rate >= _WORTH * best
    ):
        if -rate < last:
            yield candidate
            last = -rate


def _space_filling(space: Space, picked: _Picked, seed: int) -> Iterator[Candidate]:
    """Each the one of the pool that is farthest from all that are listed."""
    pool = _pool(space, space.knobs, seed, "space-filling")
    pool = [c for c in pool if not broken_rule(space, c, picked.facts)]
    axes = [_Axis(knob) for knob in space.knobs]
    points = [tuple(axis.place(c) for axis in axes) for c in pool]
    gaps = [math.inf] * len(pool)
    num_known = 0
    while pool:
        for known in picked.found[num_known:]:
            place = tuple(axis.place(known) for axis in axes)
            gaps = [min(g, _distance(place, p)) for g, p in zip(gaps, points, strict=True)]
        num_known = picked.num
        best = max(range(len(pool)), key=lambda i: (gaps[i], -i))
        yield pool.pop(best)
        points.pop(best)
        gaps.pop(best)


class _Axis:
    """Where a knob's values lie: counts between 0 and 1 in their order, others apart."""

    def __init__(self, knob: Knob) -> None:
        self.knob = knob
        self.is_ordered = len(knob.values) > 1 and all(_is_number(v) for v in knob.values)

    def place(self, candidate: Candidate) -> float | str:
        value = candidate.knobs.get(self.knob.name, self.knob.default)
        if not self.is_ordered or not _is_number(value):
            return value
        below = sum(float(v) < float(value) for v in self.knob.values)
        return below / (len(self.knob.values) - 1)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _distance(a: tuple[float | str, ...], b: tuple[float | str, ...]) -> float:
    """Sum over knobs: the step between two counts, 1 between other values that differ."""
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if isinstance(x, float) and isinstance(y, float):
            total += abs(x - y)
        else:
            total += x != y
    return total


def _pool(space: Space, knobs: Sequence[Knob], seed: int, origin: Origin) -> list[Candidate]:
    """All points of these knobs, or well-spread ones where there are more than `POOL`."""
    levels = [[DEFAULT, *(v for v in knob.values if v != knob.default)] for knob in knobs]
    size = math.prod(map(len, levels))
    if size <= POOL:
        points: Iterable[Sequence[str]] = itertools.product(*levels)
    else:
        points = (
            [level[int(u * len(level))] for u, level in zip(place, levels, strict=True)]
            for place in spread(len(levels), POOL, seed)
        )
    found: dict[str, Candidate] = {}
    for values in points:
        chosen = {k.name: v for k, v in zip(knobs, values, strict=True) if v != DEFAULT}
        candidate = canonical(space, Candidate(chosen, origin))
        found.setdefault(candidate.id, candidate)
    return list(found.values())


def spread(num_dims: int, num: int, seed: int) -> Iterator[tuple[float, ...]]:
    """A Latin hypercube: in each coordinate of [0, 1) one point in each of `num` equal parts."""
    ranks = [_shuffled(num, f"{seed}:{dim}") for dim in range(num_dims)]
    for i in range(num):
        yield tuple((rank[i] + 0.5) / num for rank in ranks)


def _shuffled(num: int, text: str) -> list[int]:
    """0 .. num - 1 in an order that a text always has."""
    return sorted(
        range(num), key=lambda i: hashlib.blake2b(f"{text}:{i}".encode(), digest_size=8).digest()
    )
