"""The simulation in the limits that queueing theory answers exactly."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from simulating import Linear, run
from test_serve import poisson, server

from neoserve.predict.serve import closed
from neoserve.predict.simulation.policy import sglang, vllm_v0, vllm_v1
from neoserve.predict.simulation.replica import Replica
from neoserve.predict.simulation.requests import Requests
from neoserve.stats import mean

SERVICE_S = 0.37


def arrivals(rate_rps: float, num: int, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return list(itertools.accumulate(rng.expovariate(rate_rps) for _ in range(num)))


def lindley_waits(due_s: list[float], service_s: float) -> list[float]:
    """W' = max(0, W + S - gap): the wait in any single-server queue (Lindley 1952)."""
    waits = [0.0]
    for before, after in itertools.pairwise(due_s):
        waits.append(max(0.0, waits[-1] + service_s - (after - before)))
    return waits


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
@pytest.mark.parametrize("make", [vllm_v1, vllm_v0, sglang])
def test_answers_of_one_token_wait_as_in_m_d_1(make: object, load: float) -> None:
    """One prompt fills a step: each wait is Lindley's, and their mean Pollaczek-Khinchine's."""
    num = 20_000
    due_s = arrivals(load / SERVICE_S, num)
    requests = Requests(due_s, [100] * num, [1] * num, [0] * num)
    found = run(Linear(SERVICE_S, 0.0), make(100, 64), requests)  # type: ignore[operator]
    waits = [f - d - SERVICE_S for f, d in zip(found.first_s, due_s, strict=True)]
    assert waits == pytest.approx(lindley_waits(due_s, SERVICE_S), abs=1e-6)
    expected = load / (2 * (1 - load)) * SERVICE_S
    # the mean wait varies slowly: about 2.4 % at load 0.7, 8 % at 0.9 for so many (batch means)
    assert mean(waits) == pytest.approx(expected, rel={0.3: 0.04, 0.7: 0.08, 0.9: 0.25}[load])


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_prompts_that_share_a_step_wait_as_behind_a_gate(load: float) -> None:
    """Whoever came during a step is served by the next one, together: with a step in proportion
    to its prompts E[C²]/E[C] = S load/(1 - load²) of its lengths C, and a request stays its rest,
    E[C²]/2E[C], and the next, S (1 + rate E[C²]/E[C])."""
    num, one_s = 60_000, 0.25
    due_s = arrivals(load / one_s, num, seed=2)
    requests = Requests(due_s, [100] * num, [1] * num, [0] * num)
    found = run(Linear(0.0, 0.0, 0.0, one_s / 100), vllm_v1(10**9, 10**9), requests)
    stays_s = [e - d for e, d in zip(found.end_s, due_s, strict=True)]
    expected = one_s * (1 + load * (1 + 2 * load) / (2 * (1 - load**2)))
    assert mean(stays_s) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("lengths", [(400, 400), (100, 2700)])
def test_decoding_alone_is_processor_sharing(lengths: tuple[int, int]) -> None:
    """A step in proportion to its batch: E[stay | x] = x / (1 - load), whatever else the law of
    the lengths (Kleinrock 1967); 0.88 of short and 0.12 of long ones in the second case."""
    rng, num, load, token_s = random.Random(3), 6000, 0.6, 1e-4
    outputs = [lengths[rng.random() < 0.1154] + 1 for _ in range(num)]
    rate = load / (token_s * (mean(outputs) - 1))
    due_s = arrivals(rate, num, seed=1)
    requests = Requests(due_s, [1] * num, outputs, [0] * num)
    found = run(Linear(0.0, token_s), vllm_v1(100_000, 100_000), requests)
    for length in set(lengths):
        stays_s = [found.end_s[i] - due_s[i] for i in range(num) if outputs[i] == length + 1]
        assert mean(stays_s) == pytest.approx(length * token_s / (1 - load), rel=0.12)


def test_little_over_a_long_run() -> None:
    """Requests decoding, times seconds, are rate times stay: counted by two ways."""
    num, one = 3000, server()
    rng = random.Random(5)
    requests = Requests(
        arrivals(8.0, num), [rng.randint(1, 2000) for _ in range(num)],
        [rng.randint(2, 400) for _ in range(num)], [0] * num,
    )  # fmt: skip
    found = Replica(one.step, vllm_v1(8192, 256), requests).run()
    stays_s = math.fsum(e - f for e, f in zip(found.end_s, found.first_s, strict=True))
    assert found.decode_request_s == pytest.approx(stays_s, rel=1e-9)


def test_one_at_a_time_is_what_the_formula_says() -> None:
    one = server()
    requests = Requests([0.0] * 5, [1000] * 5, [200] * 5, [0] * 5, concurrency=1)
    found = Replica(one.step, vllm_v1(8192, 256), requests).run()
    formula = closed(one, 1.0)
    ttft_s = [f - s for f, s in zip(found.first_s, found.sent_s, strict=True)]
    tpot_s = [(e - f) / 199 for e, f in zip(found.end_s, found.first_s, strict=True)]
    assert ttft_s == pytest.approx([formula.ttft_s] * 5, rel=1e-9)
    assert tpot_s == pytest.approx([formula.tpot_s] * 5, rel=1e-9)


@pytest.mark.parametrize("concurrency", [4, 16, 64, 200])
def test_a_closed_loop_passes_as_many_as_the_formula_says(concurrency: int) -> None:
    """Mixed lengths, so that requests do not march in step, which the formula leaves out."""
    one, rng, num = server(poisson(1.0)), random.Random(7), 6 * concurrency + 400
    requests = Requests(
        [0.0] * num, [rng.randint(500, 1500) for _ in range(num)],
        [rng.randint(100, 300) for _ in range(num)], [0] * num, concurrency=concurrency,
        first=2 * concurrency, last=num - concurrency,
    )  # fmt: skip
    found = Replica(one.step, vllm_v1(8192, 256), requests).run()
    cycles_s = [found.end_s[i] - found.sent_s[i] for i in range(requests.first, requests.last)]
    assert concurrency / mean(cycles_s) == pytest.approx(
        closed(one, float(concurrency)).rate_rps, rel=0.05
    )
