"""`neoserve watch`: a running server's metrics, look by look, against what it should hold."""

from __future__ import annotations

import argparse
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ..errors import EXIT_INCONCLUSIVE, EXIT_MET, EXIT_NOT_MET, AskError, EngineFailed
from ..evidence.recommended import recommended
from ..evidence.run import Run
from ..evidence.verify import trial_of
from ..measure.engine.api import Api, base_url
from ..measure.engine.histogram import Histogram, histograms
from ..measure.engine.metrics import WATCHED, vocabulary
from ..schema.capacity import MaxRate
from ..schema.trial import Trial
from ..schema.watch import Capacity, Watch
from ..schema.workload import Slo
from ..tune.drift import drift, unlike_traffic, watched
from ..units import show_count, significant
from .gate_subject import read_subject

_GAUGES = ("running", "waiting", "kv_usage_share")


class Look(msgspec.Struct, frozen=True):
    """One scrape."""

    at_s: float  # monotonic clock
    values: dict[str, float]
    histograms: dict[str, Histogram]


class WatchAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve watch` was asked."""

    url: str
    slo: Slo
    capacity: Capacity | None
    interval_s: float = 10.0
    window_s: float = 300.0
    count: int = 0  # looks; 0: until it is stopped
    api_key: str = ""


def watch_ask(args: argparse.Namespace) -> WatchAsk:
    """From the command line. Raises AskError."""
    import os

    if not 0.1 <= args.interval <= args.window:
        raise AskError("--interval is at least 0.1s and at most --window")
    capacity, slo = read_capacity(args.against) if args.against else (None, Slo())
    asked = Slo.parse_text(args.slo)
    return WatchAsk(
        url=base_url(args.url), slo=asked if asked.targets else slo, capacity=capacity,
        interval_s=args.interval, window_s=args.window, count=args.count,
        api_key=args.api_key or os.environ.get("OPENAI_API_KEY", ""),
    )  # fmt: skip


def read_capacity(text: str) -> tuple[Capacity, Slo]:
    """What a run folder certifies or a prediction expects, and its SLO. Raises AskError."""
    path = Path(text)
    if not path.is_dir():
        return _predicted(text)
    entries = Run.open(path).entries()
    kinds = {entry.kind: entry for entry in entries}
    if "recommendation" in kinds:
        found = recommended(path).recommendation
        rate = found.pick.capacity.certified_rps
        return _certified(text, rate, found.trial), found.slo
    trials = [trial_of(entry) for entry in entries if entry.kind == "trial"]
    if not trials:
        raise AskError(f"{text} holds no trial; give a run of bench or tune, or a prediction")
    last = trials[-1]
    if "max-rate" in kinds:
        best = MaxRate.parse(kinds["max-rate"].body, f"the highest rate of {text}")
        return _certified(text, best.certified_rps, last), last.slo
    passed = last.verdict == "PASS" and last.workload.arrival != "closed"
    return _certified(text, last.workload.rate_rps if passed else None, last), last.slo


def _certified(source: str, rate_rps: float | None, trial: Trial | None) -> Capacity:
    workload = trial.workload if trial else None
    return Capacity(
        source=source, basis="measured", rate_rps=rate_rps,
        prompt_tokens=workload.prompt_tokens if workload else None,
        output_tokens=workload.output_tokens if workload else None,
    )  # fmt: skip


def _predicted(text: str) -> tuple[Capacity, Slo]:
    p = read_subject(text, 0, None, 0.95).prediction
    if p is None:
        raise AskError(f"{text} is no prediction and no run folder; another tool certifies no rate")
    rate = p.throughput.max_rate_rps if p.throughput else None
    span = p.interval.get("max_rate_rps")
    return Capacity(
        source=text, basis="predicted", rate_rps=rate,
        low_rps=span.low if span else None, high_rps=span.high if span else None,
    ), Slo()  # fmt: skip


def scrape(ask: WatchAsk) -> Look:
    """The server's metrics now. Raises EngineFailed."""
    try:
        text = Api(ask.url, ask.api_key).text("/metrics")
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)  # urllib wraps what the system said
        raise EngineFailed(
            f"{ask.url}/metrics cannot be read: {getattr(cause, 'strerror', None) or cause}; "
            "expected the address of a server that runs"
        ) from None
    values = vocabulary(text, WATCHED)
    if not values:
        raise EngineFailed(
            f"{ask.url}/metrics has none of vLLM's, SGLang's or llama.cpp's metrics; start the "
            "server with them (llama-server: --metrics, SGLang: --enable-metrics)"
        )
    return Look(time.monotonic(), values, histograms(text))


def looks(ask: WatchAsk, sleep: Callable[[float], None] = time.sleep) -> Iterator[Watch]:
    """A document a look, for ever or `count` times. The first scrape only starts the window."""
    kept = deque([scrape(ask)])
    number = 0
    while not ask.count or number < ask.count:
        number += 1
        sleep(ask.interval_s)
        now, notes = scrape(ask), []
        if _restarted(kept[-1], now):
            notes.append("counters fell: the server was started anew; the window begins here")
            kept.clear()
        kept.append(now)
        while len(kept) > 2 and now.at_s - kept[1].at_s >= ask.window_s:
            kept.popleft()
        yield compared(ask, kept[0], now, notes)


def _restarted(before: Look, now: Look) -> bool:
    counted = [name for name in before.values if name not in _GAUGES]
    return any(now.values.get(name, 0.0) < before.values[name] for name in counted)


def compared(ask: WatchAsk, before: Look, now: Look, notes: list[str]) -> Watch:
    """What happened between two looks."""
    length_s = now.at_s - before.at_s

    def gained(name: str) -> float | None:
        if name not in now.values or name not in before.values:
            return None
        return now.values[name] - before.values[name]

    seen = {
        metric: window
        for metric, histogram in now.histograms.items()
        if metric in before.histograms
        and (window := histogram.since(before.histograms[metric])) is not None
    }
    requests = _requests(gained("requests"), seen)
    prompt, output = gained("prompt_tokens"), gained("output_tokens")
    rate = _rate(requests, length_s)
    if rate is None and (guessed := _by_tokens(ask.capacity, _rate(output, length_s))):
        rate = guessed
        notes.append("the server counts no requests: their rate is that of its output tokens, at "
                     "as many a request as in the certified load")  # fmt: skip
    targets = watched(ask.slo, seen, _means(gained))
    told = unlike_traffic(ask.capacity, _each(prompt, requests), _each(output, requests))
    waiting = now.values.get("waiting")
    if waiting and requests is not None and waiting > requests:
        notes.append(f"{waiting:.0f} requests wait, more than ended: they are in no histogram yet")
    state, share, reason = drift(targets, ask.capacity, rate)
    return Watch(
        url=ask.url,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        window_s=length_s,
        num_requests=requests,
        request_rate_rps=rate,
        output_tokens_per_s=_rate(output, length_s),
        input_tokens_per_s=_rate(prompt, length_s),
        running=now.values.get("running"),
        waiting=waiting,
        kv_usage_share=now.values.get("kv_usage_share"),
        targets=targets,
        capacity=ask.capacity,
        load_share=share,
        drift=state,
        reason=reason,
        notes=tuple(filter(None, (*notes, told))),
    )


def _requests(counted: float | None, seen: dict[str, Histogram]) -> float | None:
    """That ended, by the server's own counter or by its end-to-end histogram."""
    return counted if counted is not None else (seen["e2e"].num if "e2e" in seen else None)


def _by_tokens(capacity: Capacity | None, tokens_per_s: float | None) -> float | None:
    if capacity is None or not capacity.output_tokens or tokens_per_s is None:
        return None
    return tokens_per_s / capacity.output_tokens


def _means(gained: Callable[[str], float | None]) -> dict[str, tuple[float, float]]:
    """llama.cpp sums seconds and tokens: their ratio is the mean time of a token."""
    seconds, tokens = gained("output_time_s"), gained("output_tokens")
    return {"tpot": (seconds / tokens, tokens)} if seconds and tokens else {}


def _rate(gained: float | None, length_s: float) -> float | None:
    return gained / length_s if gained is not None and length_s > 0 else None


def _each(tokens: float | None, requests: float | None) -> float | None:
    return tokens / requests if tokens is not None and requests else None


def exit_code(last: Watch | None) -> int:
    """Of the last look: 1 where a target was missed, 3 where too little was seen."""
    states = {target.state for target in last.targets} if last else set()
    if "missed" in states:
        return EXIT_NOT_MET
    return EXIT_INCONCLUSIVE if "unknown" in states or last is None else EXIT_MET


def show_watch(found: Watch) -> str:
    """A look in a line, and a line a target."""
    parts = [
        found.at,
        f"{significant(found.request_rate_rps)} requests/s"
        if found.request_rate_rps is not None else "",
        f"{show_count(found.output_tokens_per_s)} output tokens/s"
        if found.output_tokens_per_s is not None else "",
        f"{found.running:.0f} running" if found.running is not None else "",
        f"{found.waiting:.0f} waiting" if found.waiting is not None else "",
        f"{found.load_share:.0%} of the capacity" if found.load_share is not None else "",
        f"{found.drift}: {found.reason}",
    ]  # fmt: skip
    lines = [", ".join(part for part in parts if part)]
    lines += [f"  {t.target} {t.state}: {t.reason}" for t in found.targets]
    return "\n".join([*lines, *(f"  {note}" for note in found.notes)])


def run(
    args: argparse.Namespace, say: Callable[[str], None], note: Callable[[str], None]
) -> int:
    """Watch until it is stopped, or for as many looks as were asked."""
    from .watch_export import serving

    ask, last = watch_ask(args), None
    with serving(args.listen, note) as publish:
        try:
            for last in looks(ask):
                publish(last)
                say(last.to_json().decode() if args.json else show_watch(last))
        except KeyboardInterrupt:
            note("stopped")
    return exit_code(last)

