"""One trial: load on a running server, and what it says."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..schema.engine import EngineConfig
from ..schema.trial import EngineFacts, HostPrint, RequestRow, Summary, Trial
from ..schema.workload import Slo, Workload
from ..stats import mean, quantile
from ..units import show_duration
from . import load
from .engine.llamacpp import LlamaCpp, mismatches
from .host import host_print
from .summary import e2e_s, judged, steady, summarize, tpot_s, ttft_s
from .verdict import judge

_LATE_SHARE = 0.02  # of the TTFT limit; a later client bends what it measures
_LATE_FLOOR_S = 0.005  # timers and the scheduler alone cost this on a busy host
_LENGTH_TOLERANCE = 0.02


class Observed(NamedTuple):
    """A trial and the rows that it was computed from."""

    trial: Trial
    rows: list[RequestRow]


def run_trial(
    engine: LlamaCpp,
    workload: Workload,
    num_requests: int,
    slo: Slo,
    on_progress: load.OnProgress | None = None,
    host: HostPrint | None = None,
    timeout_s: float = 600.0,
) -> Observed:
    """Load a running engine. It starts nothing and stops nothing; `timeout_s` is a request's."""
    host = host or host_print(versions={engine.config.engine: engine.config.version})
    facts = engine.facts()
    rows = load.run(
        engine.url, workload, num_requests, on_progress=on_progress, timeout_s=timeout_s
    )
    faults = list(mismatches(engine.config, facts))
    if engine.has_ended():
        faults.append("the engine ended during the trial")
    trial = judge_rows(rows, workload, slo, engine.config, host, facts=facts, faults=faults)
    return Observed(trial, rows)


def rows_jsonl(rows: Sequence[RequestRow]) -> bytes:
    """The raw rows as they are kept; the trial carries their digest."""
    return b"".join(row.to_json() + b"\n" for row in rows)


def parse_rows(data: bytes) -> list[RequestRow]:
    """Back from `rows_jsonl`. Raises AskError."""
    lines = data.splitlines()
    return [RequestRow.parse_json(line, f"row {i + 1}") for i, line in enumerate(lines)]


def judge_rows(
    rows: Sequence[RequestRow],
    workload: Workload,
    slo: Slo,
    engine: EngineConfig,
    host: HostPrint,
    *,
    facts: EngineFacts | None = None,
    faults: Sequence[str] = (),
) -> Trial:
    """The trial that these rows make; any of `faults` makes it VOID. Pure."""
    kept = judged(rows)
    window = steady(kept)
    ttft = summarize(kept, ttft_s)
    late_s = _late_s(rows)
    verdict, reasons = judge(rows, slo)
    if voids := (*faults, *_voids(rows, workload, late_budget_s(slo, ttft))):
        verdict, reasons = "VOID", voids
    return Trial(
        workload=workload,
        slo=slo,
        engine=engine,
        facts=facts,
        host=host,
        rows_sha256="sha256:" + hashlib.sha256(rows_jsonl(rows)).hexdigest(),
        num_rows=len(rows),
        num_ok=sum(row.status == "ok" for row in rows),
        failures=dict(Counter(row.status for row in rows if row.status != "ok")),
        ttft_s=ttft,
        tpot_s=summarize(kept, tpot_s),
        e2e_s=summarize(kept, e2e_s),
        steady_from_s=window.from_s,
        steady_until_s=window.until_s,
        output_tokens_per_s=window.output_tokens_per_s,
        offered_rps=window.offered_rps,
        served_rps=window.served_rps,
        client_late_max_s=max(late_s),
        client_late_p99_s=quantile(late_s, 0.99),
        load_limited=window.load_limited and workload.arrival != "closed",
        verdict=verdict,
        reasons=reasons,
    )


def late_budget_s(slo: Slo, ttft: Summary) -> float:
    """How late the client may be at its 99th percentile."""
    limits = [target.limit for target in slo.targets if target.metric == "ttft"]
    scale_s = min(limits, default=ttft.p50.value or 0.0)
    return max(_LATE_FLOOR_S, _LATE_SHARE * scale_s)


def _late_s(rows: Sequence[RequestRow]) -> list[float]:
    return [row.late_s for row in rows if row.sent_s is not None] or [0.0]


def _voids(rows: Sequence[RequestRow], workload: Workload, budget_s: float) -> Iterator[str]:
    """Why these rows say nothing about the server at this workload."""
    if not judged(rows):
        yield "no request ended: nothing was observed"
    late_s = quantile(_late_s(rows), 0.99)
    if late_s > budget_s:
        yield (
            f"the client was {show_duration(late_s)} late at p99, "
            f"more than {show_duration(budget_s)}: it, not the server, was measured"
        )
    served = [row for row in rows if row.status == "ok"]
    if served:
        yield from _length_voids(served, workload)


def _length_voids(served: Sequence[RequestRow], workload: Workload) -> Iterator[str]:
    for what, asked, actual in (
        ("prompt", workload.prompt_tokens, mean([row.prompt_tokens for row in served])),
        ("output", workload.output_tokens, mean([row.output_tokens for row in served])),
    ):
        if abs(actual - asked) > _LENGTH_TOLERANCE * asked:
            yield f"{what}s held {actual:.1f} tokens on average, not the {asked} that were asked"
