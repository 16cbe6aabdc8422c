"""Every combination that was asked for, priced, ranked, and the reasons why others cannot start."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..schema.engine import Deployment
from ..schema.hardware import Machine
from ..schema.model import ModelSpec
from ..schema.prediction import Plan, Prediction, Rejection, Throughput
from ..schema.workload import Slo
from ..units import show_duration, show_usd
from .choice import sensitivity, ties
from .cost import fleet_for, fleet_of
from .memo import Memo
from .predictor import Ask, outcome, predict, share_of, simulate, simulation_of, usd_per_hour
from .queueing import arrival_variability
from .serve import max_rate_rps, meets_slo

MAX_SIMULATED = 10  # candidates whose tails are looked at, best ones first
MORE_MACHINES = 3  # tries, each 5 % more, where chance keeps a fleet just short of the SLO
_RATES = ("max_rate_rps", "output_tokens_per_s")  # of a fleet: the sum over its machines
MAX_REJECTED = 200  # reasons kept; a plan of thousands repeats them


class Grid:
    """What to vary. A None entry leaves the engine's default."""

    def __init__(
        self,
        tensor_parallel: Sequence[int] | None = None,
        pipeline_parallel: Sequence[int] = (1,),
        expert_parallel: Sequence[bool] = (False,),
        kv_cache_dtype: Sequence[str] = ("auto",),
        enforce_eager: Sequence[bool] = (False,),
        enable_prefix_caching: Sequence[bool] = (True,),
        max_num_seqs: Sequence[int | None] = (None,),
        max_num_batched_tokens: Sequence[int | None] = (None,),
    ) -> None:
        self.tensor_parallel = tensor_parallel
        self.axes = {
            "pipeline_parallel": pipeline_parallel,
            "expert_parallel": expert_parallel,
            "kv_cache_dtype": kv_cache_dtype,
            "enforce_eager": enforce_eager,
            "enable_prefix_caching": enable_prefix_caching,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
        }

    def deployments(self, base: Deployment, machine: Machine) -> Iterator[Deployment]:
        """Every combination for one machine."""
        names = ("tensor_parallel", *self.axes)
        ranks = self.tensor_parallel or powers_of_two(machine.num_devices)
        for values in itertools.product(ranks, *self.axes.values()):
            yield base.replace(**dict(zip(names, values, strict=True)))

    def each_value(self, base: Deployment) -> Iterator[Deployment]:
        """Every value of every axis once, the others as in `base`: enough to check them."""
        for name, values in {"tensor_parallel": self.tensor_parallel or (1,), **self.axes}.items():
            for value in values:
                yield base.replace(**{name: value})

    def size(self, machines: Sequence[Machine], num_schemes: int) -> int:
        """How many candidates there are."""
        each = 1
        for values in self.axes.values():
            each *= len(values)
        ranks = sum(len(self.tensor_parallel or powers_of_two(m.num_devices)) for m in machines)
        return ranks * each * num_schemes


def powers_of_two(limit: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to a limit: the tensor-parallel sizes that divide every known model."""
    return tuple(2**i for i in range(max(1, limit).bit_length()) if 2**i <= max(1, limit))


class Candidate(Struct, frozen=True):
    """A candidate that starts, and the figures that rank it."""

    ask: Ask
    meets_slo: bool | None
    priced: bool
    money: float  # dollars per million output tokens; without a price, device-seconds
    tpot_s: float
    machines: int = 1
    simulated: bool = False
    capacity_rps: float = 0.0  # of one machine, within the SLO; only for a rate


def plan(
    models: Sequence[tuple[str, ModelSpec]],
    machines: Sequence[Machine],
    base: Deployment,
    grid: Grid,
    ask_of: Callable[[ModelSpec, Machine, Deployment], Ask],
    slo: Slo | None = None,
    rate_rps: float = 0.0,
    command_of: Callable[[Prediction], str] = lambda _: "",
    keep: int = 50,
    tries: Callable[[Machine, str], bool] = lambda _machine, _scheme: True,
) -> Plan:
    """Rank every combination of models (one per weight scheme), machines and grid.

    `tries` says which schemes are looked at on which machine.
    `rate_rps` sizes a fleet for each candidate and prices that; otherwise the operating point of
    the workload is priced. Documents are built for the first `keep` and the Pareto set only.
    """
    fitting: list[Candidate] = []
    rejected: list[Rejection] = []
    count, memo = 0, Memo()
    for machine, (scheme, model) in itertools.product(machines, models):
        if not tries(machine, scheme):
            continue
        for deployment in grid.deployments(base.replace(weight_quant=scheme), machine):
            count += 1
            explain = len(rejected) < MAX_REJECTED
            found = _candidate(ask_of(model, machine, deployment), rate_rps, memo, explain)
            if isinstance(found, Candidate):
                fitting.append(found)
            elif explain:
                rejected.append(found)
    fitting.sort(key=rank_key)
    fitting = refined(fitting, rate_rps, memo)
    front = pareto(fitting)
    kept = [c for i, c in enumerate(fitting) if i < max(keep, 1) or id(c) in front]
    answers = [_told(c, memo) for c in kept]
    answers = [a.replace(command=command_of(a)) for a in answers]
    # what meets the SLO ranks first, so the first one is the best or nothing is
    best = answers[0] if answers and answers[0].meets_slo is not False else None

    lasting = memo.lasting()

    def again(ask: Ask) -> Candidate | None:
        rate = rate_rps and ask.workload.rate_rps
        found = _candidate(replace(ask, draw=None), rate, Memo(lasting), explain=False)
        return found if isinstance(found, Candidate) else None

    return Plan(
        model=models[0][1].id,
        num_candidates=count,
        best=best,
        candidates=tuple(answers),
        pareto=tuple(i for i, c in enumerate(kept) if id(c) in front),
        ties=ties(kept, rate_rps),
        sensitivity=sensitivity([_whole(c, rate_rps) for c in kept], answers, again),
        rejected=tuple(rejected),
        summary=summary(
            best, answers, rejected, slo, rate_rps, bool(kept) and math.isinf(kept[0].money)
        ),
    )


def _candidate(ask: Ask, rate_rps: float, memo: Memo, explain: bool) -> Candidate | Rejection:
    """The figures of one combination, or why it would not start."""
    found = outcome(ask, memo, explain)
    if found.run is None:
        return Rejection(deployment=found.deployment, reason=found.refusal)
    deployment, run, machines, capacity_rps = found.deployment, found.run, 1, 0.0
    priced = ask.machine.price is not None
    if rate_rps:
        highest = memo.get(
            ("max rate", id(run.server)),
            lambda: max_rate_rps(run.server, ask.slo, arrival_variability(run.workload)),
        )
        if highest <= 0.0:
            return Candidate(ask, False, priced, math.inf, run.point.tpot_s)
        capacity_rps = highest * deployment.replicas
        machines = fleet_for(rate_rps, capacity_rps, None).replicas
        share = ask.workload.replace(rate_rps=rate_rps / machines)
        run = outcome(replace(ask, workload=share), memo).run or run
        if math.isinf(run.point.ttft_s):  # at saturation exactly: the queue grows for ever
            machines += 1
            share = share.replace(rate_rps=rate_rps / machines)
            run = outcome(replace(ask, workload=share), memo).run or run
        ask = replace(ask, workload=share)
    money = _money(ask, deployment, run.point.rate_rps * run.workload.output_tokens)
    meets = meets_slo(run.server, run.point, ask.slo)
    return Candidate(
        ask, meets, priced, money, run.point.tpot_s, machines, capacity_rps=capacity_rps
    )


def refined(ranked: list[Candidate], rate_rps: float, memo: Memo) -> list[Candidate]:
    """The first candidates judged by simulation, until no other can be cheaper than one of them
    that holds the SLO, and the Pareto set; the others stay as the formula has them. All do where
    nothing is to be simulated."""
    done: list[Candidate] = []
    cheapest = math.inf
    for candidate in ranked[:MAX_SIMULATED]:
        if candidate.ask.draw is None or candidate.meets_slo is False:
            break
        if candidate.money >= cheapest:
            break
        done.append(_simulated(candidate, rate_rps, memo))
        if done[-1].meets_slo is not False:
            cheapest = min(cheapest, done[-1].money)
    found = sorted([*done, *ranked[len(done) :]], key=rank_key)
    for _ in range(MAX_SIMULATED - len(done) if done else 0):
        front = pareto(found)
        formula = [i for i, c in enumerate(found) if id(c) in front and not c.simulated]
        if not formula:
            break
        found[formula[0]] = _simulated(found[formula[0]], rate_rps, memo)
        found.sort(key=rank_key)
    return found


def _simulated(candidate: Candidate, rate_rps: float, memo: Memo) -> Candidate:
    """The same candidate, its latencies, its machines and its cost by simulation."""
    ask, machines, capacity_rps = candidate.ask, candidate.machines, 0.0
    if rate_rps:
        found = outcome(ask, memo)
        assert found.run is not None
        simulation = simulation_of(ask, found, found.run, memo)
        highest = simulation.highest_rate_rps(share_of(found.run, found), ask.slo)
        if highest <= 0.0:
            return replace(candidate, meets_slo=False, money=math.inf, simulated=True)
        capacity_rps = highest * found.deployment.replicas
        machines = fleet_for(rate_rps, capacity_rps, None).replicas
    for more in range(MORE_MACHINES):
        n = machines + more * max(1, machines // 20)
        if rate_rps:
            ask = replace(ask, workload=ask.workload.replace(rate_rps=rate_rps / n))
        found = outcome(ask, memo)
        assert found.run is not None
        told = simulate(ask, found, found.run, memo)
        if told.served.meets_slo is not False or not rate_rps:
            break
    money = _money(ask, found.deployment, told.served.output_tokens_per_s)
    return Candidate(
        ask, told.served.meets_slo, candidate.priced, money, told.served.tpot_s, n, True,
        capacity_rps,
    )  # fmt: skip


def _money(ask: Ask, deployment: Deployment, output_tokens_per_s: float) -> float:
    """Dollars per million output tokens of all replicas; without a price, device-seconds.
    `output_tokens_per_s` is of one."""
    usd = usd_per_hour(ask, deployment)
    paid = deployment.devices_per_replica * deployment.replicas if usd is None else usd / 3600
    return paid / (output_tokens_per_s * deployment.replicas) * 1e6


def _whole(candidate: Candidate, rate_rps: float) -> Candidate:
    """With the rate of the whole fleet in its question, not one machine's share."""
    if not rate_rps:
        return candidate
    workload = candidate.ask.workload.replace(rate_rps=rate_rps)
    return replace(candidate, ask=replace(candidate.ask, workload=workload))


def _told(candidate: Candidate, memo: Memo) -> Prediction:
    """The documents of a candidate; a fleet's rates and bills are those of all its machines."""
    ask, n = candidate.ask, candidate.machines
    answer = predict(ask if candidate.simulated else replace(ask, draw=None), memo)
    rates, cost, fleet = answer.throughput, answer.cost, answer.fleet
    if rates is None or fleet is None:
        return answer
    each_usd = None if cost is None else cost.usd_per_hour
    return answer.replace(
        deployment=answer.deployment.replace(replicas=answer.deployment.replicas * n),
        throughput=Throughput(
            output_tokens_per_s=rates.output_tokens_per_s * n,
            total_tokens_per_s=rates.total_tokens_per_s * n,
            goodput_rps=None if rates.goodput_rps is None else rates.goodput_rps * n,
            max_rate_rps=None if rates.max_rate_rps is None else rates.max_rate_rps * n,
        ),
        interval={
            name: i.replace(low=i.low * n, high=i.high * n) if name in _RATES else i
            for name, i in answer.interval.items()
        },
        cost=cost and cost.replace(
            usd_per_hour=cost.usd_per_hour * n, usd_per_month=cost.usd_per_month * n
        ),
        fleet=fleet_of(n, fleet.rate_rps * n, fleet.capacity_rps / fleet.replicas, each_usd),
    )  # fmt: skip


def rank_key(candidate: Candidate) -> tuple[bool, bool, float, float]:
    """What meets the SLO first, then what has a price, then the cheaper, then the faster."""
    c = candidate
    return c.meets_slo is False, not c.priced, c.money, c.tpot_s


def pareto(candidates: Sequence[Candidate]) -> set[int]:
    """Ids of candidates that no other beats in both cost and time per token.

    Dollars and device-seconds do not compare: where anything has a price, only that counts.
    """
    priced = [c for c in candidates if c.priced] or candidates
    front: set[int] = set()
    fastest = math.inf
    for candidate in sorted(priced, key=lambda c: (c.money, c.tpot_s)):
        if candidate.tpot_s < fastest:
            fastest = candidate.tpot_s
            front.add(id(candidate))
    return front


def summary(
    best: Prediction | None,
    ranked: Sequence[Prediction],
    rejected: Sequence[Rejection],
    slo: Slo | None,
    rate_rps: float,
    hopeless: bool = False,
) -> str:
    """One sentence that a manager understands. `hopeless`: no rate at all meets the SLO."""
    if not ranked:
        reason = rejected[0].reason if rejected else "nothing was asked for"
        return f"No configuration starts: {reason}."
    if best is None:
        closest = ranked[0]
        assert closest.latency is not None
        ttft_s = closest.latency.ttft_s.mean
        first = f"a first token after {show_duration(ttft_s)}" if ttft_s else "an endless queue"
        return (
            f"No configuration meets {slo.show() if slo else 'the SLO'}; the "
            f"{'fastest' if hopeless else 'cheapest'} that starts is {_where(closest)} with "
            f"{first} and one every {show_duration(closest.latency.tpot_s.mean)}."
        )
    assert best.latency is not None
    price = ""
    if best.cost is not None:
        price = f" for {show_usd(best.cost.usd_per_mtok_output)} per million output tokens"
    load = f"{rate_rps:g} requests/s" if rate_rps else "this load"
    return (
        f"Cheapest{' within the SLO' if slo else ''}: {_where(best)} serves {load}{price}, first "
        f"token after {show_duration(best.latency.ttft_s.mean)}, then one every "
        f"{show_duration(best.latency.tpot_s.mean)}; what limits it is {best.bound}."
    )


def _where(answer: Prediction) -> str:
    d = answer.deployment
    copies = f"{d.replicas} x " if d.replicas > 1 else ""
    ranks = f" TP {d.tensor_parallel}" if d.tensor_parallel > 1 else ""
    stages = f" PP {d.pipeline_parallel}" if d.pipeline_parallel > 1 else ""
    quant = "" if d.weight_quant == "checkpoint" else f" {d.weight_quant}"
    return f"{copies}{d.hardware}{ranks}{stages}{quant}"
