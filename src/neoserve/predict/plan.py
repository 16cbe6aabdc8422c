"""Every combination that was asked for, priced, ranked, and the reasons why others cannot start."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..schema.engine import Deployment
from ..schema.hardware import Machine
from ..schema.model import ModelSpec
from ..schema.prediction import Plan, Prediction, Rejection, Throughput
from ..schema.workload import Slo, Workload
from ..units import show_duration, show_usd
from .cost import fleet_for
from .predictor import Ask, Memo, predict

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

    def size(self, machines: Sequence[Machine], num_schemes: int) -> int:
        """How many candidates there are."""
        each = 1
        for values in self.axes.values():
            each *= len(values)
        ranks = sum(
            len(self.tensor_parallel or powers_of_two(m.num_devices)) for m in machines
        )
        return ranks * each * num_schemes


def powers_of_two(limit: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to a limit: the tensor-parallel sizes that divide every known model."""
    return tuple(2**i for i in range(max(1, limit).bit_length()) if 2**i <= max(1, limit))


def plan(
    models: Sequence[tuple[str, ModelSpec]],
    machines: Sequence[Machine],
    base: Deployment,
    grid: Grid,
    workload: Workload,
    ask_of: Callable[[ModelSpec, Machine, Deployment], Ask],
    slo: Slo | None = None,
    rate_rps: float = 0.0,
    command_of: Callable[[Prediction], str] = lambda _: "",
    keep: int = 50,
) -> Plan:
    """Rank every combination of models (one per weight scheme), machines and grid.

    `rate_rps` sizes a fleet for each candidate and prices that; otherwise the operating point of
    the workload is priced.
    """
    fitting: list[Prediction] = []
    rejected: list[Rejection] = []
    count = 0
    memo = Memo()
    for machine, (scheme, model) in itertools.product(machines, models):
        for deployment in grid.deployments(base.replace(weight_quant=scheme), machine):
            count += 1
            ask = ask_of(model, machine, deployment)
            answer = _sized(ask, rate_rps, memo) if rate_rps else predict(ask, memo)
            if answer.starts:
                fitting.append(answer)
            else:
                rejected.append(Rejection(deployment=answer.deployment, reason=answer.refusal))
    ranked = sorted(fitting, key=rank_key)
    front = pareto(ranked)
    kept = [p.replace(command=command_of(p)) for p in _kept(ranked, front, keep)]
    # what meets the SLO ranks first, so the first one is the best or nothing is
    best = kept[0] if kept and kept[0].meets_slo is not False else None
    return Plan(
        model=models[0][1].id,
        num_candidates=count,
        best=best,
        candidates=tuple(kept),
        pareto=tuple(i for i, p in enumerate(ranked[: len(kept)]) if id(p) in front),
        rejected=tuple(rejected[:MAX_REJECTED]),
        summary=summary(best, ranked, rejected, slo, rate_rps, workload),
    )


def _kept(ranked: list[Prediction], front: set[int], keep: int) -> list[Prediction]:
    """The first `keep`, and on as far as the last point of the Pareto set."""
    last = max((i for i, p in enumerate(ranked) if id(p) in front), default=0)
    return ranked[: max(keep, last + 1)]


def rank_key(answer: Prediction) -> tuple[bool, float, float]:
    """What meets the SLO first, then the cheaper, then the faster."""
    return (
        answer.meets_slo is False,
        money(answer),
        answer.latency.tpot_s.mean if answer.latency else float("inf"),
    )


def money(answer: Prediction) -> float:
    """Dollars per million output tokens; without a price, device-seconds per token."""
    if answer.cost is not None:
        return answer.cost.usd_per_mtok_output
    rate = answer.throughput.output_tokens_per_s if answer.throughput else 0.0
    devices = answer.deployment.devices_per_replica * answer.deployment.replicas
    return devices / rate * 1e6 if rate else float("inf")


def pareto(ranked: Sequence[Prediction]) -> set[int]:
    """Ids of answers that no other beats in both cost and time per token."""
    front: set[int] = set()
    fastest = float("inf")
    for answer in sorted(ranked, key=lambda p: (money(p), _tpot(p))):
        if _tpot(answer) < fastest:
            fastest = _tpot(answer)
            front.add(id(answer))
    return front


def _tpot(answer: Prediction) -> float:
    return answer.latency.tpot_s.mean if answer.latency else float("inf")


def _sized(ask: Ask, rate_rps: float, memo: Memo) -> Prediction:
    """As many machines as carry the rate within the SLO, each seeing its share of it."""
    one = predict(ask, memo)
    if not one.starts or one.throughput is None:
        return one
    highest = one.throughput.max_rate_rps or 0.0
    if highest <= 0.0:
        return one.replace(meets_slo=False)
    machines = fleet_for(rate_rps, highest, 0.0).replicas
    share = ask.workload.replace(rate_rps=rate_rps / machines)
    return _times(predict(replace(ask, workload=share), memo), machines)


def _times(answer: Prediction, machines: int) -> Prediction:
    """The same answer for several machines side by side."""
    rates, cost = answer.throughput, answer.cost
    if machines == 1 or rates is None:
        return answer
    return answer.replace(
        deployment=answer.deployment.replace(replicas=answer.deployment.replicas * machines),
        throughput=Throughput(
            output_tokens_per_s=rates.output_tokens_per_s * machines,
            total_tokens_per_s=rates.total_tokens_per_s * machines,
            goodput_rps=None if rates.goodput_rps is None else rates.goodput_rps * machines,
            max_rate_rps=None if rates.max_rate_rps is None else rates.max_rate_rps * machines,
        ),
        cost=cost and cost.replace(
            usd_per_hour=cost.usd_per_hour * machines, usd_per_month=cost.usd_per_month * machines
        ),
    )  # fmt: skip


def summary(
    best: Prediction | None,
    ranked: Sequence[Prediction],
    rejected: Sequence[Rejection],
    slo: Slo | None,
    rate_rps: float,
    workload: Workload,
) -> str:
    """One sentence that a manager understands."""
    if not ranked:
        reason = rejected[0].reason if rejected else "nothing was asked for"
        return f"No configuration starts: {reason}."
    if best is None:
        closest = ranked[0]
        assert closest.latency is not None
        return (
            f"No configuration meets {slo.show() if slo else 'the SLO'}; the cheapest that starts "
            f"is {_where(closest)} with a first token after "
            f"{show_duration(closest.latency.ttft_s.mean)} and one every "
            f"{show_duration(closest.latency.tpot_s.mean)}."
        )
    assert best.latency is not None
    price = ""
    if best.cost is not None:
        price = f" for {show_usd(best.cost.usd_per_mtok_output)} per million output tokens"
    load = f"{rate_rps:g} requests/s" if rate_rps else f"{workload.concurrency} requests at once"
    if workload.arrival != "closed" and not rate_rps:
        load = f"{workload.rate_rps:g} requests/s"
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
