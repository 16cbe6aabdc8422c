"""The embedded server's program, and the seam to servers, without an engine."""

import http.server
import signal
import sys
import threading
from types import SimpleNamespace
from typing import ClassVar

import pytest
from aiohttp import web

from neoserve.errors import AskError, EngineFailed
from neoserve.measure.engine import driver, llamacpp, llamacpp_server, running
from neoserve.measure.engine.api import Api, base_url
from neoserve.measure.engine.running import attach, start
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import ProcessFacts
from neoserve.schema.workload import Workload

from .loading import send
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
                   "--ubatch-size", "64", "--poll", "0", "--metrics", "--threads-http", "2",
                   "--kv-unified", "--no-cache-prompt", "--no-cont-batching", "--no-slots",
                   )  # fmt: skip
    assert (found.model.path, found.hostnames, found.port) == ("m.gguf", ["::1"], 0)
    assert (found.n_ctx, found.n_parallel, found.n_batch, found.n_ubatch) == (512, 4, 256, 64)
    assert (found.cpuparams.n_threads, found.cpuparams_batch.n_threads) == (3, 5)
    assert found.cpuparams.poll == found.cpuparams_batch.poll == 0
    assert found.endpoint_metrics is True
    assert found.n_threads_http == 2
    assert (found.kv_unified, found.cache_prompt) == (True, False)
    assert (found.cont_batching, found.endpoint_slots) == (False, False)


def test_without_flags_it_is_what_llama_server_does():
    found = params()
    assert (found.kv_unified, found.cache_prompt) == (False, True)
    assert (found.cont_batching, found.endpoint_slots) == (True, True)
    assert found.endpoint_metrics is False
    assert (found.n_parallel, found.n_ctx) == (-1, 0)  # slots by itself, the model's context


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

    engine = SimpleNamespace(**vars(FAKE), Server=refuse)
    monkeypatch.setitem(sys.modules, "xllamacpp", engine)
    with pytest.raises(SystemExit, match=r"llama\.cpp: no such model"):
        llamacpp_server.main(["--model", "m.gguf"])


def test_where_it_listens_is_said_and_then_it_serves(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    server = SimpleNamespace(listening_address="http://127.0.0.1:1")
    engine = SimpleNamespace(**vars(FAKE), Server=lambda _: server)
    monkeypatch.setattr(signal, "pause", interrupted)
    monkeypatch.setitem(sys.modules, "xllamacpp", engine)
    with pytest.raises(KeyboardInterrupt):
        llamacpp_server.main(["--model", "m.gguf"])
    assert capsys.readouterr().out == "listening on http://127.0.0.1:1\n"


# a server that answers


class Plain(http.server.BaseHTTPRequestHandler):
    """A server with one model, a key, and no metrics."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self):
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        found = self.path == "/v1/models"
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "a/b"}, {"id": "c"}]}' if found else b"")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def plain():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_server_that_was_there_already(plain):
    found = attach(plain, api_key="k")
    assert found.model == "a/b"
    assert found.url == f"http://{plain}"
    assert Plain.asked[-1] == ("/v1/models", "Bearer k")
    assert found.metrics() == {}
    assert (found.facts(), found.log(), found.end_reason(), found.pid) == (None, b"", "", 0)
    assert not found.has_ended()
    found.stop()
    assert attach(plain, model="mine").model == "mine"


def test_a_port_on_which_nobody_listens():
    assert not Api("http://127.0.0.1:9").answers("/health")
    assert Api("http://127.0.0.1:9").data("/props") is None
    with pytest.raises(EngineFailed, match=r"http://127\.0\.0\.1:9 does not answer /v1/models"):
        attach("127.0.0.1:9")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://a:1", "http://a:1"), ("https://a/v1", "https://a"),
        ("a:1/v1/", "http://a:1"), ("http://a/x/", "http://a/x"),
    ],
)  # fmt: skip
def test_urls(text, url):
    assert base_url(text) == url


def test_a_port_that_a_stranger_took_is_not_the_engines(tmp_path, plain, monkeypatch):
    """Its answers would be measured as ours."""
    monkeypatch.setattr(running, "free_port", lambda: int(plain.rpartition(":")[2]))
    monkeypatch.setattr(llamacpp.LlamaCppDriver, "health_route", "/v1/models")
    config = EngineConfig(engine="llama.cpp", argv=("sh", "-c", "sleep 60"))
    with pytest.raises(EngineFailed, match="was not ready within"):
        start(config, tmp_path / "log", ready_timeout_s=0.3)


GUARDED = """
import http.server, sys
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        allowed = self.path == "/health" or self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "m"}]}' if allowed else b"")
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Server).serve_forever()
"""


def test_a_key_that_the_engine_asks_for_is_given(tmp_path):
    argv = (sys.executable, "-c", GUARDED, "--api-key", "secret")
    with start(EngineConfig(engine="llama.cpp", argv=argv), tmp_path / "log") as engine:
        assert (engine.model, engine.api_key) == ("m", "secret")


def test_a_stage_that_lasts_is_told_again(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "_REMIND_S", 0.1)
    told = []
    config = EngineConfig(engine="llama.cpp", argv=("sh", "-c", "echo loading model; sleep 60"))
    with pytest.raises(EngineFailed, match=r"not ready within 0\.5 s: loading model"):
        start(config, tmp_path / "log", ready_timeout_s=0.5, on_stage=told.append)
    assert told[1].startswith("loading the model (")
    assert told[2].startswith("still loading the model (")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (EngineConfig(engine="tgi"), "'tgi' cannot be started here; expected one of llama.cpp, "),
        (EngineConfig(engine="llama.cpp", argv=("x", "--port=1")), "--port is chosen"),
        (EngineConfig(engine="llama.cpp", argv=("x", "-m", "/no.gguf")), "/no.gguf is not there"),
        (EngineConfig(engine="llama.cpp", argv=("x",), env={"LD_PRELOAD": "/a.so"}),
         "LD_PRELOAD names /a.so"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_before_it_starts(tmp_path, config, told):
    with pytest.raises(AskError, match=told):
        start(config, tmp_path / "log")
    assert not (tmp_path / "log").exists()


# flags, allocators and CPUs of any engine


def test_flags_take_both_forms():
    argv = ("x", "--a", "1", "--b=2=3", "--a", "4", "--c")
    assert driver.flag_value(argv, "--a") == "4"
    assert driver.flag_value(argv, "-b", "--b") == "2=3"
    assert driver.flag_value(argv, "--c") == ""
    assert driver.flag_value(argv, "--d") is None


def test_what_the_surroundings_set_is_told_without_secrets():
    surroundings = {"OMP_NUM_THREADS": "2", "VLLM_API_KEY": "s", "HOME": "/", "VLLM_A": "x y",
                    "LD_PRELOAD": "/a.so"}  # fmt: skip
    assert driver.inherited({"LD_PRELOAD": "/b.so"}, surroundings) == (
        "OMP_NUM_THREADS=2 'VLLM_A=x y'"
    )
    assert driver.inherited({}, {"HOME": "/"}) == ""


def process(allocator, **affinity):
    return ProcessFacts(pid=7, name="worker", threads=1, affinity=affinity or {"0-1": 1},
                        allocator=allocator)  # fmt: skip


def test_another_allocator_than_the_one_asked_for_is_named():
    env = {"LD_PRELOAD": "/lib/libgomp.so.1:/lib/libmimalloc.so.2"}
    assert driver.allocator_mismatch(env, [process("libmimalloc.so.2.1")]) == []
    assert driver.allocator_mismatch({}, [process("glibc")]) == []
    assert driver.allocator_mismatch(env, [process("libtcmalloc_minimal.so.4")]) == [
        "LD_PRELOAD asked for libmimalloc.so.2, but malloc of worker (7) is "
        "libtcmalloc_minimal.so.4's"
    ]


def test_a_thread_outside_the_engines_cpus_is_named():
    inside = process("glibc", **{"0-1": 3, "1": 1})
    assert driver.affinity_mismatch("0-1", [inside]) == []
    assert driver.affinity_mismatch("", [inside]) == []
    assert driver.affinity_mismatch("0", [inside]) == [
        "the engine was given CPUs 0, but worker (7) may run on 0-1"
    ]


class Nameless(Truth):
    """A server that lists no models."""

    async def models(self, _):
        return web.json_response({})


def test_a_server_without_a_list_is_asked_for_its_only_model():
    with serving(Nameless()) as truth:
        rows = send(truth.url, Workload(prompt_tokens=8, output_tokens=2), 2).rows
    assert [row.status for row in rows] == ["ok", "ok"]
    assert {body["model"] for body in truth.asked} == {""}
