"""Plans: what is asked, ranked, dropped and sized, against brute force."""

from __future__ import annotations

import functools
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.faces.ask import answer_plan, answer_predict, ask_for
from neoserve.predict.plan import MAX_REJECTED, Grid, plan, powers_of_two
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Plan, Prediction
from neoserve.schema.workload import Workload

LLAMA = "meta-llama/Llama-3.1-8B"
SEVENTY = "meta-llama/Meta-Llama-3.1-70B"
SLO = "ttft<1s; tpot<50ms"


@functools.cache
def planned(
    model: str = LLAMA, on: tuple[str, ...] = ("L4", "L40S", "H100-SXM"), **given: object
) -> Plan:
    return answer_plan(PlanAsk(model=model, on=on, online=False, keep=10_000, **given))


@functools.cache
def fleet(rate: float = 20.0, on: tuple[str, ...] = ("L4", "L40S", "H100-SXM"), **given) -> Plan:
    load = Workload(arrival="poisson", rate_rps=rate)
    return planned(on=on, workload=load, rate_rps=rate, **given)


def usd(answer: Prediction) -> float:
    assert answer.cost is not None
    return answer.cost.usd_per_mtok_output


def tpot(answer: Prediction) -> float:
    assert answer.latency is not None
    assert answer.latency.tpot_s.mean is not None
    return answer.latency.tpot_s.mean


PLANS = [
    lambda: planned(),
    lambda: planned(slo=SLO),
    lambda: planned(workload=Workload(concurrency=32)),
    lambda: fleet(),
    lambda: fleet(slo=SLO),
    lambda: planned(SEVENTY, slo=SLO),
    # equal speed at two prices, and settings that change nothing
    lambda: planned(on=("L4", "g6.2xlarge"), max_num_seqs=(128, 256)),
]


# the grid


@pytest.mark.parametrize(
    ("limit", "sizes"), [(0, (1,)), (1, (1,)), (3, (1, 2)), (8, (1, 2, 4, 8)), (9, (1, 2, 4, 8))]
)
def test_powers_of_two(limit: int, sizes: tuple[int, ...]) -> None:
    assert powers_of_two(limit) == sizes


@pytest.mark.parametrize(
    ("given_lists", "each"),
    [
        # 3 weight schemes x {auto, fp8} KV x TP 1, 2, 4, 8
        ({}, 3 * 2 * 4),
        ({"tensor_parallel": (1, 2)}, 3 * 2 * 2),
        ({"weight_quant": ("checkpoint",), "kv_cache_dtype": ("auto",)}, 4),
        ({"weight_quant": ("fp8", "fp8")}, 2 * 4),
        ({"pipeline_parallel": (1, 2), "enforce_eager": (True, False)}, 4 * 3 * 2 * 4),
        ({"max_num_seqs": (8, 64, 256), "max_num_batched_tokens": (512, 2048)}, 6 * 3 * 2 * 4),
        # a shared prefix makes caching worth comparing
        ({"workload": Workload(prefix_hit_share=0.5)}, 2 * 3 * 2 * 4),
    ],
)
def test_every_combination_is_a_candidate(given_lists: dict, each: int) -> None:
    answer = planned(**given_lists)
    assert answer.num_candidates == 3 * each
    assert len(answer.candidates) + len(answer.rejected) == 3 * each


def test_the_grid_counts_what_it_yields() -> None:
    machines = [find_machine(name) for name in ("L4", "g6.2xlarge", "p5.48xlarge")]
    grid = Grid(pipeline_parallel=(1, 2), max_num_seqs=(None, 8, 16))
    yielded = [d for m in machines for d in grid.deployments(Deployment(), m)]
    assert grid.size(machines, 2) == 2 * len(yielded) == 2 * (4 + 1 + 4) * 2 * 3
    assert len(set(yielded)) == (4 + 1 + 4) * 2 * 3 - (1 + 4) * 2 * 3  # machines share sizes


def test_a_grid_too_large_to_rank_is_refused_with_its_size() -> None:
    # 2000 x 60 x 4 TP x 2 KV x 3 weights
    with pytest.raises(AskError, match="2,880,000 candidates; at most 200,000"):
        planned(
            on=("L4",), max_num_seqs=tuple(range(1, 2001)),
            max_num_batched_tokens=tuple(range(512, 572)), kv_cache_dtype=("auto", "fp8"),
        )  # fmt: skip


def test_no_hardware_is_refused() -> None:
    with pytest.raises(AskError, match="no hardware was given"):
        planned(on=())


def test_absurd_lists_are_refused() -> None:
    with pytest.raises(AskError, match="--max-num-seqs is 0"):
        planned(max_num_seqs=(0, 8))


# ranking


@pytest.mark.parametrize("made", PLANS)
def test_candidates_are_ranked_by_slo_then_price_then_speed(made) -> None:
    answer = made()
    keys = [(c.meets_slo is False, usd(c), tpot(c)) for c in answer.candidates]
    assert len(keys) > 3
    for (missed, price, speed), (next_missed, next_price, next_speed) in itertools.pairwise(keys):
        assert missed <= next_missed
        if missed == next_missed and not missed:
            assert price <= next_price * (1 + 1e-9)
            if price == pytest.approx(next_price, rel=1e-12):
                assert speed <= next_speed * (1 + 1e-9) or price < next_price


@pytest.mark.parametrize("made", PLANS[:4])
def test_the_best_is_the_cheapest_that_meets_the_slo(made) -> None:
    answer = made()
    fitting = [c for c in answer.candidates if c.meets_slo is not False]
    assert answer.best is not None
    assert answer.best == answer.candidates[0]
    assert usd(answer.best) == pytest.approx(min(map(usd, fitting)))


def test_without_an_answer_within_the_slo_there_is_no_best() -> None:
    answer = planned(slo="tpot<10us")
    assert answer.best is None
    assert answer.candidates
    assert "No configuration meets tpot:mean<10.0 µs" in answer.summary


@pytest.mark.parametrize("made", PLANS)
def test_the_pareto_set_is_what_no_other_candidate_beats(made) -> None:
    answer = made()
    points = [(usd(c), tpot(c)) for c in answer.candidates]

    def beaten(point: tuple[float, float]) -> bool:
        return any(
            other != point and other[0] <= point[0] and other[1] <= point[1] for other in points
        )

    front = [points[i] for i in answer.pareto]
    assert set(front) == {p for p in points if not beaten(p)}
    assert len(front) == len(set(front))  # one of those that are equal in both


@given(st.lists(st.sampled_from([8, 16, 32, 64, 128, 256]), min_size=1, max_size=4, unique=True),
       st.integers(1, 64), st.integers(1, 2000), st.integers(1, 300))  # fmt: skip
@settings(deadline=None, max_examples=15)
def test_the_pareto_set_for_any_load(seqs, concurrency, prompt, output) -> None:
    load = Workload(concurrency=concurrency, prompt_tokens=prompt, output_tokens=output)
    answer = answer_plan(
        PlanAsk(
            model=LLAMA, on=("L40S", "H100-SXM"), online=False, keep=10_000, workload=load,
            max_num_seqs=tuple(seqs), tensor_parallel=(1, 2),
        )
    )  # fmt: skip
    points = [(usd(c), tpot(c)) for c in answer.candidates]
    front = {
        p for p in points
        if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)
    }  # fmt: skip
    assert {points[i] for i in answer.pareto} == front


def test_without_prices_device_seconds_rank() -> None:
    answer = planned(on=("A30",))
    times = []
    for candidate in answer.candidates:
        assert candidate.cost is None
        assert candidate.throughput is not None
        devices = candidate.deployment.devices_per_replica
        times.append(devices / candidate.throughput.output_tokens_per_s)
    assert len(times) > 3
    assert times == sorted(times)
    assert "$" not in answer.summary


def test_few_are_kept_but_never_less_than_the_pareto_set() -> None:
    full = planned()
    ranked = list(full.candidates)
    for keep in (1, 5, 20):
        short = answer_plan(
            PlanAsk(model=LLAMA, on=("L4", "L40S", "H100-SXM"), online=False, keep=keep)
        )
        assert short.num_candidates == full.num_candidates
        assert short.candidates[:keep] == full.candidates[:keep]
        # the others follow in the same order
        places = [ranked.index(c) for c in short.candidates]
        assert places == sorted(set(places))
        front = [short.candidates[i] for i in short.pareto]
        assert front == [full.candidates[i] for i in full.pareto]


@pytest.mark.parametrize("made", [PLANS[1], PLANS[5]])
def test_each_candidate_is_what_a_prediction_of_it_says(made) -> None:
    answer = made()
    for candidate in answer.candidates[::7]:
        d = candidate.deployment
        again = answer_predict(
            PredictAsk(model=answer.model, on=d.hardware, deployment=d.replace(replicas=1),
                       slo=SLO, online=False)
        )  # fmt: skip
        assert again.throughput == candidate.throughput
        assert again.latency == candidate.latency
        assert again.memory == candidate.memory
        assert again.kv == candidate.kv
        assert again.cost == candidate.cost
        assert again.command == candidate.command


# what is dropped


def test_what_cannot_start_is_dropped_with_its_reason() -> None:
    # 141 GB of weights: one, two and four L4s of 24 GB are too few in 16 bits
    answer = planned(SEVENTY, on=("L4",), weight_quant=("checkpoint",))
    reasons = {r.deployment.tensor_parallel: r.reason for r in answer.rejected}
    assert "weights alone take 131 GiB of each device's usable 20.3 GiB" in reasons[1]
    assert "weights alone take 65.7 GiB" in reasons[2]
    assert "weights alone take 32.9 GiB" in reasons[4]
    assert {c.deployment.tensor_parallel for c in answer.candidates}.isdisjoint({1, 2, 4})


def test_sizes_beyond_a_machine_are_dropped() -> None:
    answer = planned(on=("g6.2xlarge", "L4"), tensor_parallel=(1, 4))
    assert {r.deployment.hardware for r in answer.rejected} == {"g6.2xlarge"}
    assert {r.reason for r in answer.rejected} == {
        "tensor_parallel x pipeline_parallel = 4 devices; g6.2xlarge has 1"
    }


def test_a_plan_in_which_nothing_starts_says_why() -> None:
    answer = planned(SEVENTY, on=("g6.2xlarge",))
    assert answer.best is None
    assert answer.candidates == answer.pareto == ()
    assert answer.summary.startswith("No configuration starts: weights alone take 131 GiB")


def test_reasons_are_kept_up_to_a_limit() -> None:
    # 3 weight schemes x 2 KV dtypes for each number of sequences
    some = planned(SEVENTY, on=("g6.2xlarge",), max_num_seqs=tuple(range(1, 21)))
    assert len(some.rejected) == some.num_candidates == 120
    many = planned(SEVENTY, on=("g6.2xlarge",), max_num_seqs=tuple(range(1, 101)))
    assert many.num_candidates == 600
    assert len(many.rejected) == MAX_REJECTED == 200


def test_what_starts_is_found_behind_any_number_of_reasons() -> None:
    # 131,072 tokens of 131,072 B need 16 GiB: an L4 has less beside the weights, an H100 more
    numbers = tuple(range(1, 251))
    answer = planned(
        on=("L4", "H100-SXM"), deployment=Deployment(max_model_len=131072), tensor_parallel=(1,),
        weight_quant=("checkpoint",), kv_cache_dtype=("auto",), max_num_seqs=numbers,
    )  # fmt: skip
    assert len(answer.rejected) == MAX_REJECTED
    assert {r.deployment.hardware for r in answer.rejected} == {"L4"}
    assert all("131,072 tokens needs 16.0 GiB of KV cache" in r.reason for r in answer.rejected)
    started = [c.deployment for c in answer.candidates]
    assert {d.hardware for d in started} == {"H100-SXM-80GB"}
    assert sorted(d.max_num_seqs or 0 for d in started) == list(numbers)


def test_an_empty_plan_says_that_nothing_was_asked() -> None:
    model = find_model(LLAMA, online=False)
    answer = plan([("checkpoint", model)], [], Deployment(), Grid(), ask_for)
    assert answer.num_candidates == 0
    assert answer.best is None
    assert answer.summary == "No configuration starts: nothing was asked for."


# fleets


@pytest.mark.parametrize("slo", ["", SLO])
@pytest.mark.parametrize("rate", [3.0, 20.0, 400.0])
def test_a_fleet_carries_the_rate_and_one_machine_less_would_not(rate: float, slo: str) -> None:
    answer = fleet(rate, slo=slo)
    sized = [c for c in answer.candidates if not slo or c.meets_slo]
    assert sized
    assert max(c.deployment.replicas for c in sized) > 1 or rate < 10
    for candidate in sized:
        assert candidate.throughput is not None
        highest = candidate.throughput.max_rate_rps
        n = candidate.deployment.replicas
        assert highest is not None
        assert highest >= rate * (1 - 1e-6)
        assert n == 1 or highest / n * (n - 1) < rate


def test_a_fleet_is_never_run_at_exactly_its_limit() -> None:
    # twice what one L4 saturates at: two would queue for ever, three are rented
    lists = {"tensor_parallel": (1,), "weight_quant": ("checkpoint",), "kv_cache_dtype": ("auto",)}
    (one,) = fleet(0.5, on=("L4",), **lists).candidates
    assert one.throughput is not None
    assert one.throughput.max_rate_rps is not None
    (many,) = fleet(2 * one.throughput.max_rate_rps, on=("L4",), **lists).candidates
    assert many.deployment.replicas == 3
    assert many.latency is not None
    assert many.latency.ttft_s.mean is not None


def test_a_fleets_rates_and_bills_are_those_of_all_its_machines() -> None:
    answer = fleet(400.0, on=("L4",))
    for candidate in answer.candidates[::5]:
        n = candidate.deployment.replicas
        assert n > 1
        assert candidate.throughput is not None
        assert candidate.throughput.output_tokens_per_s == pytest.approx(400 * 128)
        assert candidate.throughput.total_tokens_per_s == pytest.approx(400 * 640)
        assert candidate.cost is not None
        hourly = n * candidate.deployment.devices_per_replica * 0.49  # $ an hour for one L4
        assert candidate.cost.usd_per_hour == pytest.approx(hourly)
        assert candidate.cost.usd_per_month == pytest.approx(hourly * 730)
        per_mtok = hourly / 3600 / (400 * 128) * 1e6
        assert candidate.cost.usd_per_mtok_output == pytest.approx(per_mtok)


def test_a_fleets_latency_is_that_of_one_machine_under_its_share() -> None:
    answer = fleet(400.0, on=("L4",))
    best = answer.candidates[0]
    n = best.deployment.replicas
    one = answer_predict(
        PredictAsk(
            model=LLAMA, on="L4", deployment=best.deployment.replace(replicas=1), online=False,
            workload=Workload(arrival="poisson", rate_rps=400.0 / n),
        )
    )  # fmt: skip
    assert one.latency == best.latency


def test_goodput_of_a_fleet_is_its_rate() -> None:
    for candidate in fleet(slo=SLO).candidates:
        assert candidate.throughput is not None
        wanted = pytest.approx(20.0) if candidate.meets_slo else 0.0
        assert candidate.throughput.goodput_rps == wanted


def test_a_fleet_of_instances_is_filled_and_counted_in_copies() -> None:
    # p5.48xlarge: 8 devices for $55.04
    answer = fleet(2000.0, on=("p5.48xlarge",))
    for candidate in answer.candidates[::3]:
        copies = 8 // candidate.deployment.devices_per_replica
        instances = candidate.deployment.replicas / copies
        assert instances == int(instances) >= 1
        assert candidate.cost is not None
        assert candidate.cost.usd_per_hour == pytest.approx(instances * 55.04)


def test_a_given_price_holds_for_every_machine() -> None:
    answer = fleet(20.0, on=("L40S", "H100-SXM"), usd_per_hour=1.0)
    for candidate in answer.candidates:
        d = candidate.deployment
        assert candidate.cost is not None
        assert candidate.cost.price_basis == "given"
        assert candidate.cost.usd_per_hour == pytest.approx(d.devices_per_replica * d.replicas)


def test_a_rate_that_no_fleet_serves_within_the_slo_has_no_best() -> None:
    answer = fleet(20.0, slo="tpot<10us")
    assert answer.best is None
    assert answer.candidates
    assert not any(c.meets_slo for c in answer.candidates)
    assert {c.throughput.max_rate_rps for c in answer.candidates if c.throughput} == {0.0}


# the sentence


def test_the_summary_names_the_best_its_price_and_what_limits_it() -> None:
    answer = planned(on=("H100-SXM",), slo=SLO, usd_per_hour=2.0, weight_quant=("fp8",),
                     tensor_parallel=(2,))  # fmt: skip
    best = answer.best
    assert best is not None
    assert answer.summary.startswith(
        "Cheapest within the SLO: H100-SXM-80GB TP 2 fp8 serves this load for $"
    )
    assert answer.summary.endswith(f"what limits it is {best.bound}.")
    assert best.bound in ("memory", "compute", "kv", "queue", "comm", "overhead")
    assert best.next_bound not in ("", best.bound)


def test_the_summary_names_stages_and_copies() -> None:
    answer = fleet(400.0, on=("L4",), pipeline_parallel=(2,), tensor_parallel=(1,),
                   weight_quant=("checkpoint",))  # fmt: skip
    best = answer.best
    assert best is not None
    assert f"{best.deployment.replicas} x L4 PP 2 serves 400 requests/s" in answer.summary


def test_without_an_slo_and_without_names_the_missed_one_is_the_slo() -> None:
    model = find_model(LLAMA, online=False)
    request = PredictAsk(model=LLAMA, on="L4", slo="tpot<10us", online=False)

    def make(spec, machine, deployment):
        return ask_for(spec, machine, deployment, request)

    base = Deployment(max_model_len=4096)
    answer = plan([("checkpoint", model)], [find_machine("L4")], base, Grid(), make)
    assert answer.best is None
    assert answer.summary.startswith("No configuration meets the SLO; the cheapest that starts is")


# the length that a plan serves with


@pytest.mark.parametrize(
    ("prompt", "output", "length"),
    [
        (512, 128, 2048),  # 2 x 640 = 1280, at least 2048
        (3000, 1000, 8192),  # 2 x 4000 = 8000, up to a multiple of 1024
        (100_000, 1000, 131072),  # the model's own limit
    ],
)
def test_no_memory_is_reserved_for_lengths_that_the_traffic_lacks(prompt, output, length) -> None:
    load = Workload(prompt_tokens=prompt, output_tokens=output)
    answer = planned(on=("H100-SXM",), workload=load, tensor_parallel=(1,))
    assert {c.deployment.max_model_len for c in answer.candidates} == {length}


def test_requests_beyond_the_model_are_dropped_with_the_reason() -> None:
    load = Workload(prompt_tokens=200_000, output_tokens=1)
    answer = planned(on=("H100-SXM",), workload=load)
    assert answer.best is None
    assert "requests of 200,001 tokens are longer than max_model_len 131,072" in answer.summary


def test_a_dearer_machine_never_becomes_the_best() -> None:
    cheap = planned(on=("H100-SXM",), usd_per_hour=1.0)
    dear = planned(on=("H100-SXM",), usd_per_hour=10.0)
    assert cheap.best is not None
    assert dear.best is not None
    assert dear.best.deployment == cheap.best.deployment
    assert usd(dear.best) == pytest.approx(10 * usd(cheap.best))
    assert math.isfinite(usd(dear.best))


def test_a_tighter_slo_never_costs_less() -> None:
    prices = []
    for limit in ("1s", "50ms", "20ms", "10ms"):
        best = fleet(20.0, slo=f"tpot<{limit}").best
        prices.append(math.inf if best is None else usd(best))
    assert prices == sorted(prices)
    assert prices[0] < math.inf


def test_the_operating_point_is_kept_where_an_ask_is_changed() -> None:
    request = PredictAsk(model=LLAMA, on="H100-SXM", online=False)
    model, machine = find_model(LLAMA, online=False), find_machine("H100-SXM")
    asked = ask_for(model, machine, Deployment(max_model_len=4096), request)
    free = replace(asked, machine=machine.replace(price=None))
    answer = plan(
        [("checkpoint", model)], [machine], Deployment(max_model_len=4096),
        Grid(tensor_parallel=(1,)), lambda *_: free,
    )  # fmt: skip
    assert answer.best is not None
    assert answer.best.cost is None
    assert "per million" not in answer.summary
