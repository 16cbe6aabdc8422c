"""An SQLite index of a run's ledger: for questions, never for proof.

It holds nothing that the ledger does not, is rebuilt whenever the ledger has moved on or the
file is damaged, and `verify_run` does not read it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Error
from ..schema.evidence import LedgerEntry
from . import ledger

INDEX = "index.sqlite"
_VERSION = 1  # of the tables

# column of `trials` -> where its value lies in the entry's body
_TRIALS = {
    "config": "config",
    "started": "started",
    "engine": "trial.engine.engine",
    "engine_version": "trial.engine.version",
    "arrival": "trial.workload.arrival",
    "rate_rps": "trial.workload.rate_rps",
    "concurrency": "trial.workload.concurrency",
    "prompt_tokens": "trial.workload.prompt_tokens",
    "output_tokens": "trial.workload.output_tokens",
    "verdict": "trial.verdict",
    "stop": "trial.stop",
    "num_judged": "trial.num_judged",
    "num_ok": "trial.num_ok",
    "ttft_p95_s": "trial.ttft_s.p95.value",
    "tpot_p95_s": "trial.tpot_s.p95.value",
    "itl_p95_s": "trial.itl_s.p95.value",
    "e2e_p95_s": "trial.e2e_s.p95.value",
    "output_tokens_per_s": "trial.output_tokens_per_s",
    "input_tokens_per_s": "trial.input_tokens_per_s",
    "offered_rps": "trial.offered_rps",
    "served_rps": "trial.served_rps",
    "goodput_rps": "trial.goodput_rps",
    "usd_per_mtok_output": "trial.cost.usd_per_mtok_output",
    "usd_per_mtok_total": "trial.cost.usd_per_mtok_total",
    "rows": "trial.rows",
    "schedule": "trial.schedule",
}


def open_index(path: Path) -> sqlite3.Connection:
    """The index of a run folder as its ledger is now. Raises EvidenceBroken for a broken one."""
    head = ledger.head(path / "ledger.jsonl")
    if (path / INDEX).is_file():
        connection = sqlite3.connect(path / INDEX)
        if _head(connection) == head:
            return connection
        connection.close()
    rebuild(path)
    return sqlite3.connect(path / INDEX)


def rebuild(path: Path) -> None:
    """Make the index anew from the ledger. Raises EvidenceBroken, or Error for a full disk."""
    chain = ledger.links(path / "ledger.jsonl")
    temporary = None
    try:
        fd, temporary = tempfile.mkstemp(dir=path, prefix=".index-")
        os.close(fd)
        with contextlib.closing(sqlite3.connect(temporary)) as connection, connection:
            _fill(connection, [link.entry for link in chain], chain[-1].digest)
        os.replace(temporary, path / INDEX)
    except (OSError, sqlite3.Error) as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise Error(f"{path / INDEX} was not written: {error}; the run folder needs none") from None


def _head(connection: sqlite3.Connection) -> str | None:
    """The ledger's head when this index was made; None for a damaged or foreign file."""
    try:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        [health] = connection.execute("PRAGMA quick_check(1)").fetchone()
        [head] = connection.execute("SELECT head FROM made_from").fetchone()
    except (sqlite3.Error, TypeError):
        return None
    return str(head) if (version, health) == (_VERSION, "ok") else None


def _fill(connection: sqlite3.Connection, entries: list[LedgerEntry], head: str) -> None:
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute("CREATE TABLE made_from (head TEXT)")
    connection.execute("INSERT INTO made_from VALUES (?)", (head,))
    connection.execute(
        "CREATE TABLE entries (seq INTEGER PRIMARY KEY, kind TEXT, at TEXT, body_json TEXT)"
    )
    connection.executemany(
        "INSERT INTO entries VALUES (?, ?, ?, ?)",
        ((e.seq, e.kind, e.at, ledger.canonical(e.body).decode()) for e in entries),
    )
    connection.execute(f"CREATE TABLE trials (seq INTEGER PRIMARY KEY, {', '.join(_TRIALS)})")
    marks = ", ".join("?" * (len(_TRIALS) + 1))
    connection.executemany(f"INSERT INTO trials VALUES ({marks})", _trial_rows(entries))


def _trial_rows(entries: list[LedgerEntry]) -> Iterator[tuple[Any, ...]]:
    for entry in entries:
        if entry.kind == "trial":
            yield (entry.seq, *(_at(entry.body, where) for where in _TRIALS.values()))


def _at(data: Any, where: str) -> Any:
    """The scalar at a dotted path, or None."""
    for name in where.split("."):
        data = data.get(name) if isinstance(data, Mapping) else None
    return data if isinstance(data, (str, int, float)) else None
