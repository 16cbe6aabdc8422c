"""SGLang's driver on lines as its sources print them; see data/logs/README.md."""

import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.engine import sglang
from neoserve.measure.engine.driver import Seen
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import ProcessFacts

LOG = (Path(__file__).parents[1] / "data/logs/sglang-0.5-gpu.log").read_text()
DRIVER = sglang.SglangDriver()
INFO = {
    "version": "0.5.4", "dtype": "auto", "tp_size": 1, "page_size": 1, "quantization": None,
    "chunked_prefill_size": 8192, "max_total_num_tokens": 421472, "mem_fraction_static": 0.83,
}  # fmt: skip


class Answers:
    def __init__(self, route):
        self.route = route

    def data(self, route):
        return INFO if route == self.route else None


def process(name):
    return ProcessFacts(pid=9, name=name, threads=4, affinity={"0-7": 4}, allocator="glibc")


PROCESSES = (process("python"), process("sglang::schedul"), process("sglang::detoken"))


def facts(route="/server_info"):
    config = EngineConfig(engine="sglang", argv=("python",))
    return DRIVER.facts(Seen(config, Answers(route), LOG, PROCESSES))


@pytest.mark.parametrize("route", ["/server_info", "/get_server_info"])
def test_facts(route):
    found = facts(route)
    assert (found.version, found.kv_tokens, found.num_parallel) == ("0.5.4", 421472, 48)
    assert (found.context_tokens, found.block_size_tokens) == (40960, 1)
    assert found.log["kv_pool"] == "#tokens: 421472, K size: 28.94 GB, V size: 28.94 GB"
    assert found.log["kv_cache_dtype"] == "bfloat16"
    assert found.dtype == ""  # "auto" says nothing
    assert found.affinity == ("0-7",)


def test_the_log_alone():
    found = facts("/nowhere")
    assert (found.version, found.kv_tokens, found.context_tokens) == ("", 421472, 40960)


def test_mismatches():
    def told(*args):
        config = EngineConfig(engine="sglang", argv=("python", *args))
        return DRIVER.mismatches(config, facts().replace(processes=PROCESSES))

    assert told("--tp-size", "1", "--context-length", "40960", "--page-size", "1") == ()
    assert told("--tp-size", "2") == ("--tp-size asked for 2, but 1 runs",)
    assert told("--max-running-requests", "64") == (
        "--max-running-requests asked for 64, but 48 runs",
    )
    assert told("--attention-backend", "x") == (
        "--attention-backend asked for x, but an unknown value runs",
    )


def test_stages_and_reason():
    stages = [DRIVER.stage(LOG[: LOG.index(word) + len(word)]) for word in (
        "server_args=", "Load weight begin", "KV Cache is allocated", "cuda graph begin",
        "max_total_num_tokens=",
    )]  # fmt: skip
    assert stages == ["reading the model's config", "loading weights", "the KV cache is allocated",
                      "capturing CUDA graphs", "starting the server"]  # fmt: skip
    log = (
        "[2025-06-26 02:16:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "scheduler.py", line 2620, in run_scheduler_process\n'
        "ValueError: Failed to allocate token prealloc indices\n"
    )
    assert DRIVER.reason(log) == "Failed to allocate token prealloc indices"


def test_it_is_not_installed_here(monkeypatch):
    monkeypatch.delenv(sglang.PYTHON_VARIABLE, raising=False)
    with pytest.raises(AskError, match=r"SGLang is not installed in .*; pip install sglang"):
        sglang.config("a/b")
    with pytest.raises(AskError, match="does not run as a Python"):
        sglang.config("a/b", python="/nowhere")


def test_the_command(monkeypatch):
    monkeypatch.setattr(sglang, "installed_version", lambda _: "0.5.23")
    made = sglang.config("a/b", ("--tp-size", "2"), python=sys.executable)
    assert made.argv == (sys.executable, "-m", "sglang.launch_server", "--model-path", "a/b",
                         "--enable-metrics", "--tp-size", "2")  # fmt: skip
    assert made.version == "sglang 0.5.23"
    asked_twice = sglang.config("a/b", ("--enable-metrics",), python="x")
    assert asked_twice.argv.count("--enable-metrics") == 1
