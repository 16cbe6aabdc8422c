"""Replicas, step times and requests that the simulation's tests share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from simulation_reference import Reference

from neoserve.predict.simulation import policy as policies
from neoserve.predict.simulation.policy import Policy
from neoserve.predict.simulation.replica import Replica
from neoserve.predict.simulation.requests import Outcomes, Requests


class Linear:
    """Seconds = fixed + a per decoding request + b per context token + c per prompt token."""

    bends = ()

    def __init__(self, fixed: float, each: float, context: float = 0.0, prompt: float = 0.0):
        self.fixed, self.each, self.context, self.prompt = fixed, each, context, prompt

    def step_s(self, prompt: float, _seen: float, num: float, context: float) -> float:
        return self.fixed + num * (self.each + self.context * context) + self.prompt * prompt


MAKERS = {
    "vllm v1": policies.vllm_v1, "vllm v0": policies.vllm_v0, "sglang": policies.sglang,
    "tensorrt-llm": policies.tensorrt_llm, "llama.cpp": policies.llama_cpp,
    "static": policies.static_batching,
}  # fmt: skip


def burst(prompts: Sequence[int], outputs: Sequence[int], **more: Any) -> Requests:
    return Requests([0.0] * len(prompts), prompts, outputs, [0] * len(prompts), **more)


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a replica: any policy under any load."""
    name = draw(st.sampled_from(sorted(MAKERS)))
    slots = draw(st.integers(1, 24))
    policy = MAKERS[name](draw(st.sampled_from([24, 64, 256, 1000])), slots)
    num = draw(st.integers(1, 25))
    prompts = draw(st.lists(st.integers(1, 700), min_size=num, max_size=num))
    outputs = draw(st.lists(st.integers(1, 120), min_size=num, max_size=num))
    gaps = draw(st.lists(st.floats(1e-4, 0.3), min_size=num, max_size=num))
    due, now = [], 0.0
    for gap in gaps:
        now += gap * 1.0009765
        due.append(now)
    load = draw(st.sampled_from(["open", "open", "closed", "burst", "turns"]))
    shared = draw(st.sampled_from([0, 0, 40]))
    requests = Requests(
        due if load in ("open", "turns") else [0.0] * num, prompts, outputs,
        [min(shared, p - 1) for p in prompts], shared_tokens=shared,
    )  # fmt: skip
    if load == "closed":
        requests = requests._replace(concurrency=draw(st.integers(1, 12)))
    if load == "turns":
        requests = requests._replace(follows=[i - 1 if i % 3 else -1 for i in range(num)],
                                     think_time_s=0.0137)  # fmt: skip
    kv = draw(st.sampled_from([None, 900, 2500, 9000]))
    return {
        "policy": policy, "requests": requests, "block_tokens": draw(st.sampled_from([1, 16])),
        "kv_tokens": None if name == "llama.cpp" else kv,
        "host_s": (0.00131, 1.7e-6), "pipeline": draw(st.sampled_from([1, 1, 2])),
    }  # fmt: skip


def run(step: Any, policy: Policy, requests: Requests, **more: Any) -> Outcomes:
    return Replica(step, policy, requests, **more).run()


def equal_to_reference(step: Any, scenario: dict[str, Any], tolerance: float) -> None:
    """Same steps, same preemptions, every token time within the tolerance, relative."""
    found = run(step, **scenario)
    expected = Reference(step, **scenario).run()
    assert (found.num_steps, found.preemptions) == (expected.steps, expected.preemptions)
    for i, request in enumerate(expected.all):
        assert math.isclose(found.first_s[i], request.times_s[0], rel_tol=tolerance)
        assert math.isclose(found.end_s[i], request.times_s[-1], rel_tol=tolerance)
        already = scenario["requests"].begun[i] - 1 if i < len(scenario["requests"].begun) else 0
        assert len(request.times_s) == request.output - already
