"""Predictions against the rows of a latency truth file: pure; the caller reads and resolves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..stats import mean, quantile
from .latency_rows import FLAGS, Case
from .serve import Server, closed, open_loop
from .server import static
from .simulation.policy import policy_of
from .simulation.replica import Replica
from .simulation.requests import Draw, requests_of

MOST_SENT = 2000  # requests of a row that are simulated


class Comparison(NamedTuple):
    """One flag of one row."""

    case: Case
    flag: str
    observed: float
    predicted: float

    @property
    def error_share(self) -> float:
        """Absolute, of the observed."""
        return abs(self.predicted / self.observed - 1.0)


def predictions(case: Case, server: Server, draw: Draw | None = None) -> dict[str, float]:
    """What we say for each flag of a case; with `draw`, open loads as long as they were."""
    if case.load_mode == "open_loop":
        return _sent(case, server, draw) if draw and case.num_sent else _open(case, server)
    if case.load_mode in ("static_batch", "burst", "offline"):
        return _static(case, server)
    return _closed(case, server)


def _rates(case: Case, server: Server, requests_per_s: float, tpot_s: float) -> dict[str, float]:
    replicas = case.deployment.replicas
    tokens = server.output_tokens
    if "total_rate" in case.observed:
        tokens += server.new_tokens
    rate = replicas * requests_per_s * tokens
    if "decode_rate" in case.observed:
        rate = replicas * case.workload.concurrency / tpot_s
    return {"throughput": rate, "tput256": rate, "prefill_rate": _prefill_rate(case, server)}


def _prefill_rate(case: Case, server: Server) -> float:
    """Tokens a second of a prompt alone, behind a context where the benchmark has one."""
    if case.bench_prompt_tokens:
        tokens = float(case.bench_prompt_tokens)
        depth = server.new_tokens if server.new_tokens > 1 else 0.0
        seen, batch = depth + tokens / 2, 1.0
    else:
        tokens, batch = server.new_tokens, float(case.workload.concurrency)
        seen = tokens / 2
        if case.load_mode == "closed_loop":
            batch = 1.0
        seen *= batch if case.shared_cache else 1.0
    chunks = server.chunks_of(batch * tokens)
    return batch * tokens / (chunks * server.step.step_s(batch * tokens / chunks, seen, 0.0, 0.0))


def _closed(case: Case, server: Server) -> dict[str, float]:
    point = closed(server, float(case.workload.concurrency))
    ttft_s = point.ttft_s + case.wait_steps * point.costs.decode_s
    steps = server.decode_tokens
    if case.burst_share:
        start = static(server, float(case.workload.concurrency))
        ttft_s += case.burst_share * max(0.0, start.ttft_s - ttft_s)
    e2e_s = ttft_s + steps * point.tpot_s
    return {
        "single_tpot": point.tpot_s, "batched_tpot": point.tpot_s, "ttft": ttft_s,
        "e2e_single": e2e_s, "e2e_batched": e2e_s,
        **_rates(case, server, point.rate_rps, point.tpot_s),
    }  # fmt: skip


def _static(case: Case, server: Server) -> dict[str, float]:
    batch = float(case.workload.concurrency)
    result = static(server, batch, case.varied)
    offline = case.load_mode == "static_batch" and "ttft" not in case.observed
    tpot_s = result.decode_s if offline else result.tpot_s
    if case.rate_mean:
        tpot_s = rate_mean_tpot_s(result.decode_s, tpot_s)
    return {
        "single_tpot": tpot_s, "batched_tpot": tpot_s, "ttft": result.ttft_s,
        "batch_prefill": result.prefill_s, "e2e_single": result.e2e_s, "e2e_batched": result.e2e_s,
        **_rates(case, server, batch / result.e2e_s, result.decode_s),
    }  # fmt: skip


def rate_mean_tpot_s(bare_s: float, mean_s: float) -> float:
    """One over the mean rate of requests whose TPOT spreads evenly from `bare_s` up."""
    spread_s = 2.0 * (mean_s - bare_s)
    if spread_s <= 1e-9 * bare_s:
        return bare_s
    return spread_s / math.log1p(spread_s / bare_s)


def _open(case: Case, server: Server) -> dict[str, float]:
    point = open_loop(server, case.workload.rate_rps, 1.0)
    e2e_s = point.ttft_s + server.decode_tokens * point.tpot_s
    return {
        "openloop_tpot": point.tpot_s, "openloop_ttft": point.ttft_s, "openloop_e2e": e2e_s,
        **_rates(case, server, point.rate_rps, point.tpot_s),
    }  # fmt: skip


def _sent(case: Case, server: Server, draw: Draw) -> dict[str, float]:
    """The requests of an open load from an idle start to the last answer, simulated.

    Above saturation what a run shows depends on how many requests it sends.
    """
    drawn = draw(case.workload, min(case.num_sent, MOST_SENT))
    coefficients = server.coefficients
    slots = min(server.limits.slots, float(case.deployment.max_num_seqs or server.limits.slots))
    found = Replica(
        server.step,
        policy_of(case.deployment, server.limits, int(slots)),
        requests_of(drawn, 0.0, caching=False),
        host_s=(coefficients.admission_s, coefficients.prompt_token_s),
        pipeline=case.deployment.pipeline_parallel,
    ).run()
    times = list(zip(found.sent_s, found.first_s, found.end_s, drawn.output_tokens, strict=True))
    ttft_s = quantile([first - sent for sent, first, _, _ in times], 0.5)
    tpot_s = quantile([(end - first) / max(n - 1, 1) for _, first, end, n in times], 0.5)
    elapsed_s = max(end for _, _, end, _ in times) - min(sent for sent, *_ in times)
    return {
        "openloop_tpot": tpot_s, "openloop_ttft": ttft_s,
        "openloop_e2e": quantile([end - sent for sent, _, end, _ in times], 0.5),
        **_rates(case, server, len(times) / elapsed_s, tpot_s),
    }  # fmt: skip


def flags_of(case: Case) -> list[tuple[str, float]]:
    """(flag, observed) of the figures that count."""
    return [(flag, value) for flag, value in case.observed.items() if flag in FLAGS]


def summary(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """n, sources, devices, mape, median_ape, p90_ape, bias and a source-weighted median."""
    errors = [c.error_share for c in comparisons]
    by_source = defaultdict(list)
    for c in comparisons:
        by_source[c.case.source].append(c.error_share)
    return {
        "n": len(comparisons),
        "sources": len(by_source),
        "devices": len({c.case.device for c in comparisons}),
        "mape": mean(errors),
        "median_ape": quantile(errors, 0.5),
        "p90_ape": quantile(errors, 0.9),
        "bias": quantile([c.predicted / c.observed - 1.0 for c in comparisons], 0.5),
        "source_median_ape": mean([quantile(e, 0.5) for e in by_source.values()]),
    }


def table(
    comparisons: Sequence[Comparison], key: Callable[[Comparison], str]
) -> dict[str, dict[str, dict[str, float]]]:
    """flag -> key -> summary: the shape of `accuracy latency`'s by_arch, by_engine and so on."""
    groups: dict[str, dict[str, list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    for c in comparisons:
        groups[c.flag][key(c)].append(c)
    return {
        flag: {name: summary(group) for name, group in sorted(by_key.items())}
        for flag, by_key in groups.items()
    }
