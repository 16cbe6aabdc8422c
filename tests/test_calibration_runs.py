"""The calibrations that are kept in results/calibration hold together, and their table adds up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from neoserve.evidence.run import Run
from neoserve.evidence.verify import trial_of, verify_run
from neoserve.measure.figures import recompute
from neoserve.schema.profile import DeviceProfile

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "results" / "calibration"
RUNS = sorted(path.parent for path in KEPT.rglob("ledger.jsonl"))


def test_there_are_some() -> None:
    assert RUNS
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) <= 2e6


@pytest.mark.parametrize("folder", RUNS, ids=lambda path: str(path.relative_to(KEPT)))
def test_a_run_verifies(folder: Path) -> None:
    verified = verify_run(folder, recompute=recompute)
    assert verified.num_recomputed == verified.num_trials > 0


@pytest.mark.parametrize("path", sorted(KEPT.rglob("profile.json")), ids=str)
def test_a_profile_is_of_the_loads_in_its_ledger(path: Path) -> None:
    profile = DeviceProfile.parse_json(path.read_bytes(), str(path))
    trials = [trial_of(e) for e in Run.open(path.parent).entries() if e.kind == "trial"]
    loads = {(t.workload.prompt_tokens, t.workload.output_tokens, t.workload.concurrency)
             for t in trials}  # fmt: skip
    for point in profile.points:
        assert (point.prompt_tokens, point.output_tokens, point.concurrency) in loads


@pytest.mark.parametrize("folder", [p.parent for p in sorted(KEPT.rglob("table.json"))], ids=str)
def test_the_table_is_of_its_rows(folder: Path) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import calibration

    kept = json.loads((folder / "table.json").read_text())
    rows = [calibration.Row(**{k: v for k, v in row.items() if k != "error"})
            for row in kept["rows"]]  # fmt: skip
    assert calibration.show(rows, kept["noise"]) + "\n" == (folder / "table.md").read_text()
