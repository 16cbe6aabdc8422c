"""From rows to a trial: every figure that can be computed again from what was kept. Pure."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..errors import AskError, EvidenceBroken
from ..schema.base import Document
from ..schema.bench import Pooled
from ..schema.engine import EngineConfig
from ..schema.pmu import Counters
from ..schema.trial import (
    ClientFacts,
    EngineFacts,
    HostPrint,
    PlannedRequest,
    RequestRow,
    SpooledRow,
    Stop,
    Summary,
    Trial,
    TrialCost,
)
from ..schema.workload import Slo, Workload
from ..stats import mean, quantile
from ..units import show_duration
from .arrivals import check_sent
from .backlog import backlog, drift
from .schedule import Schedule, parse, to_jsonl
from .summary import (
    Steady,
    cost_at,
    e2e_s,
    goodput_rps,
    judged,
    series_s,
    steady,
    summarize,
    summarize_itl,
    summarize_queue,
    tpot_s,
    ttft_s,
)
from .verdict import Judgement, judge

_LATE_SHARE = 0.02  # of the TTFT limit; a later client bends what it measures
_LATE_FLOOR_S = 0.005  # timers and the scheduler alone cost this on a busy host
_LENGTH_TOLERANCE = 0.02
_APART_S = 1e5  # between trials that are pooled: no two of their requests meet
_STAMPS = ("sent_s", "first_token_s", "last_token_s")
_CACHED_TOLERANCE = 0.05  # of prompt tokens, beyond the share that was asked


class Setting(Document, frozen=True, kw_only=True):
    """What of a trial was observed as it is; the rest follows from rows and schedule.

    A load's ledger entry "started" holds it, so that the rows of a crash can be judged.
    """

    workload: Workload
    slo: Slo
    engine: EngineConfig
    facts: EngineFacts | None
    host: HostPrint
    client: ClientFacts
    salt: str
    level: float
    num_planned: int
    stop: Stop
    counters: dict[str, float]
    pmu: Counters | None = None
    faults: tuple[str, ...]
    usd_per_hour: float | None
    price_source: str
    notes: tuple[str, ...]  # that are no figures


class Observed(NamedTuple):
    """A trial, and the rows and the schedule that it was computed from."""

    trial: Trial
    rows: list[RequestRow]
    schedule: Schedule

    def judgement(self) -> Judgement:
        """As its verdict was found, with the counts that a trial does not keep."""
        trial = self.trial
        return judge(self.rows, trial.slo, trial.num_planned, trial.level)


def digest(data: bytes) -> str:
    """The name of a blob: ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pack_rows(rows: Sequence[RequestRow]) -> bytes:
    """The raw rows as they are kept: JSON lines, gzip, the same bytes for the same rows."""
    return gzip.compress(msgspec.json.Encoder().encode_lines(rows), mtime=0)


def unpack_rows(data: bytes) -> list[RequestRow]:
    """Back from `pack_rows`. Raises EvidenceBroken."""
    if not data:
        raise EvidenceBroken("the rows cannot be read: the file is empty")
    try:
        return msgspec.json.Decoder(RequestRow).decode_lines(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceBroken(f"the rows cannot be read: {error}") from None


def judge_rows(setting: Setting, rows: Sequence[RequestRow], schedule: Schedule) -> Trial:
    """The trial that these rows make. The same arguments give the same trial."""
    kept = judged(rows)
    window, growth = steady(rows), backlog(rows)
    judgement = judge(rows, setting.slo, setting.num_planned, setting.level)
    ttft = summarize(kept, ttft_s)
    late_s = [row.late_s for row in rows if row.sent_s is not None] or [0.0]
    voids = (*setting.faults, *_voids(setting, rows, schedule, ttft))
    if not kept and judgement.num_misses == 0:
        voids += ("no measured request ended: nothing was observed",)
    is_open = setting.workload.arrival != "closed"
    return Trial(
        workload=setting.workload,
        slo=setting.slo,
        engine=setting.engine,
        facts=setting.facts,
        host=setting.host,
        client=setting.client,
        salt=setting.salt,
        schedule=digest(to_jsonl(schedule)),
        rows=digest(pack_rows(rows)),
        faults=setting.faults,
        level=setting.level,
        num_planned=setting.num_planned,
        num_judged=len(kept),
        num_ok=sum(row.status == "ok" for row in kept),
        failures=dict(Counter(row.status for row in kept if row.status != "ok")),
        stop=setting.stop,
        late_p99_s=quantile(late_s, 0.99),
        late_max_s=max(late_s),
        ttft_s=ttft,
        tpot_s=summarize(kept, tpot_s),
        itl_s=summarize_itl(kept),
        e2e_s=summarize(kept, e2e_s),
        queue_s=summarize_queue(kept),
        dependence=judgement.dependence,
        steady_from_s=window.from_s,
        steady_until_s=window.until_s,
        output_tokens_per_s=window.output_tokens_per_s,
        input_tokens_per_s=window.input_tokens_per_s,
        offered_rps=window.offered_rps,
        served_rps=window.served_rps,
        goodput_rps=goodput_rps(rows, setting.slo, window),
        backlog_growth_rps=growth.growth_rps if is_open else None,
        saturated=growth.is_saturated and is_open,
        load_limited=window.load_limited and is_open and not growth.is_saturated,
        counters=setting.counters,
        pmu=setting.pmu,
        cost=_cost(setting, window),
        verdict="VOID" if voids else judgement.verdict,
        reasons=voids or judgement.reasons,
        notes=tuple(dict.fromkeys((*setting.notes, *_notes(rows, kept)))),
    )


def _cost(setting: Setting, window: Steady) -> TrialCost | None:
    if setting.usd_per_hour is None:
        return None
    return cost_at(
        setting.usd_per_hour,
        setting.price_source,
        window.output_tokens_per_s,
        window.input_tokens_per_s,
    )


def _notes(rows: Sequence[RequestRow], kept: Sequence[RequestRow]) -> Iterator[str]:
    """What a reader has to know beside the figures."""
    if moved := drift(series_s(kept, ttft_s)):
        yield f"TTFT is {moved}"
    drain = [row for row in rows if row.phase == "drain"]
    if drain and all(row.sent_s is not None for row in drain):
        yield "the last requests had less company: the load ran out before they had ended"


def late_budget_s(slo: Slo, ttft: Summary) -> float:
    """How late the client may be at its 99th percentile."""
    limits = [target.limit for target in slo.targets if target.metric == "ttft"]
    scale_s = min(limits, default=ttft.p50.value or 0.0)
    return max(_LATE_FLOOR_S, _LATE_SHARE * scale_s)


def _voids(
    setting: Setting, rows: Sequence[RequestRow], schedule: Schedule, ttft: Summary
) -> Iterator[str]:
    """Why these rows say nothing about the server at this workload."""
    yield from _late(setting, rows, late_budget_s(setting.slo, ttft))
    firsts = [row for row in rows if row.turn == 0]
    sent_s = [row.sent_s for row in firsts if row.sent_s is not None]
    if fault := check_sent(setting.workload, [row.due_s for row in firsts], sent_s):
        yield fault
    served = [(row, planned) for row, planned in zip(rows, schedule, strict=True)
              if row.status == "ok" and row.phase == "measured"]  # fmt: skip
    if served:
        yield from _lengths(setting, served)
        yield from _warm_cache(setting.workload, [row for row, _ in served])


def _late(setting: Setting, rows: Sequence[RequestRow], budget_s: float) -> Iterator[str]:
    late_s = [row.late_s for row in rows if row.sent_s is not None] or [0.0]
    lag_s = setting.client.lag_p99_s
    for what, value_s in (("sent", quantile(late_s, 0.99)), ("looked at its sockets", lag_s)):
        if value_s is not None and value_s > budget_s:
            yield (
                f"the client {what} {show_duration(value_s)} late at p99, more than "
                f"{show_duration(budget_s)}: it, not the server, was measured"
            )


def _lengths(
    setting: Setting, served: Sequence[tuple[RequestRow, PlannedRequest]]
) -> Iterator[str]:
    """Prompts and answers were as long as planned; later turns carry what was said before."""
    prompts = [(row.prompt_tokens, planned.prompt_tokens) for row, planned in served
               if planned.prompt_tokens and planned.turn == 0]  # fmt: skip
    outputs = [(row.output_tokens, planned.output_tokens) for row, planned in served]
    pairs = [("prompts", prompts)]
    if setting.workload.ignore_eos:
        pairs.append(("answers", outputs))
    for what, lengths in pairs:
        if not lengths:
            continue
        actual, asked = (mean([float(pair[i]) for pair in lengths]) for i in (0, 1))
        if abs(actual - asked) > _LENGTH_TOLERANCE * asked:
            yield f"{what} held {actual:.1f} tokens on average, not the {asked:.1f} that were asked"


def _warm_cache(workload: Workload, served: Sequence[RequestRow]) -> Iterator[str]:
    """Prompts that were meant to be new were not found in a prefix cache."""
    cached = sum(row.cached_tokens for row in served if row.turn == 0)
    tokens = sum(row.prompt_tokens for row in served if row.turn == 0)
    share = cached / tokens if tokens else 0.0
    if workload.trace or workload.dataset:
        return  # what their prompts share is theirs
    if share > workload.prefix_hit_share + _CACHED_TOLERANCE:
        yield (
            f"{share:.0%} of prompt tokens came from a prefix cache, where "
            f"{workload.prefix_hit_share:.0%} were to be shared: another load warmed it"
        )


def pool(trials: Sequence[Observed]) -> Pooled:
    """Repeats of one load as one, in the order in which they ran. Raises AskError if they differ.

    A trial that is VOID makes the whole VOID.
    """
    first = trials[0].trial
    if any(t.trial.host.identity != first.host.identity or t.trial.engine != first.engine
           for t in trials):  # fmt: skip
        raise AskError("trials of unlike hosts or engines are not pooled")
    voids = [reason for t in trials if t.trial.verdict == "VOID" for reason in t.trial.reasons]
    rows = pooled_rows(trials)
    judgement = judge(rows, first.slo, sum(t.trial.num_planned for t in trials), first.level)
    return Pooled(
        num_trials=len(trials),
        num_judged=len(judged(rows)),
        num_misses=judgement.num_misses,
        verdict="VOID" if voids else judgement.verdict,
        reasons=tuple(voids) or judgement.reasons,
    )


def pooled_rows(trials: Sequence[Observed]) -> list[RequestRow]:
    """The judged rows of repeats, one load after the other."""
    return [row for i, t in enumerate(trials) for row in _later(t.rows, i * _APART_S)]


def _later(rows: Sequence[RequestRow], by_s: float) -> list[RequestRow]:
    """The judged rows, with all times moved; those that were cut off say nothing across trials."""
    return [
        row.replace(
            due_s=row.due_s + by_s,
            **{name: value + by_s for name in _STAMPS
               if (value := getattr(row, name)) is not None},
        )
        for row in judged(rows)
    ]  # fmt: skip


def rows_after_crash(spooled: Sequence[SpooledRow], schedule: Schedule) -> list[RequestRow]:
    """Every planned request, where only those in a spool are known to have ended.

    The others of that time were in flight, and could have gone either way.
    """
    found = {spooled_row.index: spooled_row.row for spooled_row in spooled}
    last_s = max((row.last_token_s or row.due_s for row in found.values()), default=0.0)
    last = max(found, default=-1)
    return [
        found.get(i) or RequestRow(
            due_s=planned.due_s, phase=planned.phase, session=planned.session, turn=planned.turn,
            status="cancelled" if i <= last or 0 < planned.due_s <= last_s else "unsent",
        )
        for i, planned in enumerate(schedule)
    ]  # fmt: skip


def recompute(trial: Trial, rows: bytes, schedule: bytes) -> Iterator[str]:
    """A sentence for each figure of a trial that its rows and schedule do not give."""
    again = judge_rows(setting_of(trial), unpack_rows(rows), parse(schedule))
    for name in trial.__struct_fields__:
        was, now = getattr(trial, name), getattr(again, name)
        if was != now:
            yield f"{name} is {_short(was)}, but its rows give {_short(now)}"


def setting_of(trial: Trial) -> Setting:
    """What of a trial its rows cannot tell."""
    cost = trial.cost
    return Setting(
        usd_per_hour=cost.usd_per_hour if cost else None,
        price_source=cost.price_source if cost else "",
        **{name: getattr(trial, name) for name in Setting.__struct_fields__ if name in _SHARED},
    )


_SHARED = set(Setting.__struct_fields__) & set(Trial.__struct_fields__)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
