"""The last sentence of a prediction."""

from __future__ import annotations

import math

from .conftest import Cli

ONE = ("predict", "Qwen/Qwen3-8B", "--on", "L4", "--max-model-len", "8192", "--offline")


def last(text: str) -> str:
    return " ".join(text.split("\n\n")[-1].split())


def test_a_load_beyond_saturation_cannot_be_kept_up_with(cli: Cli) -> None:
    said = cli(*ONE, "--rate", "500")
    assert last(said.out).startswith("L4 cannot keep up with this load: it takes ")
    document = cli(*ONE, "--rate", "500", "--json").document
    machines = math.ceil(500 / document["throughput"]["max_rate_rps"])
    assert last(said.out).endswith(f" requests/s at most; {machines} of them carry it.")
    assert document["latency"]["ttft_s"]["mean"] is None
    assert document["throughput"]["max_rate_rps"] < 500


def test_a_load_that_is_kept_up_with_has_a_wait(cli: Cli) -> None:
    assert "answers the first token of Qwen/Qwen3-8B after" in last(cli(*ONE, "--rate", "0.5").out)


def test_what_does_not_start_says_why_last(cli: Cli) -> None:
    said = cli("predict", "meta-llama/Meta-Llama-3.1-70B", "--on", "L4", "--offline")
    assert "does not run on L4 like this: weights alone take 131 GiB" in last(said.out)
    assert said.code == 1


def test_a_scheme_that_the_engine_does_not_make_is_a_checkpoint_of_its_own(cli: Cli) -> None:
    own = "w4a16 weights are a checkpoint of their own: find or make it"
    packed = cli(*ONE, "-q", "w4a16", "--json").document
    assert own in packed["assumptions"]
    made = cli(*ONE, "-q", "fp8", "--json").document
    assert "--quantization fp8" in made["command"]
    assert not any("checkpoint of their own" in note for note in made["assumptions"])


def test_sglang_makes_fp8_while_it_loads_and_tensorrt_llm_does_not(cli: Cli) -> None:
    sglang = cli(*ONE, "-q", "fp8", "--engine", "sglang", "--json").document
    assert "--quantization fp8" in sglang["command"]
    tensorrt = cli(*ONE, "-q", "fp8", "--engine", "tensorrt-llm", "--json").document
    assert "fp8-checkpoint-of" in tensorrt["command"] or "FP8" in tensorrt["command"]
