"""Step time: roofline bounds, monotonicity, and cases by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from coefficient_values import IDEAL, REAL
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.predict.formats import cores_share, resolve_path
from neoserve.predict.step import (
    StepModel,
    overlap_s,
    shape_of,
    touched_experts,
)
from neoserve.schema.coefficients import Coefficients
from neoserve.schema.engine import Deployment
from neoserve.schema.hardware import HardwareSpec, Link
from neoserve.schema.model import Ffn, Layer, Mixer, ModelSpec, Quantization, State


def coefficients(**changes: Any) -> Coefficients:
    return Coefficients(**{**IDEAL, **changes})


def device(**changes: Any) -> HardwareSpec:
    return HardwareSpec(
        id="dev", name="Dev", vendor="nvidia", kind="gpu", memory_bytes=80 * 10**9,
        bandwidth_bytes_per_s=1e12, peak_flops_per_s={"bf16": 1e14, "fp8": 2e14},
        link=Link(kind="nvlink", bandwidth_bytes_per_s=1e11), pcie_bandwidth_bytes_per_s=1e10,
    ).replace(**changes)  # fmt: skip


def attention(**changes: Any) -> Mixer:
    return Mixer(
        kind="full", num_heads=8, num_kv_heads=2, head_dim=64, v_head_dim=64, params=10**6
    ).replace(**changes)


def model(layers: int = 2, mixer: Mixer | None = None, ffn: Ffn | None = None) -> ModelSpec:
    layer = Layer(mixers=(mixer or attention(),), ffn=ffn or Ffn(dense_params=3 * 10**6))
    return ModelSpec(
        id="m", architecture="M", family="dense", hidden_size=512, vocab_size=1000, num_heads=8,
        max_position_tokens=4096, dtype="bfloat16", layers=(layer,) * layers,
        embedding_params=512_000, lm_head_params=512_000,
    )  # fmt: skip


def step(spec: ModelSpec | None = None, **deployment: Any) -> StepModel:
    return StepModel(spec or model(), device(), Deployment(**deployment), Coefficients(**REAL))


def ideal(spec: ModelSpec | None = None, **deployment: Any) -> StepModel:
    return StepModel(spec or model(), device(), Deployment(**deployment), coefficients())


def seconds(built: StepModel, name: str, *batch: float) -> float:
    return sum(part.seconds for part in built.parts(*batch) if part.name == name)


# By hand


def test_decode_of_one_request_reads_weights_head_and_cache_once() -> None:
    # 2 layers x 4e6 weights + head 512e3, two bytes each, at 1e12 B/s; the cache:
    # 2 layers x 2 KV heads x 128 x 2 B x 1000 tokens; activations of one token beside it.
    built = ideal()
    assert seconds(built, "attention", 0, 0, 1, 1000) == pytest.approx(4e-6)
    assert seconds(built, "mlp", 0, 0, 1, 1000) == pytest.approx(12e-6)
    assert seconds(built, "lm_head", 0, 0, 1, 1000) == pytest.approx(1.024e-6)
    cache = seconds(built, "attention over context", 0, 0, 1, 1000)
    assert cache == pytest.approx(2 * 2 * 128 * 2 * 1000 / 1e12)


def test_prefill_multiplies_every_weight_and_half_the_square() -> None:
    built, tokens = ideal(), 1e6
    assert seconds(built, "mlp", tokens, tokens / 2, 0, 0) == pytest.approx(2 * 6e6 * tokens / 1e14)
    # 2 layers x 2 FLOPs x 8 heads x (64 + 64), each token sees half a million others.
    pairs = tokens * tokens / 2
    assert seconds(built, "attention over context", tokens, tokens / 2, 0, 0) == pytest.approx(
        2 * 2 * 8 * 128 * pairs / 1e14
    )


def test_a_window_ends_what_attention_reads() -> None:
    sliding = ideal(model(mixer=attention(kind="sliding", window_tokens=100)))
    assert sliding.step_s(0, 0, 4, 100) == pytest.approx(sliding.step_s(0, 0, 4, 10_000))
    assert ideal().step_s(0, 0, 4, 100) < ideal().step_s(0, 0, 4, 10_000)


def test_latent_cache_is_read_whole_by_every_rank() -> None:
    latent = Mixer(kind="mla", num_heads=16, head_dim=192, v_head_dim=128, latent_dim=512,
                   rope_dim=64, params=10**6)  # fmt: skip
    one, four = (
        seconds(ideal(model(mixer=latent), tensor_parallel=tp), "attention over context",
                0, 0, 1, 10_000)
        for tp in (1, 4)
    )  # fmt: skip
    assert one == pytest.approx(2 * 576 * 2 * 10_000 / 1e12)
    assert four == pytest.approx(one)


def test_sparse_attention_reads_its_top_tokens_and_scans_the_index() -> None:
    sparse = Mixer(kind="mla-sparse", num_heads=16, head_dim=192, v_head_dim=128, latent_dim=512,
                   rope_dim=64, index_dim=128, topk_tokens=2048, params=10**6)  # fmt: skip
    read = seconds(ideal(model(mixer=sparse)), "attention over context", 0, 0, 1, 100_000)
    assert read == pytest.approx(2 * (576 * 2 * 2048 + 132 * 100_000) / 1e12, rel=0.01)


def test_compressed_latents_are_a_window_and_a_thinned_rest() -> None:
    compressed = Mixer(kind="mla-compressed", num_heads=16, latent_dim=512, rope_dim=64,
                       window_tokens=128, compress_ratio=4, params=10**6)  # fmt: skip
    read = seconds(ideal(model(mixer=compressed)), "attention over context", 0, 0, 1, 100_000)
    assert read == pytest.approx(2 * 576 * 2 * (128 + 25_000) / 1e12, rel=1e-6)
    near = compressed.replace(compress_ratio=0)
    only = seconds(ideal(model(mixer=near)), "attention over context", 0, 0, 1, 100_000)
    assert only == pytest.approx(2 * 576 * 2 * 128 / 1e12, rel=1e-6)


def test_states_are_read_and_written_whatever_the_context() -> None:
    state = State(conv_kernel=4, conv_dim=100, rows=8, row_elements=1000,
                  recurrent_dtype="float32")  # fmt: skip
    built = ideal(model(mixer=Mixer(kind="gated-delta", params=10**6, state=state)))
    moved = seconds(built, "states", 0, 0, 3, 5000)
    assert moved == pytest.approx(3 * 2 * 2 * (300 * 2 + 8000 * 4) / 1e12)
    assert built.step_s(0, 0, 3, 10) == built.step_s(0, 0, 3, 1_000_000)


def test_touched_experts_by_hand() -> None:
    assert touched_experts(8, 2, 1) == pytest.approx(2)
    assert touched_experts(8, 2, 2) == pytest.approx(3.5)
    assert touched_experts(8, 2, 1e6) == pytest.approx(8)


def test_experts_read_what_is_touched_and_multiply_what_is_active() -> None:
    experts = Ffn(num_experts=8, experts_per_token=2, expert_params=10**6)
    built = ideal(model(ffn=experts))
    assert seconds(built, "experts", 0, 0, 1, 0) == pytest.approx(2 * 2 * 1e6 * 2 / 1e12)
    assert seconds(built, "experts", 1e6, 0, 0, 0) == pytest.approx(2 * 2 * 2e6 * 1e6 / 1e14)


def test_all_reduce_by_hand() -> None:
    built = StepModel(
        model(), device(), Deployment(num_devices=4, tensor_parallel=4),
        coefficients(collective_s=1e-5),
    )  # fmt: skip
    # Two a layer, two hops of latency; 2 x 3/4 of 10 rows of 1,024 B over 1e11 B/s.
    wanted = 4 * (2e-5 + 10 * 1024 * 1.5 / 1e11)
    assert seconds(built, "collectives", 0, 0, 10, 0) == pytest.approx(wanted)


def test_without_a_link_collectives_are_staged_through_the_host() -> None:
    built = StepModel(
        model(), device(link=None), Deployment(num_devices=2, tensor_parallel=2),
        coefficients(collective_s=1e-5),
    )  # fmt: skip
    assert seconds(built, "collectives", 0, 0, 10, 0) == pytest.approx(
        4 * (3e-5 + 10 * 1024 / 1e10)
    )


def test_eager_pays_launches_that_graphs_do_not() -> None:
    assert step(enforce_eager=True).step_s(0, 0, 1, 0) > step().step_s(0, 0, 1, 0)


def test_layers_that_are_half_count_half() -> None:
    halves = (Layer(mixers=(attention(),)), Layer(mixers=(), ffn=Ffn(dense_params=10)))
    assert shape_of(model().replace(layers=halves)).num_blocks == 1.0
    assert shape_of(model(layers=3)).num_blocks == 3.0


@pytest.mark.parametrize(
    ("asked", "checkpoint", "wanted"),
    [("auto", "auto", 256), ("fp8", "auto", 128), ("auto", "fp8", 128), ("bfloat16", "fp8", 256),
     ("nvfp4", "auto", 72)],
)  # fmt: skip
def test_the_cache_format_sets_what_is_read(asked: str, checkpoint: str, wanted: float) -> None:
    built = ideal(model().replace(kv_cache_dtype=checkpoint), kv_cache_dtype=asked)
    read = seconds(built, "attention over context", 0, 0, 1, 1000)
    assert read == pytest.approx(2 * 2 * wanted * 1000 / 1e12)


# Formats


def quantized(compute: str, bits: float) -> ModelSpec:
    roles = ("attention", "mlp", "experts", "shared_experts")
    return model().replace(
        quantization=Quantization(
            scheme="x", bits=dict.fromkeys(roles, bits), compute=dict.fromkeys(roles, compute)
        )
    )


def test_fp8_multiplies_twice_as_fast_where_the_hardware_has_it() -> None:
    fast = ideal(quantized("fp8", 8))
    assert fast.notes == ()
    assert seconds(fast, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / 2e14)


def test_fp8_without_units_reads_less_but_multiplies_in_16_bits_and_says_so() -> None:
    old = StepModel(
        quantized("fp8", 8), device(peak_flops_per_s={"bf16": 1e14}), Deployment(), coefficients()
    )
    assert seconds(old, "mlp", 0, 0, 1, 0) == pytest.approx(6e-6)
    assert seconds(old, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / 1e14)
    assert any("does not multiply fp8" in note for note in old.notes)


def test_four_bit_weights_are_unpacked() -> None:
    slow = StepModel(quantized("bf16", 4), device(), Deployment(), coefficients(unpack_share=0.5))
    assert seconds(slow, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / 0.5e14)
    assert seconds(slow, "mlp", 0, 0, 1, 0) == pytest.approx(3e-6)
    assert slow.notes == ()


def test_a_device_without_bf16_uses_fp16_and_says_so() -> None:
    volta = StepModel(
        model(), device(peak_flops_per_s={"fp16": 5e13, "fp32": 1e13}), Deployment(),
        coefficients(),
    )  # fmt: skip
    assert seconds(volta, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / 5e13)
    assert volta.notes == ("Dev has no bf16 peak: fp16 is used",)


def test_fp8_with_block_scales_has_its_own_rate() -> None:
    blocks = StepModel(
        quantized("fp8", 8 + 32 / 128**2), device(), Deployment(), coefficients(block_share=0.5)
    )
    assert seconds(blocks, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / 1e14)


def test_experts_have_rates_of_their_own_by_what_multiplies() -> None:
    """A kernel that multiplies experts is another than the one for a layer's own products."""
    own = {"block": 0.5, "fp8": 0.25, "unpacked": 0.2}
    made = coefficients(expert_dtype_share=own, dtype_share={"fp8": 0.1}, unpack_share=0.1)
    for compute, bits, rate in (
        ("fp8", 8 + 32 / 128**2, 1e14), ("fp8", 8, 0.5e14), ("bf16", 4, 0.2e14), ("", 16, 1e14),
    ):  # fmt: skip
        path = resolve_path(quantized(compute, bits), "experts", device(), made)
        assert path.flops_per_s == pytest.approx(rate)


@pytest.mark.parametrize(("capability", "rate"), [("10.0", 2e14), ("12.0", 1e14), ("9.0", 1e14)])
def test_mxfp4_multiplies_in_8_bits_where_tensor_cores_mix_the_two(
    capability: str, rate: float
) -> None:
    """B200 and B300: mxfp4 by mxfp8; others unpack to 16 bits (Marlin)."""
    machine = device(compute_capability=capability)
    path = resolve_path(quantized("mxfp8", 4.25), "experts", machine, coefficients())
    assert path.flops_per_s == pytest.approx(rate)


def test_keys_in_8_bits_are_read_at_a_rate_of_their_own() -> None:
    made = coefficients(kv_packed_share=0.5)
    for dtype, slower in (("auto", 1.0), ("fp8", 2.0)):
        deployment = Deployment(kv_cache_dtype=dtype)
        slow = StepModel(model(), device(), deployment, made)
        fast = StepModel(model(), device(), deployment, coefficients())
        read = [seconds(m, "attention over context", 0, 0, 1000, 1000) for m in (slow, fast)]
        assert read[0] == pytest.approx(slower * read[1], rel=0.01)


def test_llama_cpp_multiplies_int8_in_vector_units() -> None:
    xeon = device(peak_flops_per_s={"bf16": 1e14, "int8": 2e14, "fp32": 5e12}, isa=("amx_int8",))
    for engine, rate in (("llama.cpp", 2e13), ("vllm", 2e14)):
        built = StepModel(quantized("int8", 8), xeon, Deployment(), coefficients(engine=engine))
        assert seconds(built, "mlp", 1e6, 0, 0, 0) == pytest.approx(2 * 6e6 * 1e6 / rate)


def test_cores_wait_for_each_other_in_products_alone() -> None:
    cores = device(kind="cpu", cores=50)
    drag = StepModel(model(), cores, Deployment(), coefficients(core_drag=0.02))
    free = StepModel(model(), cores, Deployment(), coefficients())
    gpu = StepModel(model(), device(cores=50), Deployment(), coefficients(core_drag=0.02))
    for name, batch in (("mlp", (1e6, 0, 0, 0)), ("attention over context", (1000, 1e6, 0, 0))):
        assert seconds(drag, name, *batch) == pytest.approx(2 * seconds(free, name, *batch))
        assert seconds(gpu, name, *batch) == seconds(free, name, *batch)
    assert seconds(drag, "mlp", 0, 0, 1, 0) == pytest.approx(seconds(free, "mlp", 0, 0, 1, 0))


@given(st.integers(1, 500), st.integers(1, 500), st.floats(0, 0.1))
def test_more_cores_never_multiply_slower(few: int, many: int, drag: float) -> None:
    few, many = sorted((few, many))
    rate = [
        n * cores_share(device(kind="cpu", cores=n), coefficients(core_drag=drag))
        for n in (few, many)
    ]
    assert rate[0] <= rate[1] * (1 + 1e-12) <= many / few * rate[0] * (1 + 1e-9)


def test_one_cache_for_all_requests_multiplies_every_query_with_all_of_it() -> None:
    shared = StepModel(model(), device(), Deployment(), coefficients(), shared_cache=True)
    # 2 layers x 8 heads x (64 + 64) values x 2 FLOPs; 16 queries see 16 x 1,000 tokens each
    pair = 2 * 8 * 128 * 2 / 1e14
    terms = {name: compute for name, _, compute in shared._terms(0, 0, 16, 1000)}
    assert terms["attention over context"] == pytest.approx(16 * 16 * 1000 * pair)
    assert shared.step_s(0, 0, 1, 1000) == pytest.approx(ideal().step_s(0, 0, 1, 1000))


# Parallelism


def test_tensor_parallel_divides_what_is_read() -> None:
    assert seconds(ideal(tensor_parallel=2), "mlp", 0, 0, 1, 0) == pytest.approx(6e-6)


def test_attention_ranks_beside_shared_experts_split_the_requests() -> None:
    experts = model(ffn=Ffn(num_experts=8, experts_per_token=2, expert_params=10**6))
    alone = ideal(experts)
    spread = ideal(experts, num_devices=4, expert_parallel=True)
    assert seconds(spread, "experts", 0, 0, 1e6, 0) == pytest.approx(
        seconds(alone, "experts", 0, 0, 1e6, 0) / 4
    )
    assert seconds(spread, "attention", 0, 0, 1e6, 0) == pytest.approx(
        seconds(alone, "attention", 0, 0, 1e6, 0) / 4
    )
    assert seconds(spread, "attention", 0, 0, 1, 0) == seconds(alone, "attention", 0, 0, 1, 0)


def test_pipeline_stages_share_the_batch() -> None:
    two = ideal(pipeline_parallel=2)
    assert two.step_s(0, 0, 8, 1000) < ideal().step_s(0, 0, 8, 1000)
    assert seconds(two, "mlp", 0, 0, 1, 10) == seconds(ideal(), "mlp", 0, 0, 1, 10)


# Bounds and monotonicity

batches = st.tuples(st.floats(0, 1e5), st.floats(0, 1e5), st.floats(0, 2048), st.floats(0, 1e5))


@given(batches)
def test_never_faster_than_the_roofline(batch: tuple[float, float, float, float]) -> None:
    prompt, _, decodes, _ = batch
    weights = 2 * 8e6 + 2 * 512e3
    flops = 2 * 8e6 * (prompt + decodes)
    bound = max(weights / 1e12, flops / 1e14)
    assert step().step_s(*batch) >= bound * (1 - 1e-9)
    assert ideal().step_s(*batch) >= bound * (1 - 1e-9)


@given(batches, st.integers(0, 3), st.floats(1.0, 10.0))
def test_more_work_is_never_faster(
    batch: tuple[float, float, float, float], which: int, growth: float
) -> None:
    more = list(batch)
    more[which] *= growth
    built = step(num_devices=2, tensor_parallel=2)
    # A step with a prompt is not replayed from a graph, so it may only get slower.
    assert built.step_s(*more) >= built.step_s(*batch) * (1 - 1e-12)


@given(batches, st.floats(1.0, 10.0))
def test_more_bandwidth_or_peak_is_never_slower(
    batch: tuple[float, float, float, float], growth: float
) -> None:
    real = Coefficients(**REAL)
    base = StepModel(model(), device(), Deployment(), real).step_s(*batch)
    wide = device(bandwidth_bytes_per_s=growth * 1e12)
    strong = device(peak_flops_per_s={"bf16": growth * 1e14})
    for better in (wide, strong):
        assert StepModel(model(), better, Deployment(), real).step_s(*batch) <= base * (1 + 1e-12)


@given(batches)
@settings(max_examples=50)
def test_parts_add_up_to_the_step(batch: tuple[float, float, float, float]) -> None:
    hybrid = Mixer(kind="mamba2", params=10**6, state=State(rows=8, row_elements=1000))
    experts = Ffn(num_experts=8, experts_per_token=2, expert_params=10**6)
    for built in (
        step(), step(enforce_eager=True), step(num_devices=2, tensor_parallel=2),
        step(model(mixer=hybrid, ffn=experts)), step(num_devices=2, pipeline_parallel=2),
    ):  # fmt: skip
        total = math.fsum(part.seconds for part in built.parts(*batch))
        assert total == pytest.approx(built.step_s(*batch))
        causes = built.causes(*batch)
        assert math.fsum(causes.values()) == pytest.approx(built.step_s(*batch))
        assert all(value >= 0 for value in causes.values())


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(1, 64))
def test_overlap_lies_between_the_larger_and_the_sum(a: float, b: float, power: float) -> None:
    joined = overlap_s(a, b, power)
    assert max(a, b) * (1 - 1e-12) <= joined <= (a + b) * (1 + 1e-12)
    assert joined == overlap_s(b, a, power)


def test_causes_name_what_is_slow() -> None:
    def slowest(*batch: float) -> str:
        causes = ideal().causes(*batch)
        return max(causes, key=lambda cause: causes[cause])

    assert slowest(0, 0, 1, 1) == "memory"
    assert slowest(1e5, 10, 0, 0) == "compute"
    assert slowest(0, 0, 64, 1e6) == "kv"


def test_a_shape_given_is_a_shape_summed() -> None:
    spec = model()
    given_shape = StepModel(spec, device(), Deployment(), Coefficients(**REAL), shape_of(spec))
    assert given_shape.step_s(100, 50, 3, 70) == step(spec).step_s(100, 50, 3, 70)
