"""The embedded server's program and its leash, without an engine."""

import asyncio
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest
from aiohttp import web

from neoserve.errors import EngineFailed
from neoserve.measure import load
from neoserve.measure.engine import leash, llamacpp, llamacpp_server
from neoserve.measure.engine.process import Process
from neoserve.measure.load import Server
from neoserve.measure.trial import run_trial
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import EngineFacts
from neoserve.schema.workload import Slo, Workload

from .truth import Truth, serving

FAKE = SimpleNamespace(
    ggml_type={"GGML_TYPE_F16": "f16", "GGML_TYPE_Q8_0": "q8_0"},
    llama_flash_attn_type={
        f"LLAMA_FLASH_ATTN_TYPE_{word}": word for word in ("ENABLED", "DISABLED", "AUTO")
    },
    CommonParams=lambda: SimpleNamespace(
        model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
    ),
)


def params(*words):
    flags = llamacpp_server._parser().parse_args(["--model", "m.gguf", *words])
    return llamacpp_server._params(FAKE, flags)


def test_flags_reach_the_engine():
    found = params("--host", "::1", "--port", "0", "--ctx-size", "512", "--parallel", "4",
                   "--threads", "3", "--threads-batch", "5", "--batch-size", "256",
                   "--ubatch-size", "64", "--poll", "0", "--metrics")  # fmt: skip
    assert (found.model.path, found.hostnames, found.port) == ("m.gguf", ["::1"], 0)
    assert (found.n_ctx, found.n_parallel, found.n_batch, found.n_ubatch) == (512, 4, 256, 64)
    assert (found.cpuparams.n_threads, found.cpuparams_batch.n_threads) == (3, 5)
    assert found.cpuparams.poll == found.cpuparams_batch.poll == 0
    assert found.endpoint_metrics is True


@pytest.mark.parametrize(("word", "wanted"), [("on", "ENABLED"), ("off", "DISABLED")])
def test_formats_and_kernels_have_the_engines_names(word, wanted):
    found = params("--flash-attn", word, "--cache-type-k", "q8_0")
    assert (found.flash_attn_type, found.cache_type_k, found.cache_type_v) == (
        wanted, "q8_0", "f16",
    )  # fmt: skip


def test_an_unknown_cache_type_ends_the_program():
    with pytest.raises(SystemExit, match="unknown cache type 'q3'"):
        params("--cache-type-v", "q3")


def test_an_engine_that_does_not_start_ends_the_program(monkeypatch):
    def refuse(_):
        raise RuntimeError("no such model")

    tied = []
    monkeypatch.setattr(llamacpp_server, "tie_to_parent", lambda: tied.append(True))
    engine = SimpleNamespace(**vars(FAKE), Server=refuse)
    monkeypatch.setitem(sys.modules, "xllamacpp", engine)
    with pytest.raises(SystemExit, match=r"llama\.cpp: no such model"):
        llamacpp_server.main(["--model", "m.gguf"])
    assert tied == [True]


def test_where_it_listens_is_said_and_then_it_serves(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    server = SimpleNamespace(listening_address="http://127.0.0.1:1")
    engine = SimpleNamespace(**vars(FAKE), Server=lambda _: server)
    monkeypatch.setattr(llamacpp_server, "tie_to_parent", lambda: None)
    monkeypatch.setattr(signal, "pause", interrupted)
    monkeypatch.setitem(sys.modules, "xllamacpp", engine)
    with pytest.raises(KeyboardInterrupt):
        llamacpp_server.main(["--model", "m.gguf"])
    assert capsys.readouterr().out == "ready at http://127.0.0.1:1\n"


# the leash


@pytest.fixture
def ended(monkeypatch):
    """Calls that would end this process."""
    calls = []
    monkeypatch.setattr(os, "killpg", lambda *a: calls.append(("killpg", *a)))
    monkeypatch.setattr(os, "_exit", lambda code: calls.append(("exit", code)))
    return calls


def test_the_end_of_stdin_ends_us(ended, monkeypatch):
    answers = [b"x", b""]
    monkeypatch.setattr(os, "read", lambda *_: answers.pop(0))
    leash._follow_stdin()
    assert answers == []
    assert ("exit", 1) in ended


def test_a_leader_takes_its_group_along(ended, monkeypatch):
    monkeypatch.setattr(os, "getpgrp", os.getpid)
    leash._die()
    assert ended[0] == ("killpg", os.getpid(), signal.SIGKILL)


def test_a_member_ends_alone(ended, monkeypatch):
    monkeypatch.setattr(os, "getpgrp", lambda: 1)
    leash._die()
    assert ended == [("exit", 1)]


@pytest.mark.parametrize(("parent", "dies"), [("0", False), ("1", True)])
def test_a_parent_that_changed_is_noticed(ended, monkeypatch, parent, dies):
    started, asked = [], []
    monkeypatch.setenv(leash.PARENT_VARIABLE, parent)
    monkeypatch.setattr(os, "getppid", lambda: 7)
    monkeypatch.setattr(
        leash.ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *a: asked.append(a))
    )
    monkeypatch.setattr(
        threading, "Thread",
        lambda **words: SimpleNamespace(start=lambda: started.append(words["target"])),
    )  # fmt: skip
    leash.tie_to_parent()
    assert asked == [(1, signal.SIGKILL, 0, 0, 0)]
    assert started == [leash._follow_stdin]
    assert bool(ended) is dies


# what answers


def test_a_group_that_is_gone_takes_no_signal(tmp_path, monkeypatch):
    process = Process("engine", ["/bin/true"], {}, tmp_path / "log")
    process.wait_until(process.has_ended, 10, str)

    def gone(*_):
        raise ProcessLookupError

    monkeypatch.setattr(os, "killpg", gone)
    process.stop()
    assert process.has_ended()


class Fixed:
    """An engine that is already there."""

    def __init__(self, url, ended):
        self.url, self._ended = url, ended
        self.config = EngineConfig(
            engine="llama.cpp",
            argv=("x", "--threads", "2", "--parallel", "2", "--ctx-size", "512"),
        )

    def facts(self):
        return EngineFacts(threads=2, num_parallel=2, context_tokens=256)

    def has_ended(self):
        return self._ended


@pytest.mark.parametrize("ended", [False, True])
def test_an_engine_that_ended_voids_its_trial(ended):
    workload = Workload(arrival="poisson", rate_rps=40.0, prompt_tokens=8, output_tokens=2)
    with serving(Truth(ttft_s=0.01)) as truth:
        found = run_trial(Fixed(truth.url, ended), workload, 4, Slo())
    assert ("the engine ended during the trial" in found.trial.reasons) is ended
    assert len(found.rows) == found.trial.num_rows == 4


def test_a_port_on_which_nobody_listens_does_not_answer():
    assert llamacpp._answers("http://127.0.0.1:9/health") is False


def test_an_engine_that_answers_nothing_is_named():
    engine = llamacpp.LlamaCpp.__new__(llamacpp.LlamaCpp)
    engine.url = "http://127.0.0.1:9"
    with pytest.raises(EngineFailed, match=r"llama\.cpp does not answer /props"):
        engine._get("/props")


# what the load client tells a server


def test_a_key_is_sent_as_a_bearer_token():
    async def headers(key):
        async with load._session(Server("http://x", api_key=key)) as session:
            return dict(session.headers)

    assert asyncio.run(headers("k"))["Authorization"] == "Bearer k"
    assert "Authorization" not in asyncio.run(headers(""))


class Nameless(Truth):
    """A server that lists no models."""

    async def models(self, _):
        return web.json_response({})


def test_a_server_without_a_list_is_asked_for_its_only_model():
    with serving(Nameless()) as truth:
        rows = load.run(truth.url, Workload(prompt_tokens=8, output_tokens=2), 2)
    assert [row.status for row in rows] == ["ok", "ok"]
    assert {body["model"] for body in truth.asked} == {""}
