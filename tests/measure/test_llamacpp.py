import importlib.metadata
import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from neoserve.errors import AskError, EngineFailed
from neoserve.measure import load
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.llamacpp_server import _parser
from neoserve.measure.trial import run_trial
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import EngineFacts
from neoserve.schema.workload import Slo, Workload

from .test_process import wait_gone

WORKLOAD = Workload(arrival="poisson", rate_rps=4.0, prompt_tokens=24, output_tokens=6, seed=1)


def config(**more):
    return llamacpp.config(
        llamacpp.demo_model_path(), **({"threads": 1, "parallel": 2, "context_tokens": 256} | more)
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with llamacpp.LlamaCpp(config(), tmp_path_factory.mktemp("run") / "engine.log") as running:
        yield running


@pytest.mark.engine
def test_what_ran_is_what_was_asked(engine):
    facts = engine.facts()
    assert (facts.threads, facts.num_parallel, facts.context_tokens) == (1, 2, 256)
    assert facts.pid == engine.pid
    assert facts.allocator
    assert facts.affinity
    assert llamacpp.mismatches(engine.config, facts) == ()


@pytest.mark.engine
@pytest.mark.parametrize("route", ["completions", "chat"])
def test_tokens_served_are_those_that_usage_counts(engine, route):
    """llama.cpp streams one token a chunk, so the chunks can be counted for once."""
    seen = []
    original = load.read_answer

    def counting(row, chunks):
        answer = original(row, chunks)
        data = b"".join(chunk for _, chunk in chunks)
        events = [line for line in data.split(b"\n") if line.startswith(b"data: {")]
        seen.append((answer, sum(b'"finish_reason":null' in event for event in events)))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "read_answer", counting)
        rows = load.run(engine.url, WORKLOAD.replace(prompt_tokens=48), 4, route=route)
    opening = 1 if route == "chat" else 0  # a chunk with the role only
    for row, num_chunks in seen[-4:]:
        assert num_chunks - opening == row.output_tokens == 6
    assert [row.prompt_tokens for row in rows] == [48] * 4


@pytest.mark.engine
def test_a_trial(engine):
    told = []
    trial, rows = run_trial(
        engine, WORKLOAD, 12, Slo.parse_text("ttft:p95<60s"), lambda *step: told.append(step)
    )
    assert len(rows) == len(told) == trial.num_ok == 12
    assert trial.verdict == "INCONCLUSIVE"  # 12 requests cannot prove a p95
    assert trial.output_tokens_per_s > 0
    assert all(row.due_s <= row.sent_s < row.first_token_s < row.last_token_s for row in rows)


@pytest.mark.engine
def test_a_prompt_that_does_not_fit_is_the_engines_own_words(engine):
    with pytest.raises(EngineFailed, match="context"):
        load.run(engine.url, WORKLOAD.replace(prompt_tokens=400), 2)


@pytest.mark.engine
def test_a_wrong_model_is_the_engines_own_words(tmp_path):
    log = tmp_path / "engine.log"
    with pytest.raises(EngineFailed, match="failed to load model") as failure:
        llamacpp.LlamaCpp(llamacpp.config(Path("/nowhere.gguf"), threads=1), log)
    assert "Traceback" not in str(failure.value)
    assert str(log) in str(failure.value)
    with pytest.raises(EngineFailed, match="unknown cache type"):
        llamacpp.LlamaCpp(config(extra=("--cache-type-k", "f7")), log)


@pytest.mark.engine
def test_an_engine_that_dies_voids_the_trial(tmp_path):
    def kill(done, *_):
        if done == 1:
            os.kill(engine.pid, signal.SIGKILL)

    with llamacpp.LlamaCpp(config(), tmp_path / "engine.log") as engine:
        trial, rows = run_trial(engine, WORKLOAD, 6, Slo(), kill)
        assert engine.has_ended()
    assert trial.verdict == "VOID"
    assert "the engine ended during the trial" in trial.reasons
    assert [row.status for row in rows][-1] == "connection"


@pytest.mark.engine
def test_a_killed_parent_leaves_no_engine(tmp_path):
    code = f"""
        import pathlib, time
        from neoserve.measure.engine import llamacpp
        made = llamacpp.config(llamacpp.demo_model_path(), threads=1)
        with llamacpp.LlamaCpp(made, pathlib.Path({str(tmp_path / "log")!r})) as engine:
            print(engine.pid, flush=True)
            time.sleep(60)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_gone(pid)


def facts(**more):
    return EngineFacts(**({"threads": 2, "context_tokens": 512, "num_parallel": 4} | more))


def test_mismatches_name_the_flag():
    asked = EngineConfig(
        engine="llama.cpp", argv=("x", "--ctx-size", "2048", "--parallel", "4", "--threads", "2")
    )
    assert llamacpp.mismatches(asked, facts()) == ()
    assert llamacpp.mismatches(asked, facts(threads=8)) == ("--threads asked for 2, but 8 runs",)
    assert len(llamacpp.mismatches(asked, facts(threads=None, context_tokens=256))) == 2


def test_config_speaks_llama_servers_flags(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.2")
    made = llamacpp.config(
        tmp_path / "m.gguf", threads=3, parallel=4, context_tokens=100, extra=("--poll", "0")
    )
    flags = _parser().parse_args(made.argv[made.argv.index("--model") :])
    assert (flags.ctx_size, flags.parallel, flags.threads, flags.threads_batch) == (400, 4, 3, 3)
    assert flags.poll == 0
    assert made.version == "xllamacpp 1.2"


def test_what_is_not_installed_says_how_to_install_it(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(AskError, match=r"pip install 'neoserve\[demo\]'"):
        llamacpp.config(Path("m.gguf"), threads=1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(AskError, match=r"pip install 'neoserve\[demo\]'"):
        llamacpp.demo_model_path()


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("0.00.1 I srv x: fine\n0.00.2 E llama_load: no file\n0.00.3 E srv  failed\n",
         "no file; failed"),
        ("a\nb\n\nc\nd\n", "b; c; d"),
        ("", "it printed nothing"),
    ],
)  # fmt: skip
def test_reasons(log, reason):
    assert llamacpp.log_reason(log) == reason
