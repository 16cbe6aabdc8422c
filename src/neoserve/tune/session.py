"""A run folder and a ready engine: what trials need, and where they are kept."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..evidence.run import Run
from ..measure.cores import CorePlan
from ..measure.engine.running import Engine
from ..measure.figures import Observed, pack_rows
from ..measure.schedule import to_jsonl
from ..measure.trial import OnLook, TrialAsk, prepare, run_trial
from ..schema.trial import HostPrint, SpooledRow


class Session(msgspec.Struct):
    """Trials of one engine, each recorded before the next starts."""

    run: Run
    engine: Engine
    host: HostPrint
    cores: CorePlan | None
    note: Callable[[str], None]
    on_look: OnLook = lambda _: None
    trials: list[Observed] = []

    def measure(self, ask: TrialAsk) -> Observed:
        """One trial. Its rows go to the run folder as they end, so that nothing is lost."""
        prepared = prepare(self.engine, ask, self.host, self.cores)
        schedule = to_jsonl(prepared.schedule)
        started = {"setting": prepared.setting.to_data(), "schedule": self.run.put_blob(schedule)}
        with self.run.start(started) as spool:
            observed = run_trial(
                self.engine,
                prepared,
                cores=self.cores,
                on_row=lambda index, row: spool.write(SpooledRow(index, row).to_json()),
                on_look=self.on_look,
            )
            if spool.problem:
                self.note(f"not all rows could be kept while the load ran: {spool.problem}")
            self.run.record_trial(
                observed.trial,
                rows=pack_rows(observed.rows),
                schedule=schedule,
                started=spool.started,
            )
        self.trials.append(observed)
        return observed
