"""The demo: what it asks `neoserve tune` for, and the files that it makes for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.catalog.gguf import gguf_model
from neoserve.errors import AskError
from neoserve.faces import demo, tune
from neoserve.faces.bench import fresh_folder
from neoserve.faces.tune import prepare
from neoserve.tune.forecast import forecast
from tune.hosts import facts


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo"
    for name in ("demo", "demo-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
    assert fresh_folder(tmp_path / "demo") == tmp_path / "demo-3"


def test_a_file_is_no_run_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(AskError, match="is a file; expected a folder"):
        fresh_folder(file)


@pytest.mark.parametrize("minutes", [0.0, -1.0, 601.0, float("nan"), float("inf")])
def test_absurd_times_are_refused(minutes: float) -> None:
    with pytest.raises(AskError, match="expected more than 0, up to 600"):
        demo.run(minutes, "out", lambda _: None)


def test_its_list_has_both_variants_behind_the_guard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tune, "host_facts", lambda *_: facts(cores=2))
    files = {kind: tmp_path / f"{kind}.gguf" for kind in demo.VARIANTS}
    for file in files.values():
        file.touch()
    checkpoints = {kind: str(file) for kind, file in files.items()}
    space_file = Path(demo.__file__).with_name("demo_space.toml")
    ask = demo.demo_ask(210.0, str(tmp_path / "run"), checkpoints, str(space_file))
    ready = prepare(ask, lambda _: None)
    plan, campaign = ready.plan, ready.campaign
    assert plan.budget_s == 210.0
    assert 2 <= len(plan.candidates) <= demo.CANDIDATES
    assert plan.candidates[0].knobs == {}
    weights = {i: c.knobs["weights"] for i, c in enumerate(plan.candidates) if "weights" in c.knobs}
    assert weights, "a precision is tried"
    assert {0, *weights} <= set(plan.guarded)
    knob = campaign.space.knob("weights")
    assert knob is not None
    assert knob.value_of.items() >= checkpoints.items()
    assert campaign.quality_budget_share == 0.04
    assert campaign.slo.show() == "ttft:p50<700 ms"  # quality is the guard's, not a load's
    assert not {k.name for k in campaign.space.knobs} & {"poll", "batch", "flash-attn"}
    assert forecast(plan).num_jobs >= len(plan.candidates)


@pytest.mark.engine
def test_variants_are_made_once_and_are_smaller_or_larger(tmp_path: Path) -> None:
    notes: list[str] = []
    found = demo.variants(tmp_path / "models", notes.append)
    assert found.keys() == set(demo.VARIANTS)
    assert len(notes) == len(demo.VARIANTS)
    sizes = {kind: Path(path).stat().st_size for kind, path in found.items()}
    assert sizes["q8_0"] > 1.3 * sizes["q4_0"]  # 8.5 against 4.5 bits a weight, some in common
    for path in found.values():
        assert Path(path).is_absolute()
        assert len(gguf_model(path).layers) == 30  # SmolLM2-135M
    assert demo.variants(tmp_path / "models", notes.append) == found
    assert len(notes) == len(demo.VARIANTS)
