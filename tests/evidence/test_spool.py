import json
import os
import resource
import signal
import subprocess
import sys
import textwrap

import pytest

from neoserve.errors import Error
from neoserve.evidence.run import Run
from neoserve.evidence.spool import Spool, whole_rows
from neoserve.evidence.verify import verify_run

from .sample import ROWS, SCHEDULE, trial


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", "demo", seed=7, versions={})


def python(code, *args, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kwargs,
    )  # fmt: skip


def numbers(rows):
    return [json.loads(line)["i"] for line in rows.splitlines()]


def test_a_recorded_trial_needs_no_spool_any_more(run):
    with run.start({"salt": "s"}) as spool:
        spool.write(ROWS[:-1])
        assert spool.path.read_bytes() == ROWS
        assert run.unfinished() == []  # somebody still writes it
        assert verify_run(run.path).num_unfinished == 0
        entry = run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE, started=spool.started)
    assert entry.body["started"] == spool.started == 1
    assert not spool.path.exists()
    assert run.unfinished() == []
    assert (spool.num_lost, spool.problem) == (0, "")
    assert verify_run(run.path).num_trials == 1


def test_a_kill_between_the_entry_and_the_spools_end_leaves_nothing_for_long(run):
    with run.start({}) as spool, run.start({}) as other:
        spool.write(ROWS[:-1])
        other.write(ROWS[:-1])
        run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE, started=spool.started)
        spool.path.write_bytes(ROWS)  # as if its removal had never come
    run.sweep()
    assert not spool.path.exists()
    assert other.path.exists()  # nothing is said of it in the ledger yet
    assert [left.started.seq for left in run.unfinished()] == [other.started]


def test_what_kill_9_leaves_is_found_with_what_it_means(run):
    code = """
        import pathlib, sys, time
        from neoserve.evidence.run import Run
        spool = Run.open(pathlib.Path(sys.argv[1])).start({"salt": "abc", "num_planned": 1000})
        for i in range(1000):
            spool.write(b'{"i":%d,"text":"%s"}' % (i, b"x" * 3000))
            print(i, flush=True)
            time.sleep(0.0001)
    """
    process = python(code, run.path)
    acknowledged = [int(process.stdout.readline()) for _ in range(50)]
    assert run.unfinished() == []
    process.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in process.communicate()[0].splitlines()]
    [(started, rows)] = run.unfinished()
    assert (started.kind, started.body) == ("started", {"salt": "abc", "num_planned": 1000})
    found = numbers(rows)
    assert found == list(range(len(found)))
    assert len(found) >= len(acknowledged)
    assert verify_run(run.path).num_unfinished == 1


def test_a_crashed_load_is_adopted_or_closed_with_its_rows(run):
    for _ in range(2):
        run.start({}).close()
    first, second = run.unfinished()
    run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE, started=first.started.seq)
    assert [left.started.seq for left in run.unfinished()] == [second.started.seq]
    entry = run.close_unfinished(second.started.seq, b'{"i":1}\n', "no schedule")
    assert entry.body["reason"] == "no schedule"
    assert run.blob(entry.body["rows"]) == b'{"i":1}\n'
    assert run.unfinished() == []
    assert list((run.path / "spool").iterdir()) == []
    assert verify_run(run.path).num_unfinished == 0


def test_a_load_whose_spool_was_deleted_still_counts(run):
    spool = run.start({})
    spool.close()
    spool.path.unlink()
    assert [left.rows for left in run.unfinished()] == [b""]
    assert verify_run(run.path).num_unfinished == 1


def test_a_power_cut_between_entry_and_removal_leaves_a_finished_trial(run):
    with run.start({}) as spool:
        spool.write(ROWS[:-1])
    run.record("trial", {"trial": trial().to_data(), "started": spool.started})
    run.put_blob(ROWS)
    run.put_blob(SCHEDULE)
    assert run.unfinished() == []


def test_torn_and_foreign_lines_are_left_out(tmp_path):
    path = tmp_path / "1.jsonl"
    path.write_bytes(b'{"i":1}\n{"i":2,"x\n[1]\n\xff\n{"i":3}\n{"i":4}')
    assert numbers(whole_rows(path)) == [1, 3]
    assert whole_rows(tmp_path / "none") == b""


def test_several_processes_write_one_spool(tmp_path):
    code = """
        import pathlib, sys
        from neoserve.evidence.spool import Spool
        with Spool(pathlib.Path(sys.argv[1]), 1) as spool:
            for i in range(200):
                spool.write(b'{"i":%d,"worker":%s,"x":"%s"}' % (i, sys.argv[2].encode(), b"y" * i))
    """
    path = tmp_path / "spool/1.jsonl"
    workers = [python(code, path, worker) for worker in range(3)]
    assert [worker.communicate() for worker in workers] == [(b"", b"")] * 3
    rows = [json.loads(line) for line in whole_rows(path).splitlines()]
    for worker in range(3):
        assert [row["i"] for row in rows if row["worker"] == worker] == list(range(200))


def test_rows_beyond_a_limit_are_counted_and_those_before_kept(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Spool(tmp_path / "1.jsonl", 1) as spool:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
            for i in range(100):
                spool.write(b'{"i":%d,"x":"%s"}' % (i, b"y" * 30))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        num_lost = spool.num_lost
        spool.write(b'{"i":100}')
    assert 50 < num_lost == spool.num_lost < 100
    kept = numbers(whole_rows(spool.path))
    assert kept == [*range(100 - num_lost), 100]  # with room again it goes on
    assert spool.problem == f"{spool.path}: a row was not written: no room for a whole row"


def test_a_disk_that_does_not_sync_is_a_problem_not_an_error(tmp_path, monkeypatch):
    def broken(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    spool = Spool(tmp_path / "1.jsonl", 1)
    spool.write(b"{}")
    spool.close()
    spool.close()
    spool.write(b"{}")
    assert spool.num_lost == 1
    assert spool.path.read_bytes() == b"{}\n"
    assert spool.problem == f"{spool.path}: not synced: Input/output error"


def test_a_load_does_not_start_without_its_spool(run):
    (run.path / "spool").rmdir()
    (run.path / "spool").write_bytes(b"")
    with pytest.raises(Error, match="the load was not started"):
        run.start({})


def test_a_really_full_disk_loses_nothing_written(tmp_path):
    """A tmpfs of 256 kB in a namespace of its own; the run is checked while it is full."""
    code = """
        import pathlib, sys
        from neoserve.errors import Error
        from neoserve.evidence.run import Run
        from neoserve.evidence.spool import whole_rows
        from neoserve.evidence.verify import verify_run
        run = Run.create(pathlib.Path(sys.argv[1]) / "run", "c", seed=0, versions={})
        (run.path / "ballast").write_bytes(bytes(20_000))
        spool, written = run.start({"what": "load"}), 0
        num_entries = 2
        while True:
            try:
                run.record("note", {"blob": run.put_blob(str(num_entries).encode() * 3000)})
                num_entries += 1
                spool.write(b'{"i":%d}' % written)
                written += not spool.num_lost
            except Error as error:
                assert "No space left on device" in str(error), error
                break
        while not spool.num_lost:
            spool.write(b'{"i":%d}' % written)
            written += not spool.num_lost
        spool.close()
        assert len(whole_rows(spool.path).splitlines()) == written > 20
        seen = verify_run(run.path)
        assert (seen.num_entries, seen.num_unfinished) == (num_entries, 1), seen
        (run.path / "ballast").unlink()  # room is made
        run.record("note", {"blob": run.put_blob(b"late")})
        assert verify_run(run.path, seen.head).num_entries == num_entries + 1
        print("held", spool.problem)
    """
    mount = f"mount -t tmpfs -o size=256k tmpfs {tmp_path} && exec {sys.executable} -c "
    script = mount + '"$1"' + f" {tmp_path}"
    ended = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", textwrap.dedent(code)],
        capture_output=True, text=True,
    )  # fmt: skip
    if "unshare:" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(f"no tmpfs can be mounted here: {ended.stderr.strip()}")
    assert ended.stdout.startswith("held"), ended.stderr
    assert "a row was not written" in ended.stdout
