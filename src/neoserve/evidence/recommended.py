"""The recommendation that a run ended in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import AskError, EvidenceBroken
from ..schema.campaign import Recommendation
from . import ledger
from .run import Run


class Recommended(NamedTuple):
    """A recommendation and the ledger's head when it was made: what follows changes no recipe."""

    recommendation: Recommendation
    head: str


def recommended(path: Path) -> Recommended:
    """The last one of a run folder, whose chain is checked.

    Raises AskError where there is none, and EvidenceBroken.
    """
    chain = ledger.links(Run.open(path).ledger_path)
    link = next((x for x in reversed(chain) if x.entry.kind == "recommendation"), None)
    if link is None:
        held = ", ".join(sorted({x.entry.kind for x in chain}))
        raise AskError(
            f"{path} holds no recommendation (it has: {held}); `neoserve tune MODEL` searches "
            "one, and an interrupted search goes on with `--resume`"
        )
    try:
        found = Recommendation.parse(link.entry.body, "recommendation")
    except AskError as error:
        raise EvidenceBroken(f"{path}, line {link.entry.seq + 1} of the ledger: {error}") from None
    return Recommended(found, link.digest)
