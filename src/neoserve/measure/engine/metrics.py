"""One vocabulary for what servers publish under ``/metrics`` (Prometheus text, version 0.0.4).

Names were read from llama.cpp's tools/server (2026-10), vLLM 0.6 to 0.32 (v1/metrics) and SGLang
0.5 (srt/observability/metrics_collector.py). Counters count since the server's start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_SERIES = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

# Each: the first entry whose series are all there, summed. Hits and queries count tokens.
_NAMES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "running": (
        ("vllm:num_requests_running",), ("llamacpp:requests_processing",),
        ("sglang:num_running_reqs",),
    ),
    "waiting": (
        ("vllm:num_requests_waiting",), ("llamacpp:requests_deferred",),
        ("sglang:num_queue_reqs",),
    ),
    "kv_usage_share": (
        ("vllm:kv_cache_usage_perc",), ("vllm:gpu_cache_usage_perc",),
        ("llamacpp:kv_cache_usage_ratio",), ("sglang:token_usage",),
    ),
    "prefix_hit_tokens": (
        ("vllm:prefix_cache_hits_total",), ("vllm:gpu_prefix_cache_hits_total",),
        ("llamacpp:prompt_tokens_cached_total",), ("sglang:cached_tokens_total",),
    ),
    "prefix_query_tokens": (
        ("vllm:prefix_cache_queries_total",), ("vllm:gpu_prefix_cache_queries_total",),
        ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),
        ("sglang:prompt_tokens_total",),
    ),
    "preemptions": (("vllm:num_preemptions_total",), ("sglang:num_retracted_requests_total",)),
    "queue_time_s_sum": (
        ("vllm:request_queue_time_seconds_sum",), ("sglang:queue_time_seconds_sum",),
    ),
    "queue_time_count": (
        ("vllm:request_queue_time_seconds_count",), ("sglang:queue_time_seconds_count",),
    ),
    "prompt_tokens": (
        ("vllm:prompt_tokens_total",),
        # llama.cpp counts only what it computed; older ones say nothing of the rest.
        ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"),
        ("llamacpp:prompt_tokens_total",), ("sglang:prompt_tokens_total",),
    ),
    "output_tokens": (
        ("vllm:generation_tokens_total",), ("llamacpp:tokens_predicted_total",),
        ("sglang:generation_tokens_total",),
    ),
}  # fmt: skip

# What a look at a running server reads beside them.
WATCHED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    **_NAMES,
    "requests": (("vllm:request_success_total",), ("sglang:num_requests_total",)),
    "output_time_s": (("llamacpp:tokens_predicted_seconds_total",),),
}

_SHARES = ("kv_usage_share",)  # averaged over replicas of the engine; the rest is summed


class Series(NamedTuple):
    """One line."""

    name: str
    labels: dict[str, str]
    value: float


def parse(text: str) -> Iterator[Series]:
    """Every sample; lines that are none are passed over."""
    for name, labels, value in _SERIES.findall(text):
        try:
            yield Series(name, dict(_LABEL.findall(labels)), float(value))
        except ValueError:
            continue


def vocabulary(
    text: str, words: Mapping[str, tuple[tuple[str, ...], ...]] = _NAMES
) -> dict[str, float]:
    """Only what the server says, by the names of this module."""
    values: dict[str, list[float]] = {}
    for series in parse(text):
        values.setdefault(series.name, []).append(series.value)
    found = {}
    for word, choices in words.items():
        for names in choices:
            if all(name in values for name in names):
                total = sum(sum(values[name]) for name in names)
                found[word] = total / len(values[names[0]]) if word in _SHARES else total
                break
    return found


def info(text: str, name: str) -> dict[str, str]:
    """The labels of an info metric, such as ``vllm:cache_config_info``; empty without it."""
    return next((series.labels for series in parse(text) if series.name == name), {})
