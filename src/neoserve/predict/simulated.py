"""One deployment's replica under a drawn schedule: percentiles and rates where means do not do.

The closed formula of `serve` says where the simulation begins: how many decode when it starts,
and where the highest rate is looked for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ..schema.engine import Deployment
from ..schema.prediction import Latency
from ..schema.workload import Slo, Workload
from .queueing import arrival_variability
from .serve import JUDGED_BY_MEAN, Point, Serving, max_rate_rps, open_loop, report
from .server import Server, saturation_rps
from .simulation.policy import Policy, policy_of
from .simulation.replica import Replica
from .simulation.requests import Draw, Requests, requests_of, under_way
from .simulation.summary import Simulated, highest_rate_rps, summarize
from .simulation.sums import DecodeTime

NUM_REQUESTS = 400  # measured; what their number does to a percentile is in docs/predict.md
BURSTS = 10  # that a run sees of arrivals in bursts, if that is not more than ten times as long
WARM_UP_SHARE = 0.1  # of the measured requests, sent before them and not counted
SEARCH_TOLERANCE = 0.02  # of the highest rate


class Setting(NamedTuple):
    """What is simulated, and from which schedule."""

    server: Server
    deployment: Deployment  # its defaults filled in
    kv_slots: float  # requests of the mean length that the cache holds; inf: it never binds
    block_tokens: int
    draw: Draw
    num_requests: int = NUM_REQUESTS
    policy: Policy | None = None  # None: the engine's own


class Simulation:
    """A replica that can be run under several loads."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        server, d = setting.server, setting.deployment
        self.policy = setting.policy or policy_of(d, server.limits, d.max_num_seqs or 1)
        self.decode = DecodeTime(server.step)
        self._runs: dict[tuple[Workload, Slo | None], Simulated] = {}
        self._highest: dict[tuple[Workload, Slo], float] = {}
        self.kv_tokens: float | None = None
        if math.isfinite(setting.kv_slots) and d.engine != "llama.cpp":
            mean_tokens = server.new_tokens + server.output_tokens / 2
            self.kv_tokens = setting.kv_slots * mean_tokens

    def run(self, workload: Workload, slo: Slo | None = None) -> Simulated:
        """`workload` is what this one replica sees."""
        key = workload, slo
        if key not in self._runs:
            self._runs[key] = self._run(workload, slo)
        return self._runs[key]

    def _run(self, workload: Workload, slo: Slo | None) -> Simulated:
        requests = self.requests(workload)
        coefficients = self.setting.server.coefficients
        replica = Replica(
            self.setting.server.step, self.policy, requests, self.kv_tokens,
            self.setting.block_tokens, (coefficients.admission_s, coefficients.prompt_token_s),
            self.setting.server.pipeline, self.decode,
        )  # fmt: skip
        return summarize(requests, replica.run(), slo, workload.rate_rps * workload.turns)

    def requests(self, workload: Workload) -> Requests:
        """Warm-up, measured requests, and as many behind them as keep the load up."""
        num, closed = self._num_requests(workload), workload.arrival == "closed"
        point = None if closed else self._near(workload)
        in_flight = workload.concurrency if point is None else self._in_flight(point)
        warm_up = max(math.ceil(WARM_UP_SHARE * num), in_flight if closed else 0)
        last = warm_up + num
        drawn = self.setting.draw(workload, math.ceil((last + in_flight) / workload.turns))
        caching = self.setting.deployment.enable_prefix_caching
        requests = requests_of(
            drawn, workload.prefix_hit_share, caching, workload.concurrency if closed else 0,
            workload.think_time_s,
        )  # fmt: skip
        total = len(requests.due_s)
        if total < last:  # a trace that is shorter
            warm_up, last = min(warm_up, total // 10), total
        requests = requests._replace(first=warm_up, last=last)
        # A trace, or a rate that grows, has a beginning of its own.
        if point is None or workload.arrival in ("trace", "ramp"):
            return requests
        return under_way(requests, min(round(point.decodes), self.policy.slots))

    def _num_requests(self, workload: Workload) -> int:
        """Enough for some bursts where arrivals come in bursts."""
        num = self.setting.num_requests
        if workload.arrival != "mmpp":
            return num
        cycle_s = workload.burst_length_s / workload.burst_share
        return max(num, min(10 * num, math.ceil(BURSTS * workload.rate_rps * cycle_s)))

    def _near(self, workload: Workload) -> Point:
        """The operating point by the formula, below saturation."""
        server = self.setting.server
        rate = min(workload.rate_rps * workload.turns, 0.95 * saturation_rps(server))
        return open_loop(server, rate, arrival_variability(workload))

    def _in_flight(self, point: Point) -> int:
        stay_s = point.ttft_s + self.setting.server.decode_tokens * point.tpot_s
        return min(math.ceil(1.5 * point.rate_rps * stay_s), 5 * self.setting.num_requests)

    def highest_rate_rps(self, workload: Workload, slo: Slo | None) -> float:
        """Highest rate of the workload's arrivals within the SLO, by the statistics it names."""
        server, arrival = self.setting.server, workload.arrival
        law = "poisson" if arrival in ("closed", "trace") else arrival
        at_most = max_rate_rps(server, None, 1.0)
        if not slo or all(t.metric == "quality" for t in slo.targets):
            return at_most / workload.turns
        asked = workload.replace(arrival=law, same_arrivals=True)
        key = asked.replace(rate_rps=0.0, concurrency=1), slo
        if key not in self._highest:
            self._highest[key] = self._search(asked, slo, at_most)
        return self._highest[key]

    def _search(self, asked: Workload, slo: Slo, at_most: float) -> float:
        def meets(rate_rps: float) -> bool:
            scaled = asked.replace(
                rate_rps=rate_rps,
                ramp_start_rps=asked.ramp_start_rps * rate_rps / (asked.rate_rps or rate_rps),
            )
            return bool(self.run(scaled, slo).meets_slo)

        guess = max_rate_rps(self.setting.server, slo, arrival_variability(asked))
        turns = asked.turns
        return highest_rate_rps(meets, guess / turns, at_most / turns, SEARCH_TOLERANCE)


class Told(NamedTuple):
    """What is told of one replica."""

    served: Serving
    latency: Latency | None  # None: the load is beyond saturation, and grows without bound
    goodput_rps: float | None


def told(simulation: Simulation, workload: Workload, formula: Point, slo: Slo | None) -> Told:
    """Everything about one replica; `workload` is what it sees, `formula` the operating point
    without simulation. A load beyond saturation keeps that: what a run shows then depends on how
    long it is."""
    server = simulation.setting.server
    if formula.saturated and workload.arrival != "closed":
        served, latency = report(server, workload, formula, slo), None
        goodput = 0.0 if slo else None
    else:
        found = simulation.run(workload, slo)
        served, latency = _serving(simulation, workload, found, slo), found.latency
        goodput = found.good_share * found.request_rate_rps if slo else None
    served = served._replace(
        max_rate_rps=simulation.highest_rate_rps(workload, slo),
        assumptions=tuple(line for line in served.assumptions if line != JUDGED_BY_MEAN),
    )
    return Told(served, latency, goodput)


def _serving(
    simulation: Simulation, workload: Workload, found: Simulated, slo: Slo | None
) -> Serving:
    """The report of the simulated operating point."""
    server = simulation.setting.server
    rate, latency = found.request_rate_rps, found.latency
    point = Point(
        decodes=found.num_decoding,
        rate_rps=rate,
        ttft_s=latency.ttft_s.mean or 0.0,
        tpot_s=latency.tpot_s.mean or 0.0,
        wait_s=0.0,
        costs=server.costs(max(found.num_decoding, 1.0)),
    )
    served = report(server, workload, point, slo)
    order = [served.bound, served.next_bound]
    if found.limit:
        order = [found.limit, *(cause for cause in order if cause != found.limit)]
    return served._replace(
        bound=order[0],
        next_bound=order[1],
        meets_slo=found.meets_slo,
        output_tokens_per_s=rate * found.output_tokens,
        total_tokens_per_s=rate * (found.prompt_tokens + found.output_tokens),
        assumptions=(*served.assumptions, note(simulation, workload, found)),
    )


def note(simulation: Simulation, workload: Workload, found: Simulated) -> str:
    """What was simulated, in one line."""
    lost = f", {found.preemptions} preemptions" if found.preemptions else ""
    return (
        f"latencies are of {found.num_requests} simulated requests (seed {workload.seed}) under "
        f"the scheduler of {simulation.policy.name}{lost}"
    )
