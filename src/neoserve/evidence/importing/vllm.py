"""``vllm bench serve --save-result``, vllm-bench in Rust, and SGLang's close relative.

Fields as vllm/benchmarks/serve.py (0.32) and sglang/benchmark/metrics.py write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...schema.imported import Imported, ImportedRow
from . import figures as f

_METRICS = {"ttft_s": "ttft", "tpot_s": "tpot", "itl_s": "itl", "e2e_s": "e2el"}
_DEFINITIONS = {
    "ttft_s": f.FROM_SENDING,
    "tpot_s": f.PER_TOKEN,
    "itl_s": f.CHUNK_GAPS,
    "e2e_s": f.TO_LAST_TOKEN,
    "e2e_arrival_s": f.FROM_ARRIVAL,
}
_ARRAYS = ("ttfts", "itls", "input_lens", "output_lens", "errors")
_PERCENTILES = ("p25", "p50", "p75", "p90", "p95", "p99", "p99.9")
_TOLERANCE = 0.01  # of a mean: what the file says and what its arrays give


def is_vllm(data: Mapping[str, Any]) -> bool:
    """By its totals; SGLang writes the same ones."""
    return {"duration", "completed", "request_throughput"} <= data.keys()


def read(data: Mapping[str, Any], source: str) -> Iterator[Imported]:
    """The one load of a result object."""
    is_sglang = "mean_e2e_latency_ms" in data
    rows = tuple(_rows(data))
    stated = _stated(data, "e2e_latency" if is_sglang else "e2el")
    computed = _computed(data, rows)
    metrics = stated | computed
    completed, failed = f.count(data.get("completed")), _num_failed(data, rows)
    arrival, open_loop = _arrival(data)
    tool, version = _tool(data, is_sglang)
    yield Imported(
        tool=tool,
        tool_version=version,
        source=source,
        model=str(data.get("model_id") or ""),
        open_loop=open_loop,
        arrival=arrival,
        request_rate_rps=f.number(data.get("request_rate")),
        max_concurrency=f.count(data.get("max_concurrency")),
        num_requests=None if failed is None or completed is None else completed + failed,
        num_failed=failed,
        duration_s=f.number(data.get("duration")),
        warm_up="the file does not say; none by default",
        metrics=metrics,
        definitions={name: _DEFINITIONS[name] for name in metrics},
        recomputed=tuple(computed),
        throughput=_throughput(data),
        faults=tuple(_faults(data, stated, computed, open_loop)),
        rows=rows,
    )


def _tool(data: Mapping[str, Any], is_sglang: bool) -> tuple[str, str]:
    """Who wrote it, and its version where the file says; NeoServe's own export does."""
    name, _, version = str(data.get("label") or "").partition(" ")
    if name == "neoserve":
        return name, version
    if is_sglang:
        return "sglang bench_serving", ""
    return ("vllm-bench" if "steady_state" in data else "vllm bench serve"), ""


def _stated(data: Mapping[str, Any], e2e: str) -> dict[str, dict[str, float]]:
    """What the file says of each metric."""
    names = _METRICS | {"e2e_s": e2e, "e2e_arrival_s": "e2el_including_client_queue"}
    found = {metric: _statistics_of(data, name) for metric, name in names.items()}
    return {metric: statistics for metric, statistics in found.items() if statistics}


def _statistics_of(data: Mapping[str, Any], name: str) -> dict[str, float]:
    fields = {"mean": f"mean_{name}_ms", "p50": f"median_{name}_ms"}
    fields |= {p: f"{p}_{name}_ms" for p in _PERCENTILES if f"{p}_{name}_ms" in data}
    return f.numbers({out: data.get(field) for out, field in fields.items()}, 1e-3)


def _computed(
    data: Mapping[str, Any], rows: Sequence[ImportedRow]
) -> dict[str, dict[str, float]]:
    """From the arrays, which give every percentile, not only those that were asked for."""
    served = [row for row in rows if not row.error]
    gaps = [gap for row in data.get("itls") or () for gap in row]
    found = {
        "ttft_s": f.statistics(f.present(row.ttft_s for row in served)),
        "tpot_s": f.statistics(f.present(row.tpot_s for row in served)),
        "itl_s": f.statistics(gaps),
        "e2e_s": f.statistics(_latencies_s(data, served)),
    }
    return {metric: statistics for metric, statistics in found.items() if statistics}


def _latencies_s(data: Mapping[str, Any], served: Sequence[ImportedRow]) -> list[float]:
    """``latencies`` is kept even without --save-detailed, with 0 for requests that failed."""
    if served:
        return f.present(row.e2e_s for row in served)
    found = [value for value in data.get("latencies") or () if value > 0]
    return found if len(found) == data["completed"] else []


def _rows(data: Mapping[str, Any]) -> Iterator[ImportedRow]:
    if not all(isinstance(data.get(name), list) for name in _ARRAYS):
        return
    nothing: list[float | None] = [None] * len(data["ttfts"])
    sent, e2e = data.get("start_times") or nothing, data.get("latencies") or nothing
    first = min(f.present(sent), default=0.0)
    columns = (data[name] for name in _ARRAYS)
    for start, end, ttft, gaps, prompt, output, error in zip(sent, e2e, *columns, strict=True):
        sent_s = None if start is None else start - first
        if error:
            yield ImportedRow(sent_s=sent_s, prompt_tokens=prompt, error=error)
        else:
            e2e_s = ttft + sum(gaps) if end is None else end
            yield ImportedRow(
                sent_s=sent_s,
                ttft_s=ttft,
                tpot_s=(e2e_s - ttft) / (output - 1) if output > 1 else None,
                e2e_s=e2e_s,
                prompt_tokens=prompt,
                output_tokens=output,
            )


def _num_failed(data: Mapping[str, Any], rows: Sequence[ImportedRow]) -> int | None:
    if (failed := f.count(data.get("failed"))) is not None:
        return failed
    if rows:
        return sum(bool(row.error) for row in rows)
    planned = f.count(data.get("num_prompts"))  # older ones than `failed`
    return None if planned is None else planned - round(data["completed"])


def _arrival(data: Mapping[str, Any]) -> tuple[str, bool | None]:
    """The law, and whether the loop is open."""
    rate, limit = data.get("request_rate"), data.get("max_concurrency")
    if isinstance(told := data.get("arrival"), str):  # our own export says more than vLLM can
        return told, told != "closed"
    if rate == "trace":
        return "trace", limit is None
    if f.number(rate) is None:  # "inf"
        return ("at once", True) if limit is None else ("closed", False)
    if data.get("ramp_up_strategy"):
        return "ramp", limit is None
    is_poisson = f.number(data.get("burstiness", 1.0)) == 1.0
    return "poisson" if is_poisson else "gamma", limit is None


def _throughput(data: Mapping[str, Any]) -> dict[str, float]:
    total = data.get("total_token_throughput", data.get("total_throughput"))
    return f.numbers(
        {
            "output_tokens_per_s": data.get("output_throughput"),
            "total_tokens_per_s": total,
            "input_tokens_per_s": data.get("input_throughput"),
            "served_rps": data.get("request_throughput"),
            "goodput_rps": data.get("request_goodput"),
        }
    )


def _faults(
    data: Mapping[str, Any],
    stated: Mapping[str, Mapping[str, float]],
    computed: Mapping[str, Mapping[str, float]],
    open_loop: bool | None,
) -> Iterator[str]:
    if "e2e_arrival_s" not in stated:
        yield "latency counts from sending: time that a request waits in the client is left out"
    if open_loop is False and f.number(data.get("request_rate")) is not None:
        yield "arrivals beyond max_concurrency wait in the client, so the loop is not open"
    for metric in stated.keys() & computed.keys():
        said, given = stated[metric].get("mean"), computed[metric]["mean"]
        if said is not None and abs(said - given) > _TOLERANCE * abs(given):
            yield f"the file says {metric} is {said:g} on average; its arrays give {given:g}"
