"""The embedded llama.cpp under load, by whatever this host lets us count."""

import pytest

from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.measure import usage
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import attach, start
from neoserve.measure.figures import recompute
from neoserve.measure.host import host_print
from neoserve.measure.pmu.probe import core_pmus, this_host
from neoserve.measure.trial import TrialAsk
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.session import Session

pytestmark = pytest.mark.engine
WORKLOAD = Workload(arrival="poisson", rate_rps=5.0, prompt_tokens=16, output_tokens=3, seed=1)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    config = llamacpp.config(
        llamacpp.demo_model_path(), threads=1, parallel=2, context_tokens=256
    )
    with start(config, tmp_path_factory.mktemp("run") / "engine.log") as running:
        yield running


@pytest.fixture
def session(tmp_path, engine):
    run = Run.create(tmp_path / "run", "bench", seed=0, versions={}, argv=())
    return Session(run, engine, host_print(), None, lambda _: None)


def ask(**more):
    return TrialAsk(workload=WORKLOAD, slo=Slo.parse_text("ttft:p95<60s"), num_warmup=2,
                    **({"num_requests": 12} | more))  # fmt: skip


def test_a_trial_holds_what_was_counted_over_its_steady_window(session):
    trial = session.measure(ask(ends_early=False)).trial
    found = trial.pmu
    length_s = trial.steady_until_s - trial.steady_from_s
    assert abs(found.kernel.length_s - length_s) < 2.0  # looks come every half second
    assert 0 < found.kernel.cpu_s <= trial.client.engine_cpu_s
    assert str(session.engine.pid) in found.scope
    if not core_pmus():
        assert found.rung == "proc"
        assert "PMU" in found.reasons[0]
    checked = verify_run(session.run.path, recompute=recompute)
    assert checked.num_recomputed == 1  # and the ledger has it
    kept = next(e for e in session.run.entries() if e.kind == "trial").body["trial"]
    assert kept["pmu"]["rung"] == found.rung


def test_trying_counters_is_no_part_of_what_the_load_used(session, monkeypatch):
    order = []
    read, host = usage.snapshot, this_host()
    monkeypatch.setattr(usage, "snapshot", lambda *of: order.append("read") or read(*of))
    monkeypatch.setattr("neoserve.measure.pmu.steady.this_host",
                        lambda: order.append("tried") or host)  # fmt: skip
    session.measure(ask(num_requests=3))
    assert order == ["tried", "read", "read"]


def test_off_counts_nothing(session):
    assert session.measure(ask(num_requests=3, counts=False)).trial.pmu is None


def test_a_server_that_ran_already_is_found_by_its_port(engine):
    other = attach(engine.url)
    assert engine.pid in other.pids()
    assert attach(engine.url).facts() is None
