"""A run folder: ledger.jsonl, manifest.json and blobs/, each named by its SHA-256.

Nothing in it is half-written after a crash: files appear by rename, ledger lines under a lock.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from ..errors import AskError, Error
from ..schema.evidence import LedgerEntry, Manifest
from ..schema.trial import HostPrint, Trial
from . import ledger

DIGEST_PREFIX = "sha256:"


class Run:
    """One campaign's folder. Made by `create` or `open`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @property
    def ledger_path(self) -> Path:
        """Where the entries are."""
        return self.path / "ledger.jsonl"

    @property
    def logs_path(self) -> Path:
        """Where engines write while they run; finished logs become blobs."""
        return self.path / "logs"

    @classmethod
    def create(
        cls,
        path: Path,
        campaign: str,
        *,
        seed: int,
        versions: dict[str, str],
        host: HostPrint | None = None,
        argv: tuple[str, ...] | None = None,
    ) -> Self:
        """A new run in a new or empty folder; line 0 of its ledger binds the manifest."""
        if path.exists() and any(path.iterdir()):
            raise AskError(f"run folder {path} is not empty; name another, or open it")
        manifest = Manifest(
            campaign=campaign,
            at=datetime.now(UTC).isoformat(timespec="microseconds"),
            argv=tuple(sys.argv) if argv is None else argv,
            seed=seed,
            versions=versions,
            host=host,
        )
        run = cls(path)
        run._lay_out()
        data = ledger.canonical(manifest.to_data())
        manifest_digest = run.put_blob(data)
        _write_whole(path / "manifest.json", data)
        run.record("run", {"campaign": campaign, "manifest": manifest_digest})
        return run

    @classmethod
    def open(cls, path: Path) -> Self:
        """An existing run, to add to. Raises AskError where there is none."""
        if not (path / "ledger.jsonl").is_file():
            raise AskError(f"{path} is no run folder: it has no ledger.jsonl")
        return cls(path)

    def put_blob(self, data: bytes) -> str:
        """Keep bytes; returns their digest, ``sha256:`` + hex. The same bytes are kept once."""
        name = ledger.digest(data)
        target = self.path / "blobs" / name
        if not target.exists():
            _write_whole(target, data)
        return DIGEST_PREFIX + name

    def record(self, kind: str, body: dict[str, Any]) -> LedgerEntry:
        """Add a ledger entry."""
        return ledger.append(self.ledger_path, kind, body)

    def record_trial(
        self, trial: Trial, rows: bytes, *, config: str = "", log: bytes = b""
    ) -> LedgerEntry:
        """Keep a trial, the raw rows that it was computed from, and the engine's log."""
        rows_digest = self.put_blob(rows)
        if rows_digest != trial.rows_sha256:
            raise AskError(f"the rows have digest {rows_digest}, not {trial.rows_sha256}")
        body = {"config": config, "trial": trial.to_data()}
        if log:
            body["log"] = self.put_blob(log)
        return self.record("trial", body)

    def head(self) -> str:
        """The digest to publish: with it, every entry so far is protected."""
        return ledger.verify(self.ledger_path)

    def _lay_out(self) -> None:
        try:
            for folder in (self.path / "blobs", self.logs_path):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"run folder {self.path} cannot be made: {error.strerror}") from None


def _write_whole(target: Path, data: bytes) -> None:
    """All of a file or nothing: temporary file, fsync, rename, fsync of the folder."""
    temporary = None
    try:
        fd, temporary = tempfile.mkstemp(dir=target.parent, prefix=".part-")
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise Error(
            f"{target} was not written: {error.strerror}; what the run folder "
            "already holds is kept: make room and resume"
        ) from None


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
