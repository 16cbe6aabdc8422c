"""A trial in other tools' words: vLLM's result file and llm-d's Benchmark Report 0.2.1.

Both count latency from sending over the served requests alone, so their figures are computed
anew from the rows and are not those of the trial, which counts from the intended arrival.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..schema.trial import RequestRow, Trial
from ..stats import mean, quantile

_PERCENTILES = {"p25": 0.25, "p50": 0.50, "p75": 0.75, "p90": 0.90, "p95": 0.95, "p99": 0.99}
_VLLM_PERCENTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def to_vllm(
    trial: Trial, rows: Sequence[RequestRow], at: datetime, version: str
) -> dict[str, Any]:
    """What ``vllm bench serve --save-result --save-detailed`` would have written, milliseconds.

    `rows` are all of the trial; `at` is when it was recorded, `version` NeoServe's. Figures
    cover the measured phase; `request_goodput` is the trial's, from the intended arrival. Left
    out: `generated_texts`, which rows do not hold, and `queue_times`, `max_output_tokens_per_s`,
    `max_concurrent_requests` and `rtfx`, for which the trial has measures of its own.
    """
    sent = _sent(rows)
    served = [row for row in sent if row.status == "ok"]
    duration_s = _duration_s(sent)
    tokens_in, tokens_out = _tokens(served)
    closed = trial.workload.arrival == "closed"
    return {
        "date": at.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai",
        "backend": "openai",
        "label": f"neoserve {version}",
        "model_id": trial.engine.model,
        "tokenizer_id": trial.engine.model,
        "num_prompts": len(sent),
        "request_rate": "inf" if closed else trial.workload.rate_rps,
        "burstiness": trial.workload.burstiness,
        "max_concurrency": trial.workload.concurrency if closed else None,
        "arrival": trial.workload.arrival,
        "duration": duration_s,
        "completed": len(served),
        "failed": len(sent) - len(served),
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": _rate(len(served), duration_s),
        "request_goodput": trial.goodput_rps,
        "output_throughput": _rate(tokens_out, duration_s),
        "total_token_throughput": _rate(tokens_in + tokens_out, duration_s),
        "input_lens": [row.prompt_tokens for row in sent],
        "output_lens": [row.output_tokens if row.status == "ok" else 0 for row in sent],
        "ttfts": [_ttft_s(row) or 0.0 for row in sent],
        "itls": [list(row.itl_s) if row.status == "ok" else [] for row in sent],
        "latencies": [_e2e_s(row) or 0.0 for row in sent],
        "start_times": [row.sent_s for row in sent],
        "errors": ["" if row.status == "ok" else row.error or row.status for row in sent],
        **_vllm_metrics(served),
    }


def to_benchmark_report(
    trial: Trial, rows: Sequence[RequestRow], uid: str, at: datetime, version: str
) -> dict[str, Any]:
    """Benchmark Report 0.2.1, in seconds.

    `uid` names the report: the digest of the ledger's line; `at` and `version` as in `to_vllm`.
    """
    sent = _sent(rows)
    served = [row for row in sent if row.status == "ok"]
    duration_s = _duration_s(sent)
    tokens_in, tokens_out = _tokens(served)
    return {
        "version": "0.2.1",
        "run": {
            "uid": uid,
            "time": {"end": at.isoformat(), "duration": f"PT{duration_s:.6f}S"},
            "description": f"verdict {trial.verdict}: {'; '.join(trial.reasons)}",
        },
        "scenario": {"load": _load(trial, version)},
        "results": {
            "request_performance": {
                "aggregate": {
                    "requests": _requests(sent, served),
                    "latency": _latency(served),
                    "throughput": _named(
                        input_token_rate=_single(_rate(tokens_in, duration_s), "tokens/s"),
                        output_token_rate=_single(_rate(tokens_out, duration_s), "tokens/s"),
                        total_token_rate=_single(
                            _rate(tokens_in + tokens_out, duration_s), "tokens/s"
                        ),
                        request_rate=_single(_rate(len(served), duration_s), "queries/s"),
                    ),
                }
            }
        },
    }


def _sent(rows: Sequence[RequestRow]) -> list[RequestRow]:
    """Measured requests that reached the server and were not ended by us."""
    return [
        row
        for row in rows
        if row.phase == "measured" and row.sent_s is not None and row.status != "cancelled"
    ]


def _duration_s(sent: Sequence[RequestRow]) -> float:
    """From the first sending to the last token."""
    starts = [row.sent_s for row in sent if row.sent_s is not None]
    ends = [row.last_token_s for row in sent if row.last_token_s is not None]
    return max(ends) - min(starts) if ends else 0.0


def _tokens(served: Sequence[RequestRow]) -> tuple[int, int]:
    return sum(row.prompt_tokens for row in served), sum(row.output_tokens for row in served)


def _rate(amount: float, duration_s: float) -> float | None:
    return amount / duration_s if duration_s > 0 else None


def _ttft_s(row: RequestRow) -> float | None:
    """From sending, as these tools have it."""
    if row.status != "ok" or row.first_token_s is None or row.sent_s is None:
        return None
    return row.first_token_s - row.sent_s


def _e2e_s(row: RequestRow) -> float | None:
    if row.status != "ok" or row.last_token_s is None or row.sent_s is None:
        return None
    return row.last_token_s - row.sent_s


def _latencies_s(served: Sequence[RequestRow]) -> dict[str, list[float]]:
    return {
        "ttft": _present(map(_ttft_s, served)),
        "tpot": _present(row.tpot_s for row in served),
        "itl": [gap for row in served for gap in row.itl_s],
        "e2el": _present(map(_e2e_s, served)),
    }


def _present(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _vllm_metrics(served: Sequence[RequestRow]) -> dict[str, float]:
    fields: dict[str, float] = {}
    for name, values_s in _latencies_s(served).items():
        values = [value * 1000 for value in values_s]
        if not values:  # vLLM writes 0; a reader would take it for a latency
            continue
        fields |= {
            f"mean_{name}_ms": mean(values),
            f"median_{name}_ms": quantile(values, 0.5),
            f"std_{name}_ms": _deviation(values),
        }
        fields |= {f"{p}_{name}_ms": quantile(values, q) for p, q in _VLLM_PERCENTILES.items()}
    return fields


def _deviation(values: Sequence[float]) -> float:
    """Of the population, as numpy's default."""
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))


def _named(**parts: Any) -> dict[str, Any]:
    return {name: part for name, part in parts.items() if part is not None}


def _single(value: float | None, units: str) -> dict[str, Any] | None:
    return None if value is None else {"units": units, "mean": value}


def _statistics(values: Sequence[float], units: str) -> dict[str, Any] | None:
    if not values:
        return None
    return {
        "units": units,
        "mean": mean(values),
        "stddev": _deviation(values),
        "min": min(values),
        **{name: quantile(values, p) for name, p in _PERCENTILES.items()},
        "max": max(values),
    }


def _requests(sent: Sequence[RequestRow], served: Sequence[RequestRow]) -> dict[str, Any]:
    return _named(
        total=len(sent),
        failures=len(sent) - len(served),
        input_length=_statistics([row.prompt_tokens for row in served], "count"),
        output_length=_statistics([row.output_tokens for row in served], "count"),
    )


def _latency(served: Sequence[RequestRow]) -> dict[str, Any]:
    values_s = _latencies_s(served)
    return _named(
        time_to_first_token=_statistics(values_s["ttft"], "s"),
        time_per_output_token=_statistics(values_s["tpot"], "s/token"),
        inter_token_latency=_statistics(values_s["itl"], "s/token"),
        request_latency=_statistics(values_s["e2el"], "s"),
    )


def _load(trial: Trial, version: str) -> dict[str, Any]:
    workload = trial.workload
    closed = workload.arrival == "closed"
    return {
        "metadata": {"cfg_id": trial.schedule},
        "standardized": _named(
            tool="neoserve",
            tool_version=version,
            source="sampled" if workload.dataset or workload.trace else "random",
            input_seq_len=_length(workload.prompt_tokens, workload.prompt_tokens_cv),
            output_seq_len=_length(workload.output_tokens, workload.output_tokens_cv),
            rate_qps=None if closed or not workload.rate_rps else workload.rate_rps,
            concurrency=workload.concurrency if closed else None,
        ),
        "native": {"config": {"workload": workload.to_data(), "slo": trial.slo.show()}},
    }


def _length(tokens: int, variation: float) -> dict[str, Any]:
    return {"distribution": "other" if variation else "fixed", "value": tokens}
