"""`neoserve tune` from its words to its answer; the search itself is tested with its own room."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.faces import tune
from neoserve.faces.tune import context_tokens
from neoserve.faces.tune_ask import budgets, pinned
from neoserve.measure.figures import recompute
from neoserve.schema.campaign import Campaign, Recommendation, SearchPlan
from neoserve.schema.space import Candidate, Space
from neoserve.schema.workload import Slo, Workload
from neoserve.tune.campaign import begin, told_in
from neoserve.tune.space_file import read_space_file
from tune.hosts import facts

from .conftest import Cli

Refused = Callable[..., str]
ASK = ("tune", "--slo", "ttft:p95<3s")


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is none, and whose memory needs no second to be measured."""
    monkeypatch.setattr(tune, "host_facts", lambda *_: facts(cores=4))


# what is refused


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tune",), "needs an SLO with a percentile"),
        (("tune", "--slo", "ttft:mean<3s"), "needs an SLO with a percentile"),
        (("tune", "--slo", "quality<4%"), "needs an SLO with a percentile"),
        (("tune", "--slo", "ttft"), "write it as 'ttft:p95<3s'"),
        ((*ASK, "--budget", "soon"), "--budget 'soon': expected 30m, '50 trials' or '$5'"),
        ((*ASK, "--budget", "0m"), "--budget '0m' is nothing to spend"),
        ((*ASK, "--budget", "0 trials"), "--budget '0 trials' is nothing to spend"),
        ((*ASK, "--budget", "1.5 trials"), "--budget '1.5 trials': expected"),
        ((*ASK, "--budget", "$x", "--price", "1"), "--budget '$x': expected"),
        ((*ASK, "--budget", "$nan", "--price", "1"), "--budget '$nan' is nothing to spend"),
        ((*ASK, "--budget=$-5", "--price", "1"), "--budget '$-5' is nothing to spend"),
        ((*ASK, "--budget", "$5"), "give --price or --on"),
        ((*ASK, "--rungs", "40,150"), "three growing numbers"),
        ((*ASK, "--rungs", "40,30,20"), "three growing numbers"),
        ((*ASK, "--rungs", "0,30,60"), "three growing numbers"),
        ((*ASK, "--rungs", "a,b,c"), "--rungs"),
        ((*ASK, "--engine", "tgi"), "engine 'tgi' has no space to search; expected llama.cpp or"),
        ((*ASK, "--device", "gpu"), "llama.cpp is searched on CPUs only"),
        ((*ASK, "--device", "tpu"), "choose from"),
        ((*ASK, "--space", "none.toml"), "space file none.toml: No such file"),
        ((*ASK, "--space", __file__), "expected a name that ends in .toml"),
        (("tune", "none.gguf", *ASK[1:]), "none.gguf is no file"),
        (("tune", "/none", "--engine", "vllm", *ASK[1:]), "model /none is not there"),
        ((*ASK, "--checkpoint", "q8_0"), "is not NAME=PATH"),
        ((*ASK, "--checkpoint", "q8_0=none.gguf"), "none.gguf is no file"),
        ((*ASK, "--quality-text", "none.txt"), "none.txt is no file"),
        ((*ASK, "--quality-task", "none.jsonl"), "none.jsonl is no file"),
        ((*ASK, "--dataset-path", "none.jsonl"), "none.jsonl is no file"),
        ((*ASK, "--tolerance", "60%"), "--tolerance has to lie between"),
        ((*ASK, "--certify-seeds", "0"), "--certify-seeds is 0"),
        ((*ASK, "--max-candidates", "0"), "--max-candidates is 0"),
        ((*ASK, "--request-rate", "-1"), "--request-rate is -1"),
        ((*ASK, "--isl", "0"), "expected at least 1 token"),
        ((*ASK, "--osl", "0"), "expected at least 1 token"),
        ((*ASK, "--timeout", "0"), "--timeout is 0"),
        ((*ASK, "--", "stray"), "'stray' after -- follows no flag"),
        ((*ASK, "--", "--mlock", "on", "stray"), "'stray' after -- follows no flag"),
        ((*ASK, "--", "--port=80"), "--host and --port are chosen"),
        (("tune", "--resume", "none"), "none is no run folder"),
        (("tune", "--resume", "none", *ASK[1:], "--", "--mlock"),
         "leave out --slo, arguments after --"),
    ],
)  # fmt: skip
def test_a_bad_ask_is_one_sentence(refused: Refused, words: tuple[str, ...], said: str) -> None:
    assert said in refused(*words)


def test_only_a_campaign_can_be_resumed(refused: Refused, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "bench", "bench", seed=0, versions={}, argv=())
    assert "holds no campaign" in refused("tune", "--resume", str(run.path))
    assert [e.kind for e in run.entries()] == ["run"], "a refusal writes nothing"


def test_another_host_goes_on_with_nothing(refused: Refused, tmp_path: Path) -> None:
    host = facts().host.replace(cpu_model="a CPU that is not here")
    run = Run.create(tmp_path / "run", "tune", seed=0, versions={}, host=host, argv=())
    asked = Campaign(space=Space(engine="llama.cpp", device="cpu", model="m", knobs=()),
                     workload=Workload(), slo=Slo(), context_tokens=1)  # fmt: skip
    begin(run, asked, SearchPlan(candidates=(Candidate({}, "default"),), start_rps=1.0))
    assert "was measured on a CPU that is not here" in refused("tune", "--resume", str(run.path))


@pytest.mark.usefixtures("four_cores")
def test_secrets_are_not_written_into_runs(cli: Cli) -> None:
    said = cli(*ASK, "--", "--api-key", "hunter2")
    assert said.code == 2
    assert "--api-key would be kept in the run folder" in said.err
    assert "hunter2" not in said.err


# what was asked


def test_budgets_are_time_trials_and_money() -> None:
    assert budgets(["30m", "50 trials", "$2.50"]) == {
        "budget_s": 1800.0, "budget_trials": 50, "budget_usd": 2.5,
    }  # fmt: skip
    assert budgets(["1 trial", "2h"]) == {"budget_trials": 1, "budget_s": 7200.0}
    assert budgets([]) == {}


def test_arguments_after_the_dashes_are_pins() -> None:
    words = ("--mlock", "--cache-reuse", "256", "--numa=distribute", "-ngl", "0")
    assert pinned(words) == {
        "--mlock": "", "--cache-reuse": "256", "--numa": "distribute", "-ngl": "0",
    }  # fmt: skip
    assert pinned(()) == {}
    with pytest.raises(AskError, match="'x' after -- follows no flag"):
        pinned(("--numa=distribute", "x"))


def test_a_context_holds_the_longest_request_that_is_likely() -> None:
    assert context_tokens(Workload(prompt_tokens=100, output_tokens=28)) == 256  # 128 + 64
    assert context_tokens(Workload(prompt_tokens=100, output_tokens=100)) == 512
    varied = Workload(prompt_tokens=100, output_tokens=28, prompt_tokens_cv=1.0)
    assert context_tokens(varied) == 512  # 4 x 100 + 28 + 64
    assert context_tokens(Workload(prompt_tokens=100, output_tokens=100, turns=3)) == 768


@pytest.mark.usefixtures("four_cores")
def test_a_dry_run_names_the_candidates_and_the_time(cli: Cli) -> None:
    said = cli(*ASK, "--dry-run", "--max-candidates", "5", "--isl", "64", "--osl", "8",
               "--budget", "30m", "--rungs", "10,20,30", "--", "--mlock")  # fmt: skip
    assert said.code == 0
    text = " ".join(said.out.split())
    assert "1 engine defaults default" in text
    assert "rungs of 10, 20, 30 requests, then 800 over 3 seeds" in text
    assert "If the predictions are right this takes about" in text
    assert "The budget is 30.0 min" in text
    rows = [line for line in said.out.splitlines() if line[:2].strip().isdigit()]
    assert [line.split()[0] for line in rows] == ["1", "2", "3", "4", "5"]


@pytest.mark.usefixtures("four_cores")
def test_a_dry_run_in_json_is_the_plan(cli: Cli) -> None:
    words = ("--max-candidates", "6", "--request-rate", "3", "--seed", "7", "--price", "2",
             "--budget", "$5", "--certify-seeds", "2", "--finalists", "1")  # fmt: skip
    plan = SearchPlan.parse(cli(*ASK, "--dry-run", "--json", *words).document, "plan")
    assert len(plan.candidates) == 6
    assert plan.candidates[0] == plan.candidates[0].replace(knobs={}, origin="default")
    assert (plan.start_rps, plan.seed, plan.num_seeds, plan.num_finalists) == (3.0, 7, 2, 1)
    assert (plan.budget_usd, plan.usd_per_hour, plan.budget_s) == (5.0, 2.0, None)
    assert plan.horizon_s == 3.0  # the SLO's longest limit
    assert len({candidate.id for candidate in plan.candidates}) == 6


@pytest.mark.usefixtures("four_cores")
def test_the_space_that_is_printed_is_read_back(cli: Cli, tmp_path: Path) -> None:
    said = cli(*ASK, "--print-space", "--", "--cache-reuse", "256")
    assert said.code == 0
    path = tmp_path / "space.toml"
    path.write_text(said.out)
    file = read_space_file(path)
    assert file.pins == {"--cache-reuse": "256"}
    assert file.knobs["threads"]["values"] == ["1", "2", "3", "4"]
    assert file.knobs.keys() == tomllib.loads(said.out)["knobs"].keys() >= {"parallel", "ubatch"}
    again = cli(*ASK, "--print-space", "--space", str(path))
    assert tomllib.loads(again.out) == tomllib.loads(said.out)


@pytest.mark.usefixtures("four_cores")
def test_points_of_a_space_file_are_the_candidates(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "two.toml"
    path.write_text("[[candidates]]\nthreads = 2\nparallel = 8\n")
    document = cli(*ASK, "--dry-run", "--json", "--space", str(path)).document
    assert {"parallel": "8", "threads": "2"} in [c["knobs"] for c in document["candidates"]]
    assert document["candidates"][0]["knobs"] == {}


# the whole way


SMALL = """
[[candidates]]
threads = 1
parallel = 4
"""


@pytest.mark.engine
def test_a_small_campaign_on_the_embedded_engine(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neoserve.faces.pmu.instance_type", lambda: "c6i.4xlarge")
    space, run = tmp_path / "space.toml", tmp_path / "run"
    space.write_text(SMALL)
    # a median is soon proven, and a short limit makes short loads
    said = cli("tune", "--slo", "ttft:p50<1s", "--isl", "12", "--osl", "4", "--request-rate", "2",
               "--space", str(space), "--max-candidates", "2", "--rungs", "8,12,16",
               "--certify-requests", "16", "--certify-seeds", "1", "--finalists", "0",
               "--tolerance", "30%", "--budget", "8 trials", "--budget", "40s",
               "--out", str(run))  # fmt: skip
    assert said.code in (0, 3), said
    assert "[1/2] engine defaults  (default)" in said.err
    assert said.err.count("c6i.4xlarge shows no PMU at all") == 1
    entries = Run.open(run).entries()
    kinds = Counter(e.kind for e in entries)
    assert kinds["campaign"] == kinds["recommendation"] == kinds["recipe"] == 1
    assert kinds["trial"] >= 3
    assert all("told" in e.body for e in entries if e.kind == "trial")
    told = told_in(entries)
    assert len(told) == kinds["trial"] + kinds["crash"]
    found = verify_run(run, recompute=recompute)
    assert found.num_recomputed == kinds["trial"]
    assert found.head in said.out
    assert (run / "recipe" / "README.md").is_file()
    script = (run / "recipe" / "run.sh").read_text()
    printed = cli("recipe", str(run), "--to", "run")
    assert printed.code == 0
    assert script.splitlines()[-1] == printed.out.splitlines()[-1]
    assert cli("verify", str(run), "--head", found.head).code == 0
    again = cli("tune", "--resume", str(run), "--json")
    assert again.code == said.code
    assert told_in(Run.open(run).entries()) == told
    after = Recommendation.parse(again.document, "recommendation")
    assert after.num_jobs == len(told)
    assert cli("verify", str(run), "--head", found.head).code == 0
