"""`neoserve tune`: search configurations of an engine on this host, prove the best, keep it all."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import (
    EXIT_ENGINE_FAILED,
    EXIT_INCONCLUSIVE,
    EXIT_MET,
    EXIT_NOT_MET,
    AskError,
)
from ..evidence.run import Run
from ..evidence.verify import verify_run
from ..measure.dataset import read_dataset
from ..measure.engine import llamacpp, vllm
from ..measure.engine.driver import check_model
from ..measure.figures import recompute
from ..measure.host import host_print
from ..measure.quality.documents import Documents, read_documents, shipped
from ..measure.quality.task import read_questions
from ..schema.campaign import Campaign, EndedBy, Recommendation, SearchPlan, Told
from ..schema.space import Candidate, Space
from ..schema.workload import Slo, Workload
from ..tune.campaign import begin, carry_out, close_unfinished, recorded
from ..tune.candidates import candidates
from ..tune.conclude import conclude
from ..tune.guard import BUDGET_SHARE
from ..tune.host import HostFacts, host_facts
from ..tune.learned import profile_of, trials_in
from ..tune.local import LocalExecutor
from ..tune.planner import Planner
from ..tune.recommend import recommend
from ..tune.session import Interrupted
from ..tune.space import engine_config, knobs_of, space_for
from ..tune.space_file import SpaceFile, applied, read_space_file
from .bench import context_tokens, fresh_folder, public_words, refuse_secrets
from .pmu import foretell
from .recipe import write_recipe
from .tune_tables import has_run
from .tune_view import View

Say = Callable[[str], None]

_START_RPS = 1.0  # where the planner cannot say
_START_SHARE = 0.5  # of what it predicts: a search from below wastes less
_START_S = {"llama.cpp": 5.0, "vllm": 90.0}  # of a server, before its own starts are known


class TuneAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What `neoserve tune` was asked."""

    model: str
    engine: str
    workload: Workload  # rate 0: from the planner's prediction
    slo: Slo
    device: str = "cpu"
    space_file: str = ""
    checkpoints: dict[str, str] = {}
    pins: dict[str, str] = {}
    out: str = "runs/tune"
    budget_s: float | None = None
    budget_trials: int | None = None
    budget_usd: float | None = None
    max_candidates: int = 24
    rungs: tuple[int, ...] = (40, 150, 400)
    num_certify: int = 800
    num_seeds: int = 3
    num_finalists: int = 3
    tolerance: float = 0.03
    quality_text: str = ""
    quality_words: int | None = None  # of each document, from its start
    quality_task: str = ""
    route: str = "completions"
    workers: int = 1
    timeout_s: float = 600.0
    usd_per_hour: float | None = None
    price_source: str = ""
    counts: bool = True


class Prepared(NamedTuple):
    """A campaign that may begin."""

    campaign: Campaign
    plan: SearchPlan


class Tuned(NamedTuple):
    """What was found and where it is."""

    recommendation: Recommendation
    folder: Path
    head: str


def prepare(ask: TuneAsk, note: Say) -> Prepared:
    """Space, candidates and plan. Starts nothing. Raises AskError."""
    if not any(t.statistic.startswith("p") for t in ask.slo.targets):
        raise AskError(
            "tune needs an SLO with a percentile to prove, such as --slo 'ttft:p95<3s; "
            "tpot:p95<200ms'"
        )
    file = read_space_file(Path(ask.space_file)) if ask.space_file else SpaceFile()
    checkpoints = file.checkpoints | ask.checkpoints
    _refuse_missing(ask, checkpoints)
    note("reading this host (its memory's bandwidth takes a second) ...")
    space, facts = _space(ask, file, checkpoints)
    refuse_secrets(engine_config(space, Candidate({}, "default")))
    return planned(ask, space, facts)


def planned(ask: TuneAsk, space: Space, facts: HostFacts) -> Prepared:
    """Candidates and plan of a space, on this host or on one that is only described."""
    planner, why_not = _planner(space, facts, ask)
    listed = candidates(
        space, facts, limit=ask.max_candidates, seed=ask.workload.seed, planner=planner
    )
    budget = next((t.limit for t in ask.slo.targets if t.metric == "quality"), BUDGET_SHARE)
    served = ask.slo.replace(targets=tuple(t for t in ask.slo.targets if t.metric != "quality"))
    campaign = Campaign(
        space=space,
        workload=ask.workload,
        slo=served,
        context_tokens=space.context_tokens,
        quality_budget_share=budget,
        quality_text=ask.quality_text,
        quality_words=ask.quality_words,
        quality_task=ask.quality_task,
        route=ask.route,  # type: ignore[arg-type]
        workers=ask.workers,
        timeout_s=ask.timeout_s,
        usd_per_hour=ask.usd_per_hour,
        price_source=ask.price_source,
        rejected=listed.rejected,
        notes=(*space.notes, *why_not),
        counts=ask.counts,
    )
    return Prepared(campaign, _plan(ask, served, space, listed.candidates))


def _refuse_missing(ask: TuneAsk, checkpoints: dict[str, str]) -> None:
    """What is not there would be a crash of every candidate."""
    knobs_of(ask.engine, ask.device)
    files = [ask.quality_text, ask.quality_task, ask.workload.dataset]
    if ask.engine == "llama.cpp":
        files += [ask.model, *checkpoints.values()]
    for name in filter(None, files):
        if not Path(name).is_file():
            raise AskError(f"{name} is no file; expected one to read")
    for name in (ask.model, *checkpoints.values()):
        check_model(name)


def _space(
    ask: TuneAsk, file: SpaceFile, checkpoints: dict[str, str]
) -> tuple[Space, HostFacts]:
    facts, dataset = host_facts(ask.engine, ask.device), ask.workload.dataset
    version = ""
    if ask.engine == "vllm":
        version = vllm.config(ask.model).version
    elif ask.engine == "llama.cpp":
        version = f"xllamacpp {llamacpp.installed_version()}"
    space = space_for(
        ask.engine,
        ask.model or str(llamacpp.demo_model_path()),
        facts,
        device=ask.device,  # type: ignore[arg-type]
        version=version,
        checkpoints=checkpoints,
        context_tokens=context_tokens(
            ask.workload, dataset=read_dataset(Path(dataset)) if dataset else None
        ),
        client_workers=ask.workers,
    )
    space = applied(space, file)
    return space.replace(pins=space.pins | ask.pins), facts


def _planner(
    space: Space, facts: HostFacts, ask: TuneAsk
) -> tuple[Planner | None, tuple[str, ...]]:
    try:
        return Planner(space, facts, ask.workload, ask.slo), ()
    except AskError as error:
        return None, (f"nothing was predicted beforehand: {error}",)


def _planner_of(campaign: Campaign) -> Planner | None:
    """Of a campaign that is over; null where this host or model is not one that it knows."""
    space = campaign.space
    try:
        facts = host_facts(space.engine, space.device)
        return Planner(space, facts, campaign.workload, campaign.slo)
    except AskError:
        return None


def _plan(
    ask: TuneAsk, slo: Slo, space: Space, found: tuple[Candidate, ...]
) -> SearchPlan:
    output_knobs = {knob.name for knob in space.knobs if knob.changes_output}
    guarded = [i for i, c in enumerate(found) if output_knobs & c.knobs.keys()]
    predicted = found[0].predicted_rps
    start = ask.workload.rate_rps or (_START_SHARE * predicted if predicted else _START_RPS)
    return SearchPlan(
        candidates=found,
        guarded=(0, *guarded) if guarded else (),
        start_rps=float(f"{start:.2g}"),
        rungs=ask.rungs,
        num_certify=ask.num_certify,
        num_seeds=ask.num_seeds,
        num_finalists=ask.num_finalists,
        tolerance=ask.tolerance,
        seed=ask.workload.seed,
        budget_s=ask.budget_s,
        budget_trials=ask.budget_trials,
        budget_usd=ask.budget_usd,
        usd_per_hour=ask.usd_per_hour,
        start_s=_START_S.get(ask.engine, 10.0),
        horizon_s=max((t.limit for t in slo.targets if t.metric != "tpot"), default=0.0),
    )


def start_campaign(ask: TuneAsk, prepared: Prepared) -> Run:
    """A folder that holds the plan, and can be resumed from now on."""
    space = prepared.campaign.space
    versions = {"neoserve": importlib.metadata.version("neoserve"), space.engine: space.version}
    run = Run.create(
        fresh_folder(Path(ask.out)), "tune", argv=public_words(sys.argv), seed=prepared.plan.seed,
        host=host_print(versions={space.engine: space.version}), versions=versions,
    )  # fmt: skip
    begin(run, prepared.campaign, prepared.plan)
    return run


def resume(path: Path, note: Say) -> Tuned:
    """Go on where a campaign stopped. Raises AskError for a folder without one."""
    run = Run.open(path)
    campaign, plan, told = recorded(run)
    _refuse_other_host(run)
    num_left = close_unfinished(run)
    again = f", {num_left} under way when it stopped is done again" if num_left else ""
    note(f"resuming {path}: {len(told)} jobs are done{again}")
    return search(run, campaign, plan, told, note)


def _refuse_other_host(run: Run) -> None:
    was, now = run.manifest().host, host_print()
    if was and was.cpu_model != now.cpu_model:
        raise AskError(
            f"{run.path} was measured on {was.cpu_model}, this host is {now.cpu_model}: go on there"
        )


def search(
    run: Run, campaign: Campaign, plan: SearchPlan, told: list[Told], note: Say
) -> Tuned:
    """Do what is left, then conclude; Ctrl-C keeps all and concludes from what there is."""
    if campaign.counts:
        foretell(note)
    view = View(campaign, plan, note)
    executor = LocalExecutor(
        run, campaign, _documents(campaign),
        read_questions(Path(campaign.quality_task)) if campaign.quality_task else (),
        note=view.say, on_look=view.look,
    )  # fmt: skip
    ended_by: EndedBy | None = None
    try:
        carry_out(run, campaign, plan, told, executor,
                  on_job=lambda job: view.job(job, told),
                  on_told=lambda _: view.told(told))  # fmt: skip
    except (Interrupted, KeyboardInterrupt):
        ended_by = "interrupted"
    finally:
        view.close()
        executor.close()
    if ended_by and not told:
        raise KeyboardInterrupt
    return hand_over(run, campaign, plan, told, ended_by)


def _documents(campaign: Campaign) -> Documents:
    found = read_documents(Path(campaign.quality_text)) if campaign.quality_text else shipped()
    return found.cut(campaign.quality_words) if campaign.quality_words else found


def hand_over(
    run: Run, campaign: Campaign, plan: SearchPlan, told: list[Told], ended_by: EndedBy | None
) -> Tuned:
    """Recommendation, profile and recipe into the folder; then everything in it is checked."""
    pick = plan.candidates[conclude(plan, told).pick]
    planner = _planner_of(campaign)
    found = recommend(
        run, campaign, plan, told, engine_config(campaign.space, pick), ended_by, planner
    )
    run.record("recommendation", found.to_data())
    profile = profile_of(plan, trials_in(run.entries()), planner) if planner else None
    if profile is not None:
        text = profile.to_pretty_json() + "\n"
        (run.path / "profile.json").write_text(text, encoding="utf-8")
        run.record("profile", profile.to_data())
    written, _ = write_recipe(run.path, "all", str(run.path / "recipe"), None)
    run.record("recipe", {"files": written.files})
    head = verify_run(run.path, recompute=recompute).head
    return Tuned(found, run.path, head)


def exit_code(found: Recommendation) -> int:
    """0 something is certified, 1 nothing keeps the SLO, 3 nothing was proven or it was stopped,
    4 nothing ran."""
    if found.ended_by == "interrupted":
        return EXIT_INCONCLUSIVE
    if not has_run(found):
        return EXIT_ENGINE_FAILED
    if found.pick.capacity.certified_rps is not None:
        return EXIT_MET
    return EXIT_NOT_MET if found.pick.capacity.low_rps is None else EXIT_INCONCLUSIVE
