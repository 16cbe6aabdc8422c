"""Does a run folder hold together: the chain, the manifest, every digest, every figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import AskError, EvidenceBroken
from ..schema.evidence import LedgerEntry, Verified
from ..schema.trial import Trial
from . import ledger
from .run import DIGEST_PREFIX, read_blob, read_checked, unfinished
from .spool import live_spools

# Rows and schedule as they were kept -> a sentence for each figure of the trial that they do not
# give. Evidence knows no statistics: whoever judges trials brings this.
Recompute = Callable[[Trial, bytes, bytes], Iterable[str]]

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def verify_run(
    path: Path, head: str | None = None, recompute: Recompute | None = None
) -> Verified:
    """Check the folder, against a published head if there is one. Raises EvidenceBroken.

    It names the ledger's line. Loads that a crash ended are counted; they break nothing.
    """
    ledger_path = path / "ledger.jsonl"
    live = live_spools(path / "spool")
    chain = ledger.links(ledger_path)
    ledger.check_head(ledger_path, chain, head)
    entries = [link.entry for link in chain]
    _check_manifest(path, entries[0])
    digests = {d: _where(entry) for entry in reversed(entries) for d in _mentioned(entry.body)}
    for name, where in digests.items():
        read_blob(path, name, where)
    trials = [entry for entry in entries if entry.kind == "trial"]
    if recompute is not None:
        _check_figures(path, trials, recompute)
    return Verified(
        head=chain[-1].digest,
        num_entries=len(entries),
        num_blobs=len(digests),
        num_trials=len(trials),
        num_recomputed=0 if recompute is None else len(trials),
        num_unfinished=len(unfinished(path, entries, live)),
    )


def repair(path: Path) -> str:
    """Mend a ledger's line that a crash tore, and say what was done; "" if nothing was."""
    ledger_path = path / "ledger.jsonl"
    if not ledger_path.is_file():
        raise EvidenceBroken(f"{ledger_path}: the ledger cannot be read: there is none")
    return ledger.repair(ledger_path)


def trial_of(entry: LedgerEntry) -> Trial:
    """The trial that a "trial" entry holds. Raises EvidenceBroken naming the line."""
    try:
        return Trial.parse(entry.body.get("trial"), "trial")
    except AskError as error:
        raise EvidenceBroken(f"{_where(entry)} of the ledger: {error}") from None


def _mentioned(data: Any) -> Iterator[str]:
    """Every digest anywhere in a body."""
    if isinstance(data, str):
        if match := _DIGEST.fullmatch(data):
            yield match[1]
    elif isinstance(data, dict):
        for value in data.values():
            yield from _mentioned(value)
    elif isinstance(data, list):
        for value in data:
            yield from _mentioned(value)


def _check_manifest(path: Path, first: LedgerEntry) -> None:
    expected = first.body.get("manifest")
    if first.kind != "run" or not isinstance(expected, str):
        raise EvidenceBroken(f"{path}: line 1 of the ledger binds no manifest")
    read_checked(path / "manifest.json", expected.removeprefix(DIGEST_PREFIX), "line 1")


def _check_figures(path: Path, trials: Sequence[LedgerEntry], recompute: Recompute) -> None:
    for entry in trials:
        trial, where = trial_of(entry), _where(entry)
        rows, schedule = (
            read_blob(path, digest.removeprefix(DIGEST_PREFIX), where)
            for digest in (trial.rows, trial.schedule)
        )
        for fault in recompute(trial, rows, schedule):
            raise EvidenceBroken(f"{where} of the ledger in {path}: {fault}")


def _where(entry: LedgerEntry) -> str:
    return f"line {entry.seq + 1} ({entry.kind})"
