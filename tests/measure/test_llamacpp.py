import importlib.metadata
import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import urllib.request
from pathlib import Path

import pytest

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.cores import show_cpus
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.llamacpp_server import _parser
from neoserve.measure.engine.running import attach, start
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import EngineFacts

from .test_process import wait_gone

DRIVER = llamacpp.LlamaCppDriver()


def config(**more):
    return llamacpp.config(
        llamacpp.demo_model_path(), **({"threads": 1, "parallel": 2, "context_tokens": 256} | more)
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    with start(config(), tmp_path_factory.mktemp("run") / "engine.log") as running:
        yield running


def complete(engine, num_tokens):
    """The server's usage of one answer."""
    asked = {"model": engine.model, "prompt": "One two three", "max_tokens": num_tokens,
             "ignore_eos": True}  # fmt: skip
    request = urllib.request.Request(
        f"{engine.url}/v1/completions", json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["usage"]


@pytest.mark.engine
def test_what_ran_is_what_was_asked(engine):
    facts = engine.facts()
    assert (facts.threads, facts.num_parallel, facts.context_tokens) == (1, 2, 256)
    assert facts.kv_tokens == 512
    assert facts.dtype == "Q4_1"
    assert facts.pid == engine.pid == facts.processes[0].pid
    assert facts.allocator == "glibc"
    assert facts.affinity == (show_cpus(sorted(os.sched_getaffinity(0))),)
    assert engine.mismatches() == ()
    assert engine.model.endswith(".gguf")
    assert b"listening on" in engine.log()


@pytest.mark.engine
def test_metrics_count_what_the_answers_say(engine):
    before, cpu_s = engine.metrics(), engine.cpu_s()
    usages = [complete(engine, 5) for _ in range(2)]
    after = engine.metrics()
    gained = {name: after[name] - before[name] for name in after}
    assert gained["output_tokens"] == sum(u["completion_tokens"] for u in usages) == 10
    assert gained["prompt_tokens"] == sum(u["prompt_tokens"] for u in usages)
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
    assert gained["prefix_hit_tokens"] == cached > 0
    assert gained["prefix_query_tokens"] == gained["prompt_tokens"]
    assert (after["running"], after["waiting"]) == (0, 0)
    assert engine.cpu_s() > cpu_s


@pytest.mark.engine
def test_a_running_server_is_left_alone(engine):
    with attach(f"{engine.url}/v1/") as found:
        assert (found.url, found.model) == (engine.url, engine.model)
        assert (found.config.engine, found.config.argv) == ("url", ())
        assert found.facts() is None
        assert found.cpu_s() is None
        assert found.mismatches() == ()
        assert found.metrics().keys() == engine.metrics().keys()
    assert not engine.has_ended()
    assert engine.metrics()


@pytest.mark.engine
def test_one_cache_for_all_slots_and_a_set_of_cpus(tmp_path):
    cpu = str(max(os.sched_getaffinity(0)))
    told = []
    with start(config(extra=("--kv-unified",)), tmp_path / "log", cpus=cpu,
               on_stage=told.append) as engine:  # fmt: skip
        facts = engine.facts()
        assert facts.affinity == (cpu,)
        assert (facts.context_tokens, facts.kv_tokens) == (512, 512)
        assert engine.mismatches() == ()
    assert told[0].startswith("starting llama.cpp: usually ready within")
    assert told[-1].startswith("ready (")
    assert engine.has_ended()


@pytest.mark.engine
def test_a_server_on_path(tmp_path, monkeypatch):
    """The embedded server under llama-server's name: they take the same flags."""
    program = tmp_path / "llama-server"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "version: 1 (abc)" >&2 && exit\n'
        f'exec {sys.executable} -m neoserve.measure.engine.llamacpp_server "$@"\n'
    )
    program.chmod(0o755)
    with pytest.raises(AskError, match="llama-server is not on PATH"):
        config(program="llama-server")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = config(program="llama-server")
    assert made.version == "llama-server 1 (abc)"
    assert made.argv[0] == str(program)
    with start(made, tmp_path / "log") as engine:
        assert engine.mismatches() == ()
        assert engine.facts().version.startswith("llama-server 1 (abc)")


@pytest.mark.engine
def test_a_wrong_model_is_the_engines_own_words(tmp_path):
    log = tmp_path / "engine.log"
    wrong = tmp_path / "wrong.gguf"
    wrong.write_bytes(b"GGUF, but not quite")
    with pytest.raises(EngineFailed, match="failed to load model") as failure:
        start(llamacpp.config(wrong, threads=1), log)
    assert "Traceback" not in str(failure.value)
    assert str(log) in str(failure.value)
    with pytest.raises(EngineFailed, match="unknown cache type"):
        start(config(extra=("--cache-type-k", "f7")), log)
    with pytest.raises(EngineFailed, match="ready: unrecognized arguments: --flash "):
        start(config(extra=("--flash",)), log)


@pytest.mark.engine
def test_an_engine_that_dies_is_noticed(tmp_path):
    with start(config(), tmp_path / "engine.log") as engine:
        assert engine.end_reason() == ""
        os.kill(engine.pid, signal.SIGKILL)
        wait_gone(engine.group)
        assert engine.has_ended()
        assert engine.end_reason().startswith("it was killed (SIGKILL)")
        assert engine.metrics() == {}


@pytest.mark.engine
def test_a_killed_parent_leaves_no_engine(tmp_path):
    code = f"""
        import pathlib, time
        from neoserve.measure.engine import llamacpp, running
        made = llamacpp.config(llamacpp.demo_model_path(), threads=1)
        with running.start(made, pathlib.Path({str(tmp_path / "log")!r})) as engine:
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
    assert DRIVER.mismatches(asked, facts()) == ()
    assert DRIVER.mismatches(asked, facts(threads=8)) == ("--threads asked for 2, but 8 runs",)
    assert len(DRIVER.mismatches(asked, facts(threads=None, context_tokens=256))) == 2


def test_config_speaks_llama_servers_flags(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.2")
    made = llamacpp.config(
        tmp_path / "m.gguf", threads=3, parallel=4, context_tokens=100, extra=("--poll", "0")
    )
    flags = _parser().parse_args(made.argv[made.argv.index("--model") :])
    assert (flags.ctx_size, flags.parallel, flags.threads, flags.threads_batch) == (400, 4, 3, 3)
    assert flags.poll == 0
    assert flags.metrics
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
    assert DRIVER.reason(log) == reason


@pytest.mark.engine
def test_left_to_itself_it_has_four_slots_with_one_cache(tmp_path):
    made = config(threads=None, parallel=None, context_tokens=4096)
    assert "--threads" not in made.argv
    assert "--parallel" not in made.argv
    with start(made, tmp_path / "log") as engine:
        facts = engine.facts()
        assert facts.num_parallel == llamacpp.DEFAULT_SLOTS == 4
        assert facts.context_tokens == 8192  # the model's own; the cache holds twice that
        assert facts.kv_tokens is None  # which is not told
        assert engine.mismatches() == ()


def test_one_cache_has_to_hold_each_slots_share():
    asked = EngineConfig(
        engine="llama.cpp", argv=("x", "--ctx-size", "4096", "--parallel", "4", "--kv-unified")
    )
    one_cache = {"log": {"kv_unified": "true"}, "threads": None}
    assert DRIVER.mismatches(asked, facts(context_tokens=4096, **one_cache)) == ()
    assert DRIVER.mismatches(asked, facts(context_tokens=2048, **one_cache)) == ()
    [found] = DRIVER.mismatches(asked, facts(context_tokens=512, **one_cache))
    assert found == "--ctx-size asked for 4096, but 512 runs"
