"""inference-perf's summary_ and stage_N_lifecycle_metrics.json; every latency is in seconds.

Fields as kubernetes-sigs/inference-perf, reportgen/base.py, writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...schema.imported import Imported
from . import figures as f

_STATISTICS = {"mean": "mean", "p50": "median", "p90": "p90", "p95": "p95", "p99": "p99",
               "p99.9": "p99.9"}  # fmt: skip
_METRICS = {
    "ttft_s": ("time_to_first_token", f.FROM_SENDING),
    "tpot_s": ("time_per_output_token", f.PER_TOKEN),
    "itl_s": ("inter_token_latency", f.TOKEN_GAPS),
    "e2e_s": ("request_latency", f.TO_END),
}
_FAULTS = (
    "arrivals are drawn per second and normalised: poisson ends each second on an arrival, and "
    "constant is random, too; the generator has no seed",
    "latency counts from sending: time that a request waits in the client is left out",
)


def is_inference_perf(data: Mapping[str, Any]) -> bool:
    """By its two halves."""
    return {"load_summary", "successes", "failures"} <= data.keys()


def read(data: Mapping[str, Any], source: str) -> Iterator[Imported]:
    """The one load, or all stages together, of a report."""
    load, served = f.table(data["load_summary"]), f.table(data["successes"])
    latency, rates = f.table(served.get("latency")), f.table(served.get("throughput"))
    metrics = {
        metric: _statistics(latency[field])
        for metric, (field, _) in _METRICS.items()
        if f.table(latency.get(field))
    }
    concurrency, rate_rps = f.count(load.get("concurrency")), f.number(load.get("requested_rate"))
    goodput = f.table(served.get("goodput_metrics"))
    yield Imported(
        tool="inference-perf",
        source=source,
        open_loop=False if concurrency is not None else (None if rate_rps is None else True),
        arrival="closed" if concurrency is not None else "",
        request_rate_rps=rate_rps,
        max_concurrency=concurrency,
        num_requests=f.count(load.get("count")),
        num_failed=f.count(f.table(data["failures"]).get("count")),
        duration_s=f.number(data.get("benchmark_time_seconds")),
        warm_up="none",
        metrics=metrics,
        definitions={name: _METRICS[name][1] for name in metrics},
        throughput=f.numbers(
            {
                "output_tokens_per_s": rates.get("output_tokens_per_sec"),
                "input_tokens_per_s": rates.get("input_tokens_per_sec"),
                "total_tokens_per_s": rates.get("total_tokens_per_sec"),
                "served_rps": rates.get("requests_per_sec"),
                "goodput_rps": goodput.get("request_goodput"),
            }
        ),
        faults=_FAULTS if concurrency is None else _FAULTS[1:],
    )


def _statistics(latency: Mapping[str, Any]) -> dict[str, float]:
    return f.numbers({out: latency.get(name) for out, name in _STATISTICS.items()})
