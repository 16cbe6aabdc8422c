"""What a trial needs beside its rows, for tests of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from neoserve.measure.figures import Setting
from neoserve.measure.host import host_print
from neoserve.measure.schedule import Schedule
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import ClientFacts, PlannedRequest, RequestRow
from neoserve.schema.workload import Slo, Workload

CLIENT = ClientFacts(
    loop="asyncio", workers=1, cpus="0", shares_cores=False, lag_p99_s=0.0, cpu_s=0.1,
    engine_cpu_s=None, others_cores=None,
)  # fmt: skip
WORKLOAD = Workload(arrival="constant", rate_rps=50.0, prompt_tokens=20, output_tokens=5)


def setting_for(rows: Sequence[RequestRow], **changes: Any) -> Setting:
    """As if these rows had been planned and nothing else were amiss."""
    return Setting(
        workload=WORKLOAD, slo=Slo(), engine=EngineConfig(engine="truth"), facts=None,
        host=host_print(), client=CLIENT, salt="s",
        level=0.05, num_planned=sum(row.phase == "measured" for row in rows), stop="planned",
        counters={}, faults=(), usd_per_hour=None, price_source="", notes=(),
    ).replace(**changes)  # fmt: skip


def planned(rows: Sequence[RequestRow]) -> Schedule:
    """The schedule that these rows carried out: 20 tokens in, 5 out."""
    return tuple(
        PlannedRequest(row.due_s, 20, 5, phase=row.phase, turn=row.turn)
        for row in rows
    )


def even_rows(num: int = 100, late_s: float = 0.0, first_s: float = 0.1, **more: Any
              ) -> list[RequestRow]:  # fmt: skip
    """50 a second, each with the same latencies: `first_s`, and 0.1 s more to the fifth token."""
    fields = {"prompt_tokens": 20, "output_tokens": 5} | more
    return [
        RequestRow(
            due_s=(i + 1) / 50, sent_s=(i + 1) / 50 + late_s,
            first_token_s=(i + 1) / 50 + first_s, last_token_s=(i + 1) / 50 + first_s + 0.1,
            itl_s=(0.025,) * 4, **fields,
        )
        for i in range(num)
    ]  # fmt: skip
