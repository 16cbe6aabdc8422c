"""The runs that are kept in results/canonical hold together, and serve what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from neoserve.evidence.recommended import recommended
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.measure.figures import recompute
from neoserve.tune.campaign import recorded
from neoserve.tune.conclude import conclude
from neoserve.tune.halving import next_job

CANONICAL = Path(__file__).parent.parent / "results" / "canonical"
RUNS = sorted(path.parent for path in CANONICAL.glob("*/ledger.jsonl"))


def test_there_are_some() -> None:
    assert RUNS
    size = sum(path.stat().st_size for path in CANONICAL.rglob("*") if path.is_file())
    assert size <= 5e6


@pytest.mark.parametrize("folder", RUNS, ids=lambda path: path.name)
def test_a_run_verifies_and_decides_again_as_it_did(folder: Path) -> None:
    verified = verify_run(folder, recompute=recompute)
    assert verified.num_recomputed == verified.num_trials > 0
    _, plan, told = recorded(Run.open(folder))
    for number, done in enumerate(told):
        assert next_job(plan, told[:number]) == done.job
    found, said = conclude(plan, told), recommended(folder).recommendation
    assert plan.candidates[found.pick] == said.pick.candidate
    assert found.gain == said.gain
    assert found.standings == said.standings
    for name in ("README.md", "run.sh", "cost.json"):
        assert (folder / "recipe" / name).is_file()
    profile = folder / "profile.json"  # where a load was light enough to tell
    if profile.exists():
        assert json.loads(profile.read_text())["trials"]
