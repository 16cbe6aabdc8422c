"""Serving means: queueing identities, limits, and public rows."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest
from coefficient_values import IDEAL, REAL
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.predict.queueing import (
    arrival_variability,
    bracketed_root,
    queue_wait_s,
    slot_wait_s,
)
from neoserve.predict.serve import (
    JUDGED_BY_MEAN,
    Server,
    closed,
    max_rate_rps,
    open_loop,
    serve,
    server_of,
)
from neoserve.predict.server import default_batching, limits_of, saturation_rps, static
from neoserve.predict.step import StepModel
from neoserve.schema.coefficients import Coefficients
from neoserve.schema.engine import Deployment
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.model import Ffn, Layer, Mixer, ModelSpec
from neoserve.schema.workload import Slo, Workload

H100 = HardwareSpec(
    id="H100-SXM-80GB", name="H100", vendor="nvidia", kind="gpu", memory_bytes=80 * 2**30,
    bandwidth_bytes_per_s=3.35e12, peak_flops_per_s={"bf16": 989e12, "fp8": 1979e12},
)  # fmt: skip


def llama_8b() -> ModelSpec:
    mixer = Mixer(kind="full", num_heads=32, num_kv_heads=8, head_dim=128, v_head_dim=128,
                  params=4096 * 128 * (2 * 32 + 2 * 8))  # fmt: skip
    layer = Layer(mixers=(mixer,), ffn=Ffn(dense_params=3 * 4096 * 14336), norm_params=8192)
    return ModelSpec(
        id="llama-8b", architecture="LlamaForCausalLM", family="dense", hidden_size=4096,
        vocab_size=128256, num_heads=32, max_position_tokens=8192, dtype="bfloat16",
        layers=(layer,) * 32, embedding_params=4096 * 128256, lm_head_params=4096 * 128256,
    )  # fmt: skip


MODEL = llama_8b()


def server(
    workload: Workload | None = None,
    values: dict[str, Any] = REAL,
    kv_tokens: float | None = None,
    **deployment: Any,
) -> Server:
    coefficients = Coefficients(**values)
    chosen = Deployment(**deployment)
    step = StepModel(MODEL, H100, chosen, coefficients)
    asked = workload or Workload(prompt_tokens=1000, output_tokens=200)
    return server_of(step, H100, chosen, coefficients, asked, kv_tokens)


def poisson(rate_rps: float, **changes: Any) -> Workload:
    return Workload(
        arrival="poisson", rate_rps=rate_rps, prompt_tokens=1000, output_tokens=200
    ).replace(**changes)


# Closed loop


@given(concurrency=st.floats(1, 2000), prompt=st.integers(1, 30_000), output=st.integers(1, 4000))
@settings(max_examples=60)
def test_littles_law_holds(concurrency: float, prompt: int, output: int) -> None:
    replica = server(Workload(prompt_tokens=prompt, output_tokens=output))
    point = closed(replica, concurrency)
    stay_s = point.ttft_s + (output - 1) * point.tpot_s
    assert point.rate_rps * stay_s == pytest.approx(concurrency, rel=1e-6)
    assert 0 <= point.decodes <= min(concurrency, replica.limits.slots) * (1 + 1e-9)


def test_one_request_is_a_prefill_and_bare_steps() -> None:
    replica = server(values=IDEAL)
    point = closed(replica, 1.0)
    assert point.ttft_s == pytest.approx(replica.prefill_s(1000, 0.0)[0], rel=1e-3)
    assert point.tpot_s == pytest.approx(replica.step.step_s(0, 0, 1, 1100), rel=1e-6)
    assert point.wait_s == 0.0


def test_a_request_of_one_token_is_all_prefill() -> None:
    point = closed(server(Workload(prompt_tokens=1000, output_tokens=1)), 8.0)
    assert point.decodes == 0.0
    assert point.rate_rps * point.ttft_s == pytest.approx(8.0)


@given(st.floats(1, 500), st.floats(1.01, 4))
@settings(max_examples=40)
def test_more_in_flight_is_slower_each_and_faster_in_all(few: float, growth: float) -> None:
    a, b = (closed(server(), n) for n in (few, few * growth))
    assert b.tpot_s >= a.tpot_s * (1 - 2e-3)
    assert b.rate_rps >= a.rate_rps * (1 - 2e-3)


def test_requests_over_the_slots_wait_and_the_rate_stays() -> None:
    replica = server(max_num_seqs=16)
    full, over = closed(replica, 16.0), closed(replica, 64.0)
    assert over.rate_rps == pytest.approx(full.rate_rps)
    assert over.tpot_s == pytest.approx(full.tpot_s)
    assert over.ttft_s == pytest.approx(full.ttft_s + 48 / full.rate_rps, rel=1e-6)
    assert over.saturated
    assert not full.saturated


def test_the_cache_can_be_what_limits() -> None:
    replica = server(kv_tokens=11_000.0)
    assert replica.limits.slots == pytest.approx(10.0)
    assert replica.limits.slots_by == "kv"
    served = serve(replica, Workload(concurrency=64, prompt_tokens=1000, output_tokens=200))
    assert served.bound == "kv"
    assert served.saturated


def test_long_prompts_take_several_steps() -> None:
    replica = server(Workload(prompt_tokens=10_000, output_tokens=2), max_num_batched_tokens=4096)
    seconds, steps = replica.prefill_s(10_000, 0.0)
    assert steps == 3
    step = replica.step.step_s
    by_hand = step(4096, 2048, 0, 0) + step(4096, 6144, 0, 0) + step(1808, 9096, 0, 0)
    assert seconds == pytest.approx(by_hand, rel=1e-3)
    # Decoding requests take their tokens out of the same budget.
    assert replica.prefill_s(10_000, 1000.0)[1] == 4


def test_cached_prompt_tokens_are_seen_but_not_computed() -> None:
    half = Workload(prompt_tokens=8000, output_tokens=100, prefix_hit_share=0.5)
    cold, warm = server(half.replace(prefix_hit_share=0.0)), server(half)
    assert warm.new_tokens == 4000
    assert warm.mean_context_tokens == cold.mean_context_tokens
    assert closed(warm, 1.0).ttft_s < closed(cold, 1.0).ttft_s
    off = server(half, enable_prefix_caching=False)
    assert closed(off, 1.0) == closed(cold, 1.0)
    # A prompt half as long without anything before it is cheaper still.
    short = server(half.replace(prompt_tokens=4000, prefix_hit_share=0.0))
    assert closed(short, 1.0).ttft_s < closed(warm, 1.0).ttft_s


def test_a_whole_prompt_in_the_cache_still_computes_one_token() -> None:
    assert server(Workload(prompt_tokens=100, prefix_hit_share=1.0)).new_tokens == 1.0


# Open loop


def test_an_idle_server_answers_as_if_alone() -> None:
    replica = server()
    quiet, alone = open_loop(replica, 1e-4, 1.0), closed(replica, 1.0)
    assert quiet.tpot_s == pytest.approx(alone.tpot_s, rel=0.01)
    assert quiet.ttft_s == pytest.approx(alone.ttft_s, rel=0.01)


@given(st.floats(0.01, 0.98))
@settings(max_examples=40)
def test_the_number_decoding_is_what_little_says(load: float) -> None:
    replica = server()
    rate = load * saturation_rps(replica)
    point = open_loop(replica, rate, 1.0)
    assert point.decodes == pytest.approx(rate * 199 * point.tpot_s, rel=0.02)


@given(st.floats(0.05, 0.9), st.floats(1.01, 1.09))
@settings(max_examples=40)
def test_a_higher_rate_is_never_faster(load: float, growth: float) -> None:
    replica = server()
    highest = saturation_rps(replica)
    slow, fast = (open_loop(replica, load * g * highest, 1.0) for g in (1.0, growth))
    assert fast.tpot_s >= slow.tpot_s * (1 - 2e-3)
    assert fast.ttft_s >= slow.ttft_s * (1 - 2e-3)


def test_past_saturation_the_queue_has_no_end() -> None:
    replica = server()
    point = open_loop(replica, 1.01 * saturation_rps(replica), 1.0)
    assert point.saturated
    assert math.isinf(point.ttft_s)
    assert point.rate_rps == pytest.approx(saturation_rps(replica))
    served = serve(replica, poisson(1e6))
    assert served.saturated
    assert served.bound == "queue"
    assert served.utilization_share == pytest.approx(1.0)


def test_saturation_is_every_slot_decoding() -> None:
    replica = server(max_num_seqs=32)
    point = closed(replica, 1e4)
    assert saturation_rps(replica) == pytest.approx(point.rate_rps, rel=0.05)


def test_burstier_arrivals_wait_longer() -> None:
    replica = server()
    rate = 0.9 * saturation_rps(replica)
    waits = [
        open_loop(replica, rate, arrival_variability(w)).wait_s
        for w in (
            poisson(rate, arrival="constant"), poisson(rate),
            poisson(rate, arrival="gamma", burstiness=0.25),
        )
    ]  # fmt: skip
    assert waits[0] < waits[1] < waits[2]


def test_queue_wait_is_m_d_1() -> None:
    assert queue_wait_s(0.5, 2.0, 1.0) == pytest.approx(1.0)
    assert queue_wait_s(0.0, 2.0, 1.0) == 0.0


def test_slot_wait_of_one_slot_is_m_m_1_at_equal_variability() -> None:
    # Sakasegawa with one server: load / (1 - load) services, times (1 + 0) / 2 here.
    assert slot_wait_s(0.8, 1.0, 3.0, 1.0) == pytest.approx(0.5 * 0.8 / 0.2 * 3.0, rel=1e-6)
    assert math.isinf(slot_wait_s(1.0, 4.0, 1.0, 1.0))


# SLO


def test_the_highest_rate_just_meets_its_targets() -> None:
    replica, slo = server(), Slo.parse_text("ttft<400ms; tpot<15ms")
    rate = max_rate_rps(replica, slo, 1.0)
    assert 0 < rate < saturation_rps(replica)
    at, over = (serve(replica, poisson(rate * g), slo) for g in (0.99, 1.05))
    assert at.meets_slo
    assert over.meets_slo is False
    assert at.max_rate_rps == pytest.approx(rate)


def test_without_an_slo_the_highest_rate_is_saturation() -> None:
    replica = server()
    assert max_rate_rps(replica, None, 1.0) == saturation_rps(replica)
    assert max_rate_rps(replica, Slo.parse_text("quality<4%"), 1.0) == saturation_rps(replica)
    assert serve(replica, poisson(1.0)).meets_slo is None


def test_a_target_below_an_idle_request_has_no_rate() -> None:
    assert max_rate_rps(server(), Slo.parse_text("tpot<1us"), 1.0) == pytest.approx(0.0, abs=0.05)


def test_percentile_targets_say_how_they_are_judged() -> None:
    slo = Slo.parse_text("ttft:p95<3s; e2e<60s")
    assert JUDGED_BY_MEAN in serve(server(), poisson(1.0), slo).assumptions
    assert JUDGED_BY_MEAN not in serve(server(), poisson(1.0)).assumptions


# Static batches


def test_a_static_batch_by_hand() -> None:
    replica = server(Workload(prompt_tokens=512, output_tokens=101), IDEAL)
    result = static(replica, 4.0)
    step = replica.step.step_s
    assert result.prefill_s == pytest.approx(step(2048, 256, 0, 0))
    assert result.decode_s == pytest.approx(step(0, 0, 4, 562.5))
    assert result.e2e_s == pytest.approx(result.prefill_s + 100 * result.decode_s)
    assert result.waves == 1


def test_a_batch_over_the_slots_runs_in_waves() -> None:
    result = static(server(max_num_seqs=8), 32.0)
    assert result.waves == 4
    assert result.ttft_s > static(server(max_num_seqs=32), 32.0).ttft_s


def test_a_static_batch_of_one_is_a_single_stream() -> None:
    replica = server()
    alone = closed(replica, 1.0)
    result = static(replica, 1.0)
    assert result.ttft_s == pytest.approx(alone.ttft_s, rel=1e-3)
    assert result.tpot_s == pytest.approx(alone.tpot_s, rel=1e-3)


# Reports and limits


def test_what_binds() -> None:
    assert serve(server(), Workload(concurrency=1, prompt_tokens=16, output_tokens=500)).bound == (
        "memory"
    )
    prefill = Workload(concurrency=64, prompt_tokens=8000, output_tokens=2)
    assert serve(server(prefill), prefill).bound == "compute"
    served = serve(server(), Workload(concurrency=8, prompt_tokens=1000, output_tokens=200))
    assert served.next_bound != served.bound
    assert served.output_tokens_per_s == pytest.approx(served.request_rate_rps * 200)
    assert served.total_tokens_per_s == pytest.approx(served.request_rate_rps * 1200)
    assert served.num_in_flight == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "engine", "wanted"),
    [
        ({}, "vllm", (1024, 8192)),
        ({"memory_bytes": 190 * 10**9}, "vllm", (1024, 16384)),
        ({"id": "A100-SXM-80GB"}, "vllm", (256, 2048)),
        ({"memory_bytes": 24 * 10**9}, "vllm", (256, 2048)),
        ({}, "llama.cpp", (1024, 512)),
        ({"kind": "cpu"}, "vllm", (128, 2048)),
    ],
)
def test_engine_defaults(changes: dict[str, Any], engine: str, wanted: tuple[int, int]) -> None:
    assert default_batching(Deployment(engine=engine), H100.replace(**changes)) == wanted


def test_what_is_asked_overrides_the_defaults() -> None:
    limits = limits_of(
        Deployment(max_num_seqs=7, max_num_batched_tokens=333), H100, 1000.0, kv_tokens=1e9
    )
    assert (limits.slots, limits.chunk_tokens, limits.slots_by) == (7.0, 333.0, "max_num_seqs")


@given(st.floats(0.1, 99.9))
def test_the_root_is_found(wanted: float) -> None:
    root = bracketed_root(lambda x: x**3 - wanted**3, 0.0, 100.0, -(wanted**3), 1e-6 * wanted**3)
    assert root == pytest.approx(wanted, rel=1e-5)
    flat = bracketed_root(lambda x: 1.0 if x > wanted else -1.0, 0.0, 100.0, -1.0, 1e-9)
    assert flat == pytest.approx(wanted, rel=1e-3)
    assert bracketed_root(lambda x: x - 200, 0.0, 100.0, -200.0, 1e-6) == 100.0


# Public rows


def public_rows() -> list[dict[str, str]]:
    path = Path(__file__).parents[1] / "data" / "llama8b_h100_rows.csv"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


@pytest.mark.parametrize("row", public_rows(), ids=lambda row: row["id"])
def test_llama_8b_on_an_h100_is_near_what_was_published(row: dict[str, str]) -> None:
    from neoserve.catalog.coefficients import coefficients_for

    coefficients = coefficients_for(H100.replace(compute_capability="9.0"), row["engine"])
    chosen = Deployment(engine=row["engine"])
    workload = Workload(
        prompt_tokens=int(row["isl"]), output_tokens=int(row["osl"]),
        concurrency=int(row["concurrency"]),
    )  # fmt: skip
    step = StepModel(MODEL, H100, chosen, coefficients)
    point = closed(server_of(step, H100, chosen, coefficients, workload), workload.concurrency)
    assert point.tpot_s == pytest.approx(float(row["tpot_ms"]) / 1e3, rel=0.3)


def test_a_varied_batch_lasts_as_long_as_its_steps_counted_one_by_one() -> None:
    replica = server(Workload(prompt_tokens=200, output_tokens=200))
    batch, mean = 64.0, replica.decode_tokens
    context = replica.mean_context_tokens
    step_s = replica.step.step_s
    counted_s = sum(
        step_s(0.0, 0.0, left, context)
        for k in range(int(mean * math.log(batch)))
        if (left := batch * math.exp(-(k + 0.5) / mean)) >= 1.0
    )
    prefill_s = static(replica, batch).prefill_s
    assert static(replica, batch, varied=True).e2e_s == pytest.approx(
        prefill_s + counted_s, rel=0.01
    )
    assert static(replica, batch, varied=True).e2e_s > static(replica, batch).e2e_s


def test_equal_requests_with_long_prompts_keep_starting_together() -> None:
    long = Workload(prompt_tokens=8000, output_tokens=64)
    short = Workload(prompt_tokens=100, output_tokens=2000)
    for workload, share in ((long, 0.5), (short, 0.15)):
        alone = closed(server(workload, values={**REAL, "convoy_odds": 0.0}), 32.0)
        real = closed(server(workload, values={**REAL, "convoy_odds": 0.1}), 32.0)
        together = static(server(workload), 32.0)
        moved = (real.ttft_s - alone.ttft_s) / (together.ttft_s - alone.ttft_s)
        assert (moved > share) == (workload is long), workload


def test_a_burst_passes_the_front_end_one_by_one() -> None:
    plain = static(server(values={**REAL, "request_serial_s": 0.0}), 100.0)
    serial = static(server(values={**REAL, "request_serial_s": 0.005}), 100.0)
    assert serial.ttft_s - plain.ttft_s == pytest.approx(0.25)
    assert serial.e2e_s - plain.e2e_s == pytest.approx(0.5)
