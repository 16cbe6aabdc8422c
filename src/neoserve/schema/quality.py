"""QualityScore, QualityCheck: what a configuration does to the model's answers."""

from __future__ import annotations

from typing import Literal

from .base import Document


class DocumentScore(Document, frozen=True):
    """How likely a served model finds one text."""

    name: str
    num_words: int  # split at white space: the same for every tokenizer
    num_tokens: int  # that were scored
    logprob: float  # natural logarithm, summed over the scored tokens


class TaskAnswer(Document, frozen=True):
    """One question of a paired task."""

    name: str
    is_right: bool


# Version history: 1, first.
class QualityScore(Document, frozen=True, kw_only=True):
    """Perplexity of one served configuration on a text, document by document."""

    schema: str = "neoserve/quality-score/1"
    basis: str = "measured"
    key: str  # digest of weights, engine build and the settings that can change answers
    text: str  # digest of the documents
    text_name: str
    window_tokens: int  # longest context that a token was scored in
    method: str  # "echo", "forced" or "lm_eval": see docs/quality.md
    documents: tuple[DocumentScore, ...]
    answers: tuple[TaskAnswer, ...] = ()  # of the paired task, where there is one
    word_perplexity: float
    token_perplexity: float


class Paired(Document, frozen=True):
    """The same questions asked of two configurations: exact McNemar test."""

    num: int
    baseline_right: int
    candidate_right: int
    only_baseline: int  # right there, wrong here
    only_candidate: int
    p_value: float  # that answers got neither better nor worse, two-sided


# Version history: 1, first.
class QualityCheck(Document, frozen=True, kw_only=True):
    """One configuration against the baseline: paired bootstrap over documents."""

    schema: str = "neoserve/quality/1"
    basis: str = "measured"
    baseline: str  # key of its score
    candidate: str
    change_share: float | None  # of word perplexity: 0.04 is 4 % worse; null: not measurable
    low: float | None
    high: float | None
    level: float  # of the interval
    budget_share: float
    task: Paired | None = None
    verdict: Literal["PASS", "FAIL", "INCONCLUSIVE"]  # only PASS may be picked
    reason: str  # a sentence
