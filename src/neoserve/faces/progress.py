"""A running load on one line of a terminal, or a line every ten seconds of a log."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

from ..measure.trial import Look
from ..schema.trial import RequestRow
from ..schema.workload import Slo, Target
from ..stats import quantile
from ..units import show_duration, significant

_LOG_EVERY_S = 10.0
_RECENT = 100  # requests of the rolling percentile

_VALUES: dict[str, Callable[[RequestRow], float | None]] = {
    "ttft": lambda row: row.ttft_s,
    "tpot": lambda row: row.tpot_s,
    "e2e": lambda row: row.e2e_s,
}


class Live:
    """Shows looks at a load on stderr."""

    def __init__(self, slo: Slo) -> None:
        self._targets = [t for t in slo.targets if t.metric in _VALUES] or [
            Target(metric="ttft", statistic="p95", limit=0.0)
        ]
        self._is_terminal = sys.stderr.isatty()
        self._last_s = time.monotonic()
        self._is_open = False

    def show(self, look: Look) -> None:
        """One look."""
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + line_of(look, self._targets)[:width].ljust(width))
            sys.stderr.flush()
            self._is_open = True
        elif time.monotonic() - self._last_s >= _LOG_EVERY_S:
            self._last_s = time.monotonic()
            sys.stderr.write(line_of(look, self._targets) + "\n")
            sys.stderr.flush()

    def say(self, note: Callable[[str], None], text: str) -> None:
        """A sentence between looks, on a line of its own."""
        self.close()
        note(text)

    def close(self) -> None:
        """Leave the line."""
        if self._is_open:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._is_open = False


def line_of(look: Look, targets: list[Target]) -> str:
    """``142/400 requests, 3.9/s, p95 TTFT 812 ms (limit 3 s), 7 in flight, 65 s left``."""
    rows, now_s = look.board.rows, look.board.now_s
    measured = [row for row in rows if row.phase == "measured"]
    done = [row for row in measured if _has_ended(row)]
    if not done:
        warm = [row for row in rows if row.phase == "warmup"]
        return f"warming up: {sum(map(_has_ended, warm))} of {len(warm)} requests"
    recent = sorted(done, key=lambda row: row.last_token_s or now_s)[-_RECENT:]
    num_failed = sum(row.status != "ok" for row in done)
    parts = [
        f"{len(done)}/{look.num_planned} requests",
        f"{significant(_rate_rps(recent, now_s), 2)}/s",
        *(_rolling(recent, target) for target in targets),
        f"{_in_flight(look)} in flight",
        f"{show_duration(max(0.0, _end_s(measured, done, now_s) - now_s))} left",
    ]
    if num_failed:
        parts.insert(1, f"{num_failed} failed")
    if look.is_saturated:
        parts.append("saturated: the backlog grows")
    return ", ".join(parts)


def _rate_rps(recent: list[RequestRow], now_s: float) -> float:
    """Requests that ended, a second, since the first of these did."""
    ends_s = [row.last_token_s for row in recent if row.last_token_s is not None]
    return len(ends_s) / (now_s - min(ends_s)) if ends_s and now_s > min(ends_s) else 0.0


def _rolling(rows: list[RequestRow], target: Target) -> str:
    share = 0.95 if target.statistic == "mean" else float(target.statistic.lstrip("p")) / 100
    values = [v for row in rows if (v := _VALUES[target.metric](row)) is not None]
    now = show_duration(quantile(values, share)) if values else "unknown"
    limit = f" (limit {show_duration(target.limit)})" if target.limit else ""
    return f"p{share * 100:g} {target.metric.upper()} {now}{limit}"


def _in_flight(look: Look) -> int:
    return sum(row.sent_s is not None and not _has_ended(row) for row in look.board.rows)


def _has_ended(row: RequestRow) -> bool:
    return row.status not in ("unsent", "cancelled")


def _end_s(measured: list[RequestRow], done: list[RequestRow], now_s: float) -> float:
    """When the last measured request is due; of a closed load, at the pace so far."""
    last_due_s = max(row.due_s for row in measured)
    if any(row.status == "unsent" and row.due_s == 0.0 for row in measured):
        began_s = min(row.due_s for row in done)
        return began_s + (now_s - began_s) * len(measured) / len(done)
    return last_due_s
