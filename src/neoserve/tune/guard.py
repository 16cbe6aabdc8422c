"""Whether a configuration keeps the model's quality: a check of its score against the baseline's.

Pure. Perplexity passes when the upper bound of its change is within the budget; what could not be
measured has not passed.
"""

from __future__ import annotations

from typing import Literal

from ..errors import AskError
from ..schema.quality import Paired, QualityCheck, QualityScore
from ..stats import Change, mcnemar, paired_bootstrap

BUDGET_SHARE = 0.04
LEVEL = 0.95

_LEAST_DOCUMENTS = 10  # a bootstrap over fewer claims more than they show
_SIGNIFICANT = 0.05


def check(
    baseline: QualityScore,
    candidate: QualityScore,
    budget_share: float = BUDGET_SHARE,
    level: float = LEVEL,
) -> QualityCheck:
    """Verdict on `candidate`. Raises AskError where the two scores do not compare.

    PASS: the change of word perplexity is within the budget even at its upper bound, and no
    answers got lost. FAIL: it is beyond it even at its lower bound, or answers got lost.
    """
    if not budget_share > 0:
        raise AskError(f"a quality budget of {budget_share:g} allows no change; expected above 0")
    _refuse_unlike(baseline, candidate)
    change = _change(baseline, candidate, level)
    task = _paired(baseline, candidate)
    verdict, reason = _judged(change, budget_share, len(baseline.documents), task)
    return QualityCheck(
        baseline=baseline.key,
        candidate=candidate.key,
        change_share=change.share,
        low=change.low,
        high=change.high,
        level=level,
        budget_share=budget_share,
        task=task,
        verdict=verdict,
        reason=reason,
    )


def unmeasurable(
    reason: str,
    *,
    baseline: str = "",
    candidate: str = "",
    budget_share: float = BUDGET_SHARE,
    level: float = LEVEL,
) -> QualityCheck:
    """Of a configuration that gave no score: not passed, with why."""
    return QualityCheck(
        baseline=baseline,
        candidate=candidate,
        change_share=None,
        low=None,
        high=None,
        level=level,
        budget_share=budget_share,
        verdict="INCONCLUSIVE",
        reason=f"quality was not measured, so it has not passed: {reason}",
    )


def _refuse_unlike(baseline: QualityScore, candidate: QualityScore) -> None:
    unlike = [
        f"{what} ({_brief(a)} and {_brief(b)})"
        for what, a, b in (
            ("texts", baseline.text, candidate.text),
            ("windows", baseline.window_tokens, candidate.window_tokens),
            ("methods", baseline.method, candidate.method),
        )
        if a != b
    ]
    shapes = [[(d.name, d.num_words) for d in s.documents] for s in (baseline, candidate)]
    if not unlike and shapes[0] != shapes[1]:
        unlike = ["documents"]
    if unlike:
        raise AskError(
            f"two scores have other {' and other '.join(unlike)}: their perplexities do not "
            "compare; score both in the same way"
        )


def _change(baseline: QualityScore, candidate: QualityScore, level: float) -> Change:
    if len(baseline.documents) < 2:
        raise AskError("a score on one document has no interval; score 20 documents or more")
    return paired_bootstrap(
        [document.logprob for document in baseline.documents],
        [document.logprob for document in candidate.documents],
        [document.num_words for document in baseline.documents],
        level=level,
    )


def _paired(baseline: QualityScore, candidate: QualityScore) -> Paired | None:
    before = {answer.name: answer.is_right for answer in baseline.answers}
    after = {answer.name: answer.is_right for answer in candidate.answers}
    if before.keys() != after.keys():
        raise AskError("two scores answer other questions; give both the same task")
    if not before:
        return None
    lost = sum(before[name] and not after[name] for name in before)
    won = sum(after[name] and not before[name] for name in before)
    return Paired(
        num=len(before),
        baseline_right=sum(before.values()),
        candidate_right=sum(after.values()),
        only_baseline=lost,
        only_candidate=won,
        p_value=mcnemar(lost, won),
    )


def _judged(
    change: Change, budget_share: float, num_documents: int, task: Paired | None
) -> tuple[Literal["PASS", "FAIL", "INCONCLUSIVE"], str]:
    """Verdict and its sentence."""
    told = (
        f"word perplexity {change.share:+.2%} ({change.low:+.2%} to {change.high:+.2%}) "
        f"against a budget of {budget_share * 100:.4g} %"
    )
    is_lost = task is not None and task.only_baseline > task.only_candidate
    if task is not None and is_lost and task.p_value < _SIGNIFICANT:
        return "FAIL", (
            f"{task.only_baseline} of {task.num} answers were lost and {task.only_candidate} won "
            f"(p = {task.p_value:.2g}); {told}"
        )
    if change.low > budget_share:
        return "FAIL", f"{told}: beyond it"
    if change.high > budget_share:
        return "INCONCLUSIVE", f"{told}: not proven to be within it; more documents may"
    if num_documents < _LEAST_DOCUMENTS:
        return "INCONCLUSIVE", f"{told}, but on {num_documents} documents: expected 10 or more"
    return "PASS", f"{told}: within it"


def _brief(value: object) -> str:
    return str(value)[:12]
