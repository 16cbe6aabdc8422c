"""vLLM's driver on logs of real starts, and on programs that only look like vLLM."""

import json
import os
import sys
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.cores import show_cpus
from neoserve.measure.engine import vllm, vllm_check, vllm_log, vllm_program
from neoserve.measure.engine.driver import Seen
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import EngineFacts, ProcessFacts

LOGS = Path(__file__).parents[1] / "data/logs"
STARTED = (LOGS / "vllm-0.32-cpu.log").read_text()
DRIVER = vllm.VllmDriver()

# The metric of the same start, shortened.
CACHE = (
    'vllm:cache_config_info{block_size="128",cache_dtype="auto",kv_cache_memory_bytes="1073741824",'
    'kv_cache_size_tokens="46592",num_gpu_blocks="364",num_cpu_blocks="None"} 1.0\n'
)


class Answers:
    """The API of the same start."""

    def text(self, route):
        assert route == "/metrics"
        return CACHE

    def data(self, route):
        return {"version": "0.32.0"} if route == "/version" else None

    def models(self):
        return [{"id": "/models/smollm2", "max_model_len": 2048}]


class Silent:
    def text(self, _):
        raise OSError

    def data(self, _):
        return None

    def models(self):
        raise OSError


def process(name, **affinity):
    return ProcessFacts(pid=7, name=name, threads=1, affinity=affinity or {"0": 46},
                        allocator="glibc")  # fmt: skip


PROCESSES = (process("python", **{"0-1": 10}), process("VLLM::EngineCor", **{"0-1": 15}),
             process("VLLM::Worker"))  # fmt: skip


def config(*args, **env):
    argv = ("vllm", "serve", "/models/smollm2", *args)
    return EngineConfig(engine="vllm", argv=argv, env=env)


def facts(api=None, log=STARTED):
    seen = Seen(config(), api or Answers(), log, PROCESSES)
    return DRIVER.facts(seen).replace(processes=PROCESSES)


def mismatches(*args, of=None, **env):
    return DRIVER.mismatches(config(*args, **env), of or facts())


def test_facts_of_a_real_start():
    found = facts()
    assert (found.version, found.dtype, found.threads) == ("0.32.0", "bfloat16", 1)
    assert (found.context_tokens, found.num_parallel) == (2048, 8)
    # 1 GiB in blocks of 128 tokens of 30 layers x 2 x 3 heads x 64 x 2 bytes
    assert found.kv_tokens == 2**30 // (30 * 2 * 3 * 64 * 2 * 128) * 128 == 46592
    assert found.max_concurrency == 22.75 == found.kv_tokens / 2048
    assert found.block_size_tokens == 128
    assert (found.affinity, found.allocator) == (("0",), "glibc")
    assert found.log["cores_of_rank_0"] == "0"
    assert found.log["reserved_cpus"] == "1"
    assert found.log["kv_space"] == "(1.0/10.84) GiB"
    assert found.log["init"] == "1.46"
    assert found.log["enforce_eager"] == "True"


def test_the_log_alone_says_most_of_it():
    found = facts(Silent())
    assert (found.version, found.kv_tokens) == ("0.32.0", 46592)
    assert (found.context_tokens, found.block_size_tokens) == (None, None)


def test_a_log_without_anything():
    found = facts(Silent(), "")
    assert (found.version, found.dtype, found.threads, found.kv_tokens) == ("", "", None, None)
    assert DRIVER.reason("") == "it printed nothing"
    assert DRIVER.stage("") == ""


def test_stages_follow_the_log():
    told = []
    lines = STARTED.splitlines()
    for end in range(len(lines)):
        stage = DRIVER.stage("\n".join(lines[: end + 1]))
        if stage and told[-1:] != [stage]:
            told.append(stage)
    assert told == [
        "importing", "reading the model's config", "starting the engine", "starting workers",
        "loading weights", "sizing the KV cache", "warming up", "the engine is up",
        "starting the server", "the server listens",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vllm-0.32-cpu-kv-too-big",
         "Available memory on node 0 (11.66/13.71 GiB) on kv cache allocation is less than "
         "requested memory for kv (22.0 GiB). Decrease --kv-cache-memory-bytes, "
         "VLLM_CPU_KVCACHE_SPACE, or reduce CPU memory used by other processes."),
        ("vllm-0.32-cpu-too-long",
         "User-specified max_model_len (100000) is greater than the derived max_model_len "
         "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json). "
         "To allow overriding this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."),
    ],
)  # fmt: skip
def test_the_reason_is_that_of_the_process_that_failed_first(name, reason):
    assert DRIVER.reason((LOGS / f"{name}.log").read_text()) == reason


def test_a_refused_flag_and_other_ends():
    refused = "argument --dtype: invalid choice: 'i'"
    assert DRIVER.reason(f"usage: x\napi_server.py: error: {refused}") == refused
    assert DRIVER.reason("a\nRuntimeError: Engine core initialization failed. See root\n") == (
        "Engine core initialization failed. See root"
    )
    assert DRIVER.reason("torch.OutOfMemoryError: CUDA out of memory.") == (
        "OutOfMemoryError: CUDA out of memory."
    )


def test_what_was_asked_and_runs():
    asked = ("--max-model-len", "2048", "--max-num-seqs=8", "--dtype", "bfloat16",
             "--enforce-eager", "--block-size", "128", "-tp", "1")  # fmt: skip
    assert mismatches(*asked, VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="0") == ()
    assert mismatches("--dtype", "auto", "--max-model-len", "auto") == ()
    assert mismatches("--max-model-len", "2K") == ()  # 2048; 2k is 2000


@pytest.mark.parametrize(
    ("args", "env", "told"),
    [
        (("--dtype", "half"), {}, "--dtype asked for half, but bfloat16 runs"),
        (("--max-model-len", "2k"), {}, "--max-model-len asked for 2000, but 2048 runs"),
        (("--max-num-seqs", "16"), {}, "--max-num-seqs asked for 16, but 8 runs"),
        (("--block-size", "32"), {}, "--block-size asked for 32, but 128 runs"),
        (("--kv-cache-dtype", "fp8"), {}, "--kv-cache-dtype asked for fp8, but auto runs"),
        (("--max-num-batched-tokens", "64"), {},
         "--max-num-batched-tokens asked for 64, but an unknown value runs"),
        (("--no-enable-prefix-caching",), {},
         "--no-enable-prefix-caching was asked for, but enable_prefix_caching is True"),
        ((), {"VLLM_CPU_KVCACHE_SPACE": "4"},
         "VLLM_CPU_KVCACHE_SPACE asked for 4 GiB, but 1 GiB is set"),
        ((), {"VLLM_CPU_OMP_THREADS_BIND": "1"},
         "VLLM_CPU_OMP_THREADS_BIND asked for 1, but 0 is bound"),
        ((), {"VLLM_CPU_OMP_THREADS_BIND": "nobind"},
         "VLLM_CPU_OMP_THREADS_BIND asked for nobind, but 0 is bound"),
        ((), {"LD_PRELOAD": "/l/libmimalloc.so.2"},
         "LD_PRELOAD asked for libmimalloc.so.2, but malloc of VLLM::Worker (7) is glibc's"),
    ],
)  # fmt: skip
def test_what_was_asked_and_does_not_run(args, env, told):
    assert mismatches(*args, **env) == (told,)


def test_threads_that_the_log_binds_where_no_thread_may_run():
    moved = facts().replace(affinity=("1",))
    assert mismatches(of=moved) == (
        "the log says that threads are bound to CPUs 0, but no thread of a worker may run there",
    )


def test_a_variable_that_this_version_does_not_know():
    line = "WARNING 11-30 15:50:08 [i.py:1] Unknown vLLM environment variable detected: VLLM_X"
    assert vllm_log.unknown_variables(line) == ["VLLM_X"]
    unknown = facts(log=f"{STARTED}{line}\n")
    assert mismatches(of=unknown, VLLM_X="1") == (
        "this vLLM does not know VLLM_X: it has no effect",
    )
    assert mismatches(of=unknown) == ()  # from the user's shell: nobody asked for it


def test_who_computes():
    assert [p.name for p in DRIVER.computing(PROCESSES)] == ["VLLM::Worker"]
    assert [p.name for p in DRIVER.computing(PROCESSES[:2])] == ["VLLM::EngineCor"]
    assert DRIVER.computing(PROCESSES[:1]) == [PROCESSES[0]]
    assert DRIVER.mismatches(config(), EngineFacts()) == ()


# before it starts


@pytest.mark.parametrize("value", ["auto", "nobind", show_cpus(sorted(os.sched_getaffinity(0)))])
def test_bindings_that_vllm_has(value):
    vllm_check.check_environment({"VLLM_CPU_OMP_THREADS_BIND": value}, 1)


@pytest.mark.parametrize(
    ("env", "ranks", "told"),
    [
        ({"VLLM_CPU_OMP_THREADS_BIND": "phys"}, 1,
         r"BIND=phys is no value of vLLM's; expected auto, nobind, or one list of CPUs"),
        ({"VLLM_CPU_OMP_THREADS_BIND": ""}, 1, "is no value of vLLM's"),
        ({"VLLM_CPU_OMP_THREADS_BIND": "0||0"}, 3, "is no value of vLLM's"),
        ({"VLLM_CPU_OMP_THREADS_BIND": "0"}, 2, "holds 1 lists for 2 ranks"),
        ({"VLLM_CPU_OMP_THREADS_BIND": "0-4095"}, 1, "this host has no CPU .*4095, only"),
        ({"VLLM_CPU_KVCACHE_SPACE": "1.5"}, 1, "SPACE=1.5: expected a whole number of GiB"),
        ({"VLLM_CPU_KVCACHE_SPACE": "999999"}, 1, "is more than the .* GiB of this host"),
        ({"VLLM_CPU_NUM_OF_RESERVED_CPU": "x"}, 1, "RESERVED_CPU=x: expected a whole number"),
        ({"VLLM_CPU_NUM_OF_RESERVED_CPU": "1", "VLLM_CPU_OMP_THREADS_BIND": "0"}, 1,
         "works only with VLLM_CPU_OMP_THREADS_BIND=auto"),
    ],
)  # fmt: skip
def test_values_that_vllm_does_not_have(env, ranks, told):
    with pytest.raises(AskError, match=told):
        vllm_check.check_environment(env, ranks)


def test_a_model_that_is_not_there():
    with pytest.raises(AskError, match="model /models/smollm2 is not there"):
        DRIVER.check(config())
    module = EngineConfig(engine="vllm", argv=("py", "-m", "x", "--model", "./no"))
    with pytest.raises(AskError, match=r"model \./no is not there"):
        DRIVER.check(module)
    DRIVER.check(EngineConfig(engine="vllm", argv=("vllm", "serve", "Qwen/Qwen3-0.6B")))


# which vLLM


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A bin folder with a Python that has these distributions, and a vllm command."""
    monkeypatch.delenv(vllm_program.PYTHON_VARIABLE, raising=False)
    vllm_program._program.cache_clear()

    def make(versions, exit_code=0):
        folder = tmp_path / "bin"
        folder.mkdir()
        python, command = folder / "python", folder / "vllm"
        python.write_text(f"#!/bin/sh\necho '{json.dumps(versions)}'\n")
        command.write_text(f"#!{python}\n")
        python.chmod(0o755)
        command.chmod(0o755)
        if exit_code is not None:
            working = f"#!/bin/sh\nexit {exit_code}\n"
            command.write_text(working)
        return str(python), str(command)

    yield make
    vllm_program._program.cache_clear()


def test_the_command_where_it_works(environment, monkeypatch):
    python, command = environment({"vllm": "0.33.0"})
    made = vllm.config("a/b", ("--dtype", "half"), {"X": "1"}, python=python)
    assert made.argv == (command, "serve", "a/b", "--dtype", "half")
    assert made.version == "vllm 0.33.0"
    assert made.env == {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "X": "1"}
    vllm_program._program.cache_clear()
    monkeypatch.setenv("PATH", str(Path(command).parent))
    assert vllm_program.find_program().argv == (command, "serve")


@pytest.mark.parametrize(("versions", "code"), [({"vllm": "0.9"}, 1), ({"vllm-cpu": "0.32"}, 0)])
def test_the_module_where_the_command_does_not_work(environment, versions, code):
    python, _ = environment(versions, code)
    made = vllm.config("a/b", python=python)
    assert made.argv == (python, "-m", "vllm.entrypoints.openai.api_server", "--model", "a/b")


def test_no_vllm(environment, monkeypatch, tmp_path):
    python, _ = environment({})
    with pytest.raises(AskError, match="has no vLLM; on a GPU: pip install vllm"):
        vllm_program.find_program(python)
    with pytest.raises(AskError, match="does not run as a Python"):
        vllm_program.find_program(str(tmp_path / "no"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AskError, match="no vllm on PATH, and NEOSERVE_VLLM_PYTHON names no"):
        vllm_program.find_program()


def test_this_python_has_no_vllm(monkeypatch):
    """The question is put to a real interpreter."""
    monkeypatch.setenv(vllm_program.PYTHON_VARIABLE, sys.executable)
    vllm_program._program.cache_clear()
    with pytest.raises(AskError, match="has no vLLM"):
        vllm_program.find_program()
