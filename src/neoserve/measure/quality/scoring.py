"""The score of a served model on documents, asked through its own endpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from ...errors import AskError, EngineFailed
from ...schema.quality import DocumentScore, QualityScore, TaskAnswer
from ..engine.api import Api
from ..engine.running import Engine
from .asking import Piece, QualityUnmeasurable
from .documents import Documents, Text
from .echo import Echo
from .forced import Forced
from .task import Question, answer_all
from .weights import score_key

WINDOW_TOKENS = 512
_TELL_EVERY = 8  # documents

Say = Callable[[str], None]

__all__ = ["WINDOW_TOKENS", "QualityUnmeasurable", "score", "summed"]


class Method(Protocol):
    """How one kind of server tells logprobs."""

    name: str
    num_at_once: int

    def tokens(self, text: str) -> list[int]:
        """As the server's own tokenizer has them, with the special ones that it adds."""

    def logprobs(self, piece: Piece) -> list[float]:
        """Natural logarithms, one for each scored token. Raises QualityUnmeasurable."""


def score(
    engine: Engine,
    documents: Documents,
    settings: Mapping[str, str],
    note: Say = lambda _: None,
    *,
    task: Sequence[Question] = (),
    window_tokens: int = WINDOW_TOKENS,
) -> QualityScore:
    """Perplexity of what `engine` serves, and its answers to a task, if any.

    `settings` are those that can change answers (precision, KV dtype …); they are in the key.
    Every document is scored whole, so that scores of one text compare. Raises QualityUnmeasurable
    where the endpoint gives no logprobs, with why, and EngineFailed where it stops answering.
    """
    if window_tokens < 2:
        raise AskError(f"a window of {window_tokens} tokens scores nothing; expected 2 or more")
    api = Api(engine.url, engine.api_key)
    method = method_of(api, engine.model)
    note(f"scoring {len(documents.texts)} documents of {documents.name} ({method.name})")
    try:
        scored = _score_all(method, documents.texts, window_tokens, note)
        answers = answer_all(api, engine.model, task, method.num_at_once)
    except EngineFailed:
        if engine.has_ended():
            reason = engine.end_reason()
            raise EngineFailed(f"the engine ended while it was scored: {reason}") from None
        raise
    return summed(scored, answers, key=score_key(engine.config, settings), method=method.name,
                  documents=documents, window_tokens=window_tokens)  # fmt: skip


def summed(
    scored: Sequence[DocumentScore],
    answers: Sequence[TaskAnswer],
    *,
    key: str,
    method: str,
    documents: Documents,
    window_tokens: int,
) -> QualityScore:
    """Perplexities from the sums of all documents. Raises QualityUnmeasurable for no tokens."""
    lost = -math.fsum(document.logprob for document in scored)
    words = sum(document.num_words for document in scored)
    tokens = sum(document.num_tokens for document in scored)
    if not words or not tokens or not math.isfinite(lost):
        raise QualityUnmeasurable("the documents hold no token with a finite logprob")
    return QualityScore(
        key=key,
        text=documents.digest,
        text_name=documents.name,
        window_tokens=window_tokens,
        method=method,
        documents=tuple(scored),
        answers=tuple(answers),
        word_perplexity=_exp(lost / words),
        token_perplexity=_exp(lost / tokens),
    )


def method_of(api: Api, model: str) -> Method:
    """By what the server answers. Raises QualityUnmeasurable where it tells no logprobs."""
    forced = Forced.found(api)
    if forced is not None:
        return forced
    try:
        return Echo.found(api, model)
    except QualityUnmeasurable as error:
        raise QualityUnmeasurable(
            f"{api.url} is no llama.cpp, and tells no logprobs of a prompt as vLLM does: {error}"
        ) from None


def pieces(tokens: Sequence[int], window_tokens: int) -> list[Piece]:
    """Windows that each token is scored in once, the last one filled up with context.

    As lm_eval's rolling windows, but the first token is context only: what would come before it
    depends on the tokenizer.
    """
    found = []
    for start in range(1, len(tokens), window_tokens):
        end = min(start + window_tokens, len(tokens))
        found.append(Piece(tuple(tokens[max(0, end - window_tokens - 1) : end]), end - start))
    return found


def _score_all(
    method: Method, texts: Sequence[Text], window_tokens: int, note: Say
) -> list[DocumentScore]:
    def one(text: Text) -> DocumentScore:
        cut = pieces(method.tokens(text.text), window_tokens)
        logprobs = [value for piece in cut for value in method.logprobs(piece)]
        return DocumentScore(text.name, text.num_words, len(logprobs), math.fsum(logprobs))

    scored = []
    with ThreadPoolExecutor(method.num_at_once) as pool:
        try:
            for document in pool.map(one, texts):
                scored.append(document)
                if len(scored) % _TELL_EVERY == 0:
                    note(f"{len(scored)} of {len(texts)} documents scored")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return scored


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        raise QualityUnmeasurable("its perplexity is beyond what a number holds") from None
