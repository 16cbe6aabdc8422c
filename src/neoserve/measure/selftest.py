"""Is this host's load client truthful at a planned rate? Asked of a server that knows."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import AskError
from ..schema.selftest import SelfTest, Spread
from ..schema.workload import Workload
from ..stats import mean, quantile
from ..units import show_duration
from .crew import Board, Orders, Ran, run
from .engine.process import Process
from .prompts import WORDS, fresh_salt
from .schedule import plan
from .target import Target
from .wire import Answer

_READY = re.compile(r"^ready at (\S+)$", re.MULTILINE)
_WRITTEN = re.compile(rb'"written_s":(\d+\.\d+),"late_s":(-?\d+\.\d+)')
_PROMPT_TOKENS = 20
_LIMIT_S = 0.005


class Truth(msgspec.Struct, frozen=True):
    """What the server was told to do."""

    streams: int = 100  # answers in flight at once
    ttft_s: float = 0.05
    itl_s: float = 0.01
    output_tokens: int = 100

    @property
    def rate_rps(self) -> float:
        """That keeps so many streams in flight."""
        return self.streams / (self.ttft_s + (self.output_tokens - 1) * self.itl_s)


class _Stamp(NamedTuple):
    """One chunk, by the monotonic clock that both sides read."""

    arrived_s: float
    written_s: float
    late_s: float  # of the write, after its deadline


def selftest(
    log_path: Path,
    truth: Truth,
    *,
    duration_s: float = 5.0,
    workers: int = 1,
    limit_s: float = _LIMIT_S,
    on_tick: Callable[[Board], None] = lambda _: None,
) -> SelfTest:
    """Load a truth server for about `duration_s` after a warm-up.

    `limit_s` bounds the mean error of TTFT for the client to be trusted. Raises AskError, or
    EngineFailed where the server cannot be started.
    """
    if min(truth.streams, truth.output_tokens) < 2 or min(truth.ttft_s, truth.itl_s) <= 0:
        raise AskError("selftest needs at least 2 streams of 2 tokens, and latencies above 0")
    workload = Workload(
        arrival="constant", rate_rps=truth.rate_rps, prompt_tokens=_PROMPT_TOKENS,
        output_tokens=truth.output_tokens,
    )  # fmt: skip
    num = max(truth.streams, round(truth.rate_rps * duration_s))
    schedule = plan(workload, num, num_warmup=truth.streams, num_drain=truth.streams)
    answers: dict[int, Answer] = {}
    with serving(truth, log_path) as url:
        orders = Orders(
            Target(url, model="truth"), workload, schedule, fresh_salt(), WORDS, workers
        )
        ran = run(orders, lambda *_: None, on_tick, answers.__setitem__ if workers == 1 else None)
    return judge_client(ran, truth, answers, workers, limit_s)


@contextmanager
def serving(truth: Truth, log_path: Path) -> Iterator[str]:
    argv = (sys.executable, "-m", "neoserve.measure.truth",
            "--ttft", str(truth.ttft_s), "--itl", str(truth.itl_s))  # fmt: skip
    server = Process("truth server", argv, {}, log_path)
    try:
        server.wait_until(lambda: bool(_READY.search(server.log())), 30, str.strip)
        yield _READY.findall(server.log())[0]
    finally:
        server.stop()


def judge_client(
    ran: Ran, truth: Truth, answers: Mapping[int, Answer], workers: int, limit_s: float
) -> SelfTest:
    """What a load on the truth server says of the client. Raises AskError if nothing was served."""
    measured = [(i, row) for i, row in enumerate(ran.rows) if row.phase == "measured"]
    served = [(i, row) for i, row in measured if row.status == "ok"]
    if not served:
        raise AskError("the truth server served nothing: this host cannot run the load at all")
    stamps = {i: _stamps(answers[i]) for i, _ in served if i in answers}
    late_s = [stamps[i][0].late_s if stamps else 0.0 for i, _ in served]
    error = spread([(row.ttft_s or 0.0) - truth.ttft_s - late
                    for (_, row), late in zip(served, late_s, strict=True)])  # fmt: skip
    delays_s = [stamp.arrived_s - stamp.written_s for of_one in stamps.values() for stamp in of_one]
    num_lost = sum(truth.output_tokens - 1 - len(row.itl_s) for _, row in served)
    faults = _faults(error, limit_s, num_lost, len(measured) - len(served))
    span_s = measured[-1][1].due_s - measured[0][1].due_s
    return SelfTest(
        streams=truth.streams,
        true_ttft_s=truth.ttft_s,
        true_itl_s=truth.itl_s,
        output_tokens=truth.output_tokens,
        loop=ran.loop,
        workers=workers,
        cpus=len(os.sched_getaffinity(0)),
        num_requests=len(measured),
        num_failed=len(measured) - len(served),
        num_chunks=sum(1 + len(row.itl_s) for _, row in served),
        num_lost=num_lost,
        chunks_per_s=len(served) * truth.output_tokens / span_s,
        ttft_error_s=error,
        itl_error_s=spread([abs(gap - truth.itl_s) for _, row in served for gap in row.itl_s]),
        receive_delay_s=spread(delays_s) if delays_s else None,
        server_late_s=spread(late_s) if stamps else None,
        client_cpu_s_per_chunk=ran.cpu_s / sum(len(row.itl_s) + 1 for row in ran.rows if row.itl_s),
        limit_s=limit_s,
        is_trusted=not faults,
        reason="; ".join(faults) or f"TTFT is read {_off(error)}, within {show_duration(limit_s)}",
    )


def _stamps(answer: Answer) -> list[_Stamp]:
    return [
        _Stamp(at_s, float(written), float(late))
        for at_s, data in answer.body()
        for written, late in _WRITTEN.findall(data)
    ]


def _faults(error: Spread, limit_s: float, num_lost: int, num_failed: int) -> list[str]:
    faults = []
    if abs(error.mean_s) > limit_s:
        faults.append(f"TTFT was read {_off(error)}, more than {show_duration(limit_s)}")
    if num_lost or num_failed:
        faults.append(f"{num_lost} chunks and {num_failed} requests were lost")
    return faults


def _off(error: Spread) -> str:
    way = "long" if error.mean_s >= 0 else "short"
    return f"{show_duration(abs(error.mean_s))} too {way} on average"


def spread(values_s: Sequence[float]) -> Spread:
    """Mean, p95 and p99 of at least one value."""
    return Spread(mean(values_s), quantile(values_s, 0.95), quantile(values_s, 0.99))
