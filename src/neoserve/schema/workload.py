"""Workload and Slo: what traffic there is and what it has to feel like."""

from __future__ import annotations

import re
from typing import Literal

from ..errors import AskError
from ..units import parse_duration_s, parse_share, show_duration
from .base import Document

Arrival = Literal["poisson", "constant", "gamma", "mmpp", "ramp", "trace", "closed"]


class Workload(Document, frozen=True):
    """Requests: how they arrive and how long they are.

    Open arrivals have `rate_rps`, their mean rate; a closed load keeps `concurrency` requests in
    flight; a trace brings times and lengths of its own.
    """

    arrival: Arrival = "closed"
    rate_rps: float = 0.0
    burstiness: float = 1.0  # gamma shape: 1 is Poisson, below 1 burstier (vllm bench serve)
    concurrency: int = 1
    prompt_tokens: int = 512
    output_tokens: int = 128
    prefix_hit_share: float = 0.0  # of prompt tokens already in the prefix cache
    seed: int = 0
    # mmpp: a Poisson process whose rate switches between a calm and a burst level
    burst_ratio: float = 4.0  # rate in a burst over the mean rate
    burst_share: float = 0.1  # of the time spent in bursts
    burst_length_s: float = 10.0  # mean length of a burst
    # ramp: a Poisson process whose rate grows linearly from here to 2 x rate_rps - start
    ramp_start_rps: float = 0.0
    # lengths are lognormal with these coefficients of variation around the means above; 0: fixed
    prompt_tokens_cv: float = 0.0
    output_tokens_cv: float = 0.0
    trace: str = ""  # name of the trace file that is replayed
    dataset: str = ""  # name of the JSONL file that prompts are from
    turns: int = 1  # of a conversation; arrivals are of conversations
    think_time_s: float = 0.0  # between an answer and the next turn
    ignore_eos: bool = True  # answers are exactly output_tokens long
    # a seed's arrivals are the same at every rate, closer or further apart: what is compared then
    # differs by the server alone; for a search whose result is proven on other seeds
    same_arrivals: bool = False


class Target(Document, frozen=True):
    """One bound of an SLO: `metric:pNN<seconds`, or `quality<share`."""

    metric: Literal["ttft", "tpot", "e2e", "quality"]
    statistic: str  # mean, p50, p95, p99; "" for quality
    limit: float  # seconds, or a share for quality

    def show(self) -> str:
        """As typed: ``ttft:p95<3 s``."""
        if self.metric == "quality":
            return f"quality<{self.limit:.2%}"
        return f"{self.metric}:{self.statistic}<{show_duration(self.limit)}"


_TARGET = re.compile(
    r"(?P<metric>ttft|tpot|itl|e2e|e2el|quality)\s*(?::\s*(?P<stat>mean|p\d\d(?:\.\d+)?))?"
    r"\s*(?:<=?|:)\s*(?P<limit>[^<:;]+)"
)


class Slo(Document, frozen=True):
    """All bounds that have to hold."""

    targets: tuple[Target, ...] = ()

    @classmethod
    def parse_text(cls, text: str) -> Slo:
        """``"ttft:p95<3s; tpot:p95<200ms; quality<4%"``. Raises AskError on anything else."""
        targets = []
        for part in filter(None, (p.strip() for p in re.split(r"[;,]", text.lower()))):
            match = _TARGET.fullmatch(part)
            if match is None:
                raise AskError(
                    f"SLO part {part!r} is not understood; "
                    "write it as 'ttft:p95<3s' or 'quality<4%'"
                )
            metric = {"itl": "tpot", "e2el": "e2e"}.get(match["metric"], match["metric"])
            if metric == "quality":
                targets.append(
                    Target(
                        metric="quality", statistic="", limit=parse_share(match["limit"].strip())
                    )
                )
                continue
            limit_s = parse_duration_s(match["limit"].strip())
            if limit_s <= 0:
                raise AskError(f"SLO part {part!r} has no positive limit; write 'ttft:p95<3s'")
            targets.append(
                Target(metric=metric, statistic=match["stat"] or "mean", limit=limit_s)  # type: ignore[arg-type]
            )
        return cls(targets=tuple(targets))

    def show(self) -> str:
        """All targets, `; ` between them."""
        return "; ".join(t.show() for t in self.targets) or "none"
