"""GuideLLM's benchmarks.json, version 2. Fields as guidellm 0.8.1 writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import AskError
from ...schema.imported import Imported, ImportedRow
from . import figures as f

_PERCENTILES = {"p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99", "p99.9": "p999"}
_METRICS = {  # -> its field and seconds per unit
    "ttft_s": ("time_to_first_token_ms", 1e-3, f.FROM_SENDING),
    # not time_per_output_token_ms, which counts the first token's wait, too
    "tpot_s": ("inter_token_latency_ms", 1e-3, f.PER_TOKEN),
    "e2e_s": ("request_latency", 1.0, f.TO_END),
    "e2e_arrival_s": ("request_scheduled_latency", 1.0, "from the intended arrival to the end"),
}
_ARRIVALS = {
    "poisson": ("poisson", True),
    "constant": ("constant", True),
    "concurrent": ("closed", False),
    "synchronous": ("closed", False),
    "throughput": ("at once", True),
}
_NOT_POISSON = (
    "poisson with {} workers: each draws the same gaps, so arrivals come in clusters and queues "
    "are several times longer than Poisson's; set GUIDELLM__MAX_WORKER_PROCESSES=1"
)


def is_guidellm(data: Mapping[str, Any]) -> bool:
    """By the version it states."""
    return "guidellm_version" in f.table(data.get("metadata"))


def read(data: Mapping[str, Any], source: str) -> Iterator[Imported]:
    """One per benchmark. Raises AskError for another version of the format."""
    metadata = data["metadata"]
    if metadata.get("version") != 2:
        raise AskError(f"GuideLLM's format version {metadata.get('version')} is not 2; re-export")
    for benchmark in data["benchmarks"]:
        yield _read(benchmark, str(metadata["guidellm_version"]), source)


def _read(benchmark: Mapping[str, Any], version: str, source: str) -> Imported:
    config = f.table(benchmark.get("config"))
    strategy = f.table(config.get("strategy"))
    totals = f.table(f.table(benchmark.get("metrics")).get("request_totals"))
    metrics = _metrics(benchmark)
    kind = str(strategy.get("type_", ""))
    arrival, open_loop = _ARRIVALS.get(kind, (kind, None))
    failed = f.present([f.number(totals.get("errored")), f.number(totals.get("incomplete"))])
    return Imported(
        tool="guidellm",
        tool_version=version,
        source=source,
        model=str(f.table(config.get("backend")).get("model") or ""),
        open_loop=open_loop,
        arrival=arrival,
        request_rate_rps=f.number(strategy.get("rate")),
        max_concurrency=f.count(strategy.get("streams")),
        num_requests=f.count(totals.get("total")),
        num_failed=round(sum(failed)) if failed else None,
        duration_s=f.number(benchmark.get("duration")),
        warm_up=_warm_up(benchmark),
        metrics=metrics,
        definitions={name: _METRICS[name][2] for name in metrics},
        throughput=_throughput(benchmark),
        faults=tuple(_faults(benchmark, strategy)),
        rows=tuple(_rows(benchmark)),
    )


def _metrics(benchmark: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    found = {}
    for metric, (field, scale, _) in _METRICS.items():
        served = _served(benchmark, field)
        percentiles = f.table(served.get("percentiles"))
        values = {out: percentiles.get(name) for out, name in _PERCENTILES.items()}
        if served.get("count"):
            found[metric] = f.numbers({"mean": served.get("mean")} | values, scale)
    return found


def _served(benchmark: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    return f.table(f.table(f.table(benchmark.get("metrics")).get(field)).get("successful"))


def _throughput(benchmark: Mapping[str, Any]) -> dict[str, float]:
    fields = {
        "output_tokens_per_s": "output_tokens_per_second",
        "input_tokens_per_s": "prompt_tokens_per_second",
        "total_tokens_per_s": "tokens_per_second",
        "served_rps": "requests_per_second",
        "goodput_rps": "request_goodput",
    }
    return f.numbers({out: _served(benchmark, field).get("mean") for out, field in fields.items()})


def _warm_up(benchmark: Mapping[str, Any]) -> str:
    left_out = [
        f"{what} of {duration_s:g} s left out"
        for what in ("warmup", "cooldown")
        if (duration_s := f.number(benchmark.get(f"{what}_duration")))
    ]
    return ", ".join(left_out) or "none"


def _faults(benchmark: Mapping[str, Any], strategy: Mapping[str, Any]) -> Iterator[str]:
    workers = strategy.get("worker_count")
    if strategy.get("type_") == "poisson" and workers != 1:
        yield _NOT_POISSON.format(workers)
    if not _served(benchmark, "request_scheduled_latency").get("count"):
        yield "latency counts from sending: time that a request waits in the client is left out"
    for warning in benchmark.get("warnings") or ():
        yield f"guidellm warns: {warning.get('message', warning.get('code'))}"


def _rows(benchmark: Mapping[str, Any]) -> Iterator[ImportedRow]:
    requests = f.table(benchmark.get("requests"))
    for status in ("successful", "errored", "incomplete"):
        listed = requests.get(status)
        for request in listed if isinstance(listed, list) else ():
            times = f.numbers(
                {
                    "ttft_s": request.get("time_to_first_token_ms"),
                    "tpot_s": request.get("inter_token_latency_ms"),
                },
                1e-3,
            )
            yield ImportedRow(
                **times,
                e2e_s=f.number(request.get("request_latency")),
                prompt_tokens=f.count(request.get("prompt_tokens")),
                output_tokens=f.count(request.get("output_tokens")),
                error="" if status == "successful" else status,
            )
