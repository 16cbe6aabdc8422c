"""`neoserve recipe`: from a run folder to files."""

import hashlib
import json
import os

import pytest
import yaml

from evidence.sample import HOST
from neoserve.evidence.run import Run
from neoserve.recipe.bundle import KINDS
from recipe.sample import graviton, llamacpp


def run_of(path, recommendation):
    run = Run.create(path, "tune", seed=0, versions={}, host=HOST, argv=())
    run.record("recommendation", recommendation.to_data())
    return run


@pytest.fixture
def run(tmp_path):
    return run_of(tmp_path / "run", graviton())


def test_made_again_it_is_the_one_that_the_ledger_names(cli, run):
    """As `neoserve tune` does: write, then record what was written."""
    before = cli("recipe", str(run.path), "--json").document["files"]
    run.record("recipe", {"files": before})
    assert cli("recipe", str(run.path), "--json").document["files"] == before


def test_all_files_in_a_folder(cli, run, tmp_path):
    out = tmp_path / "new" / "recipe"
    said = cli("recipe", str(run.path), "--out", str(out))
    assert said.code == 0
    assert said.out.startswith(f"{out}/\n  README.md ")
    assert f"ledger head {run.head()}" in said.out
    names = {path.name for path in out.iterdir()}
    assert {"README.md", "run.sh", "compose.yaml", "kserve.yaml", "cost.json"} < names
    assert os.access(out / "run.sh", os.X_OK)
    assert not os.access(out / "config.yml", os.X_OK)
    document = cli("recipe", str(run.path), "--out", str(out), "--json").document
    assert document["head"] == run.head()
    assert document["files"] == {
        name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names
    }
    assert document["left_out"] == {}


def test_one_file_goes_to_stdout(cli, run):
    said = cli("recipe", str(run.path), "--to", "compose")
    assert yaml.safe_load(said.out)["services"]["vllm"]["cap_add"] == ["SYS_NICE"]
    assert f"# Evidence: ledger head {run.head()}" in said.out


def test_every_kind_can_be_asked_for(cli, run, tmp_path):
    for kind in (*KINDS, "all"):
        out = tmp_path / kind
        assert cli("recipe", str(run.path), "--to", kind, "--out", str(out)).code == 0
        assert list(out.iterdir())


def test_a_volume_is_priced(cli, run, tmp_path):
    words = ("--to", "cost", "--output-tokens-per-month", "5e9", "--out", str(tmp_path / "c"))
    assert cli("recipe", str(run.path), *words).code == 0
    card = json.loads((tmp_path / "c" / "cost.json").read_text())
    assert card["month_at_volume"]["replicas"] == 4


def test_bad_asks(refused, run, tmp_path):
    bench = Run.create(tmp_path / "bench", "bench", seed=0, versions={}, host=HOST, argv=())
    assert "`neoserve tune MODEL` searches one" in refused("recipe", str(bench.path))
    assert "is no run folder" in refused("recipe", str(tmp_path / "nowhere"))
    assert "makes 2 files: name a folder with --out" in refused(
        "recipe", str(run.path), "--to", "vllm"
    )
    assert "has to be above 0" in refused(
        "recipe", str(run.path), "--to", "cost", "--output-tokens-per-month", "0"
    )
    assert "cannot be written to" in refused(
        "recipe", str(run.path), "--out", str(run.path / "ledger.jsonl")
    )
    other = run_of(tmp_path / "llama", llamacpp())
    assert "reads none" in refused("recipe", str(other.path), "--to", "vllm", "--out", "x")


def test_what_is_left_out_is_told(cli, tmp_path):
    r = graviton()
    config = r.config.replace(env={"LD_PRELOAD": "/opt/libmine.so"})
    run = run_of(tmp_path / "run", r.replace(config=config))
    said = cli("recipe", str(run.path), "--out", str(tmp_path / "out"))
    assert "not written: compose.yaml: LD_PRELOAD=/opt/libmine.so names files" in said.out
    assert not (tmp_path / "out" / "compose.yaml").exists()
