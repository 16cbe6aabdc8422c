"""Verdicts of the quality guard on scores whose truth is known."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError
from neoserve.schema.quality import DocumentScore, QualityScore, TaskAnswer
from neoserve.tune.guard import check, unmeasurable

WORDS = 40


def made(logprobs, *, answers=(), **more):
    documents = tuple(
        DocumentScore(f"document {i}", WORDS, 52, value) for i, value in enumerate(logprobs)
    )
    mean = -sum(logprobs) / (WORDS * len(logprobs))
    words = {"key": "k", "text": "t", "text_name": "n", "window_tokens": 512, "method": "forced",
             "word_perplexity": math.exp(mean), "token_perplexity": math.exp(mean * WORDS / 52)}
    found = tuple(TaskAnswer(f"q{i}", right) for i, right in enumerate(answers))
    return QualityScore(documents=documents, answers=found, **(words | more))  # fmt: skip


def worse(share, spread, *, num=28, seed=0, **more):
    """A pair of scores whose word perplexity differs by `share` in the mean."""
    rng = random.Random(seed)
    before = [rng.gauss(-220, 30) for _ in range(num)]
    moves = [math.log1p(share) * WORDS + rng.gauss(0, spread * WORDS) for _ in before]
    after = [value - move for value, move in zip(before, moves, strict=True)]
    return made(before), made(after, **({"key": "other"} | more))


@pytest.mark.parametrize(
    ("share", "spread", "verdict"),
    [(0.0, 0.01, "PASS"), (-0.1, 0.05, "PASS"), (0.02, 0.01, "PASS"), (0.035, 0.1, "INCONCLUSIVE"),
     (0.04, 0.02, "INCONCLUSIVE"), (0.1, 0.05, "FAIL"), (3.0, 0.5, "FAIL")],
)  # fmt: skip
def test_only_a_proven_change_within_the_budget_passes(share, spread, verdict):
    baseline, candidate = worse(share, spread)
    found = check(baseline, candidate)
    assert found.verdict == verdict
    ratio = candidate.word_perplexity / baseline.word_perplexity - 1
    assert found.change_share == pytest.approx(ratio)
    assert found.low <= found.change_share <= found.high
    assert (found.baseline, found.candidate, found.budget_share) == ("k", "other", 0.04)
    assert f"{found.change_share:+.2%}" in found.reason


def test_a_true_breach_seldom_passes():
    """At a true change of exactly the budget the upper bound errs in about 2.5 %."""
    passed = sum(check(*worse(0.04, 0.05, seed=seed)).verdict == "PASS" for seed in range(40))
    assert passed <= 4  # of 40: P(more) is 0.3 % at 2.5 %, 5 % at 5 %


def test_the_budget_is_the_callers():
    assert check(*worse(0.1, 0.02), budget_share=0.2).verdict == "PASS"
    assert check(*worse(0.02, 0.01), budget_share=0.005).verdict == "FAIL"
    with pytest.raises(AskError, match="allows no change"):
        check(*worse(0.1, 0.02), budget_share=0)


def test_few_documents_prove_no_pass_but_a_fail():
    assert check(*worse(0.0, 0.001, num=6)).verdict == "INCONCLUSIVE"
    assert check(*worse(1.0, 0.01, num=6)).verdict == "FAIL"
    with pytest.raises(AskError, match="one document"):
        check(*worse(0.0, 0.001, num=1))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [({"text": "u"}, "other texts"), ({"window_tokens": 64}, "other windows"),
     ({"method": "echo"}, "other methods"), ({"text": "u", "method": "echo"}, "texts .* methods")],
)  # fmt: skip
def test_unlike_scores_are_refused(more, sentence):
    with pytest.raises(AskError, match=sentence):
        check(*worse(0.0, 0.01, **more))


def test_another_number_of_documents_is_refused():
    with pytest.raises(AskError, match="other documents"):
        check(worse(0.0, 0.01)[0], worse(0.0, 0.01, num=12)[1])


def test_lost_answers_reject_what_perplexity_passes():
    """PolyServe's 3B FP8: +1.1 % perplexity, and answers significantly lost."""
    before, after = worse(0.011, 0.01)
    right = [True] * 90 + [False] * 10
    lost = [False] * 12 + [True] * 79 + [False] * 9
    baseline = made([d.logprob for d in before.documents], answers=right)
    candidate = made([d.logprob for d in after.documents], answers=lost)
    found = check(baseline, candidate)
    assert found.verdict == "FAIL"
    task = found.task
    assert (task.num, task.only_baseline, task.only_candidate) == (100, 12, 1)
    assert (task.baseline_right, task.candidate_right) == (90, 79)
    assert task.p_value == pytest.approx(28 / 2**13)  # 2 (1 + 13) / 2^13
    assert "12 of 100 answers were lost" in found.reason
    assert check(candidate, baseline).verdict == "PASS"  # won answers are no loss
    few = made([d.logprob for d in after.documents], answers=[False] * 4 + right[4:])
    assert check(baseline, few).verdict == "PASS"  # p = 0.125


def test_other_questions_are_refused():
    before, after = worse(0.0, 0.01)
    asked = made([d.logprob for d in before.documents], answers=[True])
    with pytest.raises(AskError, match="other questions"):
        check(asked, after)


def test_what_was_not_measured_has_not_passed():
    found = unmeasurable("no logprobs", baseline="k")
    assert found.verdict != "PASS"
    assert (found.change_share, found.low, found.high) == (None, None, None)
    assert "no logprobs" in found.reason


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(-400, -50), st.floats(-40, 40)), min_size=10, max_size=30))
def test_the_verdict_follows_from_the_interval(rows):
    found = check(made([b for b, _ in rows]), made([b + m for b, m in rows]))
    expected = "PASS" if found.high <= 0.04 else "FAIL" if found.low > 0.04 else "INCONCLUSIVE"
    assert found.verdict == expected
