"""A real vLLM on CPUs: started, read, refused, stopped, orphaned."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from e2e.asking import complete
from neoserve.catalog.engines import find_profile
from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.errors import AskError, EngineFailed
from neoserve.measure.engine import vllm
from neoserve.measure.engine.running import start
from neoserve.predict.kv import capacity, layout
from neoserve.schema.engine import Deployment

pytestmark = pytest.mark.vllm

CPU = str(min(os.sched_getaffinity(0)))
ENV = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
ARGS = ("--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "8", "--dtype", "bfloat16")

# Forwards to the C library's, so that it is the program's malloc without being another one.
MALLOC = """
#include <stddef.h>
void *__libc_malloc(size_t); void __libc_free(void *);
void *__libc_calloc(size_t, size_t); void *__libc_realloc(void *, size_t);
void *malloc(size_t n) { return __libc_malloc(n); }
void free(void *p) { __libc_free(p); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
"""


def library(path: Path, code: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=code, text=True, check=True)
    return str(path)


def gone(pid: int) -> bool:
    """Ended, or a zombie that somebody has to reap."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_gone(pids: list[int], timeout_s: float = 30.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not all(map(gone, pids)):
        assert time.monotonic() < deadline_s, f"left running: {[p for p in pids if not gone(p)]}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def served(model, tmp_path_factory):
    """An engine with all that can be asked of it, and what it told while it started."""
    folder = tmp_path_factory.mktemp("vllm")
    env = ENV | {
        "VLLM_CPU_OMP_THREADS_BIND": CPU,
        "LD_PRELOAD": library(folder / "libmimalloc.so", MALLOC),
    }
    told: list[str] = []
    with start(vllm.config(model, ARGS, env), folder / "engine.log", on_stage=told.append) as one:
        yield one, told
        pids = [process.pid for process in one.facts().processes]
    assert len(pids) >= 3  # API server, engine core, worker
    assert all(map(gone, pids)), "stop() left something running"


def test_it_tells_what_it_does_while_it_starts(served):
    _, told = served
    stages = [line.partition(" (")[0] for line in told]
    assert stages[0].startswith("starting vllm: usually ready within 90")
    for stage in ("importing", "starting workers", "loading weights", "ready"):
        assert stage in stages


def test_facts_are_what_was_asked(served, model):
    engine, _ = served
    facts = engine.facts()
    assert engine.mismatches() == ()
    assert (facts.dtype, facts.threads) == ("bfloat16", 1)
    assert (facts.context_tokens, facts.num_parallel) == (2048, 8)
    assert facts.block_size_tokens == 128
    # 1 GiB of blocks of 128 tokens: 30 layers x 2 x 3 heads x 64 x 2 bytes a token
    assert facts.kv_tokens == 2**30 // (23040 * 128) * 128 == 46592
    assert facts.max_concurrency == 22.75
    assert facts.affinity == (CPU,)
    assert facts.allocator == "libmimalloc.so"
    assert facts.version
    assert engine.model == model
    worker = next(p for p in facts.processes if p.name.startswith("VLLM::Worker"))
    assert worker.affinity == {CPU: worker.threads}


def test_the_planner_says_what_the_log_says(served, model):
    """KV tokens, blocks and concurrency from config.json alone, before anything is started."""
    engine, _ = served
    spec, asked = find_model(model), Deployment(max_model_len=2048, max_num_seqs=8)
    profile = find_profile("vllm", "0.32.0", "cpu")
    hardware = find_machine("c8g.4xlarge").hardware
    predicted = capacity(
        layout(spec, asked, profile, hardware), spec, asked, profile, [2**30], 2048, 2048
    ).kv
    facts = engine.facts()
    assert predicted.kv_tokens == facts.kv_tokens
    assert predicted.block_size_tokens == facts.block_size_tokens
    assert str(predicted.num_blocks) == facts.log["num_gpu_blocks"]
    assert round(predicted.max_concurrency, 2) == facts.max_concurrency


def test_metrics_count_what_was_served(served):
    engine, _ = served
    before, cpu_s = engine.metrics(), engine.cpu_s()
    prompt = " ".join(f"word{i}" for i in range(120))  # more than one block
    usages = [complete(engine, prompt, 5) for _ in range(2)]
    time.sleep(1.0)  # the engine's statistics reach the API server a step later
    after = engine.metrics()
    gained = {name: after[name] - before[name] for name in after}
    assert gained["output_tokens"] == sum(u["completion_tokens"] for u in usages) == 10
    assert gained["prompt_tokens"] == sum(u["prompt_tokens"] for u in usages)
    assert gained["prefix_query_tokens"] == gained["prompt_tokens"]
    assert gained["prefix_hit_tokens"] % 128 == 0 < gained["prefix_hit_tokens"]
    assert gained["queue_time_count"] == 2
    assert (after["running"], after["waiting"], gained["preemptions"]) == (0, 0, 0)
    assert engine.cpu_s() > cpu_s


def test_what_it_does_not_do_is_found_and_a_killed_parent_leaves_nothing(model, tmp_path):
    """A libmimalloc.so that defines no malloc, and a variable that vLLM has no use for."""
    env = ENV | {
        "LD_PRELOAD": library(tmp_path / "libmimalloc.so", "int unused;"),
        "VLLM_NEOSERVE_NO_SUCH_SWITCH": "1",
    }
    code = f"""
        import json, pathlib, time
        from neoserve.measure.engine import running, vllm
        made = vllm.config({model!r}, {ARGS!r}, {env!r})
        with running.start(made, pathlib.Path({str(tmp_path / "engine.log")!r})) as engine:
            pids = [p.pid for p in engine.facts().processes]
            print(json.dumps([engine.group, pids, engine.mismatches()]), flush=True)
            time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    group, pids, mismatches = json.loads(parent.stdout.readline())
    assert len(pids) >= 3
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_gone([group, *pids])
    assert any("LD_PRELOAD asked for libmimalloc.so" in text and "glibc" in text
               for text in mismatches)  # fmt: skip
    assert "this vLLM does not know VLLM_NEOSERVE_NO_SUCH_SWITCH: it has no effect" in mismatches
    assert len(mismatches) == 2


@pytest.mark.parametrize(
    ("args", "env", "reason"),
    [
        (("--no-such-flag", "3"), {}, "unrecognized arguments: --no-such-flag"),
        (("--max-model-len", "100000"), {},
         r"User-specified max_model_len \(100000\) is greater than the derived max_model_len"),
    ],
)  # fmt: skip
def test_its_own_reason_for_an_end(model, tmp_path, args, env, reason):
    log = tmp_path / "engine.log"
    with pytest.raises(EngineFailed, match=f"ended before it was ready: {reason}") as failure:
        start(vllm.config(model, (*ARGS, *args), ENV | env), log)
    assert "Traceback" not in str(failure.value)
    assert "\n" not in str(failure.value)


def test_phys_is_refused_before_anything_starts(model, tmp_path):
    config = vllm.config(model, ARGS, ENV | {"VLLM_CPU_OMP_THREADS_BIND": "phys"})
    with pytest.raises(AskError, match=r"BIND=phys is no value of vLLM's; expected auto, nobind"):
        start(config, tmp_path / "engine.log")
    assert not (tmp_path / "engine.log").exists()


def test_the_front_door_that_opens_is_taken(model):
    """vllm-cpu brings a `vllm` command that looks for metadata of another distribution, or none."""
    made = vllm.config(model)
    command = Path(made.argv[0]).parent / "vllm"
    try:
        said = subprocess.run([command, "--version"], capture_output=True, check=False)
        works = said.returncode == 0
    except OSError:  # not there, or its interpreter is not
        works = False
    assert (made.argv[:2] == (str(command), "serve")) == works
    assert made.version.startswith("vllm")
