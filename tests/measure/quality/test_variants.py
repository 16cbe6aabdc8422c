"""Variants of a small GGUF file, read back with gguf's own reader."""

import gguf
import numpy as np
import pytest

from neoserve.errors import AskError
from neoserve.measure.quality.variants import KINDS, make_variant

ROWS, COLUMNS = 64, 96


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    rng = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_1)
    writer.add_context_length(128)
    writer.add_rope_freq_base(10000.5)
    writer.add_token_list(["a", "b", "é", "<|end|>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_add_bos_token(False)
    for name in ("token_embd.weight", "blk.0.ffn_down.weight", "blk.0.attn_q.weight"):
        weights = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
        quant = gguf.GGMLQuantizationType.Q4_1
        writer.add_tensor(name, gguf.quantize(weights, quant), raw_dtype=quant)
    writer.add_tensor("blk.0.attn_norm.weight", rng.standard_normal(COLUMNS, dtype=np.float32))
    writer.add_tensor("blk.0.attn_v.weight", rng.standard_normal((8, 20), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def weights(path):
    reader = gguf.GGUFReader(path)
    return {t.name: (t.tensor_type.name, gguf.dequantize(t.data, t.tensor_type))
            for t in reader.tensors}  # fmt: skip


def metadata(path):
    return {f.name: (f.types, f.contents()) for f in gguf.GGUFReader(path).fields.values()
            if not f.name.startswith("GGUF.")}  # fmt: skip


@pytest.fixture(scope="module")
def variants(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    return {kind: make_variant(source, kind, folder / f"{kind}.gguf") for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_is_copied_but_for_the_file_type(source, variants, kind):
    before, after = metadata(source), metadata(variants[kind])
    file_type = after.pop("general.file_type")[1]
    assert before.pop("general.file_type")[1] == 3
    assert after == before
    assert file_type == {"f16": 1, "q8_0": 7, "q4_0": 2, "damaged": 7}[kind]


def test_types_are_those_asked_for(variants):
    types = {kind: {n: t for n, (t, _) in weights(path).items()} for kind, path in variants.items()}
    matrix = "blk.0.attn_q.weight"
    assert [types[kind][matrix] for kind in KINDS] == ["F16", "Q8_0", "Q4_0", "Q8_0"]
    assert types["q4_0"]["token_embd.weight"] == "Q8_0"
    assert {types[kind]["blk.0.attn_norm.weight"] for kind in KINDS} == {"F32"}
    # 20 columns are no blocks of 32
    assert {types[kind]["blk.0.attn_v.weight"] for kind in KINDS} == {"F16"}


@pytest.mark.parametrize(
    ("kind", "error"),
    # of weights up to 4.5: half an F16 step; half of 4.5 / 127; 4.5 / 8 where 8 is clipped to 7
    [("f16", 0.002), ("q8_0", 0.02), ("q4_0", 0.6)],
)
def test_weights_are_those_of_the_source(source, variants, kind, error):
    before, after = weights(source), weights(variants[kind])
    moved = {name: np.abs(after[name][1] - before[name][1]).max() for name in before}
    assert max(moved.values()) < error
    assert moved["blk.0.attn_norm.weight"] == 0
    if kind == "q4_0":
        assert moved["blk.0.attn_q.weight"] > 0.05


def test_only_some_matrices_are_damaged(source, variants):
    before, after = weights(source), weights(variants["damaged"])
    spread = {n: (after[n][1] - before[n][1]).std() / before[n][1].std() for n in before}
    assert spread["blk.0.attn_q.weight"] < 0.01
    assert 0.15 < spread["blk.0.ffn_down.weight"] < 0.6
    assert 0.15 < spread["blk.0.attn_v.weight"] < 0.6


def test_the_same_damage_each_time(source, variants, tmp_path):
    again = make_variant(source, "damaged", tmp_path / "again.gguf")
    assert again.read_bytes() == variants["damaged"].read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["again.gguf"]


def test_what_is_no_model_is_refused(tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"not a model, and longer than a header is")
    with pytest.raises(AskError, match="is no GGUF file"):
        make_variant(bad, "f16", tmp_path / "out.gguf")
    with pytest.raises(AskError, match="is no file"):
        make_variant(tmp_path / "none.gguf", "f16", tmp_path / "out.gguf")
    with pytest.raises(AskError, match="unknown variant 'q2'"):
        make_variant(bad, "q2", tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.gguf"]
