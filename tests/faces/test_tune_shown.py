"""What is shown of a campaign that runs, and of what it found."""

from __future__ import annotations

import pytest

from neoserve.faces.tune import exit_code
from neoserve.faces.tune_tables import answer, gain, show_found, standings
from neoserve.faces.tune_view import View, outcome
from neoserve.schema.campaign import (
    Campaign,
    Capacity,
    Compared,
    Gain,
    Job,
    Recommendation,
    SearchPlan,
    Seen,
    Told,
)
from neoserve.schema.quality import QualityCheck
from neoserve.schema.space import Candidate, Space
from neoserve.schema.workload import Slo, Workload
from recipe.sample import HEAD, graviton, llamacpp, standing


def seen(**changes: object) -> Seen:
    return Seen(verdict="FAIL", num=40, num_misses=7, share=0.05).replace(**changes)


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (seen(), "FAIL: 7 of 40 requests missed the SLO"),
        (seen(saturated=True), "FAIL: 7 of 40 requests missed the SLO, it did not keep up"),
        (seen(verdict="VOID", crash="out of memory"), "did not run: out of memory"),
        (seen(verdict="VOID"), "void: this load says nothing about the server"),
        (seen(verdict="PASS", num=90, num_misses=0), "PASS: 0 of 90 requests missed the SLO"),
    ],
)
def test_the_end_of_a_job_is_one_line(shown: Seen, said: str) -> None:
    assert outcome(Told(Job(0, "probe"), shown)) == said


def test_a_view_says_what_is_tried_why_and_who_leads() -> None:
    lines: list[str] = []
    plan = SearchPlan(
        candidates=(Candidate({}, "default"), Candidate({"threads": "2"}, "known-good")),
        start_rps=2.0, budget_s=600.0,
    )  # fmt: skip
    campaign = Campaign(
        space=Space(engine="llama.cpp", device="cpu", model="m", knobs=()),
        workload=Workload(), slo=Slo.parse_text("ttft:p95<3s"), context_tokens=256,
    )  # fmt: skip
    view = View(campaign, plan, lines.append)
    first = Told(Job(0, "climb", 4.0, 150), seen(verdict="PASS", num_misses=0, spent_s=100.0))
    view.job(Job(0, "scout", 2.0, 40), [])
    view.job(first.job, [])
    view.told([first])
    view.job(Job(1, "probe", 3.88, 40), [first])
    view.told([first, Told(Job(1, "probe", 3.88, 40), seen(spent_s=20.0))])
    view.close()
    assert lines == [
        "[1/2] engine defaults  (default)",
        "    scout: 2.00/s, up to 40 requests: roughly, where is its limit? "
        "(10.0 min of the budget left)",
        "    climb: 4.00/s, up to 150 requests: looking for its limit "
        "(10.0 min of the budget left)",
        "    -> PASS: 0 of 40 requests missed the SLO; best so far engine defaults: about 4.00/s",
        "[2/2] threads=2  (known-good)",
        "    probe: 3.88/s, up to 40 requests: is it as good as the leader? "
        "(8.33 min of the budget left)",
        "    -> FAIL: 7 of 40 requests missed the SLO; best so far engine defaults: about 4.00/s",
    ]


def test_a_quality_check_says_its_reason() -> None:
    check = QualityCheck(
        baseline="a", candidate="b", change_share=0.09, low=0.08, high=0.1, level=0.95,
        budget_share=0.04, verdict="FAIL", reason="word perplexity +9.00 %",
    )  # fmt: skip
    told = Told(Job(1, "quality"), Seen(quality=check))
    assert outcome(told) == "quality FAIL: word perplexity +9.00 %"


# what was found


def flat(text: str) -> str:
    return " ".join(text.split())


def test_the_answer_comes_first_with_its_proof() -> None:
    text = flat(show_found(llamacpp(), "runs/tune", HEAD))
    assert text.startswith(
        "parallel=4 threads=1: certified to hold 4.20/s within ttft:p95<3.00 s; tpot:p95<200 ms"
    )
    assert "That is 1.40 times the engine's defaults (1.25 to 1.60 certified)." in text
    assert f"neoserve verify runs/tune --head {HEAD}" in text
    assert "runs/tune/recipe/run.sh" in text
    assert "noise floor 2.0% between visits" in text
    assert "90.0 min of engine time, 31 jobs; ended by itself" in text
    assert "--resume" not in text


def test_a_price_is_of_what_is_certified() -> None:
    # 0.638 USD an hour over 4.2 x 128 output tokens a second
    usd = 0.638 / 3600 / (4.2 * 128) * 1e6
    assert f"at ${usd:.3f} per million output tokens" in flat(answer(graviton()))
    found = graviton()
    loose = found.pick.replace(capacity=Capacity(low_rps=4.2, high_rps=4.6))
    text = flat(answer(found.replace(pick=loose)))
    assert "looks like holding 4.20/s" in text
    assert "not proven" in text
    assert "$" not in text


def test_an_interrupted_search_says_how_to_go_on() -> None:
    found = llamacpp(ended_by="interrupted")
    text = show_found(found, "runs/tune-2", HEAD)
    assert text.endswith("Go on: neoserve tune --resume runs/tune-2")
    assert "ended by hand" in flat(text)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Gain(2.0, 1.5, 2.5, 0.1),
         "That is 2.00 times the engine's defaults (1.50 to 2.50 certified)."),
        (Gain(1.1, 0.95, 1.3, 0.1), "That is 1.10 times the engine's defaults (0.95 to 1.30 "
         "certified): a gain is not proven."),
        (Gain(1.1, None, 1.3, 0.1), "That is 1.10 times the engine's defaults (unknown to 1.30 "
         "certified): a gain is not proven."),
        (Gain(None, None, None, 0.1, "nothing that was tried keeps the SLO at any rate"),
         "No gain over the engine's defaults is claimed: nothing that was tried keeps the SLO at "
         "any rate."),
    ],
)  # fmt: skip
def test_a_gain_is_claimed_only_where_it_is_proven(found: Gain, said: str) -> None:
    assert gain(found) == said


def nothing_kept(state: str, reason: str) -> Recommendation:
    no = standing({}, None, state, capacity=Capacity(None, 1.0), reason=reason)
    return llamacpp(pick=no, baseline=no, standings=(no,), trial=None, baseline_trial=None)


def test_what_keeps_no_slo_has_nothing_to_serve() -> None:
    found = nothing_kept("pick", "no rate kept the SLO")
    text = flat(show_found(found, "runs/tune", HEAD))
    assert text.startswith("Nothing that was tried keeps ttft:p95<3.00 s; ")
    assert "run.sh" not in text
    assert "below 1.00/s" in text
    assert exit_code(found) == 1


def test_what_never_ran_is_the_engines_failure() -> None:
    found = nothing_kept("crashed", "failed to read magic")
    text = flat(show_found(found, "runs/tune", HEAD))
    assert text.startswith("Nothing that was tried runs here: failed to read magic.")
    assert exit_code(found) == 4


def test_exit_codes_of_proof_and_of_none() -> None:
    assert exit_code(llamacpp()) == 0
    assert exit_code(llamacpp(ended_by="interrupted")) == 3
    unproven = llamacpp().pick.replace(capacity=Capacity(4.2, 4.6))
    assert exit_code(llamacpp(pick=unproven)) == 3


def test_standings_say_most_first_and_keep_the_baseline() -> None:
    others = [standing({"threads": str(i)}, None, "rejected", capacity=Capacity(None, 1.0 + i),
                       reason=f"reason {i}") for i in range(2, 20)]  # fmt: skip
    baseline = standing({}, None, "crashed", capacity=Capacity(None, None), reason="died")
    pick = standing({"threads": "1"}, 3.9, capacity=Capacity(4.0, 4.4, 3.9, 4.6))
    text = standings((baseline, *others, pick))
    lines = text.splitlines()
    assert lines[2].split()[:5] == ["threads=1", "pick", "4.00", "to", "4.40/s"]
    assert "3.90/s" in lines[2]
    assert lines[-2].startswith("engine defaults")
    assert "died" in lines[-2]
    assert lines[-1] == "and 7 more in the ledger"  # of 20, 12 and the baseline are shown


def test_a_prediction_stands_beside_what_was_measured() -> None:
    compared = (Compared("highest rate within the SLO, requests/s", 5.5, 4.123),)
    text = flat(show_found(llamacpp(compared=compared), "r", HEAD))
    assert "predicted highest rate within the SLO, requests/s 5.50, measured 4.12" in text
