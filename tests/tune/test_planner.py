import pytest

from neoserve.errors import AskError
from neoserve.measure.engine import llamacpp
from neoserve.schema.space import Candidate
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.planner import MODELLED, Planner
from neoserve.tune.space import space_for

from .hosts import facts, graviton, h100s

LLAMA = "meta-llama/Llama-3.1-8B"
LOAD = Workload(arrival="poisson", rate_rps=1.0, prompt_tokens=512, output_tokens=64)
SLO = Slo.parse_text("ttft:mean<10min; tpot:mean<5s")


def planner(engine, found, device="cpu", model=LLAMA, **more):
    space = space_for(engine, model, found, device=device, version="vllm 0.32.0", **more)
    return Planner(space, found, LOAD, SLO)


def rate(asked, **knobs):
    return asked.predicted_rps(Candidate({k.replace("_", "-"): v for k, v in knobs.items()}))


def test_what_the_planner_models_moves_its_answer():
    found = planner("llama.cpp", facts(cores=16, memory_gib=64))
    assert rate(found, threads="8") < rate(found, threads="15")
    assert rate(found, parallel="1") < rate(found, parallel="8")
    same = [rate(found, threads="8", **{name: value}) for name, value in
            (("poll", "0"), ("flash_attn", "off"), ("kv_unified", "on"))]  # fmt: skip
    assert set(same) == {rate(found, threads="8")}  # what it does not model
    arm = planner("vllm", graviton())
    assert rate(arm, bind="all-but-4") < rate(arm)
    assert rate(arm, max_seqs="8") != rate(arm)
    gpus = planner("vllm", h100s(), device="gpu")
    assert rate(gpus) < rate(gpus, quantization="fp8")
    assert rate(gpus) < rate(gpus, tensor_parallel="2")


def test_a_client_on_this_host_shares_a_core_and_takes_little_of_it():
    """The demo's host serves 9.5 requests/s on its 2 cores; the half of them would be 4.3."""
    found = planner("llama.cpp", facts(cores=4, memory_gib=64))
    assert rate(found, threads="3") < rate(found, threads="4") < 4 / 3 * rate(found, threads="3")
    assert found.shares_cores(Candidate({}))  # by itself llama.cpp takes all
    assert not found.shares_cores(Candidate({"threads": "3"}))
    arm = planner("vllm", graviton())
    assert arm.shares_cores(Candidate({"bind": "nobind"}))
    assert arm.shares_cores(Candidate({"bind": "all"}))
    assert not arm.shares_cores(Candidate({}))  # auto leaves a core free
    assert not planner("vllm", h100s(), device="gpu").shares_cores(Candidate({}))


def test_where_it_cannot_say_it_says_nothing():
    found = facts(cores=96, memory_gib=384, nodes=2)
    asked = planner("vllm", found, checkpoints={"w8a8": "some/where"})
    assert rate(asked, data_parallel="2") is None
    assert rate(asked, weights="w8a8") is None
    assert asked.shortage(Candidate({"weights": "w8a8"})) == ""
    with pytest.raises(AskError, match="not in the catalog"):
        planner("vllm", facts()._replace(machine=None))
    with pytest.raises(AskError, match="unknown model"):
        planner("vllm", facts(), model="nobody/nothing")


def test_a_checkpoint_is_read_for_its_own_size():
    path = str(llamacpp.demo_model_path())
    asked = planner("llama.cpp", facts(), model=LLAMA, checkpoints={"small": path})
    small, large = asked.model(Candidate({"weights": "small"})), asked.model(Candidate({}))
    assert sum(1 for _ in small.layers) == 30  # SmolLM2-135M
    assert sum(1 for _ in large.layers) == 32
    assert rate(asked, weights="small") > 10 * (rate(asked) or 0.001)


def test_modelled_knobs_are_knobs():
    spaces = [
        space_for("llama.cpp", "m", facts(), checkpoints={"a": "b"}),
        space_for("vllm", "m", graviton(), checkpoints={"a": "b"}, version="vllm 0.19.0"),
        space_for("vllm", "m", h100s(), device="gpu"),
    ]
    for engine, names in MODELLED.items():
        known = {k.name for s in spaces if s.engine == engine for k in s.knobs}
        assert set(names) <= known
