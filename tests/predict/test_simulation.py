"""The simulation against its iteration-by-iteration reference, and against what must hold."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulating import MAKERS, Linear, burst, equal_to_reference, run, scenarios
from test_serve import H100, MODEL, REAL, server

from neoserve.predict.simulation.policy import llama_cpp, policy_of, vllm_v1
from neoserve.predict.simulation.requests import Drawn, Requests, requests_of, under_way
from neoserve.predict.step import StepModel
from neoserve.schema.coefficients import Coefficients
from neoserve.schema.engine import Deployment
from neoserve.schema.model import Layer, Mixer

LINEAR = Linear(0.0043721, 0.00001937, 1.713e-8, 2.3719e-6)
STEP = server().step


def windowed() -> StepModel:
    """Half of the layers see 100 tokens only: a bend in the step time, and none affine behind."""
    (layer,) = set(MODEL.layers)
    near = Mixer(kind="sliding", num_heads=32, num_kv_heads=8, head_dim=128, v_head_dim=128,
                 window_tokens=100, params=layer.mixers[0].params)  # fmt: skip
    model = MODEL.replace(layers=(layer, Layer((near,), layer.ffn, layer.norm_params)) * 16)
    return StepModel(model, H100, Deployment(), Coefficients(**REAL))


@settings(max_examples=150, deadline=None)
@given(scenarios())
def test_equals_the_reference_to_rounding_where_a_step_is_affine(scenario: dict[str, Any]) -> None:
    equal_to_reference(LINEAR, scenario, 1e-9)


def test_a_cache_that_first_suffices_and_then_runs_full() -> None:
    """Blocks are counted from some admission on; who decodes then, or has just been admitted,
    holds what it took before."""
    requests = Requests([0.0, 0.0, 0.05, 0.1, 0.1, 0.1], [90, 40, 300, 31, 120, 200],
                        [60, 200, 150, 90, 80, 70], [0] * 6)  # fmt: skip
    for name in sorted(set(MAKERS) - {"llama.cpp"}):
        for kv_tokens in (450, 640, 800, 1000):
            scenario = {"policy": MAKERS[name](256, 8), "requests": requests,
                        "kv_tokens": kv_tokens, "block_tokens": 16}  # fmt: skip
            equal_to_reference(LINEAR, scenario, 1e-9)
            begun = under_way(requests, 3)
            equal_to_reference(LINEAR, {**scenario, "requests": begun}, 1e-9)


@settings(max_examples=60, deadline=None)
@given(scenarios())
def test_equals_the_reference_with_a_real_step_model(scenario: dict[str, Any]) -> None:
    equal_to_reference(STEP, scenario, 1e-9)


@pytest.mark.parametrize("step", [server(enforce_eager=True).step, windowed()])
@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_equals_the_reference_to_eight_digits_where_it_is_not(
    step: StepModel, scenario: dict[str, Any]
) -> None:
    equal_to_reference(step, scenario, 1e-8)


def test_long_answers_over_many_octaves_and_a_window() -> None:
    for step in (STEP, server(enforce_eager=True).step, windowed()):
        requests = burst([5, 300], [9000, 2500])
        equal_to_reference(step, {"policy": vllm_v1(64, 8), "requests": requests}, 1e-8)


def test_a_prompt_of_many_chunks_beside_decoding_requests() -> None:
    requests = Requests([0.0, 0.05], [10, 60_000], [400, 5], [0, 0])
    equal_to_reference(STEP, {"policy": vllm_v1(512, 8), "requests": requests}, 1e-9)
    equal_to_reference(STEP, {"policy": llama_cpp(512, 4), "requests": requests}, 1e-9)


def test_preempts_the_last_one_and_computes_its_tokens_again() -> None:
    """Two requests of 8 + 8 tokens in 20 places: the second gives way when 10 + 10 are full."""
    step = Linear(1.0, 0.0)
    requests = burst([8, 8], [8, 8])
    found = run(step, vllm_v1(64, 4), requests, kv_tokens=20, block_tokens=1)
    # Step 1 gives both a token; steps 2, 3 fill 20 places; the first is alone in 4 to 8, which
    # gives it tokens 4 to 8, and the second computes 8 + 3 tokens in step 9: its fourth.
    assert list(found.end_s) == [8.0, 9.0 + 4.0]
    assert found.preemptions == 1


def test_whole_prompts_first_keep_decoding_waiting() -> None:
    """vLLM V0 and SGLang answer a burst of prompts before anybody gets a second token."""
    step = Linear(1.0, 0.0)
    requests = Requests([0.0, 1.5, 2.5, 3.5], [100] * 4, [3] * 4, [0] * 4)
    for name in ("vllm v0", "sglang"):
        found = run(step, MAKERS[name](100, 8), requests)
        # The first decodes from 1 s to 2 s; then prompts at 2, 3, 4; then all decode.
        assert list(found.first_s) == [1.0, 3.0, 4.0, 5.0]
        assert list(found.end_s) == [6.0, 7.0, 7.0, 7.0]
    mixed = run(step, MAKERS["vllm v1"](103, 8), requests)
    assert list(mixed.end_s) == [3.0, 5.0, 6.0, 7.0]


def test_a_static_batch_ends_before_the_next_one_starts() -> None:
    step = Linear(1.0, 0.0)
    found = run(step, MAKERS["static"](1000, 2), burst([10] * 3, [2, 5, 2]))
    assert list(found.end_s) == [2.0, 5.0, 7.0]
    assert found.slots_full_s == 5.0  # a third slot would have spared the third its wait


def test_llama_cpp_computes_a_batch_in_passes() -> None:
    """1,100 tokens in passes of 512: three in one step, and all that decode wait for them."""
    step = Linear(1.0, 0.0)
    requests = Requests([0.0, 1.5], [100, 1100], [4, 1], [0, 0])
    found = run(step, llama_cpp(512, 4), requests)
    assert list(found.first_s) == [1.0, 5.0]
    assert found.end_s[0] == 6.0


def test_tensorrt_llm_takes_the_cache_of_the_whole_answer() -> None:
    step = Linear(1.0, 0.0)
    requests = burst([10, 10], [11, 11])
    alone = run(step, MAKERS["tensorrt-llm"](1000, 8), requests, kv_tokens=39, block_tokens=1)
    assert (alone.preemptions, list(alone.end_s)) == (0, [11.0, 22.0])
    assert alone.kv_full_s == 11.0
    both = run(step, MAKERS["tensorrt-llm"](1000, 8), requests, kv_tokens=40, block_tokens=1)
    assert list(both.end_s) == [11.0, 11.0]


def test_pipeline_stages_overlap_prompts() -> None:
    """Two prompts of 1 s through two stages: a stage each half second, a token after a whole."""
    step = Linear(0.0, 0.0, 0.0, 0.01)
    found = run(step, vllm_v1(100, 8), burst([100, 100], [1, 1]), pipeline=2)
    assert list(found.first_s) == [1.0, 1.5]


def test_a_shared_prefix_is_neither_computed_nor_stored_again() -> None:
    step = Linear(0.0, 0.0, 0.0, 1.0)
    requests = burst([50, 50], [1, 1])._replace(cached_tokens=[40, 40], shared_tokens=40)
    found = run(step, vllm_v1(64, 8), requests, kv_tokens=20, block_tokens=1)
    assert list(found.first_s) == [20.0, 20.0]
    assert found.kv_full_s == 0.0


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_decoding_time_adds_up_to_what_requests_decode(
    sizes: list[tuple[int, int]], slots: int
) -> None:
    """Little's law along one run: the time integral of those that decode is the sum of stays."""
    prompts, outputs = zip(*sizes, strict=True)
    for make in MAKERS.values():
        found = run(LINEAR, make(128, slots), burst(prompts, outputs))
        stays_s = math.fsum(e - f for e, f in zip(found.end_s, found.first_s, strict=True))
        if make in (MAKERS["vllm v0"], MAKERS["sglang"]):  # decoding pauses for prompts
            assert found.decode_request_s <= stays_s * (1 + 1e-9)
        elif make is not MAKERS["static"]:  # where those that have ended are padded
            assert found.decode_request_s == pytest.approx(stays_s, rel=1e-9, abs=1e-12)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 60)), min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_work_is_conserved(sizes: list[tuple[int, int]], slots: int) -> None:
    """Without fixed costs, waste and idling, every policy ends a burst at the same second."""
    prompts, outputs = zip(*sizes, strict=True)
    step = Linear(0.0, 0.001, 0.0, 0.0001)
    work_s = 0.0001 * sum(prompts) + 0.001 * (sum(outputs) - len(outputs))
    for name, make in MAKERS.items():
        if name != "static":  # it decodes what has ended
            found = run(step, make(128, slots), burst(prompts, outputs))
            assert max(found.end_s) == pytest.approx(work_s, rel=1e-9)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(1, 12))
def test_more_slots_start_nobody_later_where_a_step_always_lasts_as_long(
    outputs: list[int], slots: int
) -> None:
    """FCFS with one more server; it is not true where others slow a step down."""
    step, requests = Linear(1.0, 0.0), burst([1] * len(outputs), outputs)
    few = run(step, vllm_v1(1000, slots), requests).first_s
    many = run(step, vllm_v1(1000, slots + 1), requests).first_s
    assert all(b <= a for a, b in zip(few, many, strict=True))


def test_only_what_is_measured_is_waited_for() -> None:
    requests = burst([10, 10, 10], [5, 5, 5000], last=2)
    found = run(LINEAR, vllm_v1(1000, 8), requests)
    assert found.unfinished == 0
    assert math.isnan(found.end_s[2])


def test_a_request_larger_than_the_cache_goes_alone() -> None:
    requests = burst([100, 3], [50, 3])
    scenario = {"policy": vllm_v1(64, 8), "requests": requests, "kv_tokens": 64}
    equal_to_reference(LINEAR, scenario, 1e-9)


def test_requests_under_way_are_longer_ones_at_even_ages() -> None:
    requests = Requests([1.0, 2.0], [10, 20], [11, 31], [0, 0])
    found = under_way(requests, 4)
    # 10 + 30 steps laid end to end, cut at 5, 15, 25 and 35
    assert (found.begun, list(found.output_tokens)) == ([6, 6, 16, 26], [11, 31, 31, 31, 11, 31])
    assert list(found.due_s) == [0.0] * 4 + [1.0, 2.0]
    assert found.first == 4


@settings(max_examples=50, deadline=None)
@given(scenarios(), st.integers(1, 10))
def test_starts_in_the_middle_as_the_reference_does(scenario: dict[str, Any], num: int) -> None:
    requests = under_way(scenario["requests"]._replace(concurrency=0), num)
    equal_to_reference(LINEAR, {**scenario, "requests": requests, "kv_tokens": None}, 1e-9)


def test_a_turn_repeats_what_was_said_and_finds_it_in_the_cache() -> None:
    drawn = Drawn([1.0, 0.0, 0.0], [100, 10, 20], [5, 6, 7], [-1, 0, 1])
    told = requests_of(drawn, 0.0, caching=True)
    assert (told.prompt_tokens, told.cached_tokens) == ([100, 115, 141], [0, 105, 121])
    assert requests_of(drawn, 0.0, caching=False).cached_tokens == [0, 0, 0]


def test_which_scheduler_a_deployment_has() -> None:
    def name(engine: str, version: str = "") -> str:
        limits = server().limits
        return policy_of(Deployment(engine=engine, engine_version=version), limits, 64).name

    assert [name("vllm"), name("vllm", "0.7.3"), name("vllm", "0.8.0"), name("vllm", "0.12.0")] == [
        "vllm v1", "vllm v0", "vllm v1", "vllm v1",
    ]  # fmt: skip
    assert [name("sglang"), name("llama.cpp"), name("tensorrt-llm")] == [
        "sglang", "llama.cpp", "tensorrt-llm",
    ]  # fmt: skip
