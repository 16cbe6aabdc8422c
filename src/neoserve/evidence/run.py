"""A run folder: ledger.jsonl, manifest.json, blobs/, each named by its SHA-256, and spool/.

Nothing in it is half-written after a crash: files appear by rename, ledger lines under a lock.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..errors import AskError, Error, EvidenceBroken
from ..schema.evidence import LedgerEntry, Manifest
from ..schema.imported import Imported
from ..schema.trial import HostPrint, Trial
from . import ledger
from .spool import Spool, is_live, live_spools, whole_rows

DIGEST_PREFIX = "sha256:"


class Unfinished(NamedTuple):
    """What a crash left of a load."""

    started: LedgerEntry
    rows: bytes  # JSON lines, whole ones


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
        if path.exists() and not path.is_dir():
            raise AskError(f"{path} is a file; name a folder, or a new one, for the run")
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

    def blob(self, digest: str) -> bytes:
        """The bytes that `put_blob` kept. Raises EvidenceBroken unless they are all there."""
        return read_blob(self.path, digest.removeprefix(DIGEST_PREFIX), "the caller")

    def record(self, kind: str, body: dict[str, Any]) -> LedgerEntry:
        """Add a ledger entry."""
        return ledger.append(self.ledger_path, kind, body)

    def start(self, body: dict[str, Any]) -> Spool:
        """Record that a load starts, and open the file that its rows go to meanwhile.

        `body` has to say what the rows mean if a crash leaves them alone: they come back with it
        from `unfinished`. Keep the spool open (``with``) until the trial is recorded.
        """
        entry = self.record("started", body)
        try:
            return Spool(self._spool_path(entry.seq), entry.seq)
        except OSError as error:
            raise Error(
                f"{self._spool_path(entry.seq)} cannot be written: {error.strerror}; "
                "the load was not started: make room and resume"
            ) from None

    def record_trial(
        self,
        trial: Trial,
        *,
        rows: bytes,
        schedule: bytes,
        log: bytes = b"",
        config: str = "",
        started: int | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        """Keep a trial, what it was computed from, and the engine's log.

        `rows` and `schedule` are the files whose digests the trial carries; `started` is the
        number of the entry that its load began with (`Spool.started`), whose spool is then
        removed. Until then nothing of the load is lost, whatever fails. `about` is what else the
        entry says, such as what the trial was for: they are kept together or not at all.
        """
        for what, data, expected in (
            ("rows have", rows, trial.rows),
            ("schedule has", schedule, trial.schedule),
        ):
            if (found := self.put_blob(data)) != expected:
                raise AskError(f"the {what} digest {found}, not {expected} as the trial says")
        body: dict[str, Any] = {"config": config, "trial": trial.to_data(), **(about or {})}
        if log:
            body["log"] = self.put_blob(log)
        return self._finish("trial", body, started)

    def record_import(
        self, name: str, loads: Sequence[Imported], source: bytes
    ) -> list[LedgerEntry]:
        """Keep another tool's result file, and each of its loads in an entry of its own.

        The entry has the load's requests, too: some tools write them into a second file.
        """
        digest = self.put_blob(source)
        if wrong := {load.source for load in loads} - {digest}:
            raise AskError(f"the file has digest {digest}, not {', '.join(sorted(wrong))}")
        return [
            self.record("import", {"file": name, "source": digest, "load": load.to_data()})
            for load in loads
        ]

    def close_unfinished(self, started: int, rows: bytes, reason: str) -> LedgerEntry:
        """Keep the rows of a load that a crash ended and that nothing more can be said of."""
        return self._finish("closed", {"rows": self.put_blob(rows), "reason": reason}, started)

    def unfinished(self) -> list[Unfinished]:
        """Loads that started, are over and have no trial. Raises EvidenceBroken."""
        live = live_spools(self.path / "spool")
        return unfinished(self.path, ledger.entries(self.ledger_path), live)

    def sweep(self) -> None:
        """Remove spools of loads that the ledger has: a kill can come between the two."""
        for entry in self.entries():
            started = entry.body.get("started") if entry.kind in ("trial", "closed") else None
            if started is not None and not is_live(self._spool_path(started)):
                self._spool_path(started).unlink(missing_ok=True)

    def manifest(self) -> Manifest:
        """What the run was started with. Raises AskError."""
        return Manifest.parse_json((self.path / "manifest.json").read_bytes(), str(self.path))

    def entries(self) -> list[LedgerEntry]:
        """The whole ledger, each line checked against the one before. Raises EvidenceBroken."""
        return ledger.entries(self.ledger_path)

    def head(self) -> str:
        """The digest to publish: with it, every entry so far is protected.

        It checks the last line alone, as an append does; `verify_run` checks all.
        """
        return ledger.head(self.ledger_path)

    def _finish(self, kind: str, body: dict[str, Any], started: int | None) -> LedgerEntry:
        if started is None:
            return self.record(kind, body)
        entry = self.record(kind, body | {"started": started})
        self._spool_path(started).unlink(missing_ok=True)
        return entry

    def _spool_path(self, started: int) -> Path:
        return spool_path(self.path, started)

    def _lay_out(self) -> None:
        try:
            for folder in (self.path / "blobs", self.path / "spool", self.logs_path):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(f"run folder {self.path} cannot be made: {error.strerror}") from None


def spool_path(path: Path, started: int) -> Path:
    """Where the rows of a load go until its trial is recorded."""
    return path / "spool" / f"{started}.jsonl"


def unfinished(
    path: Path, entries: Sequence[LedgerEntry], live: Set[str]
) -> list[Unfinished]:
    """Loads of a run folder that started, are over, and have neither trial nor reason.

    `live` are the spools in use before the ledger was read: their loads may have ended since.
    """
    finished = {
        entry.body.get("started") for entry in entries if entry.kind in ("trial", "closed")
    }
    started = [e for e in entries if e.kind == "started" and e.seq not in finished]
    return [
        Unfinished(entry, whole_rows(spool))
        for entry in started
        if (spool := spool_path(path, entry.seq)).stem not in live and not is_live(spool)
    ]


def read_blob(path: Path, name: str, where: str) -> bytes:
    """A blob whose bytes have the digest that names it. Raises EvidenceBroken."""
    return read_checked(path / "blobs" / name, name, where)


def read_checked(path: Path, expected: str, where: str) -> bytes:
    """A file whose SHA-256 is `expected`, named by `where`. Raises EvidenceBroken."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvidenceBroken(f"{path}, named by {where}: {error.strerror}") from None
    if (actual := ledger.digest(data)) != expected:
        raise EvidenceBroken(f"{path}, named by {where}: its bytes have digest {actual}")
    return data


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
        ledger.sync_folder(target.parent)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise Error(
            f"{target} was not written: {error.strerror}; what the run folder "
            "already holds is kept: make room and resume"
        ) from None
