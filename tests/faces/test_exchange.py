"""`neoserve import` and `neoserve export`, through the command line."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import yaml
from llmd_benchmark_report.schema_v0_2 import BenchmarkReportV02

from measure.truth import Truth, serving
from neoserve.evidence import ledger

RESULTS = Path(__file__).parent.parent / "data/results"


def raw(name):
    """The first JSON object of a file, as its tool wrote it."""
    return json.JSONDecoder().raw_decode((RESULTS / name).read_text())[0]


def guidellm_ttft_ms():
    return raw("guidellm.json")["benchmarks"][0]["metrics"]["time_to_first_token_ms"]


# Each: a file, how many loads it holds, and the mean TTFT of the first in ms, from its own field.
FILES = [
    ("vllm.json", 1, lambda d: d["mean_ttft_ms"]),
    ("vllm_append.json", 2, lambda d: d["mean_ttft_ms"]),
    ("guidellm.json", 2, lambda _: guidellm_ttft_ms()["successful"]["mean"]),
    ("aiperf/profile_export_aiperf.json", 1, lambda d: d["time_to_first_token"]["avg"]),
    ("inference_perf_stage_1.json", 1,
     lambda d: d["successes"]["latency"]["time_to_first_token"]["mean"] * 1e3),
    ("inference_perf_summary.json", 1,
     lambda d: d["successes"]["latency"]["time_to_first_token"]["mean"] * 1e3),
    ("genai_bench.json", 1,
     lambda d: d["aggregated_metrics"]["stats"]["ttft"]["mean"] * 1e3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "num_loads", "ttft_ms"), FILES, ids=[f[0] for f in FILES])
def test_every_fixture_is_imported(cli, name, num_loads, ttft_ms):
    path = str(RESULTS / name)
    expected = ttft_ms(raw(name))
    loads = cli("import", path, "--json").document
    assert len(loads) == num_loads
    assert loads[0]["metrics"]["ttft_s"]["mean"] * 1e3 == pytest.approx(expected)
    assert loads[0]["schema"] == "neoserve/imported/1"
    said = cli("import", path)
    assert said.code == 0
    shown = re.findall(r"^ttft, ms +(\S+)", said.out, re.MULTILINE)
    assert len(shown) == num_loads
    assert float(shown[0].replace(",", "")) == pytest.approx(expected, rel=0.005)
    assert said.out.count("Meaning\n") == num_loads
    assert all(len(line) <= 100 for line in said.out.splitlines())


def test_what_is_wrong_with_a_file_is_said(cli):
    text = cli("import", str(RESULTS / "vllm_append.json")).out
    assert "closed, at most 2 in flight, 6 requests, 3 failed" in text
    assert "Known faults" in text
    first = next(line for line in text.splitlines() if line.startswith("ttft"))
    assert len(first.split()) == 2 + 3  # its file says no p90 and no p95


def test_a_kept_file_is_named_by_its_digest_and_verifies(cli, tmp_path):
    path, folder = RESULTS / "vllm_append.json", tmp_path / "kept"
    loads = cli("import", str(path), "--out", str(folder), "--json").document
    name = hashlib.sha256(path.read_bytes()).hexdigest()
    assert {load["source"] for load in loads} == {f"sha256:{name}"}
    assert (folder / "blobs" / name).read_bytes() == path.read_bytes()
    entries = ledger.entries(folder / "ledger.jsonl")
    assert [entry.kind for entry in entries] == ["run", *["import"] * len(loads)]
    assert cli("verify", str(folder)).code == 0
    (folder / "blobs" / name).write_bytes(b"{}")
    broken = cli("verify", str(folder))
    assert broken.code == 5
    assert name in broken.err


def test_files_that_are_none(refused, tmp_path):
    assert "cannot be read" in refused("import", str(tmp_path / "none.json"))
    (tmp_path / "other.json").write_text('{"a": 1}')
    out = tmp_path / "run"
    assert "no result file" in refused("import", str(tmp_path / "other.json"), "--out", str(out))
    assert not out.exists()


def test_a_folder_that_holds_something_is_not_imported_into(refused, tmp_path):
    (tmp_path / "mine").touch()
    told = refused("import", str(RESULTS / "vllm.json"), "--out", str(tmp_path))
    assert "is not empty" in told
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_is_not_imported_into(refused, tmp_path):
    (tmp_path / "mine").touch()
    refused("import", str(RESULTS / "vllm.json"), "--out", str(tmp_path / "mine"))


# export


@pytest.fixture(scope="module")
def two_trials(tmp_path_factory):
    """A run folder with two trials of a server whose answers take 30 ms and 4 x 5 ms."""
    from neoserve.faces.cli import main

    folder = tmp_path_factory.mktemp("export") / "run"
    with serving(Truth(ttft_s=0.03, itl_s=0.005)) as truth:
        code = main(("bench", truth.url, "--request-rate", "50", "--isl", "20", "--osl", "5",
                     "--num-warmups", "3", "--num-prompts", "12", "--repeat", "2",
                     "--slo", "ttft:p95<5s", "--out", str(folder)))  # fmt: skip
    assert code == 3  # 24 requests prove nothing
    return folder


def salts(folder):
    return [entry.body["trial"]["schedule"] for entry in ledger.entries(folder / "ledger.jsonl")
            if entry.kind == "trial"]  # fmt: skip


def test_a_trial_as_vllm_has_it(cli, two_trials, tmp_path):
    found = cli("export", str(two_trials), "--to", "vllm").document
    assert (found["completed"], found["failed"], found["num_prompts"]) == (12, 0, 12)
    assert (found["total_input_tokens"], found["total_output_tokens"]) == (240, 60)
    assert 30 <= found["median_ttft_ms"] < 60
    assert {len(gaps) for gaps in found["itls"]} == {4}
    back = tmp_path / "vllm.json"
    back.write_text(json.dumps(found))
    [load] = cli("import", str(back), "--json").document
    assert load["tool"] == "neoserve"
    assert load["metrics"]["ttft_s"]["p50"] * 1e3 == pytest.approx(found["median_ttft_ms"])


def test_a_trial_as_a_benchmark_report(cli, two_trials):
    said = cli("export", str(two_trials), "--to", "br")
    as_json = cli("export", str(two_trials), "--to", "br", "--json").document
    as_yaml = yaml.safe_load(said.out)
    assert as_yaml == as_json
    assert not said.out.startswith("{")
    BenchmarkReportV02(**as_yaml)  # the schema's own classes accept it
    # what is published of the run names the same line, the last of its ledger
    assert as_yaml["run"]["uid"] == cli("verify", str(two_trials), "--json").document["head"]


def test_trials_are_numbered_from_one(cli, two_trials):
    def exported(*words):
        report = cli("export", str(two_trials), "--to", "br", "--json", *words).document
        return report["scenario"]["load"]["metadata"]["cfg_id"]

    first, second = salts(two_trials)
    assert first != second
    assert exported("--trial", "1") == first
    assert exported("--trial", "2") == exported() == second
    assert exported("--trial", "-2") == first


@pytest.mark.parametrize("number", ["3", "-3", "99"])
def test_trials_that_are_none(refused, two_trials, number):
    told = refused("export", str(two_trials), "--to", "vllm", "--trial", number)
    assert f"holds 2 trials; --trial {number} is none of them" in told


def test_there_is_no_trial_nought(refused, two_trials):
    refused("export", str(two_trials), "--to", "vllm", "--trial", "0")


def test_other_bad_exports(refused, cli, two_trials, tmp_path):
    assert "invalid int value" in refused("export", str(two_trials), "--to", "br", "--trial", "x")
    assert "--to" in refused("export", str(two_trials))
    assert "invalid choice" in refused("export", str(two_trials), "--to", "csv")
    assert "no run folder" in refused("export", str(tmp_path), "--to", "vllm")
    cli("import", str(RESULTS / "vllm.json"), "--out", str(tmp_path / "imported"))
    told = refused("export", str(tmp_path / "imported"), "--to", "vllm")
    assert "holds 0 trials" in told
