"""Which tool wrote a file is told by what the file holds, never by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import AskError
from ...schema.imported import Imported
from .. import ledger
from . import aiperf, genai_bench, guidellm, inference_perf, vllm

_AIPERF_RECORDS = "profile_export.jsonl"
_KNOWN = (
    "vllm bench serve (or SGLang's bench_serving), GuideLLM, AIPerf, inference-perf, genai-bench"
)
_Data = Mapping[str, Any]
_READERS: tuple[tuple[Callable[[_Data], bool], Callable[[_Data, str], Iterator[Imported]]], ...] = (
    (guidellm.is_guidellm, guidellm.read),
    (inference_perf.is_inference_perf, inference_perf.read),
    (genai_bench.is_genai_bench, genai_bench.read),
    (vllm.is_vllm, vllm.read),
)


def read_results(path: Path) -> list[Imported]:
    """Every load that a result file holds. Raises AskError for a file of no tool it knows."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise AskError(f"{path} cannot be read: {error.strerror}") from None
    source = f"sha256:{ledger.digest(data)}"
    try:
        return [load for part in _objects(data) for load in _read(part, source, path)]
    except AskError as error:
        raise AskError(f"{path}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise AskError(
            f"{path} looks like a result file but is not whole: {type(error).__name__} {error}; "
            f"NeoServe reads those of {_KNOWN}"
        ) from None


def refuse_mixed(first: Imported, second: Imported, metrics: Collection[str] = ()) -> None:
    """Raises AskError where two loads do not mean the same by a metric of both.

    `metrics` are those that will be compared; all that both have, unless given.
    """
    for metric, told in first.unlike(second):
        if not metrics or metric in metrics:
            raise AskError(f"{metric} is not comparable: {told}; compare loads of one tool")


def _objects(data: bytes) -> Iterator[_Data]:
    """One JSON object, a list of them, or one on each line."""
    try:
        whole = json.loads(data)
    except ValueError:
        whole = [_line(line) for line in data.splitlines() if line.strip()]
    parts = whole if isinstance(whole, list) else [whole]
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise AskError(f"no result file; NeoServe reads those of {_KNOWN}")
    yield from parts


def _line(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _read(data: _Data, source: str, path: Path) -> Iterator[Imported]:
    if aiperf.is_aiperf(data):
        beside = path.with_name(_AIPERF_RECORDS)
        yield from aiperf.read(data, source, beside.read_bytes() if beside.is_file() else b"")
        return
    for is_one, read in _READERS:
        if is_one(data):
            yield from read(data, source)
            return
    raise AskError(f"no result file of a tool that NeoServe knows: {_KNOWN}")
