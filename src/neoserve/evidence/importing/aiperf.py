"""AIPerf's profile_export_aiperf.json. Fields as aiperf 0.13.0 writes them.

Its per-request records, where they were exported, are profile_export.jsonl beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import AskError
from ...schema.imported import Imported, ImportedRow
from . import figures as f

_METRICS = {
    "ttft_s": ("time_to_first_token", f.FROM_SENDING),
    "tpot_s": ("inter_token_latency", f.PER_TOKEN),
    "itl_s": ("inter_chunk_latency", f.CHUNK_GAPS),
    "e2e_s": ("request_latency", f.TO_LAST_TOKEN),
}
_RATES = {
    "output_tokens_per_s": "output_token_throughput",
    "input_tokens_per_s": "input_token_throughput",
    "total_tokens_per_s": "total_token_throughput",
    "served_rps": "request_throughput",
    "goodput_rps": "goodput",
}
_STATISTICS = ("p25", "p50", "p75", "p90", "p95", "p99")
_OPEN = ("poisson", "gamma", "constant")
_RATE_UNITS = ("tokens/sec", "requests/sec")


def is_aiperf(data: Mapping[str, Any]) -> bool:
    """By the version it states, and its configuration."""
    return {"aiperf_version", "input_config"} <= data.keys()


def read(data: Mapping[str, Any], source: str, records: bytes = b"") -> Iterator[Imported]:
    """The one load of an export. Raises AskError for one that calls itself incomplete."""
    if data.get("is_complete") is False:
        raise AskError(
            f"AIPerf calls this run incomplete ({data.get('incomplete_reason') or 'no reason'}); "
            "its figures would pass for those of a whole run: run it again"
        )
    metrics = {name: found for name in _METRICS if (found := _statistics(data, _METRICS[name][0]))}
    phase = _phase(data)
    kind, limit = str(phase.get("type", "")), f.count(phase.get("concurrency"))
    served, failed = (
        f.count(f.table(data.get(name)).get("avg"))
        for name in ("request_count", "error_request_count")
    )
    yield Imported(
        tool="aiperf",
        tool_version=str(data["aiperf_version"] or ""),
        source=source,
        model=_model(data),
        open_loop=(limit is None) if kind in _OPEN else (False if kind == "concurrency" else None),
        arrival="closed" if kind == "concurrency" else kind,
        request_rate_rps=f.number(phase.get("rate")),
        max_concurrency=limit,
        num_requests=None if served is None else served + (failed or 0),
        num_failed=failed or 0,
        duration_s=_statistics(data, "benchmark_duration").get("mean"),
        warm_up="a warm-up phase, left out" if data.get("warmup_metrics") else "none",
        metrics=metrics,
        definitions={name: _METRICS[name][1] for name in metrics},
        throughput=_throughput(data),
        faults=tuple(_faults(data, kind, limit)),
        rows=tuple(_rows(records)),
    )


def _statistics(data: Mapping[str, Any], name: str) -> dict[str, float]:
    metric = f.table(data.get(name))
    if not metric:
        return {}
    values = {"mean": metric.get("avg")} | {p: metric.get(p) for p in _STATISTICS}
    return f.seconds(values, metric.get("unit", ""), name)


def _throughput(data: Mapping[str, Any]) -> dict[str, float]:
    found = {out: f.table(data.get(name)) for out, name in _RATES.items()}
    for out, metric in found.items():
        if metric:
            f.known(metric.get("unit"), _RATE_UNITS, _RATES[out])
    return f.numbers({out: metric.get("avg") for out, metric in found.items()})


def _phase(data: Mapping[str, Any]) -> Mapping[str, Any]:
    phases = f.table(data["input_config"]).get("phases") or ()
    return next((phase for phase in phases if phase.get("kind") == "profiling"), {})


def _model(data: Mapping[str, Any]) -> str:
    models = f.table(f.table(data["input_config"]).get("models")).get("items") or [{}]
    return str(models[0].get("name", ""))


def _faults(data: Mapping[str, Any], kind: str, limit: int | None) -> Iterator[str]:
    yield "latency counts from sending: time that a request waits in the client is left out"
    if data.get("was_cancelled"):
        yield "the run was cancelled before its end"
    if kind in _OPEN and limit is not None:
        yield "arrivals beyond the concurrency wait in the client, so the loop is not open"


def _rows(records: bytes) -> Iterator[ImportedRow]:
    requests = [json.loads(line) for line in records.splitlines() if line.strip()]
    measured = [r for r in requests if r["metadata"].get("benchmark_phase") == "profiling"]
    first_ns = min((r["metadata"]["request_start_ns"] for r in measured), default=0)
    for request in measured:
        values, error = request["metrics"], f.table(request.get("error"))
        times = {
            metric: _value_s(values, name)
            for metric, (name, _) in _METRICS.items()
            if metric != "itl_s"
        }
        yield ImportedRow(
            sent_s=(request["metadata"]["request_start_ns"] - first_ns) * 1e-9,
            **times,
            prompt_tokens=f.count(f.table(values.get("input_sequence_length")).get("value")),
            output_tokens=f.count(f.table(values.get("output_sequence_length")).get("value")),
            error=str(error.get("message") or error.get("type") or ""),
        )


def _value_s(values: Mapping[str, Any], name: str) -> float | None:
    value = f.table(values.get(name))
    return f.seconds({"value": value.get("value")}, value["unit"], name)["value"] if value else None
