"""Prompts of a known length that share nothing, unless sharing is asked for.

Each word, with a space before it, is one token in the vocabularies of today's models
(checked: SmolLM2, GPT-2 family), so words count tokens. A server's tokenizer tells which words
that holds for; start tokens and chat templates are the load client's to add.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence

from ..errors import AskError
from ..schema.workload import Workload
from .traces import BLOCK_TOKENS

MIN_WORDS = 32  # fewer make prompts that share their beginnings

WORDS = tuple(
    """
    able about above across act action active after again age ago air all allow alone along also
    always among animal another answer any appear area arm art ask away baby back bad ball bank base
    beautiful because become bed before begin behind believe below best better between big bird bit
    black blood blue board boat body book born both box boy bring brother build building business
    buy call came can car card care carry case cause center century certain chance change child
    choose church city class clear close cold color come common company complete consider contain
    continue control cost could country course cover create cut dark date daughter day dead deal
    death decide deep develop difference different difficult direct do doctor dog door doubt down
    draw dream drive drop dry during each early earth east easy eat education effect eight either
    else end energy enough enter even evening ever every example experience eye face fact fall
    family far farm fast father fear feel feet few field fight figure fill film final find fine
    """.split()  # noqa: SIM905 - as a list it would fill a page
)


def fresh_salt() -> str:
    """What makes the prompts of one trial unlike those of any other."""
    return os.urandom(8).hex()


class Prompts:
    """The prompts of one trial: each is known by its index, in whatever order or process."""

    def __init__(self, workload: Workload, salt: str = "", words: Sequence[str] = WORDS) -> None:
        self._of = f"{workload.seed} {salt}"
        self._share = workload.prefix_hit_share
        self._words = words
        self._shared: list[str] = []
        self._blocks: dict[int, list[str]] = {}

    def text(self, index: int, num_words: int, prefix: Sequence[int] = ()) -> str:
        """The prompt of one request; a space precedes every word.

        `prefix` names blocks of 512 words that it starts with. Without them its first
        `prefix_hit_share` is the same for all requests of this trial.
        """
        words = self._prefix(num_words) if not prefix else self._named(num_words, prefix)
        words += self._drawn(f"prompt {index}", num_words - len(words))
        return " " + " ".join(words)

    def _prefix(self, num_words: int) -> list[str]:
        num_shared = round(self._share * num_words)
        if len(self._shared) < num_shared:  # a longer draw starts with the shorter one
            self._shared = self._drawn("prefix", num_shared)
        return self._shared[:num_shared]

    def _named(self, num_words: int, prefix: Sequence[int]) -> list[str]:
        words: list[str] = []
        for block in prefix:
            if len(words) >= num_words:
                break
            if block not in self._blocks:
                self._blocks[block] = self._drawn(f"block {block}", BLOCK_TOKENS)
            words += self._blocks[block]
        return words[:num_words]

    def _drawn(self, what: str, num_words: int) -> list[str]:
        return random.Random(f"{what} of {self._of}").choices(self._words, k=num_words)


def single_token_words(
    tokenize: Callable[[str], int], words: Sequence[str] = WORDS
) -> tuple[str, ...]:
    """The words that each make one token when a space precedes them. Raises AskError.

    `tokenize` counts the tokens of a text, with or without a start token. All words are counted
    at once and halved only where the count is off; a last count of a long mixed text shows whether
    tokens span words.
    """

    def count(some: Sequence[str]) -> int:
        return tokenize(" " + " ".join(some)) - extra

    extra, half = 0, len(words) // 2
    extra = count(words[:half]) + count(words[half:]) - count(words)
    kept = tuple(_single(count, list(words)))
    if len(kept) < MIN_WORDS:
        raise AskError(
            f"{len(kept)} of {len(words)} words are one token for this server, {MIN_WORDS} are "
            "needed to make prompts of an exact length; give prompts of your own as a dataset"
        )
    mixed = random.Random("mixed").choices(kept, k=1000)
    num_tokens = count(mixed)
    if num_tokens != len(mixed):
        raise AskError(
            f"1000 words are {num_tokens} tokens for this server, which joins words: "
            "prompts of an exact length cannot be made; give prompts of your own as a dataset"
        )
    return kept


def _single(count: Callable[[Sequence[str]], int], words: list[str]) -> list[str]:
    """Halve until the words of each part make one token each, or it is one word that does not."""
    if not words or count(words) == len(words):
        return words
    if len(words) == 1:
        return []
    half = len(words) // 2
    return _single(count, words[:half]) + _single(count, words[half:])
