"""Numbers out of a result file: finite ones, in seconds, with the words that define them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...errors import AskError
from ...stats import mean, quantile

# One sentence per meaning, shared by the tools that mean the same: equal text, comparable figures.
FROM_SENDING = "from sending the request to its first token"
TO_LAST_TOKEN = "from sending the request to its last token"
TO_END = "from sending the request to the end of the answer"
FROM_ARRIVAL = "from the intended arrival to the last token"
PER_TOKEN = "of each request, first to last token over its output tokens less one"
PER_TOKEN_TO_END = (
    "of each request, first token to the end of the answer over its output tokens less one"
)
CHUNK_GAPS = "gaps between streamed chunks, those of all requests pooled"
TOKEN_GAPS = "gaps between tokens, 0 within one chunk, those of all requests pooled"

_STATISTICS = {"mean": None, "p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def count(value: Any) -> int | None:
    """A whole number, or None."""
    found = number(value)
    return None if found is None else round(found)


def numbers(pairs: Mapping[str, Any], scale: float = 1.0) -> dict[str, float]:
    """Those values that are numbers, times `scale`."""
    found = {name: number(value) for name, value in pairs.items()}
    return {name: value * scale for name, value in found.items() if value is not None}


def seconds(pairs: Mapping[str, Any], unit: str, where: str) -> dict[str, float]:
    """Statistics in a time unit. Raises AskError for a unit that is none."""
    return numbers(pairs, _SECONDS[known(unit, _SECONDS, where)])


def known(unit: Any, units: Iterable[str], where: str) -> str:
    """The unit itself. Raises AskError unless it is one of `units`."""
    if unit not in (allowed := sorted(units)):
        raise AskError(f"{where} is in {unit!r}; expected one of {', '.join(allowed)}")
    return str(unit)


def statistics(values: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles (linear interpolation, as numpy's default), or nothing of nothing."""
    if not values:
        return {}
    return {
        name: mean(values) if p is None else quantile(values, p) for name, p in _STATISTICS.items()
    }


def present(values: Iterable[float | None]) -> list[float]:
    """Those that are there."""
    return [value for value in values if value is not None]


def table(data: Any) -> Mapping[str, Any]:
    """A JSON object, or an empty one in place of null or something else."""
    return data if isinstance(data, dict) else {}


_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
