"""`neoserve verify`: what it checks, what it mends."""

import pytest

from evidence.sample import HOST
from measure.judging import even_rows, planned, setting_for
from neoserve.evidence import ledger
from neoserve.evidence.run import Run
from neoserve.measure.figures import judge_rows, pack_rows
from neoserve.measure.schedule import to_jsonl
from neoserve.schema.trial import SpooledRow
from neoserve.schema.workload import Slo

SLO = Slo.parse_text("ttft:p95<2s")


@pytest.fixture
def run(tmp_path):
    """A run folder with one whole trial of 100 requests."""
    run = Run.create(tmp_path / "run", "bench", seed=0, versions={}, host=HOST, argv=())
    rows = even_rows(100)
    schedule = planned(rows)
    trial = judge_rows(setting_for(rows, slo=SLO), rows, schedule)
    run.record_trial(trial, rows=pack_rows(rows), schedule=to_jsonl(schedule))
    return run


def crash(run, num_rows, num_planned=100):
    """A load that was cut off after so many rows."""
    rows = even_rows(num_planned)
    setting = setting_for(rows, slo=SLO, stop="crashed")
    body = {"setting": setting.to_data(), "schedule": run.put_blob(to_jsonl(planned(rows)))}
    with run.start(body) as spool:
        for index, row in enumerate(rows[:num_rows]):
            spool.write(SpooledRow(index, row).to_json())


def test_a_whole_run(cli, run):
    found = cli("verify", str(run.path), "--json").document
    assert (found["num_entries"], found["num_trials"], found["num_recomputed"]) == (2, 1, 1)
    assert found["num_blobs"] == 3  # manifest, rows, schedule
    assert found["num_unfinished"] == 0
    text = cli("verify", str(run.path)).out
    assert "all figures of 1 trials follow from their rows" in text
    assert f"head {found['head']}" in text
    assert cli("verify", str(run.path), "--head", found["head"]).code == 0
    wrong = cli("verify", str(run.path), "--head", "0" * 64)
    assert wrong.code == 5


def test_crashes_are_counted_and_judged_on_what_was_kept(cli, run):
    crash(run, 95)
    assert "1 load ended in a crash" in cli("verify", str(run.path)).out
    crash(run, 0)
    before = cli("verify", str(run.path))
    assert before.code == 0
    assert "2 loads ended in a crash; `--repair` judges" in before.out
    mended = cli("verify", str(run.path), "--repair")
    assert mended.code == 0
    assert mended.err.splitlines() == [
        "a load that a crash ended was judged on 95 requests: PASS",
        "a load that a crash ended was judged on 0 requests: VOID",
    ]
    assert "ended in a crash" not in mended.out
    trials = [e.body["trial"] for e in ledger.entries(run.ledger_path) if e.kind == "trial"]
    assert [(t["num_ok"], t["stop"]) for t in trials[1:]] == [(95, "crashed"), (0, "crashed")]
    assert list((run.path / "spool").iterdir()) == []
    again = cli("verify", str(run.path), "--repair")
    assert (again.code, again.err) == (0, "")


def test_a_torn_last_line_is_mended_only_when_asked(cli, run):
    whole = run.ledger_path.read_bytes()
    run.ledger_path.write_bytes(whole + whole.splitlines()[-1][:40])
    assert cli("verify", str(run.path)).code == 5
    mended = cli("verify", str(run.path), "--repair", "--json")
    assert mended.code == 0
    assert mended.document["num_entries"] == 2
    assert mended.err != ""
    assert run.ledger_path.read_bytes() == whole


def test_a_torn_line_in_the_middle_is_not_mended_away(cli, run):
    first, second = run.ledger_path.read_bytes().splitlines()
    run.ledger_path.write_bytes(first[:-9] + b"\n" + second + b"\n")
    said = cli("verify", str(run.path), "--repair")
    assert said.code == 5
    assert "Traceback" not in said.err


def test_what_is_no_run(refused, cli, tmp_path):
    assert "is no folder" in refused("verify", str(tmp_path / "none"))
    (tmp_path / "file").touch()
    assert "is no folder" in refused("verify", str(tmp_path / "file"))
    assert "no ledger.jsonl" in refused("verify", str(tmp_path), "--repair")
    assert cli("verify", str(tmp_path)).code == 5
