"""examples/graviton and the page's generated blocks: what they ask for is what NeoServe takes."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from neoserve.catalog.hardware import find_machine
from neoserve.tune.forecast import forecast
from test_scripts import script

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "graviton"
MOST_USER_DATA = 16 * 1024  # bytes that EC2 takes


@pytest.fixture(scope="module")
def graviton() -> ModuleType:
    return script("graviton")


@pytest.mark.parametrize("name", ["c8g.4xlarge", "c7g.4xlarge", "c6i.4xlarge", "g5.2xlarge"])
def test_the_campaign_can_be_planned(graviton: ModuleType, name: str) -> None:
    """What measure.sh asks of `neoserve tune`, on the instance as the catalog describes it."""
    prepared = graviton.campaign(name)
    plan, space = prepared.plan, prepared.campaign.space
    assert len(plan.candidates) == 16
    assert plan.candidates[0].knobs == {}, "vLLM's defaults are measured, too"
    assert plan.candidates[0].predicted_rps
    weights = {c.knobs["weights"] for c in plan.candidates if "weights" in c.knobs}
    assert weights == ({"w8a8", "w4a8-channel"} if name[:3] in ("c7g", "c8g") else {"w8a8"})
    assert prepared.campaign.quality_budget_share == 0.04
    assert plan.guarded[0] == 0, "quantized answers are held against the defaults'"
    assert (space.device == "gpu") == name.startswith("g5")
    assert plan.budget_s == 6 * 3600
    price = find_machine(name).price
    assert price is not None
    assert plan.usd_per_hour == price.usd_per_hour
    assert forecast(plan).num_jobs > len(plan.candidates) / 2


def test_costs_are_the_forecast_at_list_price(graviton: ModuleType) -> None:
    for row in graviton.cost_table().splitlines()[2:6]:
        name, _, _, _, usd, _, price = (cell.strip() for cell in row.strip("|").split("|"))
        hours = forecast(graviton.campaign(name).plan).spent_s / 3600
        assert float(usd[1:]) == pytest.approx(hours * float(price[1:]), rel=0.01)


def test_user_data_holds_all_files_and_fits(tmp_path: Path) -> None:
    made = subprocess.run(["bash", EXAMPLE / "user-data.sh", "s3://bucket/graviton"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert len(made.stdout) < MOST_USER_DATA
    (tmp_path / "user-data").write_text(made.stdout)
    subprocess.run(["bash", "-n", tmp_path / "user-data"], check=True)
    subprocess.run(["bash", "-n", EXAMPLE / "measure.sh"], check=True)
    packed = re.search(r"<< FILES \| tar xz\n(.*?)\nFILES\n", made.stdout, re.DOTALL)
    assert packed is not None
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(packed[1]))) as files:
        for member in files.getmembers():
            held = files.extractfile(member)
            assert held is not None
            assert held.read() == (EXAMPLE / member.name).read_bytes()
        assert len(files.getmembers()) == 5
    assert made.stdout.splitlines()[1].startswith("trap 'shutdown -h now' EXIT")
    assert 'aws s3 cp --recursive runs "s3://bucket/graviton/runs"' in made.stdout


def test_the_page_shows_the_command_that_is_run(graviton: ModuleType) -> None:
    page = (ROOT / "docs" / "graviton.md").read_text()
    shown = re.search(r"```sh\nneoserve tune (.*?)\n```", page, re.DOTALL)
    assert shown is not None
    words = shown[1].replace("\\\n", " ").replace("$PWD/", "").split()
    asked = graviton.words_of("c8g.4xlarge")
    asked[asked.index("--space") + 1] = "space.toml"
    assert " ".join(words).replace("'", "") == " ".join(asked)


def test_a_published_rate_beyond_the_prediction_is_said(graviton: ModuleType) -> None:
    """Whatever the coefficients are today, the sentence and the figures agree."""
    found = graviton.asked()
    for row, said in graviton._pairs(found):
        sentence = graviton._held((row, said))
        above = said.rate_rps is not None and row.rate_rps.value > said.rate_rps.high
        assert ("one of the two is wrong" in sentence) == above
