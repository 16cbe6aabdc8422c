"""llama.cpp: its server tells no logprobs of a prompt, but those of what it writes.

So it is made to write the document: a grammar of token ids allows one token at each step. The
probabilities that ``/completion`` returns with ``post_sampling_probs`` off are a softmax of the
model's own logits, before any grammar or sampler. Read from llama.cpp's tools/server and verified
in docs/quality.md.

Such a grammar refuses a token that ends within a character (xllamacpp 2026.10 then crashes), and
none is told of one. Its logprob is read from the list of the whole vocabulary at its place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Self

from ..engine.api import Api
from .asking import Piece, QualityUnmeasurable, finite, post

_MOST_AT_ONCE = 8
_ALL = 1_000_000  # tokens: more than any vocabulary has
_ASKED = {
    "n_probs": 1,
    "post_sampling_probs": False,
    "samplers": ["top_k"],  # only so that sampling is quick: probabilities are from before
    "top_k": 1,
}


class Forced:
    """Teacher forcing, one request a window."""

    name = "forced"

    def __init__(self, api: Api, props: dict[str, Any]) -> None:
        self._api = api
        slots = props.get("total_slots")
        self.num_at_once = min(slots, _MOST_AT_ONCE) if isinstance(slots, int) and slots else 1
        self._context_tokens = props["default_generation_settings"].get("n_ctx")
        self._parts: set[int] = set()  # tokens that are not whole characters
        self._whole: int | None = None  # one that is

    @classmethod
    def found(cls, api: Api) -> Self | None:
        """For a server with llama.cpp's ``/props``; null for another."""
        props = api.data("/props")
        settings = props.get("default_generation_settings") if isinstance(props, dict) else None
        return cls(api, props) if isinstance(settings, dict) else None

    def tokens(self, text: str) -> list[int]:
        """By ``/tokenize``."""
        # a text that quotes an end of text is not to end: no such token can be forced
        asked = {"content": text, "add_special": True, "parse_special": False, "with_pieces": True}
        told = post(self._api, "/tokenize", asked)["tokens"]
        # a piece that is no UTF-8 is a list of bytes
        whole = {t["id"] for t in told if isinstance(t["piece"], str) and t["piece"]}
        tokens = [int(token["id"]) for token in told]
        self._parts |= set(tokens) - whole
        self._whole = next((token for token in tokens if token in whole), self._whole)
        return tokens

    def logprobs(self, piece: Piece) -> list[float]:
        """Of the tokens it was made to write. Raises QualityUnmeasurable if it wrote others."""
        limit = self._context_tokens
        if isinstance(limit, int) and len(piece.tokens) >= limit:
            raise QualityUnmeasurable(
                f"a document has {len(piece.tokens)} tokens, and a slot of {self._api.url} holds "
                f"{limit}: give it a larger --ctx-size, or shorter documents"
            )
        found: list[float] = []
        for run in self._runs(piece):
            # what a slot held of other documents is not to matter: only the first asks anew
            asked = _ASKED | {"prompt": list(run.context), "cache_prompt": bool(found)}
            is_part = run.scored[0] in self._parts
            found += self._listed(asked, run) if is_part else self._written(asked, run)
        return found

    def _runs(self, piece: Piece) -> Iterator[Piece]:
        """Whole tokens together, each other one alone, each with all that comes before it."""
        end = len(piece.context)
        for is_part, tokens in itertools.groupby(piece.scored, self._parts.__contains__):
            num = len(list(tokens))
            for step in [1] * num if is_part else [num]:
                end += step
                yield Piece(piece.tokens[:end], step)

    def _written(self, asked: dict[str, Any], run: Piece) -> list[float]:
        told = self._told(asked, run.scored)
        return finite([entry.get("logprob") for entry in told], run.num_scored, self._api)

    def _listed(self, asked: dict[str, Any], run: Piece) -> list[float]:
        """Of one token, from the list of all at its place, beside a whole one that is written."""
        (token,) = run.scored
        if self._whole is None:
            raise QualityUnmeasurable("a document has no token that is a whole character")
        (told,) = self._told(asked | {"n_probs": _ALL}, (self._whole,))
        values = [e.get("logprob") for e in told.get("top_logprobs") or [] if e.get("id") == token]
        return finite(values, 1, self._api)

    def _told(self, asked: dict[str, Any], tokens: tuple[int, ...]) -> list[dict[str, Any]]:
        """What the server tells of these tokens, having written them."""
        grammar = "root ::= " + " ".join(f"<[{token}]>" for token in tokens)
        answer = post(
            self._api, "/completion", asked | {"grammar": grammar, "n_predict": len(tokens)}
        )
        told: list[dict[str, Any]] = answer.get("completion_probabilities") or []
        if tuple(entry.get("id") for entry in told) != tokens:
            raise QualityUnmeasurable(
                f"{self._api.url} did not write the document's tokens: its llama.cpp may be too "
                "old for grammars of token ids (late 2025)"
            )
        return told
