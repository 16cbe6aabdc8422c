import sqlite3

import pytest

from neoserve.errors import Error, EvidenceBroken
from neoserve.evidence import index, ledger
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.schema.trial import TrialCost

from .sample import ROWS, SCHEDULE, trial

COST = TrialCost(
    usd_per_hour=1.0, price_source="x", usd_per_mtok_output=2.5, usd_per_mtok_input=0.5,
    usd_per_mtok_total=0.4,
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    made = Run.create(tmp_path / "run", "demo", seed=7, versions={})
    for config, cost in (("a", None), ("b", COST)):
        made.record_trial(trial(cost=cost), rows=ROWS, schedule=SCHEDULE, config=config)
    return made


def query(run, sql):
    connection = index.open_index(run.path)
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def test_it_answers_questions_about_trials(run):
    sql = "SELECT seq, config, engine, arrival, verdict, output_tokens_per_s, ttft_p95_s, " \
          "usd_per_mtok_output FROM trials ORDER BY seq"  # fmt: skip
    assert query(run, sql) == [
        (1, "a", "x", "closed", "PASS", 1.0, None, None),
        (2, "b", "x", "closed", "PASS", 1.0, None, 2.5),
    ]
    rows = query(run, "SELECT seq, kind, at, body_json FROM entries")
    for (seq, kind, at, body), entry in zip(rows, ledger.entries(run.ledger_path), strict=True):
        assert (seq, kind, at, body.encode()) == (
            entry.seq, entry.kind, entry.at, ledger.canonical(entry.body),
        )  # fmt: skip


def test_it_follows_the_ledger_and_is_kept_while_that_stands(run):
    assert query(run, "SELECT count(*) FROM entries") == [(3,)]
    made = (run.path / "index.sqlite").stat().st_ino
    assert query(run, "SELECT count(*) FROM entries") == [(3,)]
    assert (run.path / "index.sqlite").stat().st_ino == made
    run.record("note", {})
    assert query(run, "SELECT count(*) FROM entries") == [(4,)]


def damaged(path):
    path.write_bytes(b"SQLite format 3\0" + bytes(100))


def truncated(path):
    path.write_bytes(path.read_bytes()[:3000])


def scratched(path):
    data = bytearray(path.read_bytes())
    data[-3000:-2000] = bytes(1000)
    path.write_bytes(data)


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (x)")


def empty(path):
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM made_from")


def of_another_version(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    "harm", [damaged, truncated, scratched, foreign, empty, of_another_version]
)
def test_a_damaged_index_is_no_error_and_no_evidence(run, harm):
    query(run, "SELECT 1")
    seen = verify_run(run.path)
    harm(run.path / "index.sqlite")
    assert verify_run(run.path) == seen
    assert query(run, "SELECT count(*) FROM trials") == [(2,)]


def test_an_entry_that_is_no_trial_of_ours_has_empty_columns(run):
    run.record("trial", {"trial": "strange", "config": ["x"]})
    assert query(run, "SELECT config, engine, verdict FROM trials WHERE seq = 3") == [
        (None, None, None)
    ]


def test_a_broken_ledger_makes_no_index(run):
    data = run.ledger_path.read_bytes()
    run.ledger_path.write_bytes(data.replace(b'"config":"a"', b'"config":"c"'))
    with pytest.raises(EvidenceBroken, match="line 3: prev is"):
        index.open_index(run.path)


def test_an_index_that_cannot_be_written(run):
    (run.path / "index.sqlite").mkdir()
    with pytest.raises(Error, match=r"was not written: .*; the run folder needs none"):
        index.rebuild(run.path)
    assert not list(run.path.glob(".index-*"))


def test_no_room_for_an_index(run, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)
    with pytest.raises(Error, match="No space left on device"):
        index.rebuild(run.path)
