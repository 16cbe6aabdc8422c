"""A campaign and its ledger: what it holds is never done again, however often it is killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from neoserve.errors import AskError, EvidenceBroken
from neoserve.evidence.recommended import recommended
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.measure.figures import recompute
from neoserve.schema.campaign import Job, Seen, Told
from neoserve.schema.evidence import LedgerEntry
from neoserve.tune.campaign import carry_out, close_unfinished, recorded, told_in
from neoserve.tune.conclude import conclude
from neoserve.tune.recommend import recommend
from neoserve.tune.session import Interrupted

from . import killable
from .killable import Sleepy

KILLS = 20
MOST_CAMPAIGNS = 6  # that the kills are spread over, on a host that is faster than this test


class Whole(NamedTuple):
    """A campaign that nothing interrupted."""

    path: Path
    told: list[Told]
    entries: list[LedgerEntry]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("campaign") / "run"
    run = killable.begun(path)
    told = killable.carried_on(path)
    return Whole(path, told, run.entries())


def assert_done_once(told: list[Told]) -> None:
    """A job is only done again where it showed nothing."""
    shown = [t.job for t in told if not t.seen.crash and t.seen.verdict != "VOID"]
    assert max(Counter(shown).values()) == 1


def test_all_that_is_told_is_in_the_ledger(whole: Whole) -> None:
    campaign, plan, told = recorded(Run.open(whole.path))
    assert campaign == killable.campaign()
    assert plan == killable.plan()
    assert told == whole.told
    assert_done_once(told)
    jobs = Counter(t.job.purpose for t in told)
    assert {"scout", "probe", "climb", "settle", "certify", "refute", "quality"} == jobs.keys()
    kinds = Counter(e.kind for e in whole.entries)
    crashes = sum(bool(t.seen.crash) for t in told)
    assert kinds["trial"] == sum(t.job.purpose != "quality" for t in told) - crashes
    assert kinds["started"] == kinds["trial"]
    assert kinds["crash"] == crashes >= 2
    assert kinds["quality"] == jobs["quality"]


def test_every_figure_follows_from_the_rows(whole: Whole) -> None:
    found = verify_run(whole.path, recompute=recompute)
    assert found.num_recomputed == sum(e.kind == "trial" for e in whole.entries) > 40
    assert found.num_unfinished == 0


def test_what_the_world_says_of_each_candidate_is_found(whole: Whole) -> None:
    found = conclude(killable.plan(), whole.told)
    states = [s.state for s in found.standings]
    assert states[2] == "crashed"
    assert "out of memory" in found.standings[2].reason
    assert states[3] == "quality"
    assert "9.00%" in found.standings[3].reason
    assert states[4] == "crashed"
    assert "at most 12 threads" in found.standings[4].reason
    assert found.pick == 6  # by far the most capacity by the script's own law
    assert "untried" not in states


def test_a_recommendation_holds_the_trials_that_prove_it(whole: Whole, tmp_path: Path) -> None:
    run = Run.open(shutil.copytree(whole.path, tmp_path / "run"))
    campaign, plan, told = recorded(run)
    found = recommend(run, campaign.replace(usd_per_hour=3.6), plan, told)
    assert found.pick.candidate == plan.candidates[6]
    assert found.trial is not None
    assert found.baseline_trial is not None
    assert found.workload.rate_rps == found.pick.capacity.certified_rps
    assert found.trial.workload.rate_rps == found.pick.capacity.certified_rps
    assert found.trial.verdict == "PASS"
    assert "--slots=6" in found.config.argv
    assert "--slots=3" in found.baseline_trial.engine.argv
    assert found.baseline_trial.workload.rate_rps == found.baseline.capacity.certified_rps
    assert found.num_jobs == len(told)
    assert found.spent_s == pytest.approx(sum(t.seen.spent_s for t in told))
    assert found.spent_usd == pytest.approx(found.spent_s / 1000)
    gain = found.gain
    assert gain.ratio is not None
    assert gain.low == pytest.approx(
        found.workload.rate_rps / found.baseline.capacity.refuted_rps  # type: ignore[operator]
    )
    assert not found.compared, "nothing was predicted"
    run.record("recommendation", found.to_data())
    assert recommended(run.path).recommendation == found


def test_a_check_costs_what_its_scores_did(whole: Whole) -> None:
    """The baseline's score is measured with the first check, and never again."""
    spent = [t.seen.spent_s for t in whole.told if t.seen.quality]
    assert spent == [60.0, 60.0]
    scores = [e for e in whole.entries if e.kind == "score"]
    assert [e.body["settings"] for e in scores] == [{}, {"precision": "int8"}]


# Cut after this entry, its number among those of its kind; and what follows it, torn.
CUTS = [("score", 1, False), ("started", -12, False), ("trial", -3, True)]


@pytest.mark.parametrize(("kind", "number", "is_torn"), CUTS)
def test_a_ledger_that_ends_anywhere_leads_to_the_same_end(
    whole: Whole, tmp_path: Path, kind: str, number: int, is_torn: bool
) -> None:
    path = shutil.copytree(whole.path, tmp_path / "run")
    at = [e.seq for e in whole.entries if e.kind == kind][number]
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    rest = lines[at + 1][:-40] if is_torn else b""
    (path / "ledger.jsonl").write_bytes(b"".join(lines[: at + 1]) + rest)
    kept = told_in(whole.entries[: at + 1])
    assert 0 < len(kept) < len(whole.told)
    assert killable.carried_on(path) == whole.told
    entries = Run.open(path).entries()
    assert entries[: at + 1] == whole.entries[: at + 1], "nothing is rewritten"
    assert told_in(entries) == whole.told
    assert sum(e.kind == "closed" for e in entries) == (kind == "started")
    assert verify_run(path, recompute=recompute).num_unfinished == 0


class Killed(NamedTuple):
    """A campaign that ended after some kills."""

    path: Path
    kills: int


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[Killed]:
    """Campaigns that were killed and begun again until they ended: `KILLS` kills in all."""
    rng = random.Random(11)
    found: list[Killed] = []
    while sum(k.kills for k in found) < KILLS:
        assert len(found) < MOST_CAMPAIGNS, "campaigns end before they are killed"
        path = tmp_path_factory.mktemp("killed") / "run"
        left = KILLS - sum(k.kills for k in found)
        kills = 0
        while _is_killed(path, rng.uniform(0.0, 0.45) if kills < left else None):
            kills += 1
        found.append(Killed(path, kills))
    return found


def _is_killed(path: Path, after_s: float | None) -> bool:
    """Go on in a process of its own, for so long; null: to the end."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-m", "tune.killable", str(path), "0.02"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if after_s is not None:
            time.sleep(after_s)
            process.kill()
        code = process.wait()
    assert code in (0, -signal.SIGKILL)
    return code != 0


def test_twenty_kills_change_nothing_that_is_decided(whole: Whole, killed: list[Killed]) -> None:
    assert sum(k.kills for k in killed) == KILLS
    for path, _ in killed:
        told = recorded(Run.open(path))[2]
        assert_done_once(told)
        assert told == whole.told
        mine, theirs = conclude(killable.plan(), told), conclude(killable.plan(), whole.told)
        assert (mine.pick, mine.gain) == (theirs.pick, theirs.gain)
        assert mine.standings == theirs.standings


def test_what_kills_leave_is_whole(killed: list[Killed]) -> None:
    closed = 0
    for path, _ in killed:
        found = verify_run(path, recompute=recompute)
        entries = Run.open(path).entries()
        assert found.num_recomputed == sum(e.kind == "trial" for e in entries)
        assert found.num_unfinished == 0
        assert not list((path / "spool").iterdir())
        kinds = Counter(e.kind for e in entries)
        assert kinds["started"] == kinds["trial"] + kinds["closed"]
        assert kinds["campaign"] == kinds["run"] == 1
        closed += kinds["closed"]
    assert closed >= KILLS / 5, "loads were killed while they ran"


def test_a_load_that_a_person_ends_is_not_told_and_done_again(tmp_path: Path) -> None:
    run = killable.begun(tmp_path / "run")
    campaign, plan, told = recorded(run)
    jobs: list[Job] = []

    class Impatient(Sleepy):
        def load(self, candidate, job, about):  # type: ignore[no-untyped-def]
            jobs.append(job)
            if len(jobs) < 3:
                return super().load(candidate, job, about)
            observed = super().load(candidate, job, lambda o: about(stopped(o)))
            return stopped(observed)

    def stopped(observed):  # type: ignore[no-untyped-def]
        return observed._replace(trial=observed.trial.replace(stop="interrupted"))

    with pytest.raises(Interrupted):
        carry_out(run, campaign, plan, told, Impatient(run, plan, told, 0.0))
    assert len(told) == 2
    assert recorded(run)[2] == told
    asked: list[Job] = []

    def note(job: Job) -> None:
        asked.append(job)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(run, campaign, plan, told, Sleepy(run, plan, told, 0.0), on_job=note)
    assert asked == [jobs[2]]


def test_folders_without_a_campaign_or_a_job(tmp_path: Path) -> None:
    other = Run.create(tmp_path / "bench", "bench", seed=0, versions={}, argv=())
    with pytest.raises(AskError, match="holds no campaign"):
        recorded(other)
    run = killable.begun(tmp_path / "run")
    campaign, plan, told = recorded(run)
    assert told == []
    assert close_unfinished(run) == 0
    with pytest.raises(AskError, match="nothing was measured yet"):
        recommend(run, campaign, plan, told)


def test_a_job_that_cannot_be_read_is_broken_evidence(tmp_path: Path) -> None:
    run = killable.begun(tmp_path / "run")
    run.record("trial", {"told": {"job": {"candidate": 0, "purpose": "guess"}, "seen": {}}})
    with pytest.raises(EvidenceBroken, match="a job in the ledger cannot be read"):
        recorded(run)


def test_a_crash_is_told_with_the_engines_reason(whole: Whole) -> None:
    crash = next(e for e in whole.entries if e.kind == "crash")
    told = Told.parse(json.loads(json.dumps(crash.body["told"])), "told")
    assert told.seen.verdict == "VOID"
    assert told.seen.crash.startswith(("out of memory", "assertion failed"))
    assert told.seen == Seen(verdict="VOID", crash=told.seen.crash, spent_s=told.seen.spent_s)
    assert 10 <= told.seen.spent_s <= 30  # half of a start
