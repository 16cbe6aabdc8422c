"""Names to files, folders and the hub, and checkpoints' own words for their formats."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from neoserve.catalog.architectures import read_config
from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError, CatalogMiss
from neoserve.schema.model import Quantization

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 256,
    "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip


def stored(**quantization: Any) -> Quantization:
    return read_config({**LLAMA, "quantization_config": quantization}, "m").quantization


# checkpoints' formats


@pytest.mark.parametrize(
    ("config", "bits", "compute"),
    [
        ({"quant_method": "fp8"}, 8, "fp8"),
        # one fp32 scale for each 128 x 128 block
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2, "fp8"),
        # a 16-bit scale and a 4-bit zero point for 64 weights
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, 4 + 20 / 64, "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 8, "bf16"),
        ({"quant_method": "mxfp4"}, 16, None),  # of experts only, and there are none
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.127, "bf16"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8, "bf16"),
        ({"quant_method": "quanto", "weight_bits": 6}, 6, "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5, "fp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8, "fp8"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "W4A8_AWQ"}}, 4.125, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {
            "weights": {"num_bits": 4, "group_size": 128}}}}, 4 + 16 / 128, "bf16"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {
            "weights": {"num_bits": 8}, "input_activations": {"num_bits": 8}}}}, 8, "int8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {
            "weights": {"num_bits": 4, "type": "float", "group_size": 16},
            "input_activations": {"num_bits": 4, "type": "float"}}}}, 4 + 8 / 16, "fp4"),
    ],
)  # fmt: skip
def test_bits_by_format(config: dict[str, Any], bits: float, compute: str | None) -> None:
    found = stored(**config)
    assert found.bits["mlp"] == pytest.approx(bits)
    assert found.compute.get("mlp") == compute


@pytest.mark.parametrize(
    ("listed", "share"),
    [
        (["model.layers.0.mlp.gate_proj"], 1 / 8),  # one of two modules in one of four layers
        (["model.layers.0.mlp"], 1 / 4),
        (["re:.*layers\\.[01]\\.mlp.*"], 1 / 2),
        (["model.layers.*.mlp.down_proj"], 1 / 2),
        (["re:(", "re:.*layers\\.3\\.mlp.*"], 1 / 4),  # a broken pattern matches nothing
        (["down_proj"], 1 / 2),
        (["lm_head"], 0),
    ],
)
def test_what_a_checkpoint_leaves_alone_has_16_bits(listed: list[str], share: float) -> None:
    found = stored(quant_method="fp8", modules_to_not_convert=listed)
    assert found.bits["mlp"] == pytest.approx(16 * share + 8 * (1 - share))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"quant_method": "nobodys"}, r"nobodys.* is not known"),
        ({"quant_method": "modelopt", "quant_algo": "INT3"}, "ModelOpt scheme 'INT3' is not known"),
    ],
)
def test_an_unknown_format_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(AskError, match=said):
        stored(**config)


@pytest.mark.parametrize(
    "config",
    [
        {"kv_cache_scheme": {"num_bits": 8}},
        {"kv_cache_quant_algo": "fp8"},
        {"quantization": {"kv_cache_quant_algo": "FP8"}},
    ],
)
def test_scales_of_the_cache(config: dict[str, Any]) -> None:
    fields = {"quantization_config": {"quant_method": "fp8", **config}}
    assert read_config({**LLAMA, **fields}, "m").kv_cache_dtype == "fp8"
    assert read_config({**LLAMA, "quantization_config": {"quant_method": "fp8"}},
                       "m").kv_cache_dtype == "auto"  # fmt: skip


def test_a_modelopt_file_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    side = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8",
                             "exclude_modules": ["lm_head"]}}  # fmt: skip
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(side))
    model = find_model(str(tmp_path))
    assert model.quantization.bits["mlp"] == 4.5
    assert model.quantization.bits["lm_head"] == 16
    assert model.kv_cache_dtype == "fp8"


# folders and files


@pytest.mark.parametrize("text", ["", "  "])
def test_no_name_is_no_model(text: str) -> None:
    with pytest.raises(CatalogMiss):
        find_model(text)


def test_a_name_longer_than_any_path_is_refused() -> None:
    with pytest.raises(AskError, match="has 5000 characters; expected at most 4096"):
        find_model("x" * 5000)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(AskError, match=r"has no config\.json"):
        find_model(str(tmp_path))


def test_a_folder_with_several_files_asks_for_one(tmp_path: Path) -> None:
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(AskError, match=r"holds 2 GGUF files; name one, e\.g\. .*a\.gguf"):
        find_model(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no readable safetensors file"),
        ((2).to_bytes(8, "little") + b"[]", "lacks tensors' data_offsets"),
        ((7).to_bytes(8, "little") + b'{"w":1}', "lacks tensors' data_offsets"),
        ((3).to_bytes(8, "little") + b"{x}", "no readable safetensors file"),
    ],
)
def test_broken_weights(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(AskError, match=said):
        find_model(str(tmp_path))


def test_an_index_that_says_nothing_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": null}')
    assert find_model(str(tmp_path)).safetensors_bytes == 0


# the hub


class HubError(Exception):
    """Stands for huggingface_hub's own."""


def hub(monkeypatch: pytest.MonkeyPatch, download: Any) -> None:
    package, errors = ModuleType("huggingface_hub"), ModuleType("huggingface_hub.errors")
    package.hf_hub_download = download  # type: ignore[attr-defined]
    errors.HfHubHTTPError = errors.LocalEntryNotFoundError = HubError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", package)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)


def test_a_model_of_the_hub_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    asked = []
    hub(monkeypatch, lambda *words: asked.append(words) or str(file))
    assert find_model("some/model").id == "some/model"
    assert asked == [("some/model", "config.json")]


def test_a_hub_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: str) -> str:
        raise HubError("404 not found\nsecond line")

    hub(monkeypatch, refuse)
    with pytest.raises(AskError, match=r"the hub did not answer: 404 not found$"):
        find_model("some/model")


def test_without_the_hub_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(AskError, match=r"install neoserve\[hub\]"):
        find_model("some/model")
    with pytest.raises(CatalogMiss):
        find_model("some/model", online=False)


# machines and engines


def test_a_file_stands_for_its_first_entry(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    device = ("hardware: [{id: card, vendor: nvidia, memory_bytes: 8GiB, "
              "bandwidth_bytes_per_s: 1.0e12, peak_flops_per_s: {bf16: 2.0e14}}]\n")  # fmt: skip
    file.write_text(device)
    assert find_machine(str(file)).hardware.peak_flops_per_s == {"bf16": 2e14}
    file.write_text(device + "instances: [{id: box, hardware: card, num_devices: 4}]\n")
    assert (find_machine(str(file)).id, find_machine(str(file)).num_devices) == ("box", 4)
    file.write_text("sources: {}\n")
    with pytest.raises(AskError):
        find_machine(str(file))


def test_an_engine_that_has_no_cpu_version() -> None:
    with pytest.raises(AskError, match="no profile for a cpu"):
        find_profile("tensorrt-llm", "", "cpu")
    with pytest.raises(AskError, match=r"unknown engine 'exo'; known: .*vllm"):
        find_profile("exo")
