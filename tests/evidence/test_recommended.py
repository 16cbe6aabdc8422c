"""The recommendation in a ledger."""

import pytest

from neoserve.errors import AskError, EvidenceBroken
from neoserve.evidence.recommended import recommended
from neoserve.evidence.run import Run
from recipe.sample import gpu, graviton, llamacpp

from .sample import HOST


@pytest.fixture
def run(tmp_path):
    return Run.create(tmp_path / "run", "tune", seed=0, versions={}, host=HOST, argv=())


def test_the_last_one_and_the_head_with_it(run):
    for r in (llamacpp(), graviton(), gpu()):
        run.record("recommendation", r.to_data())
    head = run.head()
    run.record("recipe", {})
    found = recommended(run.path)
    assert found.recommendation == gpu()
    assert found.head == head  # so that the recipe that the next entry names is made again


def test_a_run_without_one(run, tmp_path):
    with pytest.raises(AskError, match=r"no recommendation \(it has: run\); `neoserve tune MODEL`"):
        recommended(run.path)
    with pytest.raises(AskError, match="is no run folder"):
        recommended(tmp_path)


def test_broken_ones(run):
    run.record("recommendation", {"schema": "neoserve/recommendation/9"})
    with pytest.raises(EvidenceBroken, match=r"line 2 of the ledger: recommendation: "):
        recommended(run.path)
    ledger = run.ledger_path
    ledger.write_bytes(ledger.read_bytes().replace(b"/9", b"/8", 1) + b"{}\n")
    with pytest.raises(EvidenceBroken):
        recommended(run.path)
