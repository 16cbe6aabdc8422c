"""Rules by which checkpoints state their layers, each on a small config by hand."""

from __future__ import annotations

from typing import Any

import pytest

from neoserve.catalog.architectures import read_config
from neoserve.errors import AskError
from neoserve.schema.model import Mixer, ModelSpec

# 4 layers of 64 values: 4 heads of 16, 2 KV heads, a feed-forward of 256
SMALL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 256,
    "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
MOE = {"architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8, "num_experts_per_tok": 2,
       "moe_intermediate_size": 32}  # fmt: skip


def spec(architecture: str = "", **changes: Any) -> ModelSpec:
    fields = {**SMALL, **changes}
    if architecture:
        fields["architectures"] = [architecture]
    return read_config({k: v for k, v in fields.items() if v is not None}, "m")


def kinds(model: ModelSpec) -> list[str]:
    return ["+".join(m.kind for m in layer.mixers) for layer in model.layers]


def first(model: ModelSpec) -> Mixer:
    return model.layers[0].mixers[0]


# lengths and widths


def test_a_config_without_a_length_says_what_is_taken() -> None:
    model = spec(max_position_embeddings=None)
    assert model.max_position_tokens == 2048
    assert model.notes == ("m states no context length: 2,048 tokens are taken, as vLLM does",)
    assert spec().notes == ()


def test_a_gated_feed_forward_needs_its_width() -> None:
    with pytest.raises(AskError, match=r"config\.json lacks intermediate_size"):
        spec(intermediate_size=None)


def test_gpt_2s_feed_forward_is_four_times_as_wide() -> None:
    # the published gpt2 has 124,439,808 parameters
    gpt2 = {"architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 12, "n_head": 12,
            "vocab_size": 50257, "n_positions": 1024}  # fmt: skip
    model = read_config(gpt2, "gpt2")
    assert model.layers[0].ffn.dense_params == 2 * 768 * 4 * 768
    assert model.total_params == 124_439_808


def test_a_ratio_states_a_width_too() -> None:
    wide = spec("MPTForCausalLM", intermediate_size=None, expansion_ratio=3)
    assert wide.layers[0].ffn.dense_params == 2 * 64 * 3 * 64


def test_widths_may_differ_by_layer() -> None:
    model = spec(intermediate_size=[64, 128, 192, 256])
    assert [layer.ffn.dense_params for layer in model.layers] == [
        3 * 64 * width for width in (64, 128, 192, 256)
    ]


def test_qwen_v1_states_the_sum_of_gate_and_up() -> None:
    assert spec("QWenLMHeadModel").layers[0].ffn.dense_params == 3 * 64 * 128


def test_lfm2_scales_and_rounds_its_width() -> None:
    # 2/3 of 1,000 is 666, times 1.5 is 999, up to a multiple of 128
    model = spec(
        "Lfm2ForCausalLM", intermediate_size=None, block_ff_dim=1000, block_auto_adjust_ff_dim=True,
        block_ffn_dim_multiplier=1.5, block_multiple_of=128, layer_types=["conv"] * 4,
    )  # fmt: skip
    assert model.layers[0].ffn.dense_params == 3 * 64 * 1024


def test_a_gpts_every_matrix_has_a_bias() -> None:
    # feed-forward: 256 up, 64 down; attention: 64 + 2 x 32 + 64
    layer = spec("Starcoder2ForCausalLM").layers[0]
    assert layer.ffn.other_params == 256 + 64
    assert layer.mixers[0].other_params == 64 + 2 * 32 + 64
    assert spec(mlp_bias=True).layers[0].ffn.other_params == 2 * 256 + 64
    assert spec().layers[0].ffn.other_params == 0


# heads


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [
        ({}, 2),
        ({"num_key_value_heads": None}, 4),
        ({"multi_query": True}, 1),
        ({"multi_query": True, "new_decoder_architecture": True}, 2),
        ({"multi_query_attention": False}, 4),
        ({"num_key_value_heads": [4, 4, 4, 4]}, 4),
    ],
)
def test_kv_heads(changes: dict[str, Any], kv_heads: int) -> None:
    assert first(spec(**changes)).num_kv_heads == kv_heads


def test_kv_heads_may_differ_by_layer() -> None:
    model = spec(num_key_value_heads=[1, 2, 4, 1])
    assert [layer.mixers[0].num_kv_heads for layer in model.layers] == [1, 2, 4, 1]


@pytest.mark.parametrize("name", ["head_dim", "kv_channels", "attention_head_dim"])
def test_a_stated_head_width_wins(name: str) -> None:
    assert first(spec(**{name: 32})).head_dim == 32
    assert first(spec()).head_dim == 64 // 4


def test_heads_that_cannot_share_are_refused() -> None:
    with pytest.raises(AskError, match="4 query heads cannot share 3 KV heads"):
        spec(num_key_value_heads=3)


def test_one_layer_may_have_fields_of_its_own() -> None:
    model = spec(per_layer_config={"1": {"num_key_value_heads": 4, "intermediate_size": 128},
                                   "2": "nothing"})  # fmt: skip
    assert [layer.mixers[0].num_kv_heads for layer in model.layers] == [2, 4, 2, 2]
    assert model.layers[1].ffn.dense_params == 3 * 64 * 128


def test_nemotron_nas_blocks() -> None:
    blocks = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 12.0}},
        {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
        {"attention": {"n_heads_in_group": 2}, "ffn": {"replace_with_linear": True}},
    ]
    model = spec("DeciLMForCausalLM", block_configs=blocks)
    assert kinds(model) == ["full", "", "", "full"]
    assert [layer.mixers[0].num_kv_heads for layer in model.layers if layer.mixers] == [1, 2]
    # 2 x 2.0 x 64 / 3 = 85 and 512, up to multiples of 256
    widths = [layer.ffn.dense_params // (3 * 64) for layer in model.layers]
    assert widths == [256, 512, 0, 0]


def test_a_projection_of_step_3s_queries() -> None:
    # 64 x 8 and 8 x 64 instead of 64 x 64
    plain, low = first(spec()), first(spec("Step3TextForCausalLM", share_q_dim=8))
    assert plain.params - low.params == 64 * 64 - 8 * (64 + 64)


# windows


@pytest.mark.parametrize(
    ("architecture", "changes", "wanted"),
    [
        ("", {}, "ffff"),
        ("", {"sliding_window": 32}, "ssss"),
        ("", {"sliding_window": 32, "use_sliding_window": False}, "ffff"),
        ("", {"layer_types": ["full_attention", "sliding_attention"] * 2, "sliding_window": 32},
         "fsfs"),
        ("", {"layer_types": ["full_attention", "sliding_attention"] * 2}, "ffff"),  # no window
        ("Gemma2ForCausalLM", {"sliding_window": 32}, "sfsf"),
        ("Cohere2ForCausalLM", {"sliding_window": 32}, "sssf"),
        ("Exaone4ForCausalLM", {"sliding_window": 32, "sliding_window_pattern": "LLG"}, "ssgf"),
        ("Plamo3ForCausalLM", {"sliding_window": [32, None]}, "sfsf"),
        ("Llama4ForCausalLM", {"attention_chunk_size": 64}, "cccf"),
        ("Llama4ForCausalLM", {"attention_chunk_size": 64, "no_rope_layers": [1, 0, 1, 0]},
         "cfcf"),
        ("", {"local_layer_ids": [0, 3], "sliding_window": 32}, "sffs"),
        ("MiMoV2ForCausalLM", {"hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window": 32},
         "fssf"),
        ("Qwen2ForCausalLM", {"sliding_window": 32, "use_sliding_window": True,
                              "max_window_layers": 4}, "ffff"),
    ],
)  # fmt: skip
def test_windows(architecture: str, changes: dict[str, Any], wanted: str) -> None:
    letters = {"f": "full", "g": "full", "s": "sliding", "c": "chunked"}
    assert kinds(spec(architecture, **changes)) == [letters[x] for x in wanted]


def test_each_layer_has_its_own_window() -> None:
    model = spec("Plamo3ForCausalLM", sliding_window=[32, None])
    assert [layer.mixers[0].window_tokens for layer in model.layers] == [32, 0, 32, 0]


def test_a_looped_model_reads_a_window_the_second_time() -> None:
    model = spec("IQuestLoopCoderForCausalLM")
    (again,) = model.layers[0].mixers[1:]
    assert kinds(model) == ["full+sliding"] * 4
    assert (again.window_tokens, again.params) == (64, 0)


def test_ouro_runs_its_weights_several_times() -> None:
    model = spec("OuroForCausalLM", total_ut_steps=3)
    assert kinds(model) == ["full+full+full"] * 4
    assert [m.params > 0 for m in model.layers[0].mixers] == [True, False, False]


def test_inklings_convolutions_are_a_window_of_their_kernel() -> None:
    # keys and values of 16, and 64 / 2 outputs of both halves: 96 for each KV head, up to 128
    _, tail = spec("InklingForCausalLM").layers[0].mixers
    assert (tail.kind, tail.window_tokens, tail.head_dim, tail.num_heads) == ("sliding", 4, 128, 0)
    assert tail.other_params == 4 * 2 * 96


def test_longcat_has_two_of_everything() -> None:
    latent = {"kv_lora_rank": 32, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
    model = spec("LongcatFlashForCausalLM", num_hidden_layers=8, num_layers=4, **latent)
    assert kinds(model) == ["mla+mla"] * 4


# states


@pytest.mark.parametrize(
    ("architecture", "changes", "wanted"),
    [
        ("JambaForCausalLM", {"attn_layer_period": 4, "attn_layer_offset": 2}, "llfl"),
        ("BambaForCausalLM", {"attn_layer_indices": [1]}, "lfll"),
        ("Plamo2ForCausalLM", {"mamba_step": 2, "mamba_num_heads": 4}, "lflf"),
        ("MiniMaxText01ForCausalLM", {"attn_type_list": [0, 1, 0, 1]}, "lflf"),
        ("Lfm2ForCausalLM", {"full_attn_idxs": [3]}, "lllf"),
        ("Qwen3NextForCausalLM", {"full_attention_interval": 2, "linear_num_key_heads": 2,
                                  "linear_num_value_heads": 4, "linear_key_head_dim": 8,
                                  "linear_value_head_dim": 8}, "lflf"),
        ("KimiLinearForCausalLM", {"linear_attn_config": {
            "full_attn_layers": [2, 4], "num_heads": 4, "head_dim": 16,
            "short_conv_kernel_size": 4}}, "lflf"),
    ],
)  # fmt: skip
def test_states_and_attention_take_turns(
    architecture: str, changes: dict[str, Any], wanted: str
) -> None:
    changes = {"mamba_num_heads": 8, **changes}
    found = [bool(layer.mixers[0].state) for layer in spec(architecture, **changes).layers]
    assert found == [letter == "l" for letter in wanted]


def test_layers_that_nobody_states_are_refused() -> None:
    with pytest.raises(AskError, match="does not say which layers are attention"):
        spec("BambaForCausalLM", mamba_num_heads=8)


def test_linear_layers_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(AskError, match="does not know which kind"):
        spec(layer_types=["linear_attention"] * 4)


def test_a_kimi_config_that_lacks_a_width_is_refused() -> None:
    with pytest.raises(AskError, match="linear_attn_config lacks head_dim"):
        spec("KimiLinearForCausalLM", linear_attn_config={"full_attn_layers": [], "num_heads": 4})


def test_mamba_2_needs_heads_or_their_width() -> None:
    with pytest.raises(AskError, match="lacks mamba_num_heads and mamba_head_dim"):
        spec("BambaForCausalLM", attn_layer_indices=[1], mamba_d_head="auto")
    mixer = first(spec("BambaForCausalLM", attn_layer_indices=[1], mamba_d_head=16))
    assert mixer.state is not None
    assert mixer.state.rows == 2 * 64 // 16  # heads of an inner width of 128


def test_mamba_1_counts_its_projections() -> None:
    # 64 -> 2 x 128; 128 -> rank 4 and 2 x 16 states; rank -> 128; 128 -> 64
    mixer = first(spec("MambaForCausalLM", num_attention_heads=None, num_key_value_heads=None,
                       intermediate_size=None))  # fmt: skip
    assert mixer.params == 64 * 256 + 128 * (4 + 32) + 4 * 128 + 128 * 64
    assert mixer.state is not None
    assert (mixer.state.rows, mixer.state.row_elements, mixer.state.conv_dim) == (128, 16, 128)


def test_ling_3s_states_are_like_its_heads() -> None:
    mixer = first(spec("BailingMoeV3ForCausalLM", short_conv_kernel_size=4, no_kda_lora=True,
                       layer_types=["linear_attention"] * 4))  # fmt: skip
    assert mixer.state is not None
    assert (mixer.state.rows, mixer.state.row_elements) == (4, 16 * 16)
    # queries, keys, values, decay, gate and output: six whole matrices of 64 x 64
    assert mixer.params == 6 * 64 * 64


# experts


@pytest.mark.parametrize(
    ("changes", "sparse"),
    [
        ({}, "1111"),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, "0110"),
        ({"mlp_only_layers": [0, 2]}, "0101"),
        ({"moe_layers": [1, 3]}, "0101"),
        ({"moe_layers_enum": "0, 2"}, "1010"),
        ({"moe_layer_freq": [0, 1, 1, 0]}, "0110"),
        ({"moe_layer_freq": 2}, "0101"),
        ({"first_k_dense_replace": 3}, "0001"),
        ({"num_dense_layers": 1}, "0111"),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 2}, "0110"),
        ({"moe_layer_start_index": [2, 1], "moe_layer_end_index": [2, 3]}, "0111"),
        ({"moe_layer_start_index": 2}, "0011"),
        ({"expert_layer_period": 2, "expert_layer_offset": 0}, "1010"),
        ({"decoder_sparse_step": 2}, "0101"),
        ({"num_experts": 1}, "0000"),
        ({"num_experts": [8, 4]}, "1111"),
    ],
)
def test_which_layers_have_experts(changes: dict[str, Any], sparse: str) -> None:
    found = spec(**{**MOE, **changes}).layers
    assert "".join(str(int(layer.ffn.num_experts > 0)) for layer in found) == sparse


def test_experts_are_counted() -> None:
    ffn = spec(**MOE).layers[0].ffn
    assert (ffn.num_experts, ffn.experts_per_token, ffn.expert_params) == (8, 2, 3 * 64 * 32)
    assert ffn.router_params == 64 * 8
    shared = spec(**MOE, n_shared_experts=2).layers[0].ffn
    assert shared.shared_params == 3 * 64 * 2 * 32
    stated = spec(**MOE, shared_expert_intermediate_size=128).layers[0].ffn
    assert stated.shared_params == 3 * 64 * 128 + 64  # and a gate


def test_experts_on_a_narrower_latent() -> None:
    # down from 64 to 16 and up again, for every token
    ffn = spec(**MOE, moe_latent_size=16).layers[0].ffn
    assert ffn.expert_params == 3 * 16 * 32
    assert ffn.shared_params == 2 * 64 * 16


def test_arctic_keeps_a_dense_half_beside_its_experts() -> None:
    ffn = spec("ArcticForCausalLM", num_local_experts=8, num_experts_per_tok=2,
               parallel_attn_mlp_res=True).layers[0].ffn  # fmt: skip
    assert ffn.dense_params == 3 * 64 * 256
    assert ffn.expert_params == 3 * 64 * 256


def test_dbrx_names_its_experts_otherwise() -> None:
    inner = {"moe_num_experts": 8, "moe_top_k": 2, "ffn_hidden_size": 96}
    ffn = spec("DbrxForCausalLM", intermediate_size=None, ffn_config=inner).layers[0].ffn
    assert (ffn.num_experts, ffn.experts_per_token) == (8, 2)
    assert ffn.expert_params == 3 * 64 * 96
