"""A run folder and a ready engine: what trials need, and where they are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..evidence.run import Run
from ..measure.cores import CorePlan
from ..measure.engine.running import Engine
from ..measure.figures import Observed, pack_rows
from ..measure.schedule import to_jsonl
from ..measure.trial import OnLook, TrialAsk, prepare, run_trial
from ..schema.capacity import MaxRate, Probe
from ..schema.trial import HostPrint, SpooledRow
from .max_rate import Ask, find_max_rate

About = Callable[[Observed], Mapping[str, Any]]

_SETTLE_S, _SETTLE_POLL_S = 30.0, 0.2


class Session(msgspec.Struct):
    """Trials of one engine, each recorded before the next starts."""

    run: Run
    engine: Engine
    host: HostPrint
    cores: CorePlan | None
    note: Callable[[str], None]
    on_look: OnLook = lambda _: None
    trials: list[Observed] = []

    def measure(self, ask: TrialAsk, about: About = lambda _: {}) -> Observed:
        """One trial. Its rows go to the run folder as they end, so that nothing is lost.

        `about` says what else its entry holds.
        """
        _settle(self.engine)
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
                about=about(observed),
            )
        self.trials.append(observed)
        return observed

    def find_max_rate(self, ask: TrialAsk, tolerance: float) -> MaxRate:
        """The highest Poisson rate within the SLO, from the asked one on; recorded."""

        def probe(step: Ask) -> Probe:
            what = "certifying" if step.certifies else "probing"
            self.note(f"{what} {step.rate_rps:.4g} requests/s")
            workload = ask.workload.replace(rate_rps=step.rate_rps, seed=step.seed)
            again = msgspec.structs.replace(ask, workload=workload, level=step.level)
            trial = self.measure(again).trial
            if trial.stop in ("interrupted", "engine"):
                raise Interrupted
            return _seen(self.trials[-1], step)

        found = find_max_rate(
            probe, ask.workload.rate_rps, tolerance=tolerance, seed=ask.workload.seed
        )
        self.run.record("max-rate", found.to_data())
        return found


class Interrupted(Exception):
    """The search was ended from outside; its trials are kept."""


def _seen(observed: Observed, step: Ask) -> Probe:
    trial = observed.trial
    judgement = observed.judgement()
    return Probe(
        rate_rps=step.rate_rps,
        seed=step.seed,
        verdict=trial.verdict,
        saturated=trial.saturated,
        num_misses=judgement.num_misses,
        num=judgement.num,
        share=judgement.share,
        dependence=judgement.dependence,
        certifies=step.certifies,
    )


def _settle(engine: Engine) -> None:
    """Wait until what an early end left behind has left the server, as far as it tells."""
    deadline_s = time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline_s:
        now = engine.metrics()
        if not now.get("running", 0.0) and not now.get("waiting", 0.0):
            return
        time.sleep(_SETTLE_POLL_S)
