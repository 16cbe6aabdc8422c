"""The scripted engine of benchmarks/ as an executor of campaigns: real run folders, no server."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scripted_engine import QUALITY_S, SLO, WORKLOAD, World, settings
from scripted_load import load, num_crashes, runs_already

from neoserve.errors import EngineFailed
from neoserve.evidence.run import Run
from neoserve.measure.figures import Observed, Setting, judge_rows, pack_rows
from neoserve.measure.schedule import to_jsonl
from neoserve.schema.campaign import Job, Told
from neoserve.schema.engine import EngineConfig
from neoserve.schema.quality import DocumentScore, QualityScore
from neoserve.schema.space import Candidate
from neoserve.schema.trial import ClientFacts, HostPrint, SpooledRow
from neoserve.tune.session import About

HOST = HostPrint(
    cpu_model="scripted", isa=(), physical_cores=16, logical_cpus=16, cpuset="0-15",
    quota_cores=None, memory_bytes=64 * 10**9, numa_nodes=1, kernel="", governor="", smt="",
    thp="", load_average_1min=0.0, clock_hz=0.0, versions={},
)  # fmt: skip
CLIENT = ClientFacts(
    loop="scripted", workers=1, cpus="0", shares_cores=False, lag_p99_s=0.0, cpu_s=None,
    engine_cpu_s=None, others_cores=None,
)  # fmt: skip


class ScriptedExecutor:
    """As `campaign.Executor`. `told` is the campaign's own list: it is the engine's clock."""

    def __init__(self, run: Run, world: World, candidates: Sequence[Candidate],
                 told: Sequence[Told]) -> None:  # fmt: skip
        self._run, self._world = run, world
        self._candidates, self._told = candidates, told
        self._spent_s = 0.0

    def load(self, candidate: Candidate, job: Job, about: About) -> Observed:
        """Rows in time of their own, judged and kept as those of a real trial."""
        world, start_s = self._world, 0.0
        if not runs_already(self._told, job):
            start_s = world.start_s(candidate, job.visit)
            number = num_crashes(self._told, job)
            if crash := world.crash(candidate, job.visit, number):
                self._spent_s = start_s / 2
                raise EngineFailed(crash)
        now_s = math.fsum(t.seen.spent_s for t in self._told) + start_s
        found = load(world, candidate, job, now_s)
        self._spent_s = start_s + found.length_s
        setting = setting_of(candidate, job).replace(stop=found.stop)
        schedule = to_jsonl(found.schedule)
        started = {"setting": setting.to_data(), "schedule": self._run.put_blob(schedule)}
        with self._run.start(started) as spool:
            for index, row in enumerate(found.rows):
                if row.status == "ok":
                    spool.write(SpooledRow(index, row).to_json())
            trial = judge_rows(setting, found.rows, found.schedule)
            observed = Observed(trial, found.rows, found.schedule)
            self._run.record_trial(trial, rows=pack_rows(found.rows), schedule=schedule,
                                   started=spool.started, about=about(observed))  # fmt: skip
        return observed

    def score(self, candidate: Candidate) -> QualityScore:
        """Twenty texts, each a little worse than at the baseline where the world says so."""
        self._spent_s += QUALITY_S
        change = self._world.quality(candidate).change_share or 0.0
        documents = tuple(
            DocumentScore(f"text {i}", 500, 700, -700 * (2.5 + i / 40) - 500 * math.log1p(change))
            for i in range(20)
        )
        logprob = math.fsum(d.logprob for d in documents)
        return QualityScore(
            key=candidate.id * 8, text="0" * 64, text_name="scripted",
            window_tokens=512, method="echo", documents=documents,
            word_perplexity=math.exp(-logprob / sum(d.num_words for d in documents)),
            token_perplexity=math.exp(-logprob / sum(d.num_tokens for d in documents)),
        )  # fmt: skip

    def settings(self, candidate: Candidate) -> dict[str, str]:
        """The precision, where it is not the engine's own."""
        return {k: v for k, v in candidate.knobs.items() if k == "precision"}

    def spent_s(self) -> float:
        """Engine time since this was last asked."""
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    def close(self) -> None:
        """Nothing runs."""


def setting_of(candidate: Candidate, job: Job) -> Setting:
    """What of the trial is as it is."""
    words = [f"--{name}={value}" for name, value in settings(candidate).items()]
    return Setting(
        workload=WORKLOAD.replace(rate_rps=job.rate_rps, seed=job.seed), slo=SLO,
        engine=EngineConfig(engine="scripted", argv=("scripted", *words)), facts=None, host=HOST,
        client=CLIENT, salt="scripted", level=job.level, num_planned=job.num_requests,
        stop="planned", counters={}, faults=(), usd_per_hour=None, price_source="", notes=(),
    )  # fmt: skip
