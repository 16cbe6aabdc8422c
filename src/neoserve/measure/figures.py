"""From rows to a trial: every figure that can be computed again from what was kept. Pure."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from ..errors import EvidenceBroken
from ..schema.base import Document
from ..schema.engine import EngineConfig
from ..schema.trial import (
    ClientFacts,
    EngineFacts,
    HostPrint,
    RequestRow,
    SpooledRow,
    Stop,
    Summary,
    Trial,
)
from ..schema.workload import Slo, Workload
from ..stats import mean, quantile
from ..units import show_duration
from .arrivals import check_sent
from .schedule import Schedule, parse, to_jsonl
from .summary import (
    backlog, cost_at, drift_note, e2e_s, goodput_rps, itl_s, queue_s, steady, summarize, tpot_s,
    ttft_s,
)  # fmt: skip
from .verdict import judge

_LATE_SHARE = 0.02  # of the TTFT limit; a later client bends what it measures
_LATE_FLOOR_S = 0.005  # timers and the scheduler alone cost this on a busy host
_LENGTH_TOLERANCE = 0.02
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
    num_planned: int
    stop: Stop
    counters: dict[str, float]
    faults: tuple[str, ...]
    usd_per_hour: float | None
    price_source: str
    notes: tuple[str, ...]  # that are no figures


class Observed(NamedTuple):
    """A trial, and the rows and the schedule that it was computed from."""

    trial: Trial
    rows: list[RequestRow]
    schedule: Schedule


def digest(data: bytes) -> str:
    """The name of a blob: ``sha256:`` and 64 hex digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pack_rows(rows: Sequence[RequestRow]) -> bytes:
    """The raw rows as they are kept: JSON lines, gzip, the same bytes for the same rows."""
    return gzip.compress(msgspec.json.Encoder().encode_lines(rows), mtime=0)


def unpack_rows(data: bytes) -> list[RequestRow]:
    """Back from `pack_rows`. Raises EvidenceBroken."""
    try:
        return msgspec.json.Decoder(RequestRow).decode_lines(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise EvidenceBroken(f"the rows cannot be read: {error}") from None


def judge_rows(
    setting: Setting, rows: Sequence[RequestRow], schedule: Schedule
) -> Trial:
    """The trial that these rows make. The same arguments give the same trial."""
    kept = [row for row in rows if row.phase == "measured"]
    window = steady(rows)
    judgement = judge(kept, setting.slo, setting.num_planned)
    late_s = [row.late_s for row in rows if row.sent_s is not None] or [0.0]
    ttft = summarize(kept, ttft_s, judgement.dependence)
    verdict, reasons = judgement.verdict, judgement.reasons
    voids = (*setting.faults, *_voids(setting, rows, schedule, ttft))
    if voids:
        verdict, reasons = "VOID", voids
    growth = backlog(rows)
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
        num_planned=setting.num_planned,
        num_judged=len(judged(kept)),
        num_ok=sum(row.status == "ok" for row in kept),
        failures=dict(Counter(row.status for row in kept if row.status != "ok")),
        stop=setting.stop,
        late_p99_s=quantile(late_s, 0.99),
        late_max_s=max(late_s),
        ttft_s=ttft,
        tpot_s=summarize(kept, tpot_s, judgement.dependence),
        itl_s=summarize(kept, itl_s, judgement.dependence),
        e2e_s=summarize(kept, e2e_s, judgement.dependence),
        queue_s=summarize(kept, queue_s, judgement.dependence),
        dependence=judgement.dependence,
        steady_from_s=window.from_s,
        steady_until_s=window.until_s,
        output_tokens_per_s=window.output_tokens_per_s,
        input_tokens_per_s=window.input_tokens_per_s,
        offered_rps=window.offered_rps,
        served_rps=window.served_rps,
        goodput_rps=goodput_rps(kept, setting.slo, window),
        backlog_growth_rps=growth.growth_rps,
        saturated=growth.is_saturated,
        load_limited=window.load_limited and setting.workload.arrival != "closed",
        counters=setting.counters,
        cost=_cost(setting, window),
        verdict=verdict,
        reasons=reasons,
        notes=setting.notes,
    )


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
        **{
            name: getattr(trial, name)
            for name in Setting.__struct_fields__
            if name not in ("usd_per_hour", "price_source")
        },
    )
