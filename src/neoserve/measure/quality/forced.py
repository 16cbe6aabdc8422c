"""llama.cpp: its server tells no logprobs of a prompt, but those of what it writes.

So it is made to write the document: a grammar of token ids allows one token at each step. The
probabilities that ``/completion`` returns with ``post_sampling_probs`` off are a softmax of the
model's own logits, before any grammar or sampler. Read from llama.cpp's tools/server and verified
in docs/quality.md.
"""

from __future__ import annotations

from typing import Any, Self

from ..engine.api import Api
from .asking import Piece, QualityUnmeasurable, finite, post

_MOST_AT_ONCE = 8


class Forced:
    """Teacher forcing, one request a window."""

    name = "forced"

    def __init__(self, api: Api, props: dict[str, Any]) -> None:
        self._api = api
        slots = props.get("total_slots")
        self.num_at_once = min(slots, _MOST_AT_ONCE) if isinstance(slots, int) and slots else 1
        self._context_tokens = props["default_generation_settings"].get("n_ctx")

    @classmethod
    def found(cls, api: Api, model: str) -> Self | None:  # noqa: ARG003
        """For a server with llama.cpp's ``/props``; null for another."""
        props = api.data("/props")
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        return cls(api, props) if isinstance(settings, dict) else None

    def tokens(self, text: str) -> list[int]:
        """By ``/tokenize``."""
        answer = post(self._api, "/tokenize", {"content": text, "add_special": True})
        return [int(token) for token in answer["tokens"]]

    def logprobs(self, piece: Piece) -> list[float]:
        """Of the tokens it was made to write. Raises QualityUnmeasurable if it wrote others."""
        limit = self._context_tokens
        if isinstance(limit, int) and len(piece.tokens) >= limit:
            raise QualityUnmeasurable(
                f"a document has {len(piece.tokens)} tokens, and a slot of {self._api.url} holds "
                f"{limit}: give it a larger --ctx-size, or shorter documents"
            )
        answer = post(self._api, "/completion", _asked(piece))
        told = answer.get("completion_probabilities") or []
        if tuple(entry.get("id") for entry in told) != piece.scored:
            raise QualityUnmeasurable(
                f"{self._api.url} did not write the document's tokens: its llama.cpp may be too "
                "old for grammars of token ids (late 2025)"
            )
        return finite([entry.get("logprob") for entry in told], piece.num_scored, self._api)


def _asked(piece: Piece) -> dict[str, Any]:
    return {
        "prompt": list(piece.context),
        "n_predict": piece.num_scored,
        "grammar": "root ::= " + " ".join(f"<[{token}]>" for token in piece.scored),
        "n_probs": 1,
        "post_sampling_probs": False,
        "samplers": ["top_k"],  # only so that sampling is quick: probabilities are from before
        "top_k": 1,
        "cache_prompt": False,  # what a slot held before is not to matter
    }
