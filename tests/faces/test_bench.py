"""`neoserve bench` and what it leaves, on a server of known latencies and on the real engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from measure.truth import Truth, serving
from neoserve.evidence import ledger
from neoserve.faces.bench import fresh_folder

from .conftest import Cli

LOAD = ("--request-rate", "40", "--isl", "20", "--osl", "4", "--num-warmups", "5")


@pytest.fixture
def truth() -> Iterator[Truth]:
    with serving(Truth(ttft_s=0.03, itl_s=0.005)) as server:
        yield server


def bench(cli: Cli, truth: Truth, folder: Path, *words: str):
    return cli("bench", truth.url, *LOAD, "--out", str(folder), *words)


def kinds(folder: Path) -> list[str]:
    return [entry.kind for entry in ledger.entries(folder / "ledger.jsonl")]


def test_a_certified_load(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    folder, drawing = tmp_path / "run", tmp_path / "b.svg"
    said = bench(cli, truth, folder, "--num-prompts", "900", "--rate", "90",
                 "--slo", "ttft:p95<5s; tpot:p95<2s", "--price", "0.36",
                 "--plot", str(drawing))  # fmt: skip
    assert said.code == 0, said
    assert "PASS on ttft:p95<5.00 s; tpot:p95<2.00 s" in said.out
    assert 30 <= float(re.search(r"TTFT +([\d.]+) ms", said.out)[1]) < 200
    assert re.search(r"cost +\$[\d.]+ per million output tokens", said.out)
    head = re.search(r"ledger head ([0-9a-f]{64})", said.out)[1]
    assert kinds(folder) == ["run", "started", "trial"]
    checked = cli("verify", str(folder), "--head", head)
    assert checked.code == 0
    assert "all figures of 1 trials follow from their rows" in checked.out
    assert drawing.read_text().count("<circle") >= 50
    assert list((folder / "spool").iterdir()) == []


@pytest.mark.parametrize(("pmu", "times"), [("auto", 1), ("off", 0)])
def test_what_aws_shows_of_counters_is_told_once_before_the_load(
    cli: Cli, truth: Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pmu: str, times: int
) -> None:
    monkeypatch.setattr("neoserve.faces.pmu.instance_type", lambda: "c8g.4xlarge")
    with subprocess.Popen(["sleep", "60"]) as other:  # the server is this process: none to count
        monkeypatch.setattr("neoserve.measure.engine.proc.listeners", lambda _: (other.pid,))
        said = bench(cli, truth, tmp_path / "run", "--num-prompts", "10", "--repeat", "2",
                     "--pmu", pmu)  # fmt: skip
        other.kill()
    told = "c8g.4xlarge shows a reduced PMU: IPC, stalled cycles and caches, no slots"
    assert said.err.count("c8g.4xlarge") == said.err.count(told) == times
    if times:
        assert said.err.index(told) < said.err.index("trial 1 of 2")


def test_the_document(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    said = bench(cli, truth, tmp_path / "run", "--num-prompts", "20", "--json")
    found = said.document
    assert said.code == 0  # no SLO: a measurement is all that was asked
    assert found["schema"] == "neoserve/bench/1"
    assert found["trials"][0]["num_ok"] == 20
    assert found["verdict"] == "INCONCLUSIVE"
    assert found["trials"][0]["workload"]["arrival"] == "poisson"


def test_an_slo_that_is_missed(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    truth.ttft_s = 1.0
    said = bench(cli, truth, tmp_path / "run", "--num-prompts", "400", "--slo", "ttft:p95<500ms")
    assert said.code == 1
    assert "FAIL on ttft:p95<500 ms" in said.out
    trial = ledger.entries(tmp_path / "run" / "ledger.jsonl")[-1].body["trial"]
    assert trial["stop"] == "decided"  # it did not go on for 400 requests


def test_too_few_requests_decide_nothing(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    said = bench(cli, truth, tmp_path / "run", "--num-prompts", "20", "--slo", "ttft:p95<5s")
    assert said.code == 3
    assert "INCONCLUSIVE on ttft:p95<5.00 s" in said.out


def test_repeats_are_pooled_and_state_the_noise(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    said = bench(cli, truth, tmp_path / "run", "--num-prompts", "45", "--repeat", "4",
                 "--slo", "ttft:p95<5s", "--full", "--json")  # fmt: skip
    found = said.document
    # none of the four would do alone; together they may, if this host is not too busy
    assert (said.code, found["verdict"]) in ((0, "PASS"), (3, "INCONCLUSIVE"))
    assert found["pooled"]["num_misses"] == 0
    assert [trial["verdict"] for trial in found["trials"]] == ["INCONCLUSIVE"] * 4
    assert (found["pooled"]["num_trials"], found["pooled"]["num_judged"]) == (4, 180)
    assert len({trial["workload"]["seed"] for trial in found["trials"]}) == 4
    assert len({trial["salt"] for trial in found["trials"]}) == 4
    assert 0 <= found["noise"]["spreads"]["ttft_p50"]["range_share"] < 0.5
    text = bench(cli, truth, tmp_path / "b", "--num-prompts", "10", "--repeat", "2").out
    assert "Noise floor" in text


def test_the_highest_rate_within_an_slo(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    """One request at a time, 40 ms each: 25 a second is all it can do."""
    truth.ttft_s, truth.itl_s, truth.slots = 0.036, 0.001, 1
    said = bench(cli, truth, tmp_path / "run", "--request-rate", "6", "--num-prompts", "160",
                 "--slo", "ttft:p95<800ms", "--find-max-rate", "--tolerance", "30%", "--json",
                 )  # fmt: skip
    found = said.document["max_rate"]
    assert found["probes"][-1]["certifies"]
    assert found["not_met_rps"] is not None
    assert found["not_met_rps"] > 10
    if found["certified_rps"] is not None:  # a busy host may prove nothing
        assert 5 < found["certified_rps"] < 25
        assert said.code == 0
    assert kinds(tmp_path / "run").count("trial") == len(found["probes"])
    assert kinds(tmp_path / "run")[-1] == "max-rate"


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    assert fresh_folder(tmp_path / "bench") == tmp_path / "bench"
    for name in ("bench", "bench-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ledger.jsonl").touch()
    assert fresh_folder(tmp_path / "bench") == tmp_path / "bench-3"


def test_a_tampered_figure_is_found(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    """Somebody rewrites the whole chain around a better figure: the rows contradict it."""
    folder = tmp_path / "run"
    bench(cli, truth, folder, "--num-prompts", "20")
    path = folder / "ledger.jsonl"
    entries = ledger.entries(path)
    path.unlink()
    for entry in entries:
        body = json.loads(json.dumps(entry.body))
        if entry.kind == "trial":
            body["trial"]["output_tokens_per_s"] *= 2
        ledger.append(path, entry.kind, body)
    said = cli("verify", str(folder))
    assert said.code == 5
    assert "output_tokens_per_s is" in said.err
    assert "line 3" in said.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("x",), "give the URL of a server that runs"),
        (("http://a", "--engine", "vllm"), "give the URL of a server that runs"),
        (("http://a", "--rate", "1", "--max-concurrency", "2"), "two kinds of load"),
        (("http://a", "--arrival", "gamma"), "--arrival shapes an open load"),
        (("http://a", "--rate", "-1"), "--request-rate is -1"),
        (("http://a", "--duration", "5s"), "--duration needs --request-rate"),
        (("http://a", "--rate", "1", "--duration", "5s", "--num-prompts", "5"), "give one"),
        (("http://a", "--rate", "1", "--find-max-rate"), "--find-max-rate needs --slo"),
        (("http://a", "--rate", "1", "--plot", "a.gif"), "ends in .svg"),
        (("http://a", "--rate", "1", "--plot", "nosuch/a.svg"), "is no folder"),
        (("http://a", "--rate", "1", "--arrival", "constant", "--burstiness", "2"), "gamma"),
        (("http://a", "--rate", "1", "--osl", "0"), "at least 1 token"),
        (("http://a", "--rate", "1", "--num-prompts", "0"), "at least 1"),
        (("http://a", "--rate", "1", "--turns", "0"), "at least 1 turn"),
        (("http://a", "--max-concurrency", "0"), "concurrency is 0"),
        (("http://a", "--rate", "1", "--env", "X"), "--env 'X' is not NAME=VALUE"),
        (("http://a", "--rate", "1", "--on", "nosuch"), "unknown"),
        (("http://a", "--rate", "1", "--trace", "nosuch.csv"), "cannot be read"),
        (("http://a", "--rate", "1", "--repeat", "0"), "have to be above 0"),
        (("--engine", "tgi", "m"), "cannot be started"),
        (("--engine", "vllm"), "needs a model"),
        (("--engine", "llama.cpp", "nosuch.gguf"), "is no file"),
        (("--engine", "llama.cpp", "--", "--threads", "two"), "--threads is 'two'"),
        (("http://a", "--rate", "1", "--", "--x"), "for an engine that is started"),
    ],
)
def test_bad_asks(refused, tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    out = str(tmp_path / "run")
    at = words.index("--") if "--" in words else len(words)
    assert told in refused("bench", *words[:at], "--out", out, *words[at:])
    assert not Path(out).exists()


def test_a_server_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    said = cli("bench", "http://127.0.0.1:9", "--rate", "1", "--out", str(tmp_path / "run"))
    assert said.code == 4
    assert said.err.count("\n") == 1
    assert "does not answer" in said.err


# killed, interrupted, starved: as a process of its own


def started(truth: Truth, folder: Path, *words: str, **more) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "neoserve", "bench", truth.url, *LOAD, "--num-prompts", "600",
               "--out", str(folder), *words]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            **more)  # fmt: skip


def wait_for_rows(folder: Path, num: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while sum(len(p.read_bytes().splitlines()) for p in folder.glob("spool/*")) < num:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_load_is_judged_on_what_there_is(
    cli: Cli, truth: Truth, tmp_path: Path, number: signal.Signals, handler: signal.Handlers
) -> None:
    """Also where the caller had Ctrl-C ignored, as `nohup ... &` does in a script."""
    process = started(truth, tmp_path / "run", "--slo", "ttft:p95<5s", "--full",
                      preexec_fn=lambda: signal.signal(signal.SIGINT, handler))  # fmt: skip
    wait_for_rows(tmp_path / "run", 100, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, 3), err
    assert "cut off by Ctrl-C, judged on what there is" in " ".join(out.split())
    assert cli("verify", str(tmp_path / "run")).code == 0
    trial = ledger.entries(tmp_path / "run" / "ledger.jsonl")[-1].body["trial"]
    assert (trial["stop"], trial["num_planned"]) == ("interrupted", 600)
    assert trial["num_judged"] >= 60


@pytest.mark.parametrize("workers", ["1", "2"])
def test_rows_survive_a_kill(cli: Cli, truth: Truth, tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "run"
    process = started(truth, folder, "--slo", "ttft:p95<5s", "--full", "--workers", workers)
    wait_for_rows(folder, 120, process)
    process.kill()
    process.communicate()
    said = cli("verify", str(folder))
    assert said.code == 0
    assert "1 load ended in a crash" in said.out
    mended = cli("verify", str(folder), "--repair")
    assert mended.code == 0, mended
    assert "a load that a crash ended was judged on" in mended.err
    assert "ended in a crash" not in mended.out
    trial = ledger.entries(folder / "ledger.jsonl")[-1].body["trial"]
    assert trial["stop"] == "crashed"
    assert trial["num_ok"] >= 100
    assert trial["verdict"] in ("PASS", "INCONCLUSIVE")


@pytest.mark.engine
def test_a_kill_leaves_no_engine(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "neoserve", "bench", "--engine", "llama.cpp", "--rate", "3",
               "--isl", "16", "--osl", "4", "--out", str(folder)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_rows(folder, 3, process)
    mine = f"/{tmp_path.name}/".encode()
    children = [pid for pid in os.listdir("/proc") if pid.isdigit() and _group_of(pid, process.pid)]
    assert children
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 15
    while any(os.path.exists(f"/proc/{pid}/exe") and _alive(pid) for pid in children):
        assert time.monotonic() < deadline, mine
        time.sleep(0.1)
    assert cli("verify", str(folder), "--repair").code == 0


def _parent(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return 0


def _group_of(pid: str, ancestor: int) -> bool:
    current = int(pid)
    while current > 1:
        current = _parent(str(current))
        if current == ancestor:
            return True
    return False


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_full_disk_loses_nothing_that_was_written(cli: Cli, truth: Truth, tmp_path: Path) -> None:
    """A tmpfs of 128 kB takes the rows until it is full; what it took is kept and judged."""
    disk = tmp_path / "disk"
    disk.mkdir()
    inner = (
        f"mount -t tmpfs -o size=128k tmpfs {disk} && {sys.executable} -m neoserve bench "
        f"{truth.url} {' '.join(LOAD)} --num-prompts 600 --out {disk}/run; code=$?; "
        f"cp -r {disk}/run {tmp_path}/kept; exit $code"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", inner], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    if not (tmp_path / "kept").exists():
        pytest.skip(f"no user namespaces here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    said = cli("verify", str(tmp_path / "kept"), "--repair")
    assert said.code == 0, said
    trial = ledger.entries(tmp_path / "kept" / "ledger.jsonl")[-1].body["trial"]
    assert trial["num_ok"] > 100


def test_keys_are_not_kept(truth: Truth, tmp_path: Path, refused) -> None:
    folder = tmp_path / "run"
    process = started(truth, folder, "--num-prompts", "5", "--api-key", "sesame")
    process.communicate(timeout=60)
    assert truth.keys == {"Bearer sesame"}
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert len(kept) >= 5
    assert not any(b"sesame" in path.read_bytes() for path in kept)
    for words in (("--env", "HF_TOKEN=sesame"), ("--", "--api-key", "sesame")):
        told = refused("bench", "--engine", "llama.cpp", "--out", str(tmp_path / "x"), *words)
        assert "would be kept in the run folder" in told
        assert "sesame" not in told
