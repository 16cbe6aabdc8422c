"""The check that docs/evidence.md gives to those who have no NeoServe, run from its text."""

import shutil
import subprocess
from pathlib import Path

import pytest

from neoserve.evidence.run import Run

from .sample import ROWS, SCHEDULE, trial

DOC = Path(__file__).parent.parent.parent / "docs/evidence.md"
SCRIPT = DOC.read_text().split("```sh\n")[1].split("```")[0]


def check(path):
    return subprocess.run(["bash", "-c", SCRIPT], cwd=path, capture_output=True, text=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    run = Run.create(tmp_path_factory.mktemp("shell") / "run", "demo €", seed=7, versions={})
    for name in ("a", "b"):
        run.record_trial(trial(), rows=ROWS, schedule=SCHEDULE, config=name, log=name.encode())
    run.record("note", {"text": 'quotes " and "prev":"0","seq":1,"v":2}', "x": 1e17})
    return run


def test_it_holds_and_prints_the_head(whole):
    ended = check(whole.path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"holds; head {whole.head()}\n"


def swap(path):
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join([lines[0], lines[2], lines[1], lines[3]]))


def delete_line(path):
    lines = (path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (path / "ledger.jsonl").write_bytes(b"".join([lines[0], *lines[2:]]))


def edit_line(path):
    data = (path / "ledger.jsonl").read_bytes()
    (path / "ledger.jsonl").write_bytes(data.replace(b'"verdict":"PASS"', b'"verdict":"FAIL"', 1))


def insert_nul(path):
    data = (path / "ledger.jsonl").read_bytes()
    (path / "ledger.jsonl").write_bytes(data[:50] + b"\0" + data[50:])


def tear(path):
    data = (path / "ledger.jsonl").read_bytes()
    (path / "ledger.jsonl").write_bytes(data[:-1])


def edit_blob(path):
    blob = min((path / "blobs").iterdir())
    blob.write_bytes(blob.read_bytes() + b" ")


def delete_blob(path):
    max((path / "blobs").iterdir()).unlink()


def edit_manifest(path):
    data = (path / "manifest.json").read_bytes()
    (path / "manifest.json").write_bytes(data.replace(b'"seed":7', b'"seed":8'))


@pytest.mark.parametrize(
    "tamper",
    [swap, delete_line, edit_line, insert_nul, tear, edit_blob, delete_blob, edit_manifest],
)
def test_it_fails_on_a_tampered_copy(whole, tmp_path, tamper):
    copy = tmp_path / "copy"
    shutil.copytree(whole.path, copy)
    tamper(copy)
    ended = check(copy)
    assert ended.returncode != 0
    assert "holds" not in ended.stdout
