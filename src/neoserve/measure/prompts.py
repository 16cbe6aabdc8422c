"""Prompts of a known length that share nothing, unless sharing is asked for.

Each word, with a space before it, is one token in the vocabularies of today's models
(checked: SmolLM2, GPT-2 family), so words count tokens; the load client corrects for the rest.
"""

from __future__ import annotations

import random

from ..schema.workload import Workload

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


class Prompts:
    """An endless source of prompts, the same for the same workload and seed."""

    def __init__(self, workload: Workload) -> None:
        self._rng = random.Random(f"prompts {workload.seed}")  # not the schedule's numbers
        self._share = workload.prefix_hit_share
        self._prefix: list[str] = []

    def text(self, num_words: int) -> str:
        """A fresh prompt; its first `prefix_hit_share` is the same each time."""
        shared = round(self._share * num_words)
        if len(self._prefix) < shared:
            self._prefix += self._rng.choices(WORDS, k=shared - len(self._prefix))
        words = self._prefix[:shared] + self._rng.choices(WORDS, k=num_words - shared)
        return " " + " ".join(words)
