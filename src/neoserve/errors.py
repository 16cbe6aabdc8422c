"""Everything NeoServe raises on purpose, with the exit code a face returns for it.

Error                 a sentence for the user: what, got, expected, what next
├── AskError      2   the request cannot be answered as asked
│   └── CatalogMiss   a name is not in the catalog; carries the nearest ones
├── EngineFailed  4   the engine or the host failed; carries the engine's own reason
└── EvidenceBroken 5  a ledger, digest or claim does not hold
"""

from __future__ import annotations

from collections.abc import Iterable

EXIT_MET = 0
EXIT_NOT_MET = 1
EXIT_BAD_ASK = 2
EXIT_INCONCLUSIVE = 3
EXIT_ENGINE_FAILED = 4
EXIT_EVIDENCE_BROKEN = 5


class Error(Exception):
    """A failure told in one sentence that a user can act on."""

    exit_code = EXIT_BAD_ASK


class AskError(Error):
    """The request cannot be answered as asked."""


class CatalogMiss(AskError):
    """A name that the catalog does not hold."""

    def __init__(self, kind: str, name: str, nearest: Iterable[str], advice: str) -> None:
        self.kind = kind
        self.name = name
        self.nearest = tuple(nearest)
        near = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        super().__init__(f"unknown {kind} {name!r}{near}; {advice}")


class EngineFailed(Error):
    """The engine or its host failed."""

    exit_code = EXIT_ENGINE_FAILED


class EvidenceBroken(Error):
    """Recorded evidence does not hold together."""

    exit_code = EXIT_EVIDENCE_BROKEN
