"""vLLM and others: ``/v1/completions`` with ``echo`` tells the logprobs of a prompt at once."""

from __future__ import annotations

from typing import Any, Self

from ..engine.api import Api
from .asking import Piece, QualityUnmeasurable, finite, post

_AT_ONCE = 4
_PROBE = "One two three four five six seven eight"


class Echo:
    """The whole window in one request; verified against vLLM 0.32 in docs/quality.md."""

    name = "echo"
    num_at_once = _AT_ONCE

    def __init__(self, api: Api, model: str) -> None:
        self._api = api
        self._model = model

    @classmethod
    def found(cls, api: Api, model: str) -> Self:
        """For a server that echoes logprobs and has ``/tokenize``. Raises QualityUnmeasurable."""
        method = cls(api, model)
        tokens = method.tokens(_PROBE)
        method.logprobs(Piece(tuple(tokens), len(tokens) - 1))
        return method

    def tokens(self, text: str) -> list[int]:
        """By ``/tokenize``."""
        answer = post(self._api, "/tokenize", {"model": self._model, "prompt": text})
        try:
            return [int(token) for token in answer["tokens"]]
        except (TypeError, KeyError, ValueError):
            raise QualityUnmeasurable(f"{self._api.url}/tokenize gave no tokens") from None

    def logprobs(self, piece: Piece) -> list[float]:
        """Raises QualityUnmeasurable where the answer has none of the prompt."""
        asked = {"model": self._model, "prompt": list(piece.tokens), "max_tokens": 1,
                 "temperature": 0, "echo": True, "logprobs": 1}  # fmt: skip
        answer = post(self._api, "/v1/completions", asked)
        values = _of_prompt(answer)
        # the prompt's, and one of the token that every server writes at least
        if values is None or len(values) < len(piece.tokens):
            raise QualityUnmeasurable(f"{self._api.url} echoes no logprobs of the prompt")
        return finite(values[: len(piece.tokens)], piece.num_scored, self._api)


def _of_prompt(answer: Any) -> list[Any] | None:
    try:
        values = answer["choices"][0]["logprobs"]["token_logprobs"]
    except (TypeError, KeyError, IndexError):
        return None
    return values if isinstance(values, list) else None
