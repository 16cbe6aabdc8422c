"""Names to documents: prices, memory, a user's own catalog, commands."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from neoserve.catalog.models import find_model
from neoserve.errors import AskError, CatalogMiss
from neoserve.faces.ask import answer_plan, answer_predict, length_of, machine_of, schemes_of
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload

from .conftest import Cli

MODEL = "Qwen/Qwen3-8B"
OWN = """
hardware:
  - id: my-card
    vendor: nvidia
    compute_capability: 9.0
    memory_bytes: 48GiB
    bandwidth_bytes_per_s: 1.0e12
    peak_flops_per_s: {bf16: 2.0e14}
  - id: L4
    memory_bytes: 24GiB
    bandwidth_bytes_per_s: 6.0e11
    peak_flops_per_s: {bf16: 2.42e14}
instances:
  - id: my-box
    hardware: my-card
    num_devices: 4
    prices: [{usd_per_hour: 3.5, date: 2026-11-01}]
  - id: p5.48xlarge
    hardware: H100-SXM-80GB
    num_devices: 8
    prices: [{usd_per_hour: 24}]
  - id: b
    hardware: L4
    prices: [{usd_per_hour: 0.25}]
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    return str(file)


def ask(on: str, **more: object) -> PredictAsk:
    return PredictAsk(model=MODEL, on=on, **more)  # type: ignore[arg-type]


def test_a_price_of_the_users_wins_over_catalog_and_yaml(own: str) -> None:
    assert machine_of("p5.48xlarge", ask("x")).price.usd_per_hour == 55.04
    machine = machine_of("p5.48xlarge", ask("x", usd_per_hour=8.0, catalog=own))
    assert (machine.price.usd_per_hour, machine.priced_devices) == (8.0, 8)
    given = machine_of("H100-SXM", ask("x", usd_per_hour=2.0))
    assert (given.price.usd_per_hour, given.priced_devices) == (2.0, 1)  # for one device


def test_two_devices_cost_twice_one_and_an_instance_costs_itself() -> None:
    two = ask("H100-SXM", usd_per_hour=2.0, deployment=Deployment(tensor_parallel=2))
    assert answer_predict(two).cost.usd_per_hour == 4.0
    whole = ask("p5.48xlarge", usd_per_hour=55.0, deployment=Deployment(tensor_parallel=2))
    assert answer_predict(whole).cost.usd_per_hour == 55.0
    assert answer_predict(whole).cost.price_basis == "given"


def test_yaml_adds_hardware_and_instances(own: str) -> None:
    machine = machine_of("my-box", ask("x", catalog=own))
    assert (machine.num_devices, machine.hardware.memory_bytes) == (4, 48 * 2**30)
    assert machine.price.date == "2026-11-01"
    assert machine.hardware.compute_capability == "9.0"
    assert machine_of("2xmy-card", ask("x", catalog=own)).num_devices == 2


def test_yaml_overrides_hardware_and_prices(own: str) -> None:
    assert machine_of("L4", ask("x")).hardware.bandwidth_bytes_per_s == pytest.approx(300e9)
    assert machine_of("L4", ask("x", catalog=own)).hardware.bandwidth_bytes_per_s == 6e11
    assert machine_of("p5.48xlarge", ask("x", catalog=own)).price.usd_per_hour == 24
    assert machine_of("b", ask("x", catalog=own)).price.usd_per_hour == 0.25


def test_a_dearer_price_of_the_users_replaces_the_bundled_one(tmp_path: Path) -> None:
    cheapest = machine_of("L4", ask("x")).price
    name = cheapest.region.split()[0]
    file = tmp_path / "dear.yaml"
    file.write_text(f"instances: [{{id: {name}, hardware: L4, prices: [{{usd_per_hour: 99}}]}}]")
    left = machine_of("L4", ask("x", catalog=str(file))).price
    assert not left.region.startswith(f"{name} ")
    assert left.usd_per_hour >= cheapest.usd_per_hour


def test_memory_of_the_users_bounds_the_cache() -> None:
    """Usable is 92 % of what there is; 16 GiB more of it hold so many more tokens of 144 KiB."""
    small, large = (
        answer_predict(ask("H100-SXM", memory_bytes=n * 2**30)).memory for n in (40, 56)
    )
    assert large.total_bytes - small.total_bytes == 16 * 2**30
    assert large.available_kv_bytes - small.available_kv_bytes == pytest.approx(
        0.92 * 16 * 2**30, rel=1e-6
    )


def test_cache_bytes_of_the_users_replace_the_budget() -> None:
    found = answer_predict(ask("H100-SXM", available_kv_bytes=10 * 2**30)).kv
    assert found.num_blocks == 10 * 2**30 // (16 * 147_456)  # 16 tokens of 144 KiB


def test_local_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = machine_of("c8g.4xlarge", ask("x")).replace(id="here")
    monkeypatch.setattr("neoserve.measure.machine.local_machine", lambda: mine)
    assert machine_of(" Local ", ask("x")).id == "here"
    priced = machine_of("local", ask("x", usd_per_hour=0.5, memory_bytes=8 * 2**30))
    assert (priced.price.usd_per_hour, priced.hardware.memory_bytes) == (0.5, 8 * 2**30)


def test_a_folder_is_named_in_the_command(checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("my llama")
    for asked in (folder, folder / "config.json"):
        answer = answer_predict(PredictAsk(model=str(asked), on="H100-SXM"))
        assert shlex.split(answer.command)[:3] == ["vllm", "serve", str(folder)]
        assert answer.model == "my llama"
    best = answer_plan(
        PlanAsk(model=str(folder), on=("H100-SXM",), weight_quant=("checkpoint",))
    ).best
    assert shlex.split(best.command)[2] == str(folder)


def test_a_scheme_is_a_bundled_checkpoint_or_a_placeholder() -> None:
    def served(model: str, scheme: str) -> str:
        deployment = Deployment(weight_quant=scheme)
        answer = answer_predict(PredictAsk(model=model, on="H100-SXM", deployment=deployment))
        return shlex.split(answer.command)[2]

    assert served("Qwen/Qwen3-8B", "awq") == "Qwen/Qwen3-8B-AWQ"
    assert served("Qwen/Qwen2.5-7B-Instruct", "w4a16") == "Qwen/Qwen2.5-7B-Instruct-AWQ"
    assert served("microsoft/phi-4", "awq") == "awq-checkpoint-of/phi-4"
    fp8 = answer_predict(ask("H100-SXM", deployment=Deployment(weight_quant="fp8")))
    assert "--quantization fp8" in fp8.command  # vLLM makes fp8 while it loads


def test_schemes_that_are_compared() -> None:
    gpu, cpu = machine_of("L4", ask("x")), machine_of("c8g.4xlarge", ask("x"))
    request = PlanAsk(model=MODEL, on=("L4",))
    stored, packed = find_model(MODEL, False), find_model("Qwen/Qwen3-8B-AWQ", False)
    assert schemes_of(stored, [gpu], request) == ["checkpoint", "fp8", "w4a16"]
    assert schemes_of(stored, [cpu], request) == ["checkpoint", "w8a8", "w4a8"]
    both = schemes_of(stored, [gpu, cpu], request)
    assert both == ["checkpoint", "fp8", "w4a16", "w8a8", "w4a8"]
    assert schemes_of(packed, [gpu], request) == ["checkpoint"]
    twice = request.replace(weight_quant=("fp8", "fp8"))
    assert schemes_of(stored, [gpu], twice) == ["fp8"]


@pytest.mark.parametrize(
    ("prompt", "output", "length"),
    [(512, 128, 2048), (1500, 500, 4096), (30_000, 1000, 40_960), (50_000, 1, 40_960)],
)
def test_context_of_a_plan_is_twice_the_request(prompt: int, output: int, length: int) -> None:
    workload = Workload(prompt_tokens=prompt, output_tokens=output)
    request = PlanAsk(model=MODEL, on=("L4",), workload=workload)
    assert length_of(request, find_model(MODEL, False)) == length


def test_a_rate_is_served_by_enough_copies(cli: Cli) -> None:
    found = cli("plan", MODEL, "--on", "H100-SXM", "--tp", "1", "--rate", "200", "--json").document
    for candidate in found["candidates"]:
        rates, copies = candidate["throughput"], candidate["deployment"]["replicas"]
        assert rates["max_rate_rps"] >= 200 * 0.999
        assert rates["max_rate_rps"] * (copies - 1) / copies < 200
        assert rates["output_tokens_per_s"] == pytest.approx(200 * 128, rel=0.01)


def test_asks_that_have_no_answer() -> None:
    with pytest.raises(CatalogMiss, match=r"nearest: .*H100-SXM-80GB"):
        answer_predict(ask("H100-SXMM"))
    with pytest.raises(AskError, match="no hardware was given"):
        answer_plan(PlanAsk(model=MODEL, on=()))
    with pytest.raises(AskError, match="--keep"):
        answer_plan(PlanAsk(model=MODEL, on=("L4",), keep=-1))
