"""A run folder as a list's line, a page, and the story of one trial."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..errors import AskError, Error, EvidenceBroken
from ..evidence.ledger import Link
from ..evidence.spool import live_spools
from ..evidence.verify import trial_of
from ..measure.figures import Setting
from ..recipe.served import served
from ..schema.base import Document
from ..schema.campaign import Campaign, Recommendation, SearchPlan, Standing, Told
from ..schema.capacity import MaxRate
from ..schema.engine import EngineConfig
from ..schema.evidence import Manifest
from ..schema.profile import DeviceProfile
from ..schema.runs import Doing, RunList, RunStatus, RunSummary, RunView, TrialRow
from ..schema.trial import Trial
from ..tune.campaign import told_of
from ..tune.conclude import conclude
from ..units import significant
from .results import LEDGER, Results, files_of
from .tune_tables import answer

D = TypeVar("D", bound=Document)
_FRESH_S = 600.0  # a server may take as long to start, and writes nothing meanwhile
_TOLD_ELSEWHERE = ("run", "campaign", "started", "trial", "recommendation", "profile", "max-rate")


class Folder:
    """A run's ledger taken apart. Raises EvidenceBroken."""

    def __init__(self, path: Path, links: Sequence[Link]) -> None:
        self.path, self.links = path, links
        campaign = self._last("campaign")
        self.campaign = _parsed(Campaign, campaign, "campaign")
        self.plan = _parsed(SearchPlan, campaign, "plan")
        self.told = [told_of(x.entry) for x in links if "told" in x.entry.body]
        self.trials = [x for x in links if x.entry.kind == "trial"]

    @property
    def kind(self) -> str:
        """What it was started for."""
        return str(self.links[0].entry.body.get("campaign", ""))

    def recommendation(self) -> Recommendation | None:
        """The last one."""
        return self._document(Recommendation, "recommendation")

    def max_rate(self) -> MaxRate | None:
        """The last one."""
        return self._document(MaxRate, "max-rate")

    def profile(self) -> DeviceProfile | None:
        """The last one."""
        return self._document(DeviceProfile, "profile")

    def is_done(self) -> bool:
        """Nothing that it was started for is missing."""
        kinds = [x.entry.kind for x in self.links]
        if self.kind != "tune":
            return kinds[-1] not in ("run", "started")
        ends = [i for i, kind in enumerate(kinds) if kind == "recommendation"]
        return bool(ends) and not {"started", "quality", "crash"} & set(kinds[ends[-1] :])

    def standings(self) -> tuple[Standing, ...]:
        """Where each candidate ended, or stands so far; () before the first job is over."""
        if self.plan is None or not self.told:
            return ()
        return conclude(self.plan, self.told, is_over=self.is_done()).standings

    def settings(self, told: Told | None) -> str:
        """Of the candidate that a job was of."""
        if told is None or self.plan is None:
            return ""
        return self.plan.candidates[told.job.candidate].show()

    def _last(self, kind: str) -> dict[str, Any] | None:
        found = [x.entry.body for x in self.links if x.entry.kind == kind]
        return found[-1] if found else None

    def _document(self, type_: type[D], kind: str) -> D | None:
        body = self._last(kind)
        return None if body is None else _whole(type_, body, kind)


def _parsed(type_: type[D], body: dict[str, Any] | None, key: str) -> D | None:
    return None if body is None else _whole(type_, body.get(key), key)


def _whole(type_: type[D], data: Any, what: str) -> D:
    try:
        return type_.parse(data, what)
    except AskError as error:
        raise EvidenceBroken(f"the ledger's {error}") from None


def list_runs(results: Results) -> RunList:
    """Newest first; a broken one says why."""
    found = [summary_of(results, name, path) for name, path in results.runs().items()]
    return RunList(runs=tuple(sorted(found, key=lambda run: run.created, reverse=True)))


def summary_of(results: Results, name: str, path: Path) -> RunSummary:
    """One line of the list."""
    try:
        folder = Folder(path, results.links(path))
        return _summary(name, folder)
    except Error as error:
        return RunSummary(
            id=name, kind="", model="", engine="", created="", status="broken", reason=str(error),
            summary=f"Not to be trusted: {error}", head="", num_entries=0, num_trials=0,
        )  # fmt: skip


def _summary(name: str, folder: Folder) -> RunSummary:
    config = _config(folder)
    return RunSummary(
        id=name,
        kind=folder.kind,
        model=_model(folder, config),
        engine=_engine(folder, config),
        created=folder.links[0].entry.at,
        status=_status(folder),
        summary=_said(folder),
        head=folder.links[-1].digest,
        num_entries=len(folder.links),
        num_trials=len(folder.trials),
    )


def _status(folder: Folder) -> RunStatus:
    if live_spools(folder.path / "spool"):
        return "live"
    if folder.is_done():
        return "ended"
    age_s = time.time() - (folder.path / LEDGER).stat().st_mtime
    return "live" if age_s < _FRESH_S else "stopped"


def _config(folder: Folder) -> EngineConfig | None:
    return trial_of(folder.trials[-1].entry).engine if folder.trials else None


def _model(folder: Folder, config: EngineConfig | None) -> str:
    if folder.campaign is not None:
        return str(folder.campaign.space.model)
    if config is None:
        return ""
    try:
        return served(config).model
    except AskError:
        return config.model or config.url


def _engine(folder: Folder, config: EngineConfig | None) -> str:
    if config is not None:
        return config.version or config.engine
    return str(folder.campaign.space.engine) if folder.campaign is not None else ""


def _said(folder: Folder) -> str:
    """One sentence."""
    found = folder.recommendation()
    if found is not None:
        return " ".join(answer(found).split())
    limit = folder.max_rate()
    if limit is not None and limit.certified_rps is not None:
        return f"Certified to hold {significant(limit.certified_rps)} requests/s within its SLO."
    if limit is not None:
        return "No rate within its SLO was certified."
    if not folder.trials:
        return f"No trial yet; {len(folder.links)} ledger entries."
    last = trial_of(folder.trials[-1].entry)
    return f"{len(folder.trials)} trials; the last one {verdict(last)}"


def verdict(trial: Trial) -> str:
    """``PASS: ttft:p95<3 s: 0 of 400 requests missed ...``."""
    said = "; ".join((*trial.faults, *trial.reasons))
    return f"{trial.verdict}: {said}" if said else f"{trial.verdict}."


def view_run(results: Results, run: str) -> RunView:
    """The page of a run. Raises NoSuchRun, EvidenceBroken."""
    path = results.find(run)
    folder = Folder(path, results.links(path))
    trials = tuple(trial_rows(folder))
    last = trial_of(folder.trials[-1].entry) if folder.trials else None
    campaign, plan = folder.campaign, folder.plan
    return RunView(
        run=_summary(run, folder),
        workload=campaign.workload if campaign else last.workload if last else None,
        slo=campaign.slo if campaign else last.slo if last else None,
        host=_host(path),
        candidates=plan.candidates if plan else (),
        standings=folder.standings(),
        doing=_doing(folder),
        recommendation=folder.recommendation(),
        max_rate=folder.max_rate(),
        profile=folder.profile(),
        trials=trials,
        others=tuple(x.entry for x in folder.links if x.entry.kind not in _TOLD_ELSEWHERE),
        files=files_of(path),
    )


def _host(path: Path) -> Any:
    try:
        return Manifest.parse_json((path / "manifest.json").read_bytes(), "manifest").host
    except (OSError, AskError):
        return None


def _doing(folder: Folder) -> Doing | None:
    """The load whose rows are being written."""
    live = live_spools(folder.path / "spool")
    for link in reversed(folder.links):
        if link.entry.kind == "started" and str(link.entry.seq) in live:
            setting = _whole(Setting, link.entry.body.get("setting"), "setting")
            return Doing(
                since=link.entry.at,
                rate_rps=setting.workload.rate_rps,
                settings=" ".join(setting.engine.argv),
            )
    return None


def trial_rows(folder: Folder) -> list[TrialRow]:
    """Every trial, in order."""
    return [_row(folder, number, link) for number, link in enumerate(folder.trials, 1)]


def _row(folder: Folder, number: int, link: Link) -> TrialRow:
    trial, told = trial_of(link.entry), job_of(link)
    return TrialRow(
        number=number,
        line=link.entry.seq + 1,
        digest=link.digest,
        at=link.entry.at,
        purpose=told.job.purpose if told else "",
        candidate=told.job.candidate if told else None,
        settings=folder.settings(told),
        engine=trial.engine,
        rate_rps=trial.workload.rate_rps,
        concurrency=trial.workload.concurrency,
        verdict=trial.verdict,
        reasons=(*trial.faults, *trial.reasons),
        stop=trial.stop,
        saturated=trial.saturated,
        load_limited=trial.load_limited,
        num_judged=trial.num_judged,
        num_ok=trial.num_ok,
        ttft_s=trial.ttft_s,
        tpot_s=trial.tpot_s,
        e2e_s=trial.e2e_s,
        output_tokens_per_s=trial.output_tokens_per_s,
        served_rps=trial.served_rps,
        goodput_rps=trial.goodput_rps,
        cost=trial.cost,
        rows=trial.rows,
        schedule=trial.schedule,
        log=str(link.entry.body.get("log", "")),
    )


def job_of(link: Link) -> Told | None:
    """What a trial was for; null outside of a campaign."""
    return told_of(link.entry) if "told" in link.entry.body else None
