"""Commands, their documents and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError, EngineFailed, EvidenceBroken
from neoserve.faces.cli import COMMANDS, MAX_SENTENCE, main, one_line

from .conftest import Cli

PREDICT = ("predict", "Qwen/Qwen3-8B", "--on", "H100-SXM", "--offline")
PLAN = ("plan", "Qwen/Qwen3-8B", "--on", "H100-SXM,L40S", "--tp", "1,2", "--offline")


def shell(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "neoserve", *words], capture_output=True, text=True, timeout=120,
        check=False, **more,
    )  # fmt: skip


@pytest.mark.parametrize("name", [c.name for c in COMMANDS])
def test_help_names_every_option_and_json(cli: Cli, name: str) -> None:
    said = cli(name, "--help")
    command = next(c for c in COMMANDS if c.name == name)
    assert said.code == 0
    assert said.out.startswith(f"usage: neoserve {name}")
    for option in command.options:
        assert option.flags[0] in said.out
    assert "--json" in said.out
    assert command.example in " ".join(said.out.split())
    assert said.err == ""


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_overview_lists_commands_and_exit_codes(cli: Cli, words: tuple[str, ...]) -> None:
    said = cli(*words)
    assert said.code == 0
    for command in COMMANDS:
        assert f"\n  {command.name} " in said.out
    for meaning in ("0 met", "1 not met", "2 bad ask", "3 inconclusive", "4 engine", "5 evidence"):
        assert meaning in said.out


def test_every_example_is_a_command_line_that_parses() -> None:
    import shlex

    from neoserve.faces.cli import parser_of

    for command in COMMANDS:
        program, name, *words = shlex.split(command.example)
        assert (program, name) == ("neoserve", command.name)
        parser_of(command).parse_args(words)


def test_predict_document_has_the_promised_fields(cli: Cli) -> None:
    said = cli(*PREDICT, "--json", "--slo", "ttft:mean<60s")
    found = said.document
    promised = {
        "memory": "weights_bytes activation_bytes graph_bytes non_torch_bytes available_kv_bytes",
        "kv": "bytes_per_token state_bytes_per_request block_size_tokens num_blocks kv_tokens "
        "max_concurrency",
        "latency": "ttft_s tpot_s e2e_s",
        "throughput": "output_tokens_per_s total_tokens_per_s goodput_rps max_rate_rps",
        "cost": "usd_per_mtok_output usd_per_mtok_input usd_per_mtok_total usd_per_month",
    }
    for part, names in promised.items():
        assert set(names.split()) <= set(found[part]), part
    for latency in found["latency"].values():
        assert {"mean", "p50", "p95", "p99"} == set(latency)
    assert {"bound", "interval", "assumptions"} <= set(found)
    assert (said.code, said.err) == (0, "")
    assert found["basis"] == "predicted"


def test_predict_figures_are_those_of_the_published_config(cli: Cli) -> None:
    """Qwen3-8B: 8,190,735,360 parameters in bfloat16, 36 layers of 8 KV heads of 128."""
    found = cli(*PREDICT, "--json").document
    assert found["memory"]["weights_bytes"] == pytest.approx(2 * 8_190_735_360, rel=0.01)
    assert found["kv"]["bytes_per_token"] == 36 * 2 * 8 * 128 * 2
    kv = found["kv"]
    assert kv["kv_tokens"] == pytest.approx(kv["num_blocks"] * kv["block_size_tokens"], rel=0.001)
    assert kv["num_blocks"] * kv["bytes_per_block"] <= found["memory"]["available_kv_bytes"]


def test_rates_and_costs_are_one_arithmetic(cli: Cli) -> None:
    """One closed request at a time: its time gives the rate, the rate the price."""
    found = cli(*PREDICT, "--isl", "300", "--osl", "100", "--price", "3.6", "--json").document
    e2e_s = found["latency"]["ttft_s"]["mean"] + 99 * found["latency"]["tpot_s"]["mean"]
    assert found["latency"]["e2e_s"]["mean"] == pytest.approx(e2e_s, rel=0.02)
    output = found["throughput"]["output_tokens_per_s"]
    assert output == pytest.approx(100 / e2e_s, rel=0.02)
    assert found["throughput"]["total_tokens_per_s"] == pytest.approx(4 * output)
    cost = found["cost"]
    assert cost["usd_per_mtok_output"] == pytest.approx(0.001 / output * 1e6)
    assert cost["usd_per_mtok_input"] == pytest.approx(cost["usd_per_mtok_output"] / 3)
    assert cost["usd_per_mtok_total"] == pytest.approx(cost["usd_per_mtok_output"] / 4)
    assert cost["usd_per_month"] == pytest.approx(3.6 * 730)


def test_plan_document_has_the_promised_fields(cli: Cli) -> None:
    said = cli(*PLAN, "--json", "--slo", "tpot:mean<1s")
    found = said.document
    deployment = {
        "hardware", "num_devices", "tensor_parallel", "pipeline_parallel", "expert_parallel",
        "weight_quant", "kv_cache_dtype", "enforce_eager", "enable_prefix_caching",
        "max_num_seqs", "max_num_batched_tokens", "replicas",
    }  # fmt: skip
    assert (said.code, said.err) == (0, "")
    assert found["candidates"]
    for candidate in found["candidates"]:
        assert deployment <= set(candidate["deployment"])
        assert candidate["meets_slo"] is True
    for rejection in found["rejected"]:
        assert set(rejection) == {"deployment", "reason"}
    assert found["best"] == found["candidates"][0]
    # 2 machines x 2 sizes x (as is, fp8, w4a16) x (auto, fp8)
    assert found["num_candidates"] == 24


def test_plan_ranks_by_cost_and_its_front_is_not_beaten(cli: Cli) -> None:
    found = cli(*PLAN, "--json").document
    spots = [
        (c["cost"]["usd_per_mtok_output"], c["latency"]["tpot_s"]["mean"])
        for c in found["candidates"]
    ]
    assert [cost for cost, _ in spots] == sorted(cost for cost, _ in spots)
    for i, (cost, tpot) in enumerate(spots):
        beaten = any(c <= cost and t <= tpot and (c, t) != (cost, tpot) for c, t in spots)
        if i in found["pareto"]:
            assert not beaten
        else:
            assert beaten or (cost, tpot) in [spots[j] for j in found["pareto"]]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--slo", "tpot:mean<1s"), 0),
        (("--slo", "tpot:mean<1us"), 1),  # no GPU reads 16 GB in a microsecond
        (("--memory", "17GB"), 1),  # 16.4 GB of weights leave no room for anything else
        (("--tp", "3"), 2),  # 32 heads
        (("--no-such-option",), 2),
    ],
)
def test_exit_codes_of_predict(cli: Cli, words: tuple[str, ...], code: int) -> None:
    assert cli(*PREDICT, *words).code == code


def test_plan_exit_code_is_1_when_nothing_meets_the_slo(cli: Cli) -> None:
    said = cli(*PLAN, "--slo", "tpot:mean<1us")
    assert said.code == 1
    assert "No configuration meets" in said.out


def test_a_refused_prediction_still_prints_its_document(cli: Cli) -> None:
    said = cli(*PREDICT, "--tp", "3", "--json")
    assert said.code == 2
    assert said.document["starts"] is False
    assert "32 attention heads" in said.document["refusal"]
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "what", ["hardware", "instances", "models", "architectures", "engines", "quantization"]
)
def test_catalog_lists_are_json_lists(cli: Cli, what: str) -> None:
    said = cli("catalog", what, "--json")
    assert (said.code, said.err) == (0, "")
    assert len(said.document) > 4


def test_verify_of_what_is_no_run(cli: Cli, tmp_path: Path) -> None:
    assert cli("verify", str(tmp_path / "none")).code == 2
    said = cli("verify", str(tmp_path))  # a folder, but no ledger in it
    assert said.code == 5
    assert said.err.count("\n") == 1


def test_errors_carry_their_exit_codes() -> None:
    assert [e("x").exit_code for e in (AskError, EngineFailed, EvidenceBroken)] == [2, 4, 5]


def test_a_sentence_is_one_line_of_readable_length() -> None:
    said = one_line(AskError("what\n  a " + "9" * 5000 + " end"))
    assert "\n" not in said
    assert said.startswith("what a 999")
    assert said.endswith(" end")
    assert len(said) <= MAX_SENTENCE + 5


def test_an_interrupt_is_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("neoserve.faces.ask.answer_predict", stop)
    said = cli(*PREDICT)
    assert (said.code, said.err) == (130, "neoserve: interrupted\n")


def test_version(cli: Cli) -> None:
    from importlib.metadata import version

    assert cli("--version").out == f"neoserve {version('neoserve')}\n"


def test_a_real_process_keeps_data_and_complaints_apart() -> None:
    good = shell(*PREDICT, "--json")
    assert (good.returncode, good.stderr) == (0, "")
    assert json.loads(good.stdout)["model"] == "Qwen/Qwen3-8B"
    bad = shell("predict", "Qwen/Qwen3-8B", "--on", "H100-SXMM")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "H100-SXM-80GB" in bad.stderr


def test_output_into_a_file_has_no_colours(tmp_path: Path) -> None:
    done = shell(*PLAN, "--plot", str(tmp_path / "front.svg"), env={**os.environ, "NO_COLOR": "1"})
    assert done.returncode == 0
    assert "\x1b" not in done.stdout + done.stderr
    assert "front.svg" in done.stderr  # a note, not data
    assert (tmp_path / "front.svg").read_text().startswith("<svg")


def test_a_reader_that_leaves_early_is_no_failure() -> None:
    listing = f"{sys.executable} -m neoserve catalog models --json | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", listing], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_main_reads_the_process_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["neoserve", "nonsense"])
    assert main() == 2
