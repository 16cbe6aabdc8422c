"""The guard on real weights: the bundled model against a damaged copy of it."""

import pytest

from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start
from neoserve.measure.quality import Documents, score, shipped
from neoserve.measure.quality.variants import make_variant
from neoserve.tune.guard import check

pytestmark = pytest.mark.engine


def scored(model, folder):
    config = llamacpp.config(model, threads=1, parallel=2, context_tokens=256,
                             extra=("--poll", "0"))  # fmt: skip
    text = shipped(10)
    few = Documents(text.name, text.texts[:10])
    with start(config, folder / "engine.log") as engine:
        return score(engine, few, {})


def test_a_damaged_model_is_rejected(tmp_path):
    source = llamacpp.demo_model_path()
    damaged = make_variant(source, "damaged", tmp_path / "damaged.gguf")
    baseline, worse = scored(source, tmp_path), scored(damaged, tmp_path)
    found = check(baseline, worse)
    assert found.verdict == "FAIL"
    assert found.low > 0.5
    assert baseline.key != worse.key
