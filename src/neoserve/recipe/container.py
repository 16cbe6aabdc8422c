"""The ``docker run`` line of a measured engine, for its official image."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from ..errors import AskError
from ..schema.engine import EngineConfig

Device = Literal["cpu", "gpu"]


class _Front(NamedTuple):
    """How an engine is called inside its image."""

    entrypoint: str
    before: tuple[str, ...]  # words before the model
    own_port: int
    model_flags: tuple[str, ...]  # that may name the model in the measured command


# Images before vLLM 0.11 had another entry point, so it is named. Model by position: `serve`.
_FRONTS = {
    "vllm": _Front("vllm", ("serve",), 8000, ("--model", "serve")),
    "sglang": _Front("python3", ("-m", "sglang.launch_server", "--model-path"), 30000,
                     ("--model-path", "--model")),
    "llama.cpp": _Front("/app/llama-server", ("--model",), 8080, ("--model", "-m")),
}  # fmt: skip

_CACHE = "huggingface:/root/.cache/huggingface"


def container_command(
    config: EngineConfig, image: str, *, device: Device = "cpu", port: int = 8000, cpus: str = ""
) -> str:
    """One shell line that runs the same arguments and environment in `image`.

    Such as ``vllm/vllm-openai:v0.32.0`` on GPUs; on CPUs ``vllm/vllm-openai-cpu:v0.32.0-arm64`` or
    ``public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.32.0``; ``lmsysorg/sglang:latest``;
    ``ghcr.io/ggml-org/llama.cpp:server``. A local model is mounted where it lies; `cpus` is a CPU
    list, "" for all. Raises AskError for another engine, and for what only this host has.
    """
    if config.engine not in _FRONTS:
        known = ", ".join(_FRONTS)
        raise AskError(f"no container is known for engine {config.engine!r}; expected {known}")
    front = _FRONTS[config.engine]
    model, arguments = _model_and_arguments(config, front)
    words = ["docker", "run", "--rm", *_rights(device), "-p", f"{port}:{front.own_port}"]
    words += ["--cpuset-cpus", cpus] if cpus else []
    for name, value in _environment(config).items():
        words += ["-e", f"{name}={value}"]
    words += ["-v", _mount(model)]
    words += ["--entrypoint", front.entrypoint, image, *front.before, model, *arguments]
    return shlex.join([*words, "--host", "0.0.0.0", "--port", str(front.own_port)])


def _model_and_arguments(config: EngineConfig, front: _Front) -> tuple[str, list[str]]:
    """The model, and what follows it in the measured command."""
    words = list(config.argv)
    for flag in front.model_flags:  # in this order: `python -m` has the short one's name
        if flag in words[:-1]:
            at = words.index(flag)
            return words[at + 1], words[at + 2 :]
    raise AskError(f"the command of {config.engine} names no model: {shlex.join(words)}")


def _environment(config: EngineConfig) -> dict[str, str]:
    if "LD_PRELOAD" in config.env:
        raise AskError(
            f"LD_PRELOAD={config.env['LD_PRELOAD']} names files of the host that was measured; "
            "the image has others: leave it out, or build an image with that library"
        )
    return config.env


def _mount(model: str) -> str:
    """A local file is mounted with its folder: shards and tokenizers lie beside it."""
    if not model.startswith("/"):
        return _CACHE
    path = PurePosixPath(model)
    folder = path.parent if path.suffix == ".gguf" else path
    return f"{folder}:{folder}:ro"


def _rights(device: Device) -> list[str]:
    if device == "gpu":
        return ["--gpus", "all", "--ipc", "host"]  # tensor parallel ranks share memory
    # Binding memory to NUMA nodes: set_mempolicy and mbind.
    return ["--cap-add", "SYS_NICE", "--security-opt", "seccomp=unconfined", "--shm-size", "4g"]
