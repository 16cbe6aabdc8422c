import functools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neoserve.schema.space import Candidate
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.candidates import candidates, spread
from neoserve.tune.planner import Planner
from neoserve.tune.rules import broken_rule
from neoserve.tune.space import arguments, canonical, slots_of, space_for, variables

from .hosts import facts, graviton, h100s

LLAMA = "meta-llama/Llama-3.1-8B"
LOAD = Workload(arrival="poisson", rate_rps=1.0, prompt_tokens=512, output_tokens=64)
SLO = Slo.parse_text("ttft:mean<5s; tpot:mean<500ms")
TCMALLOC = {"tcmalloc": "/usr/lib/libtcmalloc_minimal.so.4"}

HOSTS = {
    ("llama.cpp", "cpu", "one core"): facts(cores=1),
    ("llama.cpp", "cpu", "two cores"): facts(cores=2, memory_gib=32),
    ("llama.cpp", "cpu", "64 cores"): facts(cores=64, smt=2, memory_gib=256),
    ("vllm", "cpu", "two cores"): facts(cores=2, memory_gib=32),
    ("vllm", "cpu", "graviton"): graviton(allocators=TCMALLOC),
    ("vllm", "cpu", "numa"): facts(cores=96, memory_gib=384, nodes=2),
    ("vllm", "gpu", "gpus"): h100s(4),
}


@functools.cache
def planned(key):
    found = HOSTS[key]
    space = space_for(key[0], LLAMA, found, device=key[1], version="vllm 0.32.0")
    return space, found, Planner(space, found, LOAD, SLO)


def process(space, candidate):
    """What an engine is started with."""
    return (slots_of(space, candidate) if space.engine == "llama.cpp" else 0,
            candidate.knobs.get("parallel"), candidate.knobs.get("threads"),
            candidate.knobs.get("threads-batch"), arguments(space, candidate),
            tuple(sorted(variables(space, candidate).items())))  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    key=st.sampled_from(sorted(HOSTS)), limit=st.integers(1, 40), seed=st.integers(0, 10**6),
    with_planner=st.booleans(),
)  # fmt: skip
def test_each_is_legal_and_unlike_the_others(key, limit, seed, with_planner):
    space, found, planner = planned(key)
    planner = planner if with_planner else None
    listed = candidates(space, found, limit=limit, seed=seed, planner=planner)
    again = candidates(space, found, limit=limit, seed=seed, planner=planner)
    assert listed == again
    assert listed.candidates[0].knobs == {}
    assert listed.candidates[0].origin == "default"
    assert 1 <= len(listed.candidates) <= limit
    assert len({c.id for c in listed.candidates}) == len(listed.candidates)
    assert len({process(space, c) for c in listed.candidates}) == len(listed.candidates)
    for candidate in listed.candidates[1:]:
        assert broken_rule(space, candidate, found, planner) == ""
        assert canonical(space, candidate) == candidate
        assert candidate.origin != "default"
    for rejected in listed.rejected:
        assert broken_rule(space, rejected.candidate, found, planner) == rejected.reason != ""


def test_the_order_of_origins_and_of_predictions():
    space, found, planner = planned(("vllm", "cpu", "graviton"))
    listed = candidates(space, found, limit=30, planner=planner).candidates
    origins = [c.origin for c in listed]
    assert list(dict.fromkeys(origins)) == [
        "default", "known-good", "predicted", "one-change", "space-filling"
    ]  # fmt: skip
    advised = [c.knobs for c in listed if c.origin in ("default", "known-good", "predicted")]
    for changed in (c.knobs for c in listed if c.origin == "one-change"):
        differing = [sum(changed.get(k) != other.get(k) for k in changed.keys() | other.keys())
                     for other in advised]  # fmt: skip
        assert min(differing) == 1
    predicted = [c.predicted_rps for c in listed if c.origin == "predicted"]
    assert predicted == sorted(predicted, reverse=True)
    assert listed[0].predicted_rps == planner.predicted_rps(Candidate({})) > 0
    best_known = max(c.predicted_rps for c in listed if c.origin in ("default", "known-good"))
    assert predicted[0] >= 0.99 * best_known


def test_what_is_predicted_best_is_the_best_of_the_whole_grid():
    """By asking for every point of the knobs that the planner models."""
    space, found, planner = planned(("llama.cpp", "cpu", "64 cores"))
    listed = candidates(space, found, limit=12, planner=planner).candidates
    grid = [
        Candidate({"threads": threads, "parallel": parallel, "ubatch": ubatch})
        for threads in space.knob("threads").values
        for parallel in space.knob("parallel").values
        for ubatch in space.knob("ubatch").values
    ]
    legal = [c for c in grid if not broken_rule(space, c, found, planner)]
    best = max(planner.predicted_rps(c) for c in legal)
    assert max(c.predicted_rps for c in listed) == pytest.approx(best, rel=0.01)


def test_the_users_own_come_before_the_experts():
    space, found, _ = planned(("llama.cpp", "cpu", "64 cores"))
    mine = (Candidate({"threads": "5"}, "given"), Candidate({"threads": "65"}, "given"))
    listed = candidates(space.replace(given=mine), found, limit=4)
    assert [c.origin for c in listed.candidates[:3]] == ["default", "given", "known-good"]
    assert listed.rejected[0].candidate == mine[1]
    assert "65 is more than the 64 cores" in listed.rejected[0].reason


def test_a_small_space_is_listed_whole():
    space, found, _ = planned(("llama.cpp", "cpu", "two cores"))
    small = space.replace(knobs=tuple(space.knob(name) for name in ("threads", "flash-attn")))
    listed = candidates(small, found, limit=50).candidates
    # threads 1 (2 is the default) and flash-attn off (on is the default): 2 x 2
    assert {c.show() for c in listed} == {
        "engine defaults", "threads=1", "flash-attn=off", "flash-attn=off threads=1",
    }  # fmt: skip


def test_a_latin_hypercube():
    """Each part of each coordinate once, and no large hole between two coordinates."""
    for dims in (1, 3, 13):
        points = list(spread(dims, 256, seed=3))
        for axis in range(dims):
            assert sorted(int(p[axis] * 256) for p in points) == list(range(256))
        for axis in range(1, dims):
            cells = {(int(4 * p[axis - 1]), int(4 * p[axis])) for p in points}
            assert len(cells) == 16
    assert list(spread(2, 5, seed=1)) != list(spread(2, 5, seed=2))
