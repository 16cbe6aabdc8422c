"""Pages and stories of runs say what their ledgers say."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neoserve.errors import AskError, EvidenceBroken
from neoserve.evidence.recommended import recommended
from neoserve.evidence.run import Run
from neoserve.faces.results import NoSuchRun, Results
from neoserve.faces.run_view import list_runs, view_run
from neoserve.faces.story import explain_trial

from .serving import CANONICAL, RUN

RESULTS = Results([CANONICAL])
CALIBRATION = Results([CANONICAL.parent / "calibration"])


def ledger(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


@pytest.fixture
def cut(tmp_path: Path) -> Callable[[int], Results]:
    """The canonical run as it was after so many ledger lines."""

    def make(num: int) -> Results:
        folder = tmp_path / "cut"
        shutil.copytree(CANONICAL / RUN, folder)
        lines = (folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "ledger.jsonl").write_bytes(b"".join(lines[:num]))
        return Results([tmp_path])

    return make


@pytest.mark.parametrize("run", ["llamacpp-smollm2", RUN])
def test_a_page_holds_every_trial_with_its_line_and_digest(run: str) -> None:
    view = view_run(RESULTS, run)
    raw = (CANONICAL / run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    trials = [(n, line) for n, line in enumerate(raw, 1) if json.loads(line)["kind"] == "trial"]
    assert len(view.trials) == view.run.num_trials == len(trials)
    for row, (number, line) in zip(view.trials, trials, strict=True):
        body = json.loads(line)["body"]
        assert (row.line, row.digest) == (number, hashlib.sha256(line).hexdigest())
        assert row.purpose == body["told"]["job"]["purpose"]
        assert row.settings == view.candidates[row.candidate].show()
        assert row.verdict == body["trial"]["verdict"]
        assert row.ttft_s.p95.value == body["trial"]["ttft_s"]["p95"]["value"]
    assert view.run.head == hashlib.sha256(raw[-1]).hexdigest()
    assert view.run.status == "ended"
    assert view.recommendation == recommended(CANONICAL / run).recommendation
    assert view.standings == view.recommendation.standings
    assert view.doing is None
    assert "recipe/README.md" in view.files
    others = {entry.kind for entry in view.others}
    assert others.isdisjoint({"trial", "started", "campaign", "recommendation"})


def test_the_list_has_one_sentence_a_run() -> None:
    found = list_runs(RESULTS)
    assert [run.id for run in found.runs] == [RUN, "llamacpp-smollm2"]  # newest first
    assert "certified to hold 1.49/s" in found.runs[0].summary
    assert {run.kind for run in list_runs(CALIBRATION).runs} == {"calibrate", "heldout"}
    assert all(run.status == "ended" for run in list_runs(CALIBRATION).runs)
    profile = view_run(CALIBRATION, "vllm~profile")
    assert (profile.candidates, profile.recommendation) == ((), None)
    assert profile.run.model == "/opt/vllm/smollm2"


@pytest.mark.parametrize(("num", "trials"), [(2, 0), (3, 0), (10, 4), (17, 7)])
def test_a_campaign_under_way_shows_where_each_candidate_stands(
    cut: Callable[[int], Results], num: int, trials: int
) -> None:
    results = cut(num)
    view = view_run(results, "cut")
    assert (view.run.num_trials, view.run.status) == (trials, "live")
    assert bool(view.standings) == bool(trials)
    os.utime(results.find("cut") / "ledger.jsonl", (0, 0))
    assert view_run(results, "cut").run.status == "stopped"


@pytest.mark.parametrize(
    ("num", "states", "tried"),
    [
        (5, ["begun", "waits"], {"scout"}),
        (10, ["leads", "waits"], {"scout", "climb"}),
        (25, ["slower", "leads"], {"scout", "climb", "probe"}),
    ],
)
def test_a_search_that_goes_on_has_picked_nothing_and_passed_nobody_over(
    cut: Callable[[int], Results], num: int, states: list[str], tried: set[str]
) -> None:
    results = cut(num)
    view = view_run(results, "cut")
    assert {row.purpose for row in view.trials} == tried
    assert [s.state for s in view.standings] == states
    said = [s.reason for s in view.standings] + list(explain_trial(results, "cut").story)
    assert not [text for text in said if "ended before" in text or "pick" in text]
    if "waits" in states:
        assert view.standings[1].reason == "its turn has not come"


def test_the_load_that_runs_is_shown(cut: Callable[[int], Results]) -> None:
    results = cut(10)
    path = results.find("cut")
    run = Run.open(path)
    setting = ledger(CANONICAL / RUN)[2]["body"]["setting"]
    setting["workload"]["rate_rps"] = 2.5
    with run.start({"setting": setting, "schedule": "sha256:" + "0" * 64}):
        view = view_run(results, "cut")
        assert view.run.status == "live"
        assert view.doing.rate_rps == 2.5
    assert view_run(results, "cut").doing is None


def test_a_broken_run_is_listed_as_such(cut: Callable[[int], Results]) -> None:
    results = cut(10)
    file = results.find("cut") / "ledger.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"seed":0', b'"seed":7', 1))
    [run] = list_runs(results).runs
    assert (run.status, run.head) == ("broken", "")
    assert run.reason
    assert run.reason in run.summary
    with pytest.raises(EvidenceBroken):
        view_run(results, "cut")


def test_without_a_recommendation_it_says_what_there_is(cut: Callable[[int], Results]) -> None:
    assert list_runs(cut(2)).runs[0].summary == "No trial yet; 2 ledger entries."


def test_a_certified_limit_is_the_answer_of_a_bench(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "bench", "bench", seed=0, versions={}, argv=())
    limit = {"schema": "neoserve/max-rate/1", "basis": "measured", "certified_rps": 3.25,
             "not_met_rps": 3.5, "tolerance": 0.05, "level": 0.05, "probes": [],
             "notes": []}  # fmt: skip
    run.record("max-rate", limit)
    results = Results([tmp_path])
    [found] = list_runs(results).runs
    assert (found.kind, found.status, found.model) == ("bench", "ended", "")
    assert found.summary == "Certified to hold 3.25 requests/s within its SLO."
    assert view_run(results, "bench").max_rate.certified_rps == 3.25
    run.record("max-rate", limit | {"certified_rps": None})
    assert list_runs(results).runs[0].summary == "No rate within its SLO was certified."
    with pytest.raises(AskError, match="holds no trial yet"):
        explain_trial(results, "bench")


def test_a_story_is_of_the_trial_that_the_answer_rests_on() -> None:
    story = explain_trial(RESULTS, RUN)
    found = recommended(CANONICAL / RUN).recommendation
    assert story.trial == found.trial
    assert story.standing == found.pick
    assert story.purpose == "certify"
    entry = ledger(CANONICAL / RUN)[story.line - 1]
    assert entry["body"]["trial"]["rows"] == story.trial.rows
    text = "\n".join(story.story)
    for said in ("bind=all; /opt/vllm", "allocator glibc", "proof on fresh requests",
                 f"{story.trial.num_judged} of {story.trial.num_planned} planned", "Verdict PASS",
                 "TTFT p95"):  # fmt: skip
        assert said in text


def test_a_story_by_number_and_outside_of_a_campaign() -> None:
    story = explain_trial(RESULTS, "llamacpp-smollm2", 1)
    assert (story.number, story.candidate, story.settings) == (1, 0, "engine defaults")
    plain = explain_trial(CALIBRATION, "vllm~heldout")
    assert (plain.purpose, plain.candidate, plain.standing) == ("", None, None)
    assert plain.number == plain.num_trials
    for wrong in (0, 99):
        with pytest.raises(AskError, match="has trials 1 to 20"):
            explain_trial(RESULTS, "llamacpp-smollm2", wrong)
    with pytest.raises(NoSuchRun):
        explain_trial(RESULTS, "../canonical")
