import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neoserve.errors import AskError, Error, EvidenceBroken
from neoserve.evidence import ledger
from neoserve.evidence.importing.read import read_results
from neoserve.evidence.run import Run
from neoserve.evidence.verify import repair, verify_run
from neoserve.schema.imported import Imported
from neoserve.schema.trial import Trial

from .sample import HOST, ROWS, SCHEDULE, trial


@pytest.fixture
def run(tmp_path):
    made = Run.create(
        tmp_path / "run", "demo", seed=7, versions={"neoserve": "0.1.0"}, host=HOST, argv=("demo",)
    )
    made.record_trial(
        trial(), rows=ROWS, schedule=SCHEDULE, config="baseline", log=b"engine log"
    )
    return made


def test_a_run_holds_together(run):
    seen = verify_run(run.path)
    assert (seen.num_entries, seen.num_blobs, seen.num_trials) == (2, 4, 1)
    assert seen.head == run.head()
    assert verify_run(run.path, seen.head) == seen
    assert repr(run) == f"Run({str(run.path)!r})"


def test_what_is_recorded_reads_back(run):
    first, second = ledger.entries(run.ledger_path)
    assert (first.kind, first.body["campaign"]) == ("run", "demo")
    assert Trial.parse(second.body["trial"], "trial") == trial()
    manifest = json.loads((run.path / "manifest.json").read_bytes())
    assert (manifest["seed"], manifest["argv"], manifest["campaign"]) == (7, ["demo"], "demo")
    assert manifest["host"]["cpu_model"] == "X"


def test_argv_is_this_process_unless_given(tmp_path):
    run = Run.create(tmp_path / "run", "c", seed=0, versions={})
    assert json.loads((run.path / "manifest.json").read_bytes())["argv"] == sys.argv
    assert verify_run(run.path).num_entries == 1


def test_blobs_are_kept_once_and_named_by_their_bytes(run):
    digest = run.put_blob(b"abc")
    assert run.put_blob(b"abc") == digest == "sha256:" + ledger.digest(b"abc")
    assert (run.path / "blobs" / digest[7:]).read_bytes() == b"abc"
    assert not list((run.path / "blobs").glob(".part-*"))


def test_rows_that_are_not_the_trials_are_refused(run):
    with pytest.raises(AskError, match="the rows have digest"):
        run.record_trial(trial(b"other"), rows=ROWS, schedule=SCHEDULE)
    with pytest.raises(AskError, match="the schedule has digest"):
        run.record_trial(trial(), rows=ROWS, schedule=b"other")
    assert verify_run(run.path).num_entries == 2


def test_a_trial_without_a_log(run):
    assert "log" not in run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE).body


def test_a_run_is_opened_to_add_to(run):
    again = Run.open(run.path)
    again.record("note", {"digests": [run.put_blob(b"1"), "sha256:short"], "n": 1})
    assert verify_run(run.path).num_blobs == 5
    with pytest.raises(AskError, match="no run folder"):
        Run.open(run.path / "blobs")
    with pytest.raises(AskError, match="is not empty"):
        Run.create(run.path, "again", seed=0, versions={})


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_every_blob_is_checked(run, change):
    blobs = sorted((run.path / "blobs").iterdir())
    for blob in blobs:
        kept = blob.read_bytes()
        if change == "edit":
            blob.write_bytes(kept + b" ")
        else:
            blob.unlink()
        with pytest.raises(EvidenceBroken, match=r"named by line \d"):
            verify_run(run.path)
        blob.write_bytes(kept)
    verify_run(run.path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_byte_of_any_blob_counts(run, data):
    blob = data.draw(st.sampled_from(sorted((run.path / "blobs").iterdir())))
    kept = blob.read_bytes()
    at = data.draw(st.integers(0, len(kept) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    flipped = kept[:at] + bytes([kept[at] ^ bit]) + kept[at + 1 :]
    blob.write_bytes(data.draw(st.sampled_from([flipped, kept[:at], kept + kept[:1]])))
    with pytest.raises(EvidenceBroken, match=f"{blob.name}, named by line"):
        verify_run(run.path)
    blob.write_bytes(kept)


def test_the_manifest_is_bound(run):
    manifest = run.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"seed":7', b'"seed":8'))
    with pytest.raises(EvidenceBroken, match=r"manifest\.json, named by line 1"):
        verify_run(run.path)


def test_a_ledger_without_a_manifest_is_no_run(tmp_path):
    ledger.append(tmp_path / "ledger.jsonl", "note", {})
    with pytest.raises(EvidenceBroken, match="binds no manifest"):
        verify_run(tmp_path)


def test_a_full_disk_leaves_no_half_file(run, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Error, match="No space left on device; what the run folder"):
        run.put_blob(b"does not fit")
    monkeypatch.undo()
    assert verify_run(run.path).num_entries == 2
    assert len(list((run.path / "blobs").iterdir())) == 4


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Error, match="cannot be made"):
        Run.create(tmp_path / "file" / "run", "c", seed=0, versions={})
    shutil.rmtree(run.path / "blobs")
    with pytest.raises(Error, match="was not written"):
        run.put_blob(b"x")


def test_killed_at_any_moment_it_holds_together(tmp_path):
    code = f"""
import pathlib
from neoserve.evidence.run import Run
run = Run.create(pathlib.Path({str(tmp_path / "run")!r}), "c", seed=0, versions={{}})
print("made", flush=True)
while True:
    run.record("note", {{"blob": run.put_blob(str(run.head()).encode() * 50)}})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline()
    while ledger_size(tmp_path) < 3000:
        pass
    process.kill()
    process.wait()
    process.stdout.close()
    run = Run.open(tmp_path / "run")
    run.record("note", {})
    assert verify_run(run.path).num_entries > 3


def test_a_blob_reads_back_only_whole(run):
    assert run.blob(trial().rows) == ROWS
    (run.path / "blobs" / trial().rows[7:]).write_bytes(b"{}")
    with pytest.raises(EvidenceBroken, match="its bytes have digest"):
        run.blob(trial().rows)


def test_every_figure_is_computed_again_from_the_kept_bytes(run):
    seen = []
    verified = verify_run(run.path, recompute=lambda *kept: seen.append(kept) or ())
    assert seen == [(trial(), ROWS, SCHEDULE)]
    assert (verified.num_trials, verified.num_recomputed) == (1, 1)
    assert verify_run(run.path).num_recomputed == 0
    with pytest.raises(EvidenceBroken, match=r"line 2 \(trial\) of the ledger in .*: p95 is 1"):
        verify_run(run.path, recompute=lambda *_: iter(["p95 is 1, not 2"]))


def test_another_tools_file_is_kept_with_what_was_read_from_it(run):
    path = Path(__file__).parent.parent / "data/results/vllm.json"
    loads = read_results(path)
    [entry] = run.record_import(path.name, loads, path.read_bytes())
    assert run.blob(entry.body["source"]) == path.read_bytes()
    assert entry.body["file"] == "vllm.json"
    assert Imported.parse(entry.body["load"], "load") == loads[0]
    assert loads[0].rows
    verify_run(run.path)
    with pytest.raises(AskError, match="the file has digest"):
        run.record_import(path.name, loads, b"other")


def test_a_torn_ledger_is_repaired_by_its_folder(run):
    data = run.ledger_path.read_bytes()
    run.ledger_path.write_bytes(data + b'{"at":')
    with pytest.raises(EvidenceBroken, match=r"line 3: torn.*--repair"):
        verify_run(run.path)
    assert "6 bytes of a line" in repair(run.path)
    assert verify_run(run.path).num_entries == 2
    run.ledger_path.unlink()
    with pytest.raises(EvidenceBroken, match="there is none"):
        repair(run.path)
    assert not run.ledger_path.exists()


def test_a_trial_entry_without_a_trial(run):
    run.record("trial", {})
    verify_run(run.path)
    with pytest.raises(EvidenceBroken, match=r"line 3 \(trial\) of the ledger: trial: Expected"):
        verify_run(run.path, recompute=lambda *_: ())


def ledger_size(tmp_path: Path) -> int:
    return (tmp_path / "run/ledger.jsonl").stat().st_size
