"""`neoserve gate`, through the command line: run folders, result files, predictions, a server."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from measure.judging import setting_for
from measure.truth import Truth, serving
from neoserve.evidence.run import Run
from neoserve.measure.figures import judge_rows, pack_rows
from neoserve.measure.schedule import to_jsonl
from neoserve.schema.capacity import MaxRate
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import PlannedRequest, RequestRow
from neoserve.schema.workload import Slo, Workload
from tune.queues import gaps_s, serve

from .conftest import Cli

RESULTS = Path(__file__).parent.parent / "data/results"
NUM = 600
PREDICTED = """model: Qwen/Qwen3-8B
on: L4
offline: yes
isl: 1000
osl: 300
max-model-len: 8k
concurrency: {concurrency}
slo: tpot:mean<{limit}
"""

Recorded = Callable[..., Path]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """A run folder of one load on a queue, `slowdown` times as slow."""

    def make(name: str, seed: int = 1, slowdown: float = 1.0, num: int = NUM,
             **changes: Any) -> Path:  # fmt: skip
        gaps = gaps_s(random.Random(7), num, 0.4)
        served = serve(random.Random(seed), gaps, slowdown)
        rows = [
            RequestRow(due_s=due, sent_s=due, first_token_s=due + ttft,
                       last_token_s=due + ttft + tpot * 4, prompt_tokens=20, output_tokens=5)
            for due, ttft, tpot in served
        ]  # fmt: skip
        schedule = tuple(PlannedRequest(row.due_s, 20, 5) for row in rows)
        setting = setting_for(rows, **{
            "slo": Slo.parse_text("ttft:p50<1s"), "usd_per_hour": 1.0, "price_source": "me",
            "workload": Workload(arrival="poisson", rate_rps=16.0, prompt_tokens=20,
                                 output_tokens=5),
        } | changes)  # fmt: skip
        folder = tmp_path / name
        run = Run.create(folder, "bench", seed=0, versions={})
        trial = judge_rows(setting, rows, schedule)
        run.record_trial(trial, rows=pack_rows(rows), schedule=to_jsonl(schedule))
        return folder

    return make


def checks(document: Any) -> dict[str, Any]:
    return {check["name"]: check for check in document["checks"]}


# run folders


def test_a_run_that_keeps_its_slo_and_its_budget(cli: Cli, recorded: Recorded) -> None:
    folder = recorded("now")
    said = cli("gate", str(folder), "--max-usd-per-mtok", "10", "--json")
    assert said.code == 0
    found = said.document
    assert (found["schema"], found["verdict"]) == ("neoserve/gate/1", "PASS")
    assert found["subject"]["head"] == cli("verify", str(folder), "--json").document["head"]
    # a dollar an hour over 16 requests of 5 tokens a second
    assert checks(found)["usd_per_mtok_output"]["value"] == pytest.approx(1e6 / 3600 / 80, rel=0.1)


def test_an_slo_and_a_budget_that_are_missed(cli: Cli, recorded: Recorded) -> None:
    folder = str(recorded("now"))
    assert cli("gate", folder, "--slo", "ttft:p50<20ms").code == 1
    assert cli("gate", folder, "--max-usd-per-mtok", "1").code == 1
    said = cli("gate", folder, "--max-usd-per-mtok", "3.4")  # within the interval
    assert said.code == 3
    assert said.out.rstrip().endswith("INCONCLUSIVE: 1 INCONCLUSIVE, 1 PASS")
    assert all(len(line) <= 100 for line in said.out.splitlines())


def test_a_slowdown_against_a_baseline(cli: Cli, recorded: Recorded) -> None:
    before, same = recorded("before"), recorded("same", seed=2)
    slow = recorded("slow", seed=2, slowdown=1.25)
    assert cli("gate", str(same), "--baseline", str(before)).code == 0
    said = cli("gate", str(slow), "--baseline", str(before), "--json")
    assert said.code == 1
    found = checks(said.document)
    assert found["ttft:geomean"]["verdict"] == "FAIL"
    assert found["ttft:geomean"]["paired"] is True  # one schedule
    assert found["ttft:p50<1.00 s"]["verdict"] == "PASS"
    assert "compared in pairs" in " ".join(said.document["notes"])
    assert cli("gate", str(slow), "--baseline", str(before), "--tolerance", "49%",
               "--detect", "90%").code == 0
    faster = cli("gate", str(before), "--baseline", str(slow), "--json")
    assert faster.code == 0
    assert "faster" in checks(faster.document)["ttft:geomean"]["reason"]


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("engine", {"engine": EngineConfig(engine="truth", version="2")}),
        ("engine", {"engine": EngineConfig(engine="truth", argv=("/a/x", "--fast"))}),
        ("workload", {"workload": Workload(arrival="poisson", rate_rps=16.5, prompt_tokens=20,
                                           output_tokens=5)}),
    ],
)  # fmt: skip
def test_what_is_unlike_is_refused(
    cli: Cli, refused: Callable[..., str], recorded: Recorded, kind: str, changes: Any
) -> None:
    words = ("gate", str(recorded("now", **changes)), "--baseline", str(recorded("before")))
    told = refused(*words)
    assert f"not comparable: unlike {kind}: " in told
    assert f"--allow {kind}" in told
    allowed = cli(*words, "--allow", kind, "--json")
    assert allowed.code == 0
    assert allowed.document["allowed"] == [kind]


def test_unlike_hosts_are_refused(refused: Callable[..., str], recorded: Recorded) -> None:
    from neoserve.measure.host import host_print

    other = recorded("other", host=host_print().replace(cpu_model="Neoverse-V2"))
    told = refused("gate", str(recorded("now")), "--baseline", str(other))
    assert "unlike host: cpu_model" in told
    assert "'Neoverse-V2'" in told


def test_a_port_and_a_folder_are_no_other_engine(cli: Cli, recorded: Recorded) -> None:
    def engine(folder: str, port: str) -> EngineConfig:
        return EngineConfig(engine="x", argv=(f"{folder}/bin/x", "--model", f"{folder}/m.gguf",
                                              "--port", port))  # fmt: skip

    now = recorded("now", engine=engine("/home/a", "1234"))
    before = recorded("before", engine=engine("/srv/b", "5678"))
    assert cli("gate", str(now), "--baseline", str(before)).code == 0


def test_a_void_run_decides_nothing(cli: Cli, recorded: Recorded) -> None:
    void = recorded("void", faults=("another allocator",))
    said = cli("gate", str(void), "--baseline", str(recorded("before")), "--json")
    assert said.code == 3
    assert "another allocator" in said.document["checks"][0]["reason"]


def test_of_a_search_the_trial_that_certifies_is_judged(
    cli: Cli, refused: Callable[..., str], recorded: Recorded
) -> None:
    def found(rate_rps: float | None) -> dict[str, Any]:
        best = MaxRate(certified_rps=rate_rps, not_met_rps=None, tolerance=0.05, level=0.05,
                       probes=(), notes=())  # fmt: skip
        return best.to_data()  # type: ignore[no-any-return]

    run = Run.open(recorded("search"))
    run.record("max-rate", found(16.0))
    assert cli("gate", str(run.path)).code == 0
    run.record("max-rate", found(None))
    assert "certified no rate" in refused("gate", str(run.path))
    assert cli("gate", str(run.path), "--trial", "1").code == 0


def test_broken_evidence_is_no_verdict(cli: Cli, recorded: Recorded) -> None:
    folder = recorded("now")
    ledger = folder / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b'"num_ok":600', b'"num_ok":599'))
    said = cli("gate", str(folder))
    assert said.code == 5
    assert said.out == ""


def test_bad_gates(refused: Callable[..., str], recorded: Recorded, tmp_path: Path) -> None:
    folder = str(recorded("now", slo=Slo()))
    assert "nothing to check" in refused("gate", folder)
    assert "neither a run folder nor a file" in refused("gate", str(tmp_path / "none"))
    assert "--compare 'ttft:max'" in refused("gate", folder, "--compare", "ttft:max")
    assert "--allow 'luck'" in refused("gate", folder, "--baseline", folder, "--allow", "luck")
    assert "--detect" in refused("gate", folder, "--baseline", folder, "--detect", "1%")
    assert "holds 1 loads" in refused("gate", folder, "--trial", "2")
    told = refused("gate", "http://127.0.0.1:9", "--baseline", str(tmp_path / "none"))
    assert "nothing was measured" in told


# result files of other tools


def test_a_result_file(cli: Cli, tmp_path: Path) -> None:
    data = json.loads((RESULTS / "vllm.json").read_text())
    arrays = ("input_lens", "output_lens", "ttfts", "itls", "errors", "start_times", "latencies")
    many = data | {name: data[name] * 40 for name in arrays}
    many |= {"completed": 480, "num_prompts": 480, "start_times": list(range(480))}
    (tmp_path / "now.json").write_text(json.dumps(many))
    slow = many | {"ttfts": [1.5 * ttft for ttft in many["ttfts"]]}
    (tmp_path / "slow.json").write_text(json.dumps(slow))
    now, late = str(tmp_path / "now.json"), str(tmp_path / "slow.json")
    assert cli("gate", now, "--slo", "ttft:p95<3s").code == 0
    assert cli("gate", now, "--slo", "ttft:p50<1ms").code == 1
    said = cli("gate", late, "--baseline", now, "--json")
    assert said.code == 1
    assert checks(said.document)["ttft:geomean"]["change"] == pytest.approx(0.5)
    assert "from sending" in " ".join(said.document["notes"])


@pytest.mark.parametrize("path", sorted(RESULTS.rglob("*.json")), ids=lambda path: path.name)
def test_every_tools_file_can_be_gated(cli: Cli, path: Path) -> None:
    words = ("--slo", "ttft:p95<100s; tpot:mean<100s", "--price", "1", "--max-usd-per-mtok", "1e9")
    said = cli("gate", str(path), *words, "--baseline", str(path), "--json")
    assert said.code in (0, 3), said.err
    assert checks(said.document)["usd_per_mtok_output"]["verdict"] == "PASS"


def test_a_kept_file_is_gated_as_the_file_itself(cli: Cli, tmp_path: Path) -> None:
    path, slo = str(RESULTS / "aiperf/profile_export_aiperf.json"), ("--slo", "ttft:p50<100s")
    cli("import", path, "--out", str(tmp_path / "kept"))
    kept, itself = (cli("gate", one, *slo, "--json").document
                    for one in (str(tmp_path / "kept"), path))  # fmt: skip
    assert kept["checks"] == itself["checks"]
    assert kept["checks"][0]["value"] > 0
    assert "requests missed" in kept["checks"][0]["reason"]  # one by one


def test_an_import_of_an_older_form_is_read(cli: Cli, tmp_path: Path) -> None:
    [load] = cli("import", str(RESULTS / "vllm.json"), "--json").document
    run = Run.create(tmp_path / "old", "import", seed=0, versions={})
    source = run.put_blob((RESULTS / "vllm.json").read_bytes())
    run.record("import", {"file": source, "loads": [load | {"rows": []}]})
    said = cli("gate", str(run.path), "--slo", "ttft:p95<100s", "--json")
    assert said.code == 3
    assert said.document["checks"][0]["value"] == load["metrics"]["ttft_s"]["p95"]
    assert "no requests one by one" in said.document["checks"][0]["reason"]


def test_figures_without_requests_certify_nothing(cli: Cli) -> None:
    path = str(RESULTS / "inference_perf_stage_1.json")
    said = cli("gate", path, "--slo", "ttft:p95<100s", "--baseline", path, "--json")
    assert said.code == 3
    assert said.document["checks"][0]["value"] > 0  # shown all the same
    assert "--save-detailed" in said.document["checks"][0]["reason"]


def test_tools_that_mean_different_things_are_not_mixed(
    refused: Callable[..., str], recorded: Recorded
) -> None:
    vllm, guide = str(RESULTS / "vllm.json"), str(RESULTS / "guidellm.json")
    words = ("gate", vllm, "--slo", "ttft:p95<3s", "--baseline")
    assert "unlike definitions" in refused(*words, guide, "--allow", "workload")
    assert "unlike definitions" in refused(*words, str(recorded("ours")))


# predictions


def config(tmp_path: Path, name: str, concurrency: int = 4, limit: str = "400ms") -> str:
    path = tmp_path / name
    path.write_text(PREDICTED.format(concurrency=concurrency, limit=limit))
    return str(path)


def test_a_prediction_for_a_config(cli: Cli, tmp_path: Path) -> None:
    now = config(tmp_path, "now.yaml")
    said = cli("gate", now, "--max-usd-per-mtok", "50", "--json")
    assert (said.code, said.document["subject"]["basis"]) == (0, "predicted")
    assert cli("gate", config(tmp_path, "missed.yaml", limit="2ms")).code == 1
    unsure = cli("gate", config(tmp_path, "near.yaml", limit="80ms"))
    assert unsure.code == 3
    assert cli("gate", config(tmp_path, "near.yaml", limit="80ms"), "--sure", "60%").code == 0
    slower = cli("gate", config(tmp_path, "slow.yaml", 16), "--baseline", now, "--json")
    assert slower.code == 1
    assert checks(slower.document)["tpot:mean"]["verdict"] == "FAIL"
    assert cli("gate", now, "--baseline", now).code == 0


def test_a_kept_prediction_is_a_baseline(cli: Cli, tmp_path: Path) -> None:
    now = config(tmp_path, "now.yaml")
    kept = cli("predict", "Qwen/Qwen3-8B", "--on", "L4", "--offline", "--isl", "1000", "--osl",
               "300", "--max-model-len", "8k", "--concurrency", "4", "--json")  # fmt: skip
    (tmp_path / "kept.json").write_text(kept.out)
    assert cli("gate", now, "--baseline", str(tmp_path / "kept.json")).code == 0


def test_predictions_beside_measurements(
    refused: Callable[..., str], recorded: Recorded, tmp_path: Path
) -> None:
    now = config(tmp_path, "now.yaml")
    assert "unlike basis" in refused("gate", now, "--baseline", str(recorded("run")))
    assert "belongs into its file" in refused("gate", now, "--slo", "ttft:p95<1s")
    (tmp_path / "bad.yaml").write_text("- a\n- b\n")
    assert "expected `model`, `on`" in refused("gate", str(tmp_path / "bad.yaml"))
    (tmp_path / "torn.yaml").write_text("model: [\n")
    assert "cannot be read" in refused("gate", str(tmp_path / "torn.yaml"))


# a server


def is_void(document: Any) -> bool:
    """A host that is too busy to send when requests are due measures itself."""
    return any("void" in check["reason"] for check in document["checks"])


def test_a_server_is_measured_and_judged(cli: Cli, tmp_path: Path) -> None:
    with serving(Truth(ttft_s=0.02, itl_s=0.002)) as truth:
        words = ("--request-rate", "60", "--isl", "20", "--osl", "5", "--num-warmups", "3",
                 "--num-prompts", "150", "--slo", "ttft:p50<20s", "--price", "1")  # fmt: skip
        said = cli("gate", truth.url, *words, "--out", str(tmp_path / "a"), "--json")
        assert said.code == 0 or is_void(said.document), said.err
        assert said.document["subject"]["source"] == truth.url
        again = cli("gate", truth.url, *words, "--out", str(tmp_path / "b"),
                    "--baseline", str(tmp_path / "a"), "--allow", "workload", "--json")  # fmt: skip
    assert again.document["baseline"]["head"] == said.document["subject"]["head"]
    if not is_void(said.document) and not is_void(again.document):
        assert {"failed", "ttft:p50<20.0 s"} <= checks(again.document).keys()
    assert cli("verify", str(tmp_path / "b")).code == 0
