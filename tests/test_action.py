"""action.yml, by running its own steps as a runner does: shell, environment, files."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from faces.test_gate import PREDICTED
from neoserve.evidence.run import Run

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")


class Ran(NamedTuple):
    code: int
    log: str
    outputs: dict[str, str]
    summary: str

    @property
    def commands(self) -> list[str]:
        """Workflow commands that a runner would obey."""
        token, obeyed = "", []
        for line in map(str.strip, self.log.splitlines()):
            if token:
                token = "" if line == f"::{token}::" else token
            elif line.startswith("::stop-commands::"):
                token = line.removeprefix("::stop-commands::")
            elif line.startswith("::"):
                obeyed.append(line)
        assert not token, "commands were never allowed again"
        return obeyed


Action = Callable[..., Ran]


@pytest.fixture
def action(tmp_path: Path) -> Action:
    """Runs every step in a checkout, `tmp_path/checkout`; installing is made up."""
    temp = tmp_path / "runner_temp"
    temp.mkdir()
    (tmp_path / "checkout").mkdir()
    python = fake_python(tmp_path)

    def run(**inputs: str) -> Ran:
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert given.keys() <= ACTION["inputs"].keys()
        values = {name: str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()}
        values |= {"python": str(python)} | given
        files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        log, code = "", 0
        for step in ACTION["runs"]["steps"]:
            environment = {
                "PATH": os.environ["PATH"], "HOME": str(tmp_path), "RUNNER_TEMP": str(temp),
                "PYTHONPATH": str(ROOT / "src"), **{k: str(v) for k, v in files.items()},
                **{k: resolved(v, values) for k, v in step["env"].items()},
            }  # fmt: skip
            script = tmp_path / "step.sh"
            script.write_text(step["run"])
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=tmp_path / "checkout", env=environment, capture_output=True, text=True,
                check=False,
            )  # fmt: skip
            log, code = log + done.stdout + done.stderr, done.returncode
            if code:
                break
        outputs = parse_outputs(files["GITHUB_OUTPUT"].read_text())
        return Ran(code, log, outputs, files["GITHUB_STEP_SUMMARY"].read_text())

    return run


def resolved(text: str, values: dict[str, str]) -> str:
    """The expressions that the action uses."""
    known = {"github.action_path": str(ROOT)} | {f"inputs.{k}": v for k, v in values.items()}
    return EXPRESSION.sub(lambda match: known[match[1]], text)


def fake_python(tmp_path: Path) -> Path:
    """`-m venv DIR` makes a folder whose programs are this interpreter's."""
    script = tmp_path / "python"
    script.write_text(f"""#!/bin/bash
set -e
[ "$1 $2" = "-m venv" ]
mkdir -p "$3/bin"
printf '#!/bin/bash\\n[ "${{@: -1}}" = "{ROOT}" ]\\n' > "$3/bin/pip"
printf '#!/bin/bash\\nexec {sys.executable} "$@"\\n' > "$3/bin/python"
printf '#!/bin/bash\\nexec {sys.executable} -m neoserve "$@"\\n' > "$3/bin/neoserve"
chmod +x "$3"/bin/*
""")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def parse_outputs(text: str) -> dict[str, str]:
    """As the runner reads GITHUB_OUTPUT: NAME<<DELIMITER, lines, DELIMITER."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        name, mark, delimiter = line.partition("<<")
        assert mark, line
        value = []
        for part in lines:
            if part == delimiter:
                break
            value.append(part)
        assert name not in found
        found[name] = "\n".join(value)
    return found


def config(tmp_path: Path, concurrency: int = 4, limit: str = "400ms") -> None:
    text = PREDICTED.format(concurrency=concurrency, limit=limit)
    (tmp_path / "checkout" / "serve.yaml").write_text(text)


def git(tmp_path: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=tmp_path / "checkout", check=True, capture_output=True)


def committed(tmp_path: Path, branch: str = "main") -> None:
    git(tmp_path, "init", "-b", branch)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")


# what it is


def test_no_input_is_written_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"], step["id"]
        assert step["shell"] == "bash"
        assert "uses" not in step


def test_outputs_are_those_that_the_command_writes(action: Action, tmp_path: Path) -> None:
    config(tmp_path)
    ran = action(subject="serve.yaml")
    assert ran.outputs.keys() == ACTION["outputs"].keys()
    for name, spec in ACTION["outputs"].items():
        assert spec["value"] == f"${{{{ steps.gate.outputs.{name} }}}}"


# verdicts


def test_a_prediction_that_passes(action: Action, tmp_path: Path) -> None:
    config(tmp_path)
    ran = action(subject="serve.yaml", max_usd_per_mtok="50", benchmark_json="bench.json")
    assert ran.code == 0, ran.log
    assert ran.outputs["verdict"] == "PASS"
    assert 0.1 < float(ran.outputs["usd-per-mtok"]) < 10
    assert json.loads(ran.outputs["json"])["schema"] == "neoserve/gate/1"
    assert ran.summary.startswith("### NeoServe gate: ")
    assert ran.commands == []
    [entry] = json.loads((tmp_path / "checkout" / "bench.json").read_text())
    assert entry["name"] == "usd_per_mtok_output"
    assert entry["value"] == pytest.approx(float(ran.outputs["usd-per-mtok"]), rel=1e-4)


def test_what_fails_is_annotated_three_times_at_most(action: Action, tmp_path: Path) -> None:
    config(tmp_path)
    committed(tmp_path)
    config(tmp_path, concurrency=16, limit="2ms")
    ran = action(subject="serve.yaml", max_usd_per_mtok="0.001", baseline="serve.yaml",
                 baseline_ref="main")  # fmt: skip
    assert ran.code == 1
    assert ran.outputs["verdict"] == "FAIL"
    assert int(ran.outputs["failed"]) > 3
    assert len(ran.commands) == 3
    assert all(line.startswith("::error title=NeoServe gate%3A FAIL::") for line in ran.commands)


def test_a_branch_is_fetched_from_origin(action: Action, tmp_path: Path) -> None:
    config(tmp_path)
    committed(tmp_path, "base")
    (tmp_path / "checkout").rename(tmp_path / "origin")
    subprocess.run([*GIT, "init", str(tmp_path / "checkout")], check=True, capture_output=True)
    git(tmp_path, "remote", "add", "origin", str(tmp_path / "origin"))
    config(tmp_path, concurrency=16)
    ran = action(subject="serve.yaml", baseline="serve.yaml", baseline_ref="base")
    assert (ran.code, ran.outputs["verdict"]) == (1, "FAIL"), ran.log
    assert "baseline/serve.yaml" in json.loads(ran.outputs["json"])["baseline"]["source"]


def test_a_run_folder_of_a_branch_is_a_baseline(action: Action, tmp_path: Path) -> None:
    record(tmp_path / "checkout" / "runs" / "a", "m")
    committed(tmp_path)
    ran = action(subject="runs/a", baseline="runs/a", baseline_ref="main")
    found = json.loads(ran.outputs["json"])
    assert ran.outputs["ledger-head"] == found["baseline"]["head"] != ""
    assert ran.outputs["ledger-head"] in ran.summary


def test_undecided_passes_only_where_it_may(action: Action, tmp_path: Path) -> None:
    config(tmp_path, limit="80ms")
    ran = action(subject="serve.yaml")
    assert (ran.code, ran.outputs["verdict"]) == (3, "INCONCLUSIVE")
    assert ran.commands[0].startswith("::warning ")
    ran = action(subject="serve.yaml", allow_inconclusive="true", options="--sure=90%\n\n")
    assert (ran.code, ran.outputs["verdict"]) == (0, "INCONCLUSIVE")


def test_a_missing_baseline_is_an_error_not_a_pass(action: Action, tmp_path: Path) -> None:
    config(tmp_path)
    ran = action(subject="serve.yaml", baseline="none.yaml")
    assert (ran.code, ran.outputs) == (2, {"verdict": "ERROR"})
    assert len(ran.commands) == 1
    committed(tmp_path)
    assert action(subject="serve.yaml", baseline="none.yaml", baseline_ref="main").code != 0


# hostile words

HOSTILE = [
    "$(touch pwned)", "`touch pwned`", "; touch pwned", "\" && touch pwned && \"",
    "' ; touch pwned '",
    "a\n::error::owned", "::error::owned", "##[error]owned", "]]>owned",
    "a\r::set-output name=x::y",
    "x\nverdict<<E\nPASS\nE", "--help", "--json\n--help", "$RUNNER_TEMP", "../../etc/passwd",
    "<img src=x onerror=alert(1)>", "| a | b |\n@octocat",
]  # fmt: skip
NAMES = ("subject", "slo", "max_usd_per_mtok", "price", "baseline", "tolerance", "allow",
         "benchmark_json")  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_inputs_are_words(action: Action, tmp_path: Path, text: str) -> None:
    """All at once first, as whichever is read first ends it; then each beside good ones."""
    config(tmp_path)
    harmless(action(**dict.fromkeys(NAMES, text)), tmp_path)
    name = NAMES[HOSTILE.index(text) % len(NAMES)]
    harmless(action(**({"subject": "serve.yaml"} | {name: text})), tmp_path)


@pytest.mark.parametrize("text", [*HOSTILE, "-upload-pack=touch pwned", "main:refs/heads/owned"])
def test_hostile_refs_fetch_nothing(action: Action, tmp_path: Path, text: str) -> None:
    config(tmp_path)
    committed(tmp_path)
    ran = action(subject="serve.yaml", baseline="serve.yaml", baseline_ref=text)
    assert ran.code != 0
    harmless(ran, tmp_path)
    branches = subprocess.run([*GIT, "branch"], cwd=tmp_path / "checkout", capture_output=True,
                              text=True, check=True).stdout  # fmt: skip
    assert branches.split() == ["*", "main"]


def harmless(ran: Ran, tmp_path: Path) -> None:
    assert not list(tmp_path.rglob("pwned"))
    assert all("NeoServe gate" in command.split("::")[1] for command in ran.commands), ran.commands
    assert ran.outputs.keys() <= ACTION["outputs"].keys()
    assert ran.outputs.get("verdict", "ERROR") in ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")
    assert "<img" not in ran.summary
    assert "@octocat" not in ran.summary
    assert "Traceback" not in ran.log


def record(folder: Path, model: str) -> None:
    """A run whose figures are those of one row."""
    sys.path.insert(0, str(ROOT / "tests"))
    from measure.judging import even_rows, planned, setting_for
    from neoserve.measure.figures import judge_rows, pack_rows
    from neoserve.measure.schedule import to_jsonl
    from neoserve.schema.engine import EngineConfig
    from neoserve.schema.workload import Slo

    rows = even_rows(200)
    setting = setting_for(rows, slo=Slo.parse_text("ttft:p50<1s"), notes=(f"note of {model}",),
                          engine=EngineConfig(engine="x", model=model))  # fmt: skip
    found = judge_rows(setting, rows, planned(rows))
    folder.parent.mkdir(exist_ok=True)
    Run.create(folder, "x", seed=0, versions={}).record_trial(
        found, rows=pack_rows(rows), schedule=to_jsonl(planned(rows))
    )


@pytest.mark.parametrize("text", ["\n".join(HOSTILE), "::error::owned", "<img src=x> @octocat"])
def test_hostile_evidence_is_text(action: Action, tmp_path: Path, text: str) -> None:
    """The name of a model is whatever a server says."""
    record(tmp_path / "checkout" / "run", text)
    ran = action(subject="run")
    assert ran.outputs["verdict"] == "PASS", ran.log
    harmless(ran, tmp_path)
    assert text in json.loads(ran.outputs["json"])["subject"]["what"]


def test_a_hostile_python_is_a_program_that_is_not_there(action: Action, tmp_path: Path) -> None:
    ran = action(subject="serve.yaml", python="none\n::error::owned")
    assert ran.code != 0
    harmless(ran, tmp_path)


# linters


@pytest.mark.parametrize("path", ["action.yml", ".github/workflows", "examples/gate.yml"])
def test_zizmor_finds_nothing(path: str) -> None:
    """Template injection, unpinned actions, more permissions than needed."""
    program = Path(sys.executable).with_name("zizmor")
    done = subprocess.run([program, "--offline", "--no-progress", ROOT / path],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "path"),
    [("github-actions", "action.yml"), ("github-workflows", "examples/gate.yml"),
     ("github-workflows", ".github/workflows/ci.yml")],
)  # fmt: skip
def test_the_published_schemas_hold(schema: str, path: str) -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run([program, "--builtin-schema", f"vendor.{schema}", ROOT / path],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_names_inputs_that_there_are() -> None:
    example: Any = yaml.safe_load((ROOT / "examples" / "gate.yml").read_text())
    used = [step for job in example["jobs"].values() for step in job["steps"]
            if "neoserve" in step.get("uses", "").lower()]  # fmt: skip
    assert used
    for step in used:
        assert step["with"].keys() <= ACTION["inputs"].keys()
