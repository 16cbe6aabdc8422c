"""Whatever is typed or lies in a file: one sentence, exit code 2, no traceback."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neoserve.faces.cli import main
from neoserve.faces.options import ENGINE, MANY, MONEY, ONE, WORKLOAD, whole

from .conftest import LLAMA

Refused = Callable[..., str]
Checkpoint = Callable[..., Path]
PREDICT = ("predict", "Qwen/Qwen3-8B", "--on", "H100-SXM", "--offline")
PLAN = ("plan", "Qwen/Qwen3-8B", "--on", "H100-SXM", "--offline")


def numeric(groups: tuple[Any, ...]) -> list[str]:
    words = {str, None}
    return [
        o.flags[0] for group in groups for o in group
        if not (o.switch or o.both or o.read in words or o.read.__name__ == "yes_no")
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["nan", "-inf", "-1", "1e400", "abc", "", "9" * 400])
@pytest.mark.parametrize("flag", numeric((WORKLOAD, ONE, ENGINE, MONEY)))
def test_numbers_that_are_none(refused: Refused, flag: str, value: str) -> None:
    assert flag in refused(*PREDICT, f"{flag}={value}")


@pytest.mark.parametrize("value", ["nan", "-1", "1e400", "abc", "9" * 400])
@pytest.mark.parametrize("flag", numeric((MANY,)))
def test_lists_of_numbers_that_are_none(refused: Refused, flag: str, value: str) -> None:
    assert flag in refused(*PLAN, f"{flag}={value}")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--isl", "0"), ("--isl", "1e12"), ("--isl", "1.5"), ("--osl", "0"),
        ("--max-concurrency", "0"), ("--max-concurrency", "1e12"), ("--request-rate", "0"),
        ("--request-rate", "1e18"), ("--burstiness", "0"), ("--burstiness", "1e18"),
        ("--prefix-hit-share", "1"), ("--prefix-hit-share", "101%"), ("--utilization", "0"),
        ("--utilization", "150%"), ("--price", "1e300"), ("--memory", "0"), ("--memory", "1e30"),
        ("--available-kv-bytes", "1e30"), ("--available-kv-gib", "1e30"), ("--block-size", "0"),
        ("--gpu-memory-utilization", "0"), ("--gpu-memory-utilization", "1.1"), ("--tp", "0"),
        ("--pp", "0"), ("--dcp", "0"), ("--replicas", "0"), ("--replicas", "1e18"),
        ("--max-num-seqs", "0"), ("--max-num-batched-tokens", "0"), ("--max-model-len", "1e18"),
        ("--num-speculative-tokens", "65"), ("--mamba-ssm-cache-dtype", "int3"),
        ("--kv-cache-dtype", "int3"), ("--weight-quant", "w3a3"), ("--engine", "exo"),
        ("--engine-version", "newest"), ("--engine-version", "0.1"), ("--memory", "5 parsec"),
    ],
)  # fmt: skip
def test_absurd_values(refused: Refused, flag: str, value: str) -> None:
    refused(*PREDICT, f"{flag}={value}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tp", "3"), "32 attention heads cannot be cut over tensor_parallel 3"),
        (("--tp", "16"), "has 8"),
        (("--pp", "37", "--on", "64xH100-SXM"), "37 pipeline stages for 36 layers"),
        (("--dcp", "3", "--tp", "4"), "does not divide"),
        (("--max-model-len", "100k"), "40,960"),  # max_position_embeddings of Qwen3-8B
        (("--isl", "40k", "--osl", "1k"), "41,000"),
        (("--expert-parallel",), "needs a model with experts"),
        (("--num-speculative-tokens", "1"), "no multi-token-prediction head"),
        (("--rate", "1", "--concurrency", "2"), "give one"),
        (("--available-kv-gib", "1", "--available-kv-bytes", "1GiB"), "give one"),
    ],
)
def test_settings_that_contradict(refused: Refused, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*PREDICT, *words)


@pytest.mark.parametrize(
    "text",
    ["fast", "ttft", "ttft<", "ttft:p95<-1s", "ttft:p9<1s", "foo:p95<1s", "ttft:p95>3s",
     "ttft:p95<nan", "ttft:p95<3 parsec", "tpot:mean<0", "quality<200%", "ttft<1s tpot<1s",
     "a" * 3000, "\n<\n"],
)  # fmt: skip
def test_slo_texts(refused: Refused, text: str) -> None:
    refused(*PREDICT, "--slo", text)


@pytest.mark.parametrize(
    ("name", "near"),
    [("H100-SXMM", "H100-SXM-80GB"), ("c8g.5xlarge", "c8g.4xlarge"), ("H100", "H100-NVL-94GB"),
     ("graviton", "graviton4")],
)  # fmt: skip
def test_unknown_hardware_names_the_nearest(refused: Refused, name: str, near: str) -> None:
    said = refused("predict", "Qwen/Qwen3-8B", "--on", name)
    assert name.lower() in said.lower() or "several" in said
    assert near in said


@pytest.mark.parametrize(
    ("name", "near"),
    [("Qwen3-8C", "Qwen/Qwen3-8B"), ("meta-llama/Llama-3.1-8B-Instrct", "Llama-3.1-8B-Instruct"),
     ("DeepSeek-V9", "deepseek-ai/DeepSeek-V3")],
)  # fmt: skip
def test_unknown_models_name_the_nearest(refused: Refused, name: str, near: str) -> None:
    said = refused("predict", name, "--on", "L4", "--offline")
    assert name in said
    assert near in said
    assert "catalog models" in said


@pytest.mark.parametrize("name", ["", " ", "x" * 5000, "\0", "a\nb", "🦙", "/", "../../nowhere"])
def test_odd_names(refused: Refused, name: str) -> None:
    refused("predict", name, "--on", "L4", "--offline")
    refused("predict", "Qwen/Qwen3-8B", "--on", name)
    refused("predict", "Qwen/Qwen3-8B", "--on", name + ".yaml")


def test_unknown_commands_and_choices(refused: Refused) -> None:
    assert "did you mean predict?" in refused("predct")
    assert "choose from" in refused("catalog", "prices")
    assert "--on" in refused("predict", "Qwen/Qwen3-8B")
    assert "H100-SXM,L40S" in refused("plan", "Qwen/Qwen3-8B", "--on", ",")
    assert "empty list" in refused(*PLAN, "--tp", ",")
    assert "neither yes nor no" in refused(*PLAN, "--ep", "maybe")
    many = ",".join(map(str, range(1, 700)))
    said = refused(*PLAN, "--max-num-seqs", many, "--max-num-batched-tokens", many)
    assert "at most 200,000" in said


@pytest.mark.parametrize("field", [k for k in LLAMA if k not in ("torch_dtype",
    "max_position_embeddings", "intermediate_size", "num_key_value_heads")])  # fmt: skip
def test_a_config_that_lacks_a_field_names_it(
    refused: Refused, checkpoint: Checkpoint, field: str
) -> None:
    said = refused("predict", str(checkpoint(**{field: None})), "--on", "L4")
    assert field in said
    assert "lacks" in said


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", -1), ("hidden_size", "4096"), ("hidden_size", 4096.5),
        ("hidden_size", True), ("hidden_size", float("nan")), ("hidden_size", float("inf")),
        ("hidden_size", 10**400), ("hidden_size", 10**12), ("num_hidden_layers", 10**9),
        ("num_hidden_layers", 0), ("num_attention_heads", 0), ("num_attention_heads", []),
        ("num_key_value_heads", 7), ("num_key_value_heads", 10**11), ("vocab_size", 0),
        ("head_dim", -5), ("head_dim", "x"), ("torch_dtype", "int3"), ("text_config", 3),
        ("quantization_config", "x"), ("quantization_config", {"quant_method": "magic"}),
        ("rope_scaling", {"type": "linear", "factor": 1e308}),
        ("architectures", "LlamaForCausalLM"), ("architectures", [3]),
    ],
)  # fmt: skip
def test_a_config_with_an_absurd_value(
    refused: Refused, checkpoint: Checkpoint, field: str, value: Any
) -> None:
    assert "my-llama" in refused("predict", str(checkpoint(**{field: value})), "--on", "L4") or (
        field == "architectures"
    )


def test_an_unknown_architecture_is_not_guessed(refused: Refused, checkpoint: Checkpoint) -> None:
    folder = checkpoint(architectures=["LlamaForCausalLMM"])
    said = refused("predict", str(folder), "--on", "L4")
    assert "LlamaForCausalLM," in said
    assert "does not guess" in said


@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[1, 2]", b'"x"', b"{", json.dumps(LLAMA).encode()[:80], b"[" * 100_000,
     b'\xff\xfe{"a": 1}', b'{"architectures": ["\xe9"]}', b'{"a": ' + b"9" * 5000 + b"}", b"{}"],
)  # fmt: skip
def test_a_config_that_is_no_json_object(refused: Refused, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    assert tmp_path.name in refused("predict", str(tmp_path), "--on", "L4")


def test_a_huge_config_is_not_read(refused: Refused, tmp_path: Path) -> None:
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(100 * 2**20)
    said = refused("predict", str(tmp_path), "--on", "L4")
    assert "100 MiB" in said
    assert "at most 16 MiB" in said


def test_folders_and_files_that_are_none(refused: Refused, tmp_path: Path) -> None:
    assert "no config.json" in refused("predict", str(tmp_path), "--on", "L4")
    assert "No such file" in refused("predict", str(tmp_path / "config.json"), "--on", "L4")
    assert "does not exist" in refused("predict", str(tmp_path / "none.gguf"), "--on", "L4")
    (tmp_path / "a.gguf").touch()
    (tmp_path / "b.gguf").touch()
    assert "2 GGUF files; name one" in refused("predict", str(tmp_path), "--on", "L4")
    assert "is empty" in refused("predict", str(tmp_path / "a.gguf"), "--on", "L4")


@pytest.mark.parametrize(
    "content",
    [b"GGUF", b"GGUF\x03\0\0\0\x10", b"not a gguf", b"GGUF\x03\0\0\0" + b"\xff" * 64,
     b"GGUF" + struct.pack("<IQQ", 9, 0, 0), b"GGUF" + struct.pack("<IQQ", 3, 0, 0)],
)  # fmt: skip
def test_a_damaged_gguf(refused: Refused, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    assert "GGUF" in refused("predict", str(file), "--on", "L4")


def header(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


@pytest.mark.parametrize(
    "content",
    [b"", b"\1", struct.pack("<Q", 10**12), header(b"[1]"), header(b'{"a": 1}'),
     header(b"\xff" * 4), header(b'{"a": {"b": 1}}'),
     header(b'{"a": {"data_offsets": [1]}}'), header(b"{"),
     header(b'{"a": {"data_offsets": ["x", "y"]}}')],
)  # fmt: skip
def test_damaged_safetensors(refused: Refused, checkpoint: Checkpoint, content: bytes) -> None:
    folder = checkpoint()
    (folder / "model.safetensors").write_bytes(content)
    assert "model.safetensors" in refused("predict", str(folder), "--on", "L4")


@pytest.mark.parametrize("text", ["{}", '{"metadata": 3}', '{"metadata": {"total_size": 1e400}}'])
def test_an_index_without_a_size_is_passed_over(
    cli: Callable[..., Any], checkpoint: Checkpoint, text: str
) -> None:
    folder = checkpoint()
    (folder / "model.safetensors.index.json").write_text(text)
    (folder / "hf_quant_config.json").write_text('{"quantization": 3}')
    assert cli("predict", str(folder), "--on", "H100-SXM").err.count("\n") <= 1


CARD = "hardware: [{id: x, memory_bytes: 24GiB, bandwidth_bytes_per_s: 1e12, %s}]"
PEAK = "peak_flops_per_s: {bf16: 1e14}"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: [", "not readable YAML"), ("", "expected a mapping"), ("- 1", "expected a mapping"),
        ("hardware: 3", "list of entries"), ("hardware: null", "list of entries"),
        ("hardware: []", "no hardware and no instance"), ("hardware: [{id: 3}]", "with an id"),
        ("hardware: [{id: '-'}]", "with an id"), (CARD % "kind: gpu", "peak_flops_per_s"),
        (CARD % "peak_flops_per_s: 7", "peak_flops_per_s"),
        (CARD % "peak_flops_per_s: {bf16: 0}", "above 0"),
        (CARD % "peak_flops_per_s: {bf16: .inf}", "above 0"),
        (CARD % f"{PEAK}, kind: abacus", "kind"), (CARD % f"{PEAK}, aliases: 5", "aliases"),
        (CARD % f"{PEAK}, pcie: 5", "pcie"), (CARD % f"{PEAK}, colour: red", "colour"),
        (CARD % f"{PEAK}, cores: -4", "negative"),
        (CARD % f"{PEAK}, link: {{kind: a, bandwidth_bytes_per_s: 0}}", "link"),
        (f"hardware: [{{id: x, bandwidth_bytes_per_s: -1, {PEAK}}}]", "above 0"),
        (f"hardware: [{{id: x, bandwidth_bytes_per_s: .nan, {PEAK}}}]", "above 0"),
        (f"hardware: [{{id: x, bandwidth_bytes_per_s: 1e12, {PEAK}}}]", "memory_bytes"),
        (f"hardware: [{{id: x, memory_bytes: lots, {PEAK}}}]", "lots"),
        ("instances: [{id: b, hardware: no-such-card}]", "no-such-card"),
        ("instances: [{id: b}]", "hardware"), ("instances: [{id: b, hardware: 4}]", "hardware"),
        ("instances: [{id: b, hardware: L4, num_devices: 0}]", "num_devices"),
        ("instances: [{id: b, hardware: L4, prices: 5}]", "prices"),
        ("instances: [{id: b, hardware: L4, prices: [3]}]", "prices"),
        ("instances: [{id: b, hardware: L4, prices: [{usd_per_hour: -1}]}]", "usd_per_hour"),
        ("instances: [{id: b, hardware: L4, prices: [{usd_per_hour: .nan}]}]", "usd_per_hour"),
        ("!!python/object/apply:os.system ['true']", "not readable YAML"),
    ],
)  # fmt: skip
def test_a_users_yaml(refused: Refused, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(content)
    assert said in refused("predict", "Qwen/Qwen3-8B", "--on", str(file))


def test_a_catalog_that_cannot_be_read(refused: Refused, tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\0")
    for file, said in ((binary, "not readable YAML"), (tmp_path, "Is a directory"),
                       (tmp_path / "none.yaml", "No such file")):  # fmt: skip
        assert said in refused(*PREDICT, "--catalog", str(file))
        assert said in refused("catalog", "hardware", "--catalog", str(file))


def test_plots_that_cannot_be_written(refused: Refused, tmp_path: Path) -> None:
    assert ".svg or .png" in refused(*PLAN, "--plot", "front.txt")
    assert "No such file" in refused(*PLAN, "--plot", str(tmp_path / "none" / "front.svg"))


def test_demo_asks(refused: Refused, tmp_path: Path) -> None:
    for minutes in ("nan", "abc", "0", "-1", "inf", "601"):
        assert "--minutes" in refused("demo", f"--minutes={minutes}")
    (tmp_path / "file").touch()
    assert "is a file" in refused("demo", "--out", str(tmp_path / "file"))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=st.text(max_size=40).filter(lambda t: not t.startswith("-")))
def test_any_text_as_slo_is_read_or_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*PREDICT, f"--slo={text}", "--json"])
    said = capsys.readouterr()
    assert code in (0, 1, 2)
    assert (said.err.count("\n") == 1 and not said.out) if code == 2 else not said.err


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789.,_eE+-kKmMgGiIbB ٣½", max_size=12))
def test_counts_are_whole_numbers_or_asked_for_again(text: str) -> None:
    from neoserve.errors import AskError

    try:
        value = whole(text)
    except AskError:
        return
    assert isinstance(value, int)
    assert value >= 0
