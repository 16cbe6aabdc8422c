"""Does a run folder hold together: the chain, the manifest, every digest that is mentioned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import EvidenceBroken
from ..schema.evidence import LedgerEntry, Verified
from . import ledger

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


def verify_run(path: Path, head: str | None = None) -> Verified:
    """Check the folder, against a published head if there is one. Raises EvidenceBroken."""
    ledger_path = path / "ledger.jsonl"
    current = ledger.verify(ledger_path, head)
    entries = ledger.entries(ledger_path)
    _check_manifest(path, entries[0])
    digests = {d: entry for entry in reversed(entries) for d in _mentioned(entry.body)}
    for name, entry in digests.items():
        _check_blob(path / "blobs" / name, name, entry)
    return Verified(head=current, num_entries=len(entries), num_blobs=len(digests))


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
    _check_bytes(path / "manifest.json", expected.removeprefix("sha256:"), "line 1")


def _check_blob(path: Path, name: str, entry: LedgerEntry) -> None:
    _check_bytes(path, name, f"line {entry.seq + 1} ({entry.kind})")


def _check_bytes(path: Path, expected: str, where: str) -> None:
    try:
        actual = ledger.digest(path.read_bytes())
    except OSError as error:
        raise EvidenceBroken(f"{path}, named by {where}: {error.strerror}") from None
    if actual != expected:
        raise EvidenceBroken(f"{path}, named by {where}: its bytes have digest {actual}")
