"""Run folders are found, and nothing outside of them is opened."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from neoserve.errors import AskError, EvidenceBroken
from neoserve.faces import results as module
from neoserve.faces.results import NoSuchRun, Results, files_of, open_file

from .serving import CANONICAL, RUN

SECRET = "not for you"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with links that lead out of it, beside a secret."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.txt").write_text(SECRET)
    folder = tmp_path / "runs" / "one"
    shutil.copytree(CANONICAL / RUN, folder)
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "recipe" / "up").symlink_to("../..")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../secret.txt", "../../secret.txt", "recipe/../../secret.txt", "/etc/passwd",
     "//etc/passwd", "link.txt", "linked/secret.txt", "recipe/up/secret.txt", "recipe", "recipe/",
     "./manifest.json", "recipe//run.sh", "none", "pipe", "a\0b", "..\\secret.txt", "x" * 5000,
     "manifest.json/x", "%2e%2e/secret.txt", "\udcff"],
)  # fmt: skip
def test_nothing_else_is_opened(run: Path, name: str) -> None:
    with pytest.raises(NoSuchRun, match="no file"), open_file(run, name):
        pass


def test_files_are_opened_and_listed(run: Path) -> None:
    with open_file(run, "recipe/run.sh") as file:
        assert file.read() == (CANONICAL / RUN / "recipe" / "run.sh").read_bytes()
    listed = files_of(run)
    assert "ledger.jsonl" in listed
    expected = {p.relative_to(CANONICAL / RUN).as_posix()
                for p in (CANONICAL / RUN).rglob("*") if p.is_file()}  # fmt: skip
    assert set(listed) == expected


def test_a_file_that_goes_while_a_live_run_is_listed_is_left_out(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "walk", lambda _: iter([(str(run), [], ["0.rows", "ledger.jsonl"])]))
    assert files_of(run) == ("ledger.jsonl",)


def test_no_descriptor_is_left_open(run: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for name in ("link.txt", "none", "recipe/none", "recipe", "pipe", "linked/secret.txt"):
        with pytest.raises(NoSuchRun), open_file(run, name):
            pass
    with open_file(run, "manifest.json"):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_that_is_too_large_is_not_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FILE_BYTES", 10)
    with pytest.raises(AskError, match="more than 0 MiB"), open_file(run, "manifest.json"):
        pass


def test_runs_are_found_below_and_as_folders_of_their_own(run: Path) -> None:
    results = Results([run.parent.parent, CANONICAL / "llamacpp-smollm2"])
    assert results.runs() == {"runs~one": run, "llamacpp-smollm2": CANONICAL / "llamacpp-smollm2"}
    assert results.find("runs~one") == run
    assert set(Results([CANONICAL]).runs()) == {"llamacpp-smollm2", RUN}


def test_equal_names_are_told_apart(run: Path, tmp_path: Path) -> None:
    shutil.copytree(CANONICAL / RUN, tmp_path / "more" / "one")
    found = Results([run.parent, tmp_path / "more", run.parent]).runs()
    assert found == {"one": run, "more~one": tmp_path / "more" / "one"}


def test_links_to_folders_and_hidden_ones_are_no_runs(run: Path) -> None:
    (run.parent / "again").symlink_to(run)
    shutil.copytree(CANONICAL / RUN, run.parent / ".hidden")
    assert set(Results([run.parent]).runs()) == {"one"}


@pytest.mark.parametrize("name", ["../one", "one/../one", "/etc", "", "..", "two", "one\0"])
def test_a_name_is_looked_up_never_joined(run: Path, name: str) -> None:
    with pytest.raises(NoSuchRun, match="known: one"):
        Results([run.parent]).find(name)


def test_no_runs_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(NoSuchRun, match="holds none yet"):
        Results([tmp_path]).find("x")
    assert Results([tmp_path / "none"]).runs() == {}
    assert Results([]).runs() == {}


def test_there_is_an_end_to_how_many_are_listed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(CANONICAL / RUN, run.parent / "two")
    monkeypatch.setattr(module, "MAX_RUNS", 1)
    assert len(Results([run.parent]).runs()) == 1
    monkeypatch.setattr(module, "_MAX_LISTED", 3)
    assert len(files_of(run)) == 3


def test_a_ledger_is_read_again_when_it_has_grown(run: Path) -> None:
    results = Results([run.parent])
    first = results.links(run)
    assert results.links(run) is first
    lines = (run / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (run / "ledger.jsonl").write_bytes(b"".join(lines[:5]))
    assert len(results.links(run)) == 5
    (run / "ledger.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(EvidenceBroken):
        results.links(run)
    (run / "ledger.jsonl").unlink()
    with pytest.raises(EvidenceBroken, match="cannot be read"):
        results.links(run)
