"""What one trial says, in sentences."""

from __future__ import annotations

from ..errors import AskError
from ..evidence.ledger import Link
from ..evidence.verify import trial_of
from ..recipe.claims import latencies, load
from ..schema.campaign import Standing, Told
from ..schema.runs import TrialStory
from ..schema.trial import EngineFacts, Trial
from ..units import show_usd, significant
from .results import Results
from .run_view import Folder, job_of, verdict
from .tune_view import PURPOSES


def explain_trial(results: Results, run: str, number: int | None = None) -> TrialStory:
    """A trial by its number from 1; without one the trial that the run's answer rests on."""
    path = results.find(run)
    folder = Folder(path, results.links(path))
    if not folder.trials:
        raise AskError(f"{run} holds no trial yet; it has {len(folder.links)} ledger entries")
    chosen = _proof(folder) if number is None else number
    if not 1 <= chosen <= len(folder.trials):
        raise AskError(f"trial is {chosen}; {run} has trials 1 to {len(folder.trials)}")
    link = folder.trials[chosen - 1]
    trial, told = trial_of(link.entry), job_of(link)
    standings = folder.standings()
    standing = standings[told.job.candidate] if told and standings else None
    settings = folder.settings(told)
    return TrialStory(
        run=run,
        number=chosen,
        num_trials=len(folder.trials),
        line=link.entry.seq + 1,
        digest=link.digest,
        at=link.entry.at,
        purpose=told.job.purpose if told else "",
        candidate=told.job.candidate if told else None,
        settings=settings,
        summary=_summary(chosen, trial, settings, link),
        story=tuple(_story(trial, told, standing, settings)),
        standing=standing,
        trial=trial,
        log=str(link.entry.body.get("log", "")),
    )


def _proof(folder: Folder) -> int:
    """The trial of the recommendation; else the last one."""
    found = folder.recommendation()
    rows = found.trial.rows if found and found.trial else ""
    for number, link in enumerate(folder.trials, 1):
        if rows and link.entry.body.get("trial", {}).get("rows") == rows:
            return number
    return len(folder.trials)


def _summary(number: int, trial: Trial, settings: str, link: Link) -> str:
    what = settings or trial.engine.version or trial.engine.engine
    return (
        f"Trial {number} (measured; ledger line {link.entry.seq + 1}): {what} under "
        f"{_load(trial)}: {verdict(trial)}"
    )


def _load(trial: Trial) -> str:
    w = trial.workload
    rate = f"{significant(w.rate_rps)} requests/s" if w.rate_rps else f"{w.concurrency} in flight"
    return f"{rate} ({load(w)})"


def _story(
    trial: Trial, told: Told | None, standing: Standing | None, settings: str
) -> list[str]:
    config = trial.engine
    found = [f"What ran: {settings or 'as given'}; {' '.join(config.argv) or config.url}."]
    found += _facts(trial.facts)
    if told is not None:
        purpose = told.job.purpose
        found.append(f"What for: {purpose} ({PURPOSES[purpose]}).")
    found.append(
        f"Load: {_load(trial)}, {trial.num_judged} of {trial.num_planned} planned requests "
        f"judged, {trial.num_ok} of them served; it ended because: {trial.stop}."
    )
    found += [latencies(trial)] if trial.num_judged else []
    found.append(f"Verdict {verdict(trial)}")
    if trial.saturated:
        found.append("The server did not keep up: its backlog grew.")
    if trial.load_limited:
        found.append("It served all that was offered: its capacity is unknown from this alone.")
    if trial.cost is not None:
        found.append(
            f"Cost at the served rate: {show_usd(trial.cost.usd_per_mtok_output)} per million "
            f"output tokens at {show_usd(trial.cost.usd_per_hour)} an hour "
            f"({trial.cost.price_source})."
        )
    if standing is not None:
        found.append(f"Where its settings stand: {standing.state}: {standing.reason}.")
        if standing.quality is not None:
            found.append(f"Quality {standing.quality.verdict}: {standing.quality.reason}.")
    return [*found, *(f"Note: {note}." for note in trial.notes)]


def _facts(facts: EngineFacts | None) -> list[str]:
    if facts is None:
        return ["Nothing is known of the process: the server was running already."]
    said = {
        "version": facts.version, "threads": facts.threads, "CPUs": ", ".join(facts.affinity),
        "allocator": facts.allocator, "dtype": facts.dtype, "KV tokens": facts.kv_tokens,
    }  # fmt: skip
    words = ", ".join(f"{name} {value}" for name, value in said.items() if value)
    return [f"Read from the process, its log and its API: {words}."] if words else []
