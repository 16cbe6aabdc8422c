"""The ``docker run`` line of a measured engine, for its official image."""

from __future__ import annotations

import shlex

from ..errors import AskError
from ..schema.engine import EngineConfig
from .images import CACHE, FRONTS
from .served import Device, served


def container_command(
    config: EngineConfig, image: str, *, device: Device = "cpu", port: int = 8000, cpus: str = ""
) -> str:
    """One shell line that runs the same arguments and environment in `image`.

    Such as ``vllm/vllm-openai:v0.32.0`` on GPUs; on CPUs ``vllm/vllm-openai-cpu:v0.32.0-arm64`` or
    ``public.ecr.aws/q9t5s3a7/vllm-cpu-release-repo:v0.32.0``; ``lmsysorg/sglang:latest``;
    ``ghcr.io/ggml-org/llama.cpp:server``. A local model is mounted where it lies; `cpus` is a CPU
    list, "" for all. Raises AskError for another engine, and for what only this host has.
    """
    if config.engine not in FRONTS:
        known = ", ".join(FRONTS)
        raise AskError(f"no container is known for engine {config.engine!r}; expected {known}")
    parts, front = served(config), FRONTS[config.engine]
    words = ["docker", "run", "--rm", *_rights(device), "-p", f"{port}:{front.own_port}"]
    words += ["--cpuset-cpus", cpus] if cpus else []
    for name, value in _environment(config).items():
        words += ["-e", f"{name}={value}"]
    mount = f"{parts.folder}:{parts.folder}:ro" if parts.is_local else f"cache:{CACHE}"
    program, *before = front.entrypoint
    words += ["-v", mount, "--entrypoint", program, image, *before]
    words += [*front.model_flag, parts.model, *parts.arguments]
    return shlex.join([*words, "--host", "0.0.0.0", "--port", str(front.own_port)])


def _environment(config: EngineConfig) -> dict[str, str]:
    if "LD_PRELOAD" in config.env:
        raise AskError(
            f"LD_PRELOAD={config.env['LD_PRELOAD']} names files of the host that was measured; "
            "the image has others: leave it out, or build an image with that library"
        )
    return config.env


def _rights(device: Device) -> list[str]:
    if device == "gpu":
        return ["--gpus", "all", "--ipc", "host"]  # tensor parallel ranks share memory
    # Binding memory to NUMA nodes: set_mempolicy and mbind.
    return ["--cap-add", "SYS_NICE", "--security-opt", "seccomp=unconfined", "--shm-size", "4g"]
