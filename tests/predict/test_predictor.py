"""One deployment: refusals, capacity, rates, bills and advice, each checked from outside."""

from __future__ import annotations

import re

import pytest
from asking import LLAMA, predicted
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError
from neoserve.faces.ask import ask_for
from neoserve.predict.memo import Memo
from neoserve.predict.predictor import Ask, given_price, predict, with_memory
from neoserve.schema.ask import PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload
from neoserve.units import parse_bytes, show_bytes

GIB = 2**30
GEMMA = "google/gemma-3-27b-it"
MAMBA = "tiiuae/falcon-mamba-7b"
POISSON = Workload(arrival="poisson", rate_rps=2.0)


def ask(on: str = "H100-SXM", **deployment: object) -> Ask:
    settings = {"max_model_len": 8192, **deployment}
    request = PredictAsk(model=LLAMA, on=on, online=False)
    return ask_for(
        find_model(LLAMA, online=False), find_machine(on), Deployment(**settings), request
    )


# what cannot start


@pytest.mark.parametrize(
    ("model", "on", "deployment", "said"),
    [
        (LLAMA, "L4", {"tensor_parallel": 4, "pipeline_parallel": 4},
         "tensor_parallel x pipeline_parallel = 16 devices; L4 has 8"),
        (LLAMA, "g6.2xlarge", {"tensor_parallel": 2}, "= 2 devices; g6.2xlarge has 1"),
        (LLAMA, "64xH100-SXM", {"pipeline_parallel": 33}, "33 pipeline stages for 32 layers"),
        (LLAMA, "H100-SXM", {"max_model_len": 200_000},
         "max_model_len 200,000 is beyond the model's 131,072 tokens"),
        (LLAMA, "H100-SXM", {"max_model_len": 639},
         "requests of 640 tokens are longer than max_model_len 639"),
        (LLAMA, "H100-SXM", {"expert_parallel": True}, "expert_parallel needs a model with"),
        (LLAMA, "H100-SXM", {"tensor_parallel": 3}, "32 attention heads cannot be cut over"),
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_before_memory(model, on, deployment, said) -> None:
    answer = predicted(model, on, deployment)
    assert said in answer.refusal
    assert not answer.starts
    assert answer.memory is answer.kv is answer.latency is answer.throughput is answer.cost is None
    assert answer.command == ""


def test_a_request_of_exactly_the_maximum_length_is_served() -> None:
    assert predicted(deployment={"max_model_len": 640}).starts


def test_experts_may_be_spread() -> None:
    answer = predicted("Qwen/Qwen3-30B-A3B", deployment={"expert_parallel": True,
                                                         "tensor_parallel": 2})  # fmt: skip
    assert answer.starts


def test_weights_that_do_not_fit_say_so() -> None:
    # 2 x 70,553,706,496 B = 131.4 GiB; 92 % of 22.03 GiB = 20.3
    answer = predicted("meta-llama/Meta-Llama-3.1-70B", "L4")
    assert answer.refusal == ("weights alone take 131 GiB of each device's usable 20.3 GiB")
    assert answer.bound == "memory"
    assert answer.meets_slo is None
    assert predicted("meta-llama/Meta-Llama-3.1-70B", "L4", slo="ttft<1s").meets_slo is False


def test_nothing_left_for_the_cache() -> None:
    # 15 GiB of weights fit in 16, the pass that is profiled does not fit beside them
    answer = predicted(memory_bytes=int(16.5 * GIB))
    assert answer.refusal == "no memory is left for the KV cache after weights and activations"
    assert answer.memory is not None
    assert answer.memory.available_kv_bytes < 0


def test_a_length_that_does_not_fit_is_refused_with_the_one_that_does() -> None:
    answer = predicted(deployment={"max_model_len": 131072}, available_kv_bytes=4 * GIB)
    assert "one request of 131,072 tokens needs 16.0 GiB of KV cache" in answer.refusal
    # 2048 blocks of 16 tokens, one of them held back
    assert answer.refusal.endswith("it would start with max_model_len 32,752")
    again = predicted(deployment={"max_model_len": 32752}, available_kv_bytes=4 * GIB)
    more = predicted(deployment={"max_model_len": 32768}, available_kv_bytes=4 * GIB)
    assert again.starts
    assert not more.starts


def test_more_sequences_than_states_are_refused() -> None:
    # 64 layers of 19 x 8192 values of 2 B: 19 MiB a block; 2 GiB hold 107
    state = 64 * 19 * 8192 * 2
    blocks = 2 * GIB // state
    deployment = {"max_model_len": 2048, "max_num_seqs": blocks + 1}
    answer = predicted(MAMBA, deployment=deployment, available_kv_bytes=2 * GIB)
    assert answer.refusal == (
        f"max_num_seqs {blocks + 1} is more than the {blocks} blocks that hold request states; "
        "lower it"
    )
    deployment["max_num_seqs"] = blocks
    assert predicted(MAMBA, deployment=deployment, available_kv_bytes=2 * GIB).starts


# capacity


def test_given_bytes_replace_the_budget() -> None:
    answer = predicted(available_kv_bytes=20 * GIB)
    assert answer.memory is not None
    assert answer.kv is not None
    assert answer.memory.available_kv_bytes == 20 * GIB
    assert answer.kv.num_blocks == 10240  # of 2 MiB
    assert answer.kv.max_concurrency == 20.0


def test_the_tightest_stage_is_shown() -> None:
    # Gemma-3-27B ties its head: the last of four stages loads 262208 x 5376 words once more,
    # the first holds them and the vision encoder
    answer = predicted(GEMMA, deployment={"pipeline_parallel": 4})
    whole = find_model(GEMMA, online=False)
    assert answer.memory is not None
    table, encoder = 2 * whole.embedding_params, 2 * whole.vision_params
    layers = answer.memory.weights_bytes - table - encoder
    assert layers == pytest.approx(
        15 / 62 * 2 * (whole.total_params - whole.embedding_params - whole.vision_params), rel=0.01
    )


def test_a_model_without_any_cache_never_runs_out() -> None:
    asked = ask()
    bare = asked.model.layers[0]
    bare = bare.replace(mixers=tuple(m.replace(caches=False) for m in bare.mixers))
    answer = predict(replace(asked, model=asked.model.replace(layers=(bare,) * 32)))
    assert answer.starts
    assert answer.kv is not None
    assert answer.kv.groups == ()
    assert answer.kv.bytes_per_token == answer.kv.bytes_per_request == 0


@given(
    st.sampled_from([LLAMA, "Qwen/Qwen2.5-3B", "openai/gpt-oss-20b"]),
    st.integers(2, 60), st.integers(0, 20), st.sampled_from([0, 1024, 4096]),
    st.sampled_from([1024, 8192, 16384]),
)  # fmt: skip
@settings(deadline=None, max_examples=25)
def test_memory_length_and_dtype_move_concurrency_the_right_way(
    model: str, gib: int, more: int, longer: int, length: int
) -> None:
    def concurrency(kv_bytes: int, tokens: int, dtype: str = "auto") -> float:
        kv = predicted(
            model, deployment={"max_model_len": tokens, "kv_cache_dtype": dtype},
            available_kv_bytes=kv_bytes,
        ).kv  # fmt: skip
        assert kv is not None
        return kv.max_concurrency

    base = concurrency(gib * GIB, length)
    assert concurrency((gib + more) * GIB, length) >= base
    assert concurrency(gib * GIB, length + longer) <= base
    assert concurrency(gib * GIB, length, "fp8") == pytest.approx(2 * base, rel=0.01)


# rates


@pytest.mark.parametrize("concurrency", [1, 4, 32])
def test_littles_law_holds_in_a_closed_loop(concurrency: int) -> None:
    answer = predicted(workload=Workload(concurrency=concurrency))
    assert answer.throughput is not None
    assert answer.latency is not None
    rate = answer.throughput.output_tokens_per_s / 128
    assert rate * answer.latency.e2e_s.mean == pytest.approx(concurrency, rel=0.01)
    assert answer.throughput.total_tokens_per_s == pytest.approx(rate * (512 + 128))


def test_the_time_of_a_request_is_its_first_token_and_the_others() -> None:
    latency = predicted(workload=POISSON).latency
    assert latency is not None
    assert latency.e2e_s.mean == pytest.approx(latency.ttft_s.mean + 127 * latency.tpot_s.mean)


def test_an_open_load_below_capacity_is_served_as_it_comes() -> None:
    throughput = predicted(workload=POISSON).throughput
    assert throughput is not None
    assert throughput.output_tokens_per_s == pytest.approx(2.0 * 128)
    assert throughput.max_rate_rps is not None
    assert throughput.max_rate_rps > 2.0


def test_a_load_beyond_capacity_is_served_at_capacity_and_waits_for_ever() -> None:
    answer = predicted(workload=POISSON.replace(rate_rps=10_000.0), slo="ttft<1h")
    assert answer.throughput is not None
    assert answer.latency is not None
    assert answer.throughput.goodput_rps == 0.0
    assert answer.meets_slo is False
    assert answer.latency.ttft_s.mean is None  # it grows without bound
    assert answer.bound in ("kv", "queue")


def test_goodput_is_what_meets_the_slo() -> None:
    met = predicted(workload=POISSON, slo="ttft<10s; tpot<1s")
    missed = predicted(workload=POISSON, slo="tpot<1us")
    unasked = predicted(workload=POISSON)
    assert met.throughput is not None
    assert missed.throughput is not None
    assert unasked.throughput is not None
    assert (met.meets_slo, missed.meets_slo, unasked.meets_slo) == (True, False, None)
    assert met.throughput.goodput_rps == pytest.approx(2.0)
    assert missed.throughput.goodput_rps == 0.0
    assert unasked.throughput.goodput_rps is None


def test_the_highest_rate_meets_the_slo_and_a_higher_one_does_not() -> None:
    slo = "ttft<200ms; tpot<20ms"
    throughput = predicted(workload=POISSON, slo=slo).throughput
    assert throughput is not None
    highest = throughput.max_rate_rps
    assert highest
    assert predicted(workload=POISSON.replace(rate_rps=highest * 0.97), slo=slo).meets_slo
    assert not predicted(workload=POISSON.replace(rate_rps=highest * 1.1), slo=slo).meets_slo


# instances and copies


@pytest.mark.parametrize(("tp", "copies"), [(1, 8), (2, 4), (4, 2), (8, 1)])
def test_an_instance_is_filled_with_copies(tp: int, copies: int) -> None:
    # p5.48xlarge: 8 x H100 for $55.04 an hour, rented whole
    load = Workload(arrival="poisson", rate_rps=16.0)
    answer = predicted(on="p5.48xlarge", deployment={"tensor_parallel": tp}, workload=load)
    one = predicted(deployment={"tensor_parallel": tp},
                    workload=load.replace(rate_rps=16.0 / copies))  # fmt: skip
    assert answer.deployment.replicas == copies
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == pytest.approx(55.04)
    assert answer.latency == one.latency  # each copy sees its share of the load
    assert answer.throughput is not None
    assert one.throughput is not None
    assert answer.throughput.output_tokens_per_s == pytest.approx(16 * 128)
    assert answer.throughput.max_rate_rps == pytest.approx(copies * one.throughput.max_rate_rps)


def test_a_copy_that_leaves_devices_idle_still_pays_for_them() -> None:
    answer = predicted(on="p5.48xlarge", deployment={"pipeline_parallel": 3}, workload=POISSON)
    assert answer.deployment.replicas == 2  # 6 of 8 devices
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == pytest.approx(55.04)


def test_copies_that_are_asked_for_are_taken() -> None:
    answer = predicted(deployment={"replicas": 3}, workload=POISSON, usd_per_hour=2.0)
    assert answer.deployment.replicas == 3
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == pytest.approx(6.0)
    assert answer.throughput is not None
    assert answer.throughput.output_tokens_per_s == pytest.approx(2.0 * 128)


@pytest.mark.parametrize("concurrency", [16, 64])
def test_a_closed_load_is_shared_evenly(concurrency: int) -> None:
    eight = predicted(on="p5.48xlarge", workload=Workload(concurrency=concurrency))
    one = predicted(workload=Workload(concurrency=concurrency // 8))
    assert eight.latency == one.latency
    assert eight.throughput is not None
    assert one.throughput is not None
    assert eight.throughput.output_tokens_per_s == pytest.approx(
        8 * one.throughput.output_tokens_per_s
    )


def test_a_list_of_devices_holds_one_copy_and_pays_for_what_it_uses() -> None:
    answer = predicted(on="8xL40S", deployment={"tensor_parallel": 4}, usd_per_hour=0.8)
    assert (answer.deployment.num_devices, answer.deployment.replicas) == (8, 1)
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == pytest.approx(4 * 0.8)
    assert (
        "= 16 devices; L40S has 8"
        in predicted(on="8xL40S", deployment={"tensor_parallel": 16}).refusal
    )


# money


@pytest.mark.parametrize(
    ("on", "tp", "usd"),
    [
        ("H100-SXM", 1, 2.0),  # by the piece
        ("H100-SXM", 4, 8.0),
        ("p5.48xlarge", 4, 2.0),  # for the instance
        ("c8g.4xlarge", 1, 2.0),
    ],
)
def test_a_given_price_is_for_the_thing_named(on: str, tp: int, usd: float) -> None:
    answer = predicted("Qwen/Qwen2.5-1.5B-Instruct", on, {"tensor_parallel": tp}, usd_per_hour=2.0)
    assert answer.cost is not None
    assert answer.cost.price_basis == "given"
    assert answer.cost.usd_per_hour == pytest.approx(usd)
    assert answer.cost.usd_per_month == pytest.approx(usd * 730)


@pytest.mark.parametrize("tp", [1, 4])
def test_devices_that_are_only_rented_by_eight_are_priced_by_the_piece(tp: int) -> None:
    # V100-SXM-32GB: p3dn.24xlarge holds eight for $31.212
    answer = predicted("Qwen/Qwen2.5-1.5B-Instruct", "V100-SXM-32GB", {"tensor_parallel": tp})
    assert answer.cost is not None
    assert answer.cost.usd_per_hour == pytest.approx(31.212 / 8 * tp)


def test_a_dollar_is_divided_by_each_kind_of_token() -> None:
    answer = predicted(workload=POISSON, usd_per_hour=3.6, utilization_share=0.5)
    cost = answer.cost
    assert cost is not None
    # half of each hour 256 output and 1024 prompt tokens a second; $3.6 an hour is $0.001 a second
    assert cost.usd_per_mtok_output == pytest.approx(0.001 / 128 * 1e6)
    assert cost.usd_per_mtok_input == pytest.approx(0.001 / 512 * 1e6)
    assert cost.usd_per_mtok_total == pytest.approx(0.001 / 640 * 1e6)


def test_without_a_price_there_is_no_cost() -> None:
    answer = predicted(on="A30")
    assert answer.starts
    assert answer.cost is None
    assert predicted(on="A30", usd_per_hour=1.0).cost is not None


def test_a_load_of_nothing_has_no_price_a_token() -> None:
    idle = predict(replace(ask(), workload=POISSON.replace(rate_rps=0.0)))
    assert idle.throughput is not None
    assert idle.throughput.output_tokens_per_s == 0.0
    assert idle.cost is None


@pytest.mark.parametrize("share", [0.0, 1.5])
def test_an_absurd_utilization_is_refused(share: float) -> None:
    with pytest.raises(AskError, match="utilization"):
        predicted(utilization_share=share)


def test_price_and_memory_of_a_machine_can_be_given() -> None:
    p5, h100 = find_machine("p5.48xlarge"), find_machine("H100-SXM")
    assert given_price(p5, 40.0).priced_devices == 8
    assert given_price(h100, 2.0).priced_devices == 1
    smaller = with_memory(h100.hardware, 40 * GIB)
    assert (smaller.memory_bytes, smaller.reported_memory_bytes) == (40 * GIB, 40 * GIB)


# what it says


@pytest.mark.parametrize(
    ("model", "on", "said"),
    [
        (GEMMA, "H100-SXM", "images are not modelled"),
        (LLAMA, "A30", "98.5 % of the nominal 24 GiB is taken"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "H200", "KV cache in fp8: the checkpoint carries"),
        (LLAMA, "H100-SXM", "the three prices are alternatives, not parts"),
    ],
)
def test_assumptions_are_said_once(model: str, on: str, said: str) -> None:
    notes = predicted(model, on).assumptions
    assert len([note for note in notes if said in note]) == 1
    assert len(set(notes)) == len(notes)


def test_assumptions_are_left_out_where_they_do_not_hold() -> None:
    notes = " ".join(predicted("nvidia/Llama-3.1-70B-Instruct-FP8", "H200",
                               {"kv_cache_dtype": "bfloat16"}).assumptions)  # fmt: skip
    assert "carries its scales" not in notes
    assert "images" not in notes
    assert "98.5" not in notes


@pytest.mark.parametrize(
    ("model", "on"), [(GEMMA, "H100-SXM"), (LLAMA, "L4"), ("Qwen/Qwen3-8B", "L4")]
)
def test_advice_frees_what_it_says(model: str, on: str) -> None:
    before = predicted(model, on)
    assert before.memory is not None
    assert before.advice
    freed_bytes = []
    for line in (line for line in before.advice if "frees" in line):
        name, freed = re.fullmatch(r"(.+) frees (.+) a device", line).groups()  # type: ignore[union-attr]
        if name.startswith("enforce_eager"):
            change: dict[str, object] = {"enforce_eager": True}
        else:
            setting, value = name.split(" ")
            change = {setting: int(value)}
        after = predicted(model, on, change).memory
        assert after is not None
        really = after.available_kv_bytes - before.memory.available_kv_bytes
        assert show_bytes(really) == freed
        freed_bytes.append(parse_bytes(freed.replace(" ", "")))
    assert freed_bytes == sorted(freed_bytes, reverse=True)


def test_advice_does_not_propose_what_is_set() -> None:
    lines = predicted(GEMMA, deployment={"enforce_eager": True}).advice
    assert not any("enforce_eager" in line for line in lines)
    small = predicted(GEMMA, deployment={"max_num_seqs": 1, "max_num_batched_tokens": 512})
    assert not any("max_num" in line for line in small.advice)


def test_padding_between_layer_types_is_told() -> None:
    # Zamba2-7B: 81 states of 3 x 7424 + 112 x 4096 values of 2 B, three for a request, stand in
    # pages of 48 tokens x 2 x 32 heads x 224 x 2 B: 30 % of each page of a state is empty
    state = 2 * (3 * 7424 + 112 * 4096)
    page = 48 * 2 * 32 * 224 * 2
    assert 0.30 < 1 - state / page < 0.31
    tight = {"max_model_len": 2048}
    zamba = predicted("Zyphra/Zamba2-7B-Instruct", deployment=tight)
    assert zamba.kv is not None
    shares = [int(n) / 100 for n in re.findall(r"(\d+)% of a long request", str(zamba.advice))]
    empty = 81 * 3 * (page - state) / zamba.kv.bytes_per_request
    assert len(shares) == 1
    assert shares[0] >= round(empty, 2) > 0.05
    # Nemotron-3-Nano: 2,134,016 B of state in a page of 2,096 tokens x 1,024 B waste 0.6 %
    nemotron = predicted("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    assert 1 - 2_134_016 / (2096 * 1024) < 0.01
    assert not any("padding" in line for line in nemotron.advice)


# other engines


def test_llama_cpp_allocates_every_slot_at_the_start() -> None:
    # 4 slots x 8192 cells of 131,072 B: 4 GiB
    settings = {"engine": "llama.cpp", "max_num_seqs": 4}
    answer = predicted(on="L4", deployment=settings)
    assert answer.kv is not None
    assert answer.kv.kv_tokens == 4 * 8192
    assert answer.kv.max_concurrency == 4.0
    assert answer.kv.bytes_per_token == 131072
    assert answer.kv.bytes_per_request == GIB
    # q8_0 keys and values: 34 bytes for 32 elements
    packed = predicted(on="L4", deployment={**settings, "kv_cache_dtype": "fp8"}).kv
    assert packed is not None
    assert packed.bytes_per_token == 131072 / 2 * 34 / 32


def test_llama_cpp_refuses_slots_that_do_not_fit() -> None:
    # 16 slots x 32768 cells x 131,072 B = 64 GiB
    answer = predicted(
        on="L4", deployment={"engine": "llama.cpp", "max_num_seqs": 16, "max_model_len": 32768}
    )
    assert answer.refusal.startswith("16 slots of 32,768 tokens need 64.0 GiB of KV cache and")
    assert answer.refusal.endswith("are free; lower max_model_len or max_num_seqs")


@pytest.mark.parametrize(("engine", "block"), [("sglang", 1), ("tensorrt-llm", 32)])
def test_pools_of_tokens_hold_given_bytes(engine: str, block: int) -> None:
    answer = predicted(deployment={"engine": engine}, available_kv_bytes=20 * GIB)
    assert answer.starts
    assert answer.kv is not None
    assert answer.kv.kv_tokens == 163840  # of 131,072 B
    assert answer.kv.block_size_tokens == block
    assert answer.kv.max_concurrency == 20.0
    short = predicted(deployment={"engine": engine}, available_kv_bytes=GIB // 2)
    assert "one request of 8,192 tokens needs 1.00 GiB" in short.refusal


def test_states_alone_limit_how_many_run() -> None:
    answer = predicted(
        MAMBA, deployment={"engine": "sglang", "max_model_len": 2048}, available_kv_bytes=2 * GIB
    )
    states = 2 * GIB - 2 * GIB / 1.9
    assert answer.starts
    assert answer.kv is not None
    assert answer.kv.max_concurrency == int(states / (64 * 19 * 8192 * 2)) - 1


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["H100-SXM", "2xL40S", "MI300X"]),
    st.sampled_from(["vllm", "sglang", "llama.cpp"]),
    st.integers(1, 2),
    st.integers(1, 8000),
    st.integers(1, 500),
)
def test_what_is_kept_of_a_deployment_changes_no_answer(
    on: str, engine: str, tp: int, prompt: int, concurrency: int
) -> None:
    """The same ask with a memo of its own, which keeps nothing between predictions."""
    asked = ask(on, engine=engine, tensor_parallel=tp)
    load = asked.workload.replace(prompt_tokens=prompt, concurrency=concurrency)
    found = replace(asked, workload=load)
    assert predict(found) == predict(found, Memo())
    less = replace(found, available_kv_bytes=GIB)
    assert predict(less) == predict(less, Memo())
