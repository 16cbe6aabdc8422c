"""`predict` and `plan` with simulation: the schedule is `bench`'s, targets mean what they say."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.faces.ask import answer_plan, answer_predict, wants_simulation
from neoserve.faces.cli import main
from neoserve.faces.simulate import drawer
from neoserve.measure.lengths import lengths
from neoserve.measure.schedule import plan
from neoserve.measure.traces import Trace
from neoserve.predict.serve import JUDGED_BY_MEAN
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.prediction import Prediction
from neoserve.schema.workload import Slo, Workload

LLAMA = "meta-llama/Llama-3.1-8B"
OPEN = Workload(arrival="poisson", rate_rps=6.0, prompt_tokens=1000, output_tokens=100)


def asked(workload: Workload = OPEN, slo: str = "", **more: object) -> Prediction:
    deployment = Deployment(max_model_len=8192, **more.pop("deployment", {}))  # type: ignore[arg-type]
    return answer_predict(PredictAsk(model=LLAMA, on="H100-SXM", workload=workload, slo=slo,
                                     deployment=deployment, online=False, **more))  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("workload", [
    OPEN, OPEN.replace(arrival="gamma", burstiness=0.5), OPEN.replace(arrival="mmpp"),
    OPEN.replace(arrival="constant"), OPEN.replace(prompt_tokens_cv=0.7, output_tokens_cv=0.5),
    OPEN.replace(turns=3, think_time_s=1.0), OPEN.replace(arrival="closed", rate_rps=0.0),
])  # fmt: skip
def test_predicts_the_very_requests_that_a_measurement_sends(workload: Workload) -> None:
    sent = plan(workload, 60, num_warmup=10)
    drawn = drawer()(workload, 70)
    assert list(drawn.due_s) == [p.due_s for p in sent]
    assert list(drawn.prompt_tokens) == [p.prompt_tokens for p in sent]
    assert list(drawn.output_tokens) == [p.output_tokens for p in sent]
    if workload.turns == 3:
        assert list(drawn.follows[:6]) == [-1, 0, 1, -1, 3, 4]


def test_a_trace_brings_its_own_times_and_lengths() -> None:
    trace = Trace(name="t", times_s=(0.0, 1.0, 4.0), prompt_tokens=(10, 20, 30),
                  output_tokens=(1, 2, 3), prefixes=((), (), ()), sessions=("", "", ""),
                  num_left_out=0)  # fmt: skip
    drawn = drawer(trace)(Workload(arrival="trace"), 5)
    assert (list(drawn.due_s), list(drawn.prompt_tokens)) == ([0.0, 1.0, 4.0], [10, 20, 30])
    pairs = lengths(OPEN, trace.lengths())
    drawn = drawer(trace)(OPEN, 9)
    assert list(zip(drawn.prompt_tokens, drawn.output_tokens, strict=True)) == [
        next(pairs) for _ in range(9)
    ]


def test_a_trace_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """40 requests a second apart: their own means, rate, lengths."""
    file = tmp_path / "azure.csv"
    rows = [f"2024-05-10 00:00:{i:02d}.0,{1000 * (1 + i % 3)},{20 + i % 2}" for i in range(40)]
    file.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    words = ["predict", LLAMA, "--on", "H100-SXM", "--trace", str(file), "--json", "--offline"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert any("36 simulated requests" in line for line in found["assumptions"])  # 4 warm up
    rate = 39 / 39  # a second apart
    mean_tokens = found["throughput"]["output_tokens_per_s"]
    assert mean_tokens == pytest.approx(rate * 20.5, rel=0.05)
    assert found["latency"]["ttft_s"]["p99"] > 1.3 * found["latency"]["ttft_s"]["p50"]
    assert main([*words, "--max-concurrency", "4"]) == 0
    closed = json.loads(capsys.readouterr().out)
    assert any("400 simulated requests" in line for line in closed["assumptions"])
    assert main(["predict", LLAMA, "--on", "L4", "--trace", str(tmp_path / "none.csv")]) == 2


def test_what_is_simulated_without_being_asked_for() -> None:
    p95, mean = Slo.parse_text("ttft:p95<1s"), Slo.parse_text("ttft:mean<1s")
    assert not wants_simulation(None, OPEN, None)
    assert not wants_simulation(None, OPEN, mean)
    assert wants_simulation(None, OPEN, p95)
    assert wants_simulation(None, OPEN.replace(output_tokens_cv=0.5), None)
    assert wants_simulation(None, OPEN.replace(arrival="mmpp"), None)
    assert not wants_simulation(False, OPEN, p95)
    assert wants_simulation(True, Workload(), None)


def test_percentiles_are_ordered_and_the_means_agree_with_the_formula() -> None:
    light = OPEN.replace(rate_rps=2.0, output_tokens=400)  # at high load they need not
    plain, found = asked(light), asked(light, simulate=True)
    assert plain.latency is not None
    assert plain.latency.ttft_s.p95 is None
    assert found.latency is not None
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        tails, formula = getattr(found.latency, metric), getattr(plain.latency, metric)
        assert tails.p50 <= tails.p95 <= tails.p99
        assert tails.mean == pytest.approx(formula.mean, rel=0.15)
    assert any("400 simulated requests (seed 0)" in line for line in found.assumptions)


def test_a_target_is_judged_by_its_percentile() -> None:
    """The mean holds what the 99th percentile does not; goodput counts the requests that do."""
    tails = asked(simulate=True).latency
    assert tails is not None
    assert tails.ttft_s.mean is not None
    assert tails.ttft_s.p99 is not None
    limit_ms = 1e3 * (tails.ttft_s.mean + tails.ttft_s.p99) / 2
    missed = asked(slo=f"ttft:p99<{limit_ms}ms")
    assert missed.meets_slo is False
    assert JUDGED_BY_MEAN not in missed.assumptions
    assert missed.throughput is not None
    assert missed.throughput.goodput_rps is not None
    assert missed.throughput.max_rate_rps is not None
    assert 0.9 * 6.0 < missed.throughput.goodput_rps < 6.0
    assert missed.throughput.max_rate_rps < 6.0
    by_mean = asked(slo=f"ttft:p99<{limit_ms}ms", simulate=False)
    assert by_mean.meets_slo is True
    assert JUDGED_BY_MEAN in by_mean.assumptions


def test_the_highest_rate_is_where_the_percentile_meets_its_limit() -> None:
    slo = "ttft:p95<150ms; tpot:p95<20ms"
    highest = asked(slo=slo).throughput
    assert highest is not None
    assert highest.max_rate_rps is not None
    there = OPEN.replace(rate_rps=highest.max_rate_rps, same_arrivals=True)
    # one run's percentile is not quite monotone: who shares a step changes with the rate
    above = OPEN.replace(rate_rps=highest.max_rate_rps * 1.15, same_arrivals=True)
    assert asked(there, slo).meets_slo is True
    assert asked(above, slo).meets_slo is False


def test_a_load_beyond_saturation_has_no_percentiles() -> None:
    found = asked(OPEN.replace(rate_rps=500.0), "ttft:p95<1s")
    assert found.latency is not None
    assert (found.latency.ttft_s.mean, found.latency.ttft_s.p95) == (None, None)
    assert found.meets_slo is False
    assert found.throughput is not None
    assert found.throughput.goodput_rps == 0.0


def test_a_full_cache_is_named_as_the_limit() -> None:
    closed = Workload(concurrency=200, prompt_tokens=2000, output_tokens=500)
    found = asked(closed, simulate=True, available_kv_bytes=4 * 2**30)
    assert found.bound == "kv"
    assert asked(Workload(concurrency=9, prompt_tokens=20, output_tokens=50), simulate=True,
                 deployment={"max_num_seqs": 2}).bound == "queue"  # fmt: skip


@pytest.mark.parametrize(("engine", "scheduler"), [
    ("vllm", "vllm v1"), ("sglang", "sglang"), ("tensorrt-llm", "tensorrt-llm"),
    ("llama.cpp", "llama.cpp"),
])  # fmt: skip
def test_each_engine_has_its_own_scheduler(engine: str, scheduler: str) -> None:
    slow = OPEN.replace(rate_rps=1.0)
    found = asked(slow, simulate=True, num_requests=50, deployment={"engine": engine})
    assert any(f"50 simulated requests (seed 0) under the scheduler of {scheduler}" in line
               for line in found.assumptions)  # fmt: skip


def test_replicas_share_the_load() -> None:
    one, two = asked(simulate=True), asked(OPEN.replace(rate_rps=12.0), simulate=True,
                                           deployment={"replicas": 2})  # fmt: skip
    assert one.latency is not None
    assert two.latency is not None
    assert one.latency == two.latency


def test_conversations_bring_all_their_turns() -> None:
    found = asked(OPEN.replace(rate_rps=2.0, turns=3, think_time_s=0.5), simulate=True)
    assert found.throughput is not None
    assert found.throughput.output_tokens_per_s == pytest.approx(2.0 * 3 * 100)


def test_a_plan_simulates_its_best_and_its_front() -> None:
    request = PlanAsk(
        model=LLAMA, on=("L40S", "H100-SXM"), workload=OPEN, rate_rps=6.0, online=False,
        slo="ttft:p95<400ms; tpot:p95<40ms", num_requests=100,
    )  # fmt: skip
    found = answer_plan(request)
    assert found.best is not None
    assert JUDGED_BY_MEAN not in found.best.assumptions
    for i in found.pareto:
        latency = found.candidates[i].latency
        assert latency is not None
        assert latency.ttft_s.p95 is not None
        assert latency.ttft_s.p95 < 0.4
    simulated = [c for c in found.candidates if c.latency and c.latency.ttft_s.p95]
    assert len(simulated) <= 10
    others = [c for c in found.candidates if c not in simulated]
    assert all(JUDGED_BY_MEAN in c.assumptions for c in others)
    money = [c.cost.usd_per_mtok_output for c in found.candidates if c.cost and c.meets_slo]
    assert money == sorted(money)


def test_command_line_shows_percentiles(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["predict", LLAMA, "--on", "H100-SXM", "--rate", "6", "--isl", "1000", "--osl", "100",
             "--isl-cv", "0.5", "--num-prompts", "60", "--seed", "4", "--offline"]  # fmt: skip
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "(p95)" in text
    assert "60 simulated requests (seed 4)" in text
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["latency"]["ttft_s"]["p99"] > document["latency"]["ttft_s"]["p50"]


def test_plan_shows_the_tails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", LLAMA, "--on", "H100-SXM", "--rate", "6", "--isl", "1000", "--osl", "100",
                 "--slo", "ttft:p95<1s", "--offline"]) == 0  # fmt: skip
    head = capsys.readouterr().out.split("----")[0]
    assert head.count("p95") == 2
    assert max(map(len, head.splitlines())) <= 100


@pytest.mark.parametrize(("changes", "words"), [
    ({"output_tokens_cv": -1.0}, "--osl-cv is -1"), ({"turns": 0}, "0 turns"),
])  # fmt: skip
def test_loads_that_cannot_be_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(AskError, match=words):
        asked(OPEN.replace(**changes))


@pytest.mark.parametrize("num", [0, 10**7])
def test_a_simulation_has_a_sensible_size(num: int) -> None:
    with pytest.raises(AskError, match=f"--num-prompts is {num}"):
        asked(simulate=True, num_requests=num)


def test_a_law_needs_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", LLAMA, "--on", "L4", "--arrival", "mmpp"]) == 2
    assert "--arrival shapes an open load" in capsys.readouterr().err


def test_the_formula_alone_imports_no_simulation() -> None:
    """A cold `predict` stays quick."""
    import subprocess

    code = (
        "import sys; from neoserve.faces.cli import main; "
        f"main(['predict', '{LLAMA}', '--on', 'L4', '--json', '--offline']); "
        "sys.exit(any('simulat' in name for name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert ran.returncode == 0
