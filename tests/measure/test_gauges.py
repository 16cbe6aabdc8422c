"""What the embedded engine's own gauges and counters say of a load."""

import pytest

from neoserve.measure import trial
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start
from neoserve.measure.trial import TrialAsk, prepare, run_trial
from neoserve.schema.workload import Workload


def test_counters_gain_and_gauges_do_not():
    before = {"prompt_tokens": 100.0, "running": 1.0, "output_tokens": 7.0, "gone": 1.0}
    after = {"prompt_tokens": 250.0, "running": 3.0, "output_tokens": 7.0, "new": 5.0,
             "kv_usage_share": 0.4, "waiting": 2.0}  # fmt: skip
    assert trial._gained(before, after) == {"prompt_tokens": 150.0, "output_tokens": 0.0}


@pytest.mark.engine
def test_slots_of_the_engine_fill_and_the_rest_wait(tmp_path, monkeypatch):
    """Five requests are kept in flight on two slots: two run, three wait."""
    monkeypatch.setattr(trial, "_POLL_S", 0.02)
    config = llamacpp.config(
        llamacpp.demo_model_path(), threads=1, parallel=2, context_tokens=256
    )
    workload = Workload(arrival="closed", concurrency=5, prompt_tokens=16, output_tokens=12)
    with start(config, tmp_path / "engine.log") as engine:
        prepared = prepare(engine, TrialAsk(workload=workload, num_requests=6, num_warmup=5))
        found = run_trial(engine, prepared)
    counters = found.trial.counters
    assert counters["running_peak"] == 2
    assert counters["waiting_peak"] == 3
    served = [row for row in found.rows if row.status == "ok"]
    assert counters["output_tokens"] >= sum(row.output_tokens for row in served) >= 11 * 12
    assert not {"running", "waiting"} & counters.keys()
