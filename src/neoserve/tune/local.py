"""Jobs on this host: one server at a time, kept as long as the next job wants the same."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ..errors import AskError, EngineFailed
from ..evidence.run import Run
from ..measure.cores import CorePlan, host_cpus, parse_cpus, physical_cores, show_cpus, split
from ..measure.dataset import read_dataset
from ..measure.engine.running import Engine, start
from ..measure.figures import Observed
from ..measure.host import host_print
from ..measure.quality.documents import Documents
from ..measure.quality.scoring import score
from ..measure.quality.task import Question
from ..measure.trial import OnLook, TrialAsk, draw
from ..schema.campaign import Campaign, Job
from ..schema.quality import QualityScore
from ..schema.space import Candidate, Space
from .session import About, Session
from .space import engine_config, engine_threads, variables

_SEEDS = 5  # tried for a schedule: one in a thousand does not look like its own law
_NEXT_SEED = 1_000_003


class LocalExecutor:
    """The host's engines. Close it: a server of ours runs in between."""

    def __init__(
        self,
        run: Run,
        campaign: Campaign,
        documents: Documents,
        task: Sequence[Question] = (),
        *,
        note: Callable[[str], None],
        on_look: OnLook = lambda _: None,
    ) -> None:
        self._run, self._campaign = run, campaign
        self._documents, self._task = documents, task
        dataset = campaign.workload.dataset
        self._dataset = read_dataset(Path(dataset)) if dataset else None
        self._note, self._on_look = note, on_look
        self._session: Session | None = None
        self._serves: tuple[str, int] = ("", 0)  # candidate and visit
        self._since_s = time.monotonic()

    def load(self, candidate: Candidate, job: Job, about: About) -> Observed:
        """As `campaign.Executor`."""
        session = self._serve(candidate, job.visit)
        return session.measure(_with_a_schedule(self._ask(job)), about)

    def score(self, candidate: Candidate) -> QualityScore:
        """As `campaign.Executor`."""
        visit = self._serves[1] if self._serves[0] == candidate.id else 0
        engine = self._serve(candidate, visit).engine
        return score(engine, self._documents, self.settings(candidate), self._note,
                     task=self._task)  # fmt: skip

    def settings(self, candidate: Candidate) -> dict[str, str]:
        """As `campaign.Executor`."""
        space = self._campaign.space
        return {
            knob.name: candidate.knobs[knob.name]
            for knob in space.knobs
            if knob.changes_output and knob.name in candidate.knobs
        }

    def spent_s(self) -> float:
        """As `campaign.Executor`."""
        since_s, self._since_s = self._since_s, time.monotonic()
        return self._since_s - since_s

    def close(self) -> None:
        """Stop the server and keep its log."""
        if self._session is None:
            return
        engine, self._session = self._session.engine, None
        engine.stop()
        if log := engine.log():
            body = {"candidate": self._serves[0], "config": engine.config.to_data()}
            self._run.record("engine", body | {"log": self._run.put_blob(log)})

    def _serve(self, candidate: Candidate, visit: int) -> Session:
        """The running server if it is the one that is wanted, else a new one."""
        wanted = (candidate.id, visit)
        now = self._session
        if now is not None and self._serves == wanted and not now.engine.has_ended():
            return now
        self.close()
        cores = cores_for(self._campaign.space, candidate, self._campaign.workers)
        self._session = Session(
            self._run, self._start(candidate, cores),
            host_print(versions={"engine": self._campaign.space.engine}),
            cores, self._note, self._on_look,
        )  # fmt: skip
        self._serves = wanted
        return self._session

    def _start(self, candidate: Candidate, cores: CorePlan) -> Engine:
        config = engine_config(self._campaign.space, candidate)
        everything = show_cpus(sorted(host_cpus()))
        try:
            return start(
                config,
                self._run.logs_path / "engine.log",
                cpus="" if cores.engine_cpus == everything else cores.engine_cpus,
                on_stage=self._note,
            )
        except AskError as error:  # this host cannot run this one; others it may
            raise EngineFailed(str(error)) from None

    def _ask(self, job: Job) -> TrialAsk:
        campaign = self._campaign
        searched = job.purpose not in ("certify", "refute")
        return TrialAsk(
            workload=campaign.workload.replace(
                rate_rps=job.rate_rps, seed=job.seed, same_arrivals=searched
            ),
            slo=campaign.slo,
            num_requests=job.num_requests,
            route=campaign.route,
            workers=campaign.workers,
            timeout_s=campaign.timeout_s,
            level=job.level,
            usd_per_hour=campaign.usd_per_hour,
            price_source=campaign.price_source,
            dataset=self._dataset,
            counts=campaign.counts,
        )


def _with_a_schedule(ask: TrialAsk) -> TrialAsk:
    """The first of some seeds whose arrivals look like their law."""
    for number in range(_SEEDS):
        seed = ask.workload.seed + number * _NEXT_SEED
        asked = msgspec.structs.replace(ask, workload=ask.workload.replace(seed=seed))
        with contextlib.suppress(AskError):
            draw(asked)
            return asked
    return ask  # its own refusal says why none is drawn


def cores_for(space: Space, candidate: Candidate, client_workers: int = 1) -> CorePlan:
    """What the candidate's own settings leave free is the client's; else both share all cores.

    The engine's defaults are measured as the engine would run without us: nothing is taken from
    it that it does not leave.
    """
    cpus = host_cpus()
    cores = physical_cores(cpus)
    threads = engine_threads(space, candidate)
    if space.engine != "vllm":
        return split(cpus, len(cores) if threads is None else threads, client_workers)
    everything = show_cpus(sorted(cpus))
    bind = variables(space, candidate).get("VLLM_CPU_OMP_THREADS_BIND", "auto")
    bound = set() if bind in ("auto", "nobind") else {
        cpu for rank in bind.split("|") for cpu in parse_cpus(rank)
    }  # fmt: skip
    free = sorted(set(cpus) - bound) if bound else []
    if not free:
        return CorePlan(everything, everything, True,
                        "the client shares cores with the engine")  # fmt: skip
    return CorePlan(everything, show_cpus(free), False,
                    "the client shares its cores with the engine's own front end")  # fmt: skip
