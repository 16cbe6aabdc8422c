import hashlib

import pytest
from msgspec.structs import replace

from evidence.sample import trial
from neoserve.catalog.coefficients import calibrated, coefficients_for
from neoserve.catalog.engines import find_profile
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.evidence.run import Run
from neoserve.faces.ask import answer_plan, answer_predict
from neoserve.measure.cores import host_cpus, split
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import start
from neoserve.measure.host import host_print
from neoserve.measure.trial import TrialAsk
from neoserve.predict.predictor import Ask, predict
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment, EngineConfig
from neoserve.schema.profile import DeviceProfile
from neoserve.schema.space import Candidate
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.host import host_facts
from neoserve.tune.planner import Planner
from neoserve.tune.profile import profile_from, read_profile
from neoserve.tune.session import Session
from neoserve.tune.space import engine_config, space_for

from .hosts import ARM, graviton, host

LLAMA = "meta-llama/Llama-3.1-8B"
ENGINE = EngineConfig(engine="vllm", version="vllm 0.32.0")
LOADS = [
    Workload(arrival="closed", concurrency=1, prompt_tokens=prompt, output_tokens=64)
    for prompt in (256, 512, 1024)
]

KNOWN = coefficients_for(graviton().machine.hardware, "vllm")


def asked(workload, coefficients=None):
    """Llama-3.1-8B on c8g.4xlarge."""
    machine = graviton().machine
    return Ask(
        model=find_model(LLAMA), machine=machine, workload=workload,
        deployment=Deployment(max_model_len=4096), profile=find_profile("vllm", "0.32.0", "cpu"),
        coefficients=coefficients or coefficients_for(machine.hardware, "vllm"),
    )  # fmt: skip


def measured(latency, workload, **changes):
    """A trial with these means."""
    base = trial()
    means = {
        name: replace(getattr(base, name), mean=getattr(latency, name).mean)
        for name in ("ttft_s", "tpot_s", "e2e_s")
    }
    return base.replace(
        workload=workload, engine=ENGINE, host=host(cores=16, isa=ARM), **means, **changes
    )


def slower(memory, matrix):
    """A device as it might really be, of which the catalog does not know."""
    known = KNOWN
    return known.replace(
        memory_share=known.memory_share * memory, kv_share=known.kv_share * memory,
        matrix_share=known.matrix_share * matrix, attention_share=known.attention_share * matrix,
    )  # fmt: skip


@pytest.mark.parametrize(("memory", "matrix"), [(0.5, 0.4), (0.7, 1.0), (1.2, 1.5)])
def test_what_was_measured_corrects_what_is_predicted(memory, matrix):
    """Also at a load and a length that nothing was measured at."""
    truth = slower(memory, matrix)
    before = [predict(asked(w)) for w in LOADS]
    trials = [measured(predict(asked(w, truth)).latency, w) for w in LOADS]
    profile = profile_from(trials, before, known=KNOWN)
    assert profile.decode.low <= profile.decode.value <= profile.decode.high
    assert profile.decode.num == 3
    assert profile.decode.value == pytest.approx(memory, rel=0.25)
    corrected = calibrated(coefficients_for(graviton().machine.hardware, "vllm"), profile)
    unseen = Workload(arrival="closed", concurrency=4, prompt_tokens=700, output_tokens=100)
    for metric in ("ttft_s", "tpot_s"):
        true, guess, better = (
            getattr(predict(asked(unseen, c)).latency, metric).mean
            for c in (truth, None, corrected)
        )
        assert abs(better - true) < 0.5 * abs(guess - true) + 0.05 * true
    told = [a for a in predict(asked(unseen, corrected)).assumptions if "as measured on" in a]
    assert told == [profile.show()]


def test_only_light_loads_tell():
    light = predict(asked(LOADS[0])).latency
    one = measured(light, LOADS[0])
    open_load = LOADS[0].replace(arrival="poisson", rate_rps=1.0)
    others = [
        one.replace(verdict="VOID"),
        one.replace(saturated=True),
        one.replace(num_ok=0),
        one.replace(workload=LOADS[0].replace(concurrency=8)),
        measured(light, open_load, served_rps=3 / light.e2e_s.mean),  # three in flight
        measured(light, open_load, served_rps=None),
    ]
    answer = predict(asked(LOADS[0]))
    found = profile_from([one, *others], [answer] * 7, known=KNOWN)
    assert found.trials == (hashlib.sha256(one.to_json()).hexdigest(),)
    assert found.decode.value == pytest.approx(1.0)
    assert found.prefill.value == pytest.approx(1.0)
    with pytest.raises(AskError, match="none of 6 trials"):
        profile_from(others, [answer] * 6, known=KNOWN)
    with pytest.raises(AskError, match="none of 1 trials"):
        profile_from([one], [None], known=KNOWN)
    quiet = measured(light, open_load, served_rps=1 / light.e2e_s.mean)  # one in flight
    assert profile_from([quiet], [answer], known=KNOWN).decode.num == 1
    with pytest.raises(AskError, match="different hosts or engines"):
        profile_from([one, one.replace(host=host(cores=8))], [answer] * 2, known=KNOWN)


@pytest.fixture
def profile(tmp_path):
    answer = predict(asked(LOADS[0]))
    latency = predict(asked(LOADS[0], slower(0.5, 0.5))).latency
    found = profile_from([measured(latency, LOADS[0])], [answer], known=KNOWN)
    (tmp_path / "profile.json").write_bytes(found.to_json())
    assert read_profile(tmp_path / "profile.json") == found
    return tmp_path / "profile.json"


def test_predict_and_plan_take_it(profile):
    ask = {"model": LLAMA, "online": False, "deployment": Deployment(max_model_len=4096)}
    one = PredictAsk(on="c8g.4xlarge", **ask)
    plain, better = (answer_predict(a) for a in (one, one.replace(profile=str(profile))))
    assert better.latency.tpot_s.mean == pytest.approx(2 * plain.latency.tpot_s.mean, rel=0.2)
    assert any("(1 trial)" in a for a in better.assumptions)
    many = PlanAsk(on=("c8g.4xlarge",), profile=str(profile), **ask)
    assert answer_plan(many).best.latency.tpot_s.mean > 1.5 * (
        answer_plan(many.replace(profile="")).best.latency.tpot_s.mean
    )
    with pytest.raises(AskError, match="of one device; --on names 2"):
        answer_plan(many.replace(on=("c8g.4xlarge", "c7g.4xlarge")))


def test_a_profile_of_something_else_is_refused(profile, tmp_path):
    ask = PredictAsk(model=LLAMA, on="H100-SXM", online=False, profile=str(profile))
    with pytest.raises(AskError, match=r"measured on a CPU \(arm-cpu\) with vllm; it says nothing"):
        answer_predict(ask)
    on_arm = ask.replace(on="c8g.4xlarge", deployment=Deployment(engine="llama.cpp"))
    with pytest.raises(AskError, match=r"nothing of llama\.cpp on arm-cpu"):
        answer_predict(on_arm)
    with pytest.raises(AskError, match="No such file"):
        answer_predict(ask.replace(profile=str(tmp_path / "none.json")))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(AskError, match="profile "):
        answer_predict(ask.replace(profile=str(tmp_path / "bad.json")))


@pytest.mark.engine
def test_a_profile_of_this_host(tmp_path):
    """With it the planner is nearer to what the real engine did, at another length too."""
    found = host_facts("llama.cpp")
    space = space_for("llama.cpp", str(llamacpp.demo_model_path()), found, context_tokens=512)
    candidate = Candidate({"threads": "1", "parallel": "1"} if found.num_cores > 1 else {})
    loads = [Workload(arrival="closed", prompt_tokens=p, output_tokens=8, seed=p)
             for p in (16, 64)]  # fmt: skip
    cores = split(host_cpus(), 1)
    record = Run.create(tmp_path / "run", "test", seed=0, host=host_print(), versions={})
    config = engine_config(space, candidate)
    with start(config, tmp_path / "log", cpus=cores.engine_cpus) as engine:
        session = Session(record, engine, found.host, cores, lambda _: None)
        trials = [
            session.measure(TrialAsk(workload=w, slo=Slo(), num_requests=4, num_warmup=1)).trial
            for w in loads
        ]
    if any(t.verdict == "VOID" for t in trials):  # the rest of the host had the cores
        pytest.skip("; ".join(r for t in trials for r in t.reasons))
    planner = Planner(space, found, loads[0])
    before = [planner.prediction(candidate, w) for w in loads]
    profile = profile_from(trials[:1], before[:1], known=planner.coefficients)
    assert DeviceProfile.parse_json(profile.to_json(), "profile") == profile
    after = Planner(space, found, loads[0], profile=profile).prediction(candidate, loads[1])
    seen = trials[1].ttft_s.mean + 7 * trials[1].tpot_s.mean

    def error(prediction):
        return abs(prediction.latency.e2e_s.mean - seen)

    assert error(after) < max(error(before[1]), 0.5 * seen)
