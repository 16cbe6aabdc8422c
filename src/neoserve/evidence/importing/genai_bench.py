"""genai-bench's file per scenario and concurrency. Fields as its metrics/ (0.0.5) writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schema.imported import Imported, ImportedRow
from . import figures as f

_METRICS = {
    "ttft_s": ("ttft", f.FROM_SENDING),
    "tpot_s": ("tpot", f.PER_TOKEN_TO_END),
    "e2e_s": ("e2e_latency", f.TO_END),
}
_ALL_TOKENS = "of each request, first token to the end of the answer over all its output tokens"
_STATISTICS = ("mean", "p25", "p50", "p75", "p90", "p95", "p99")
_CLOSED = (
    "closed loop alone: each user sends when its last answer has come, so a slow server is "
    "spared load and its latencies look better than under open arrivals"
)


def is_genai_bench(data: Mapping[str, Any]) -> bool:
    """By its two halves."""
    return {"aggregated_metrics", "individual_request_metrics"} <= data.keys()


def read(data: Mapping[str, Any], source: str) -> Iterator[Imported]:
    """The one load of a file. Raises AskError for a time unit that is none."""
    totals = f.table(data["aggregated_metrics"])
    unit = str(data.get("_time_unit", "s"))  # absent before it could be chosen
    stats = f.table(totals.get("stats"))
    metrics = {
        metric: f.seconds({s: stats[name].get(s) for s in _STATISTICS}, unit, f"{name}")
        for metric, (name, _) in _METRICS.items()
        if f.table(stats.get(name))
    }
    rows = tuple(_row(request, unit) for request in data["individual_request_metrics"])
    definitions = {name: _METRICS[name][1] for name in metrics}
    if _over_all_tokens(rows):
        definitions["tpot_s"] = _ALL_TOKENS
    yield Imported(
        tool="genai-bench",
        source=source,
        open_loop=False,
        arrival="closed",
        max_concurrency=f.count(totals.get("num_concurrency")),
        num_requests=f.count(totals.get("num_requests")),
        num_failed=f.count(totals.get("num_error_requests")),
        duration_s=f.number(totals.get("run_duration")),
        warm_up="the file does not say; none by default",
        metrics=metrics,
        definitions=definitions,
        throughput=_throughput(totals),
        faults=(_CLOSED,),
        rows=rows,
    )


def _over_all_tokens(rows: Sequence[ImportedRow]) -> bool:
    """Early versions divided by all output tokens; the file names no version, its rows tell."""
    for row in rows:
        if row.tpot_s and row.e2e_s and row.ttft_s and row.output_tokens:
            return round((row.e2e_s - row.ttft_s) / row.tpot_s) == row.output_tokens
    return False


def _throughput(totals: Mapping[str, Any]) -> dict[str, float]:
    per_minute = f.number(totals.get("requests_per_minute"))  # older files
    return f.numbers(
        {
            "output_tokens_per_s": totals.get("mean_output_throughput_tokens_per_s"),
            "input_tokens_per_s": totals.get("mean_input_throughput_tokens_per_s"),
            "total_tokens_per_s": totals.get("mean_total_tokens_throughput_tokens_per_s"),
            "served_rps": totals.get(
                "requests_per_second", None if per_minute is None else per_minute / 60
            ),
        }
    )


def _row(request: Mapping[str, Any], unit: str) -> ImportedRow:
    times = {metric: request.get(name) for metric, (name, _) in _METRICS.items()}
    return ImportedRow(
        **f.seconds(times, unit, "a request"),
        prompt_tokens=f.count(request.get("num_input_tokens")),
        output_tokens=f.count(request.get("num_output_tokens")),
        error=str(request.get("error_message") or request.get("error_code") or ""),
    )
