"""Schedules for the simulation, drawn by the code that draws them for a measurement."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..measure.arrivals import draw as draw_times
from ..measure.lengths import lengths
from ..measure.schedule import plan
from ..measure.traces import Trace
from ..predict.simulation.requests import Draw, Drawn
from ..schema.trial import PlannedRequest
from ..schema.workload import Workload


def drawer(trace: Trace | None = None) -> Draw:
    """What draws the requests of a workload: with its seed, those that `bench` sends."""

    def draw(workload: Workload, num: int) -> Drawn:
        if workload.arrival == "trace" and trace is not None:
            return drawn(plan(workload, min(num, len(trace)), trace=trace))
        if workload.turns > 1:
            return drawn(plan(workload, num, trace=trace))
        # What `plan` draws, without its test of the law and its documents.
        closed = workload.arrival == "closed"
        due_s = (0.0,) * num if closed else draw_times(workload, num)
        pairs = islice(lengths(workload, trace.lengths() if trace else ()), num)
        prompts, outputs = zip(*pairs, strict=True)
        return Drawn(due_s, prompts, outputs)

    return draw


def drawn(schedule: Sequence[PlannedRequest]) -> Drawn:
    """A schedule of `measure` as the simulation takes it; each turn follows the one before."""
    last: dict[int, int] = {}
    follows = []
    for i, planned in enumerate(schedule):
        follows.append(last.get(planned.session, -1))
        last[planned.session] = i
    return Drawn(
        [p.due_s for p in schedule], [p.prompt_tokens for p in schedule],
        [p.output_tokens for p in schedule], follows,
    )  # fmt: skip
