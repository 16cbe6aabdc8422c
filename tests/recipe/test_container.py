import shlex

import pytest

from neoserve.errors import AskError
from neoserve.recipe.container import container_command
from neoserve.schema.engine import EngineConfig

ARGS = ("--dtype", "bfloat16", "--max-num-seqs", "64")


def vllm(*start, env=None):
    return EngineConfig(engine="vllm", argv=(*start, *ARGS), env=env or {})


def test_the_line_that_vllms_own_guide_gives_for_cpus():
    """docs/getting_started/installation/cpu and Arm's guide: rights, shared memory, environment."""
    config = vllm("vllm", "serve", "/models/q", env={"VLLM_CPU_KVCACHE_SPACE": "8"})
    line = container_command(config, "vllm/vllm-openai-cpu:v0.32.0-arm64", port=9000, cpus="0-14")
    assert shlex.split(line) == [
        "docker", "run", "--rm", "--cap-add", "SYS_NICE", "--security-opt", "seccomp=unconfined",
        "--shm-size", "4g", "-p", "9000:8000", "--cpuset-cpus", "0-14",
        "-e", "VLLM_CPU_KVCACHE_SPACE=8", "-v", "/models/q:/models/q:ro", "--entrypoint", "vllm",
        "vllm/vllm-openai-cpu:v0.32.0-arm64", "serve", "/models/q", *ARGS,
        "--host", "0.0.0.0", "--port", "8000",
    ]  # fmt: skip


def test_the_module_becomes_the_command():
    """However it was started here, the image has a command that works."""
    module = ("py", "-m", "vllm.entrypoints.openai.api_server", "--model", "Qwen/Qwen3-0.6B")
    ours = container_command(vllm(*module), "i", device="gpu")
    assert ours == container_command(vllm("vllm", "serve", "Qwen/Qwen3-0.6B"), "i", device="gpu")
    words = shlex.split(ours)
    assert words[words.index("--gpus") + 1] == "all"
    assert "cache:/root/.cache" in words


def test_other_engines():
    llama = EngineConfig(
        engine="llama.cpp", argv=("py", "-m", "x", "--model", "/m/a b.gguf", "-t", "2")
    )
    line = container_command(llama, "ghcr.io/ggml-org/llama.cpp:server")
    assert "-v /m:/m:ro" in line
    assert line.endswith("'/m/a b.gguf' -t 2 --host 0.0.0.0 --port 8080")
    sglang = EngineConfig(
        engine="sglang",
        argv=("py", "-m", "sglang.launch_server", "--model-path", "a/b", "--tp-size", "2"),
    )
    line = container_command(sglang, "lmsysorg/sglang:latest", device="gpu", port=30000)
    assert "-p 30000:30000" in line
    start = "python3 lmsysorg/sglang:latest -m sglang.launch_server --model-path a/b --tp-size 2"
    assert start in line


def test_what_cannot_be_said():
    with pytest.raises(AskError, match="no container is known for engine 'url'"):
        container_command(EngineConfig(engine="url", url="http://x"), "i")
    with pytest.raises(AskError, match="names no model"):
        container_command(EngineConfig(engine="vllm", argv=("vllm",)), "i")
    with pytest.raises(AskError, match=r"LD_PRELOAD=/lib/x\.so names files of the host"):
        container_command(vllm("vllm", "serve", "m", env={"LD_PRELOAD": "/lib/x.so"}), "i")
