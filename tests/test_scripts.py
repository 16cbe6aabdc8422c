"""scripts/: thin fronts of commands. What they call, and the exit code of what they found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from evidence.sample import HOST
from neoserve.evidence.run import Run
from neoserve.faces import cli

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run_in() -> Callable[[Path], Run]:
    def make(path: Path) -> Run:
        return Run.create(path, "bench", seed=0, versions={}, host=HOST, argv=())

    return make


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands, kept instead of run; what they answer is in CODES."""
    found: list[list[str]] = []

    def main(words: list[str]) -> int:
        found.append(list(words))
        return CODES.get(words[0], 0)

    CODES.clear()
    monkeypatch.setattr(cli, "main", main)
    return found


CODES: dict[str, int] = {}  # of commands, where not 0


# verify_ledger.py


def test_every_run_under_a_path_is_verified(tmp_path, run_in, capsys):
    for name in ("a", "deep/er/b"):
        run_in(tmp_path / name)
    assert script("verify_ledger").main([str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{tmp_path}/a holds together" in out
    assert f"{tmp_path}/deep/er/b holds together" in out
    assert out.endswith("2 of 2 run folders hold together\n")


def test_the_worst_decides_and_the_others_are_verified_too(tmp_path, run_in, capsys):
    first, last = run_in(tmp_path / "a"), run_in(tmp_path / "b")
    first.ledger_path.write_bytes(first.ledger_path.read_bytes() + b"{}\n")
    assert script("verify_ledger").main([str(tmp_path)]) == 5
    said = capsys.readouterr()
    assert f"{last.path} holds together" in said.out
    assert "1 of 2 run folders hold together" in said.out
    assert said.err.startswith("neoserve: ")
    assert script("verify_ledger").main([str(last.path)]) == 0


def test_a_run_without_its_ledger_is_not_passed_over(tmp_path, run_in):
    run_in(tmp_path / "a")
    run_in(tmp_path / "b").ledger_path.unlink()
    assert script("verify_ledger").main([str(tmp_path)]) == 5


@pytest.mark.parametrize("words", [[], ["--all"], ["a", "b"]])
def test_verify_ledger_takes_one_path(words, calls):
    assert script("verify_ledger").main(words) == 2
    assert calls == []


def test_nothing_to_verify_is_no_success(tmp_path, capsys):
    assert script("verify_ledger").main([str(tmp_path)]) == 2
    assert "holds no run folder" in capsys.readouterr().err
    assert script("verify_ledger").main(["--help"]) == 0


def test_ctrl_c_ends_it(tmp_path, run_in, calls):
    run_in(tmp_path / "a")
    run_in(tmp_path / "b")
    CODES["verify"] = 130
    assert script("verify_ledger").main([str(tmp_path)]) == 130
    assert len(calls) == 1


# verify_kernel_isa.py


def test_it_is_the_command(calls):
    CODES["isa"] = 1
    words = ["lib.so", "--precision", "w4a8", "--json"]
    assert script("verify_kernel_isa").main(words) == 1
    assert calls == [["isa", *words]]


def test_it_is_asked_as_the_earlier_tool_was(calls):
    assert script("verify_kernel_isa").main(["--binary", "lib.so", "--json"]) == 0
    assert calls == [["isa", "lib.so", "--json"]]
    assert script("verify_kernel_isa").main([]) == 2


# demo.py


def test_the_demo_alone(calls):
    CODES["demo"] = 3
    assert script("demo").main(["--minutes", "1"]) == 3
    assert calls == [["demo", "--minutes", "1"]]


def test_the_whole_of_it_is_about_one_folder(tmp_path, calls):
    taken = tmp_path / "demo"
    taken.mkdir()
    (taken / "ledger.jsonl").touch()
    out = f"{taken}-2"  # a run is never overwritten
    CODES.update(plan=1, demo=3)
    assert script("demo").main(["--all", "--out", str(taken), "--minutes=1"]) == 3
    assert [words[0] for words in calls] == ["plan", "demo", "verify", "recipe"]
    assert calls[1:] == [["demo", "--minutes=1", "--out", out], ["verify", out],
                         ["recipe", out, "--out", f"{out}/recipe"]]  # fmt: skip


@pytest.mark.parametrize(("failing", "code", "num"), [("plan", 2, 1), ("demo", 4, 2),
                                                      ("verify", 5, 3)])  # fmt: skip
def test_what_cannot_be_carried_out_ends_it(failing, code, num, calls, tmp_path):
    CODES[failing] = code
    assert script("demo").main([f"--out={tmp_path}/new", "--all"]) == code
    assert len(calls) == num


def test_its_plan_is_one_that_the_command_takes():
    demo = script("demo")
    words = demo.shlex.split(demo.PLAN)
    command = next(c for c in cli.COMMANDS if c.name == words[0])
    assert cli.parser_of(command).parse_args(words[1:]).on == "L4,L40S,c8g.4xlarge"
    makefile = (SCRIPTS.parent / "Makefile").read_text()
    assert f"neoserve {demo.PLAN}\n" in makefile  # both show the same


def test_a_file_is_no_folder(tmp_path, calls, capsys):
    (tmp_path / "file").touch()
    assert script("demo").main(["--all", "--out", str(tmp_path / "file")]) == 2
    assert "is a file; expected a folder" in capsys.readouterr().err
    assert calls == []


@pytest.mark.parametrize("name", ["demo", "verify_ledger", "verify_kernel_isa"])
def test_help_from_a_shell(name):
    done = subprocess.run([sys.executable, str(SCRIPTS / f"{name}.py"), "--help"],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0
    assert "neoserve" in done.stdout
