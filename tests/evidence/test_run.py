import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError, Error, EvidenceBroken
from neoserve.evidence import ledger
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import HostPrint, Quantile, Summary, Trial
from neoserve.schema.workload import Slo, Workload

ROWS = b'{"due_s":0.5}\n'
HOST = HostPrint(
    cpu_model="X", isa=(), physical_cores=1, logical_cpus=1, cpuset="0", quota_cores=None,
    memory_bytes=1, numa_nodes=1, kernel="", governor="", smt="", thp="", load_average_1min=0.0,
    clock_hz=0.0, versions={},
)  # fmt: skip


def trial(rows=ROWS):
    none = Quantile(value=None, low=None, high=None)
    summary = Summary(num=1, num_failed=0, mean=0.5, p50=none, p95=none, p99=none)
    return Trial(
        workload=Workload(), slo=Slo.parse_text("ttft:p95<1s"), engine=EngineConfig(engine="x"),
        facts=None, host=HOST, rows_sha256="sha256:" + ledger.digest(rows), num_rows=1, num_ok=1,
        failures={}, ttft_s=summary, tpot_s=summary, e2e_s=summary, steady_from_s=0.0,
        steady_until_s=1.0, output_tokens_per_s=1.0, offered_rps=1.0, served_rps=1.0,
        client_late_max_s=0.0, client_late_p99_s=0.0, load_limited=True, verdict="PASS",
        reasons=("ok",),
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    made = Run.create(
        tmp_path / "run", "demo", seed=7, versions={"neoserve": "0.1.0"}, host=HOST, argv=("demo",)
    )
    made.record_trial(trial(), ROWS, config="baseline", log=b"engine log")
    return made


def test_a_run_holds_together(run):
    seen = verify_run(run.path)
    assert (seen.num_entries, seen.num_blobs) == (2, 3)
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
        run.record_trial(trial(b"other"), ROWS)
    assert verify_run(run.path).num_entries == 2


def test_a_trial_without_a_log(run):
    assert "log" not in run.record_trial(trial(), ROWS).body


def test_a_run_is_opened_to_add_to(run):
    again = Run.open(run.path)
    again.record("note", {"digests": [run.put_blob(b"1"), "sha256:short"], "n": 1})
    assert verify_run(run.path).num_blobs == 4
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
    assert len(list((run.path / "blobs").iterdir())) == 3


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Error, match="cannot be made"):
        Run.create(tmp_path / "file" / "run", "c", seed=0, versions={})
    shutil.rmtree(run.path / "blobs")
    with pytest.raises(Error, match="was not written"):
        run.put_blob(b"x")


def test_a_really_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        run = Run.create(disk / "run", "c", seed=0, versions={})
        with pytest.raises(Error, match="No space left on device"):
            fill(run)
        kept = verify_run(run.path).num_entries
        with pytest.raises(Error, match="No space left on device"):
            run.put_blob(bytes(1 << 17))
        assert verify_run(run.path).num_entries == kept > 1
    finally:
        subprocess.run(["umount", str(disk)], check=True)


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


def fill(run: Run) -> None:
    for i in range(100):
        run.record("note", {"text": "x" * 5000, "i": i})


def ledger_size(tmp_path: Path) -> int:
    return (tmp_path / "run/ledger.jsonl").stat().st_size
