"""A compose.yaml that serves the chosen configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from ..errors import AskError
from ..schema.engine import Deployment, EngineConfig
from .vllm import serve_args, serve_environment

LLAMACPP_IMAGE = "ghcr.io/ggml-org/llama.cpp:server"
VLLM_GPU_IMAGE = "vllm/vllm-openai"
VLLM_CPU_IMAGE = "vllm/vllm-openai-cpu"

_PROBE = "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/health', timeout=5)"


def llamacpp_compose(
    config: EngineConfig,
    *,
    numbers: Sequence[str] = (),
    ledger_head: str = "",
    port: int = 8080,
    image: str = LLAMACPP_IMAGE,
) -> str:
    """The measured llama.cpp process as a container, with the same arguments.

    `numbers` are sentences that go on top as comments. Raises AskError for another engine.
    """
    model, arguments = _llamacpp_words(config)
    service = {
        "image": image,
        "command": _escaped(["--model", f"/models/{model.name}", *arguments,
                             "--host", "0.0.0.0", "--port", "8080"]),  # inside the container
        "environment": dict(zip(config.env, _escaped(config.env.values()), strict=True)),
        "volumes": [{
            "type": "bind", "source": str(model.parent), "target": "/models", "read_only": True,
        }],
        "ports": [f"{port}:8080"],
        "healthcheck": _healthcheck(["CMD", "curl", "-fsS", "http://127.0.0.1:8080/health"], 60),
        "restart": "unless-stopped",
    }  # fmt: skip
    return _compose("llamacpp", service, numbers, ledger_head)


def vllm_compose(
    model_id: str,
    deployment: Deployment,
    *,
    device: Literal["gpu", "cpu"],
    arch: str = "",
    numbers: Sequence[str] = (),
    ledger_head: str = "",
    port: int = 8000,
    cpu_kv_bytes: int | None = None,
) -> str:
    """vLLM with this deployment's flags; the CPU image's tags end in `arch`, arm64 or x86_64."""
    on_cpu = device == "cpu"
    tag = f"v{deployment.engine_version}" if deployment.engine_version else "latest"
    if on_cpu and arch:
        tag += f"-{arch}"
    service: dict[str, Any] = {
        "image": f"{VLLM_CPU_IMAGE if on_cpu else VLLM_GPU_IMAGE}:{tag}",
        "entrypoint": ["vllm", "serve"],  # images before 0.11 had another
        "command": _escaped(serve_args(model_id, deployment)),
        "environment": serve_environment(cpu_kv_bytes if on_cpu else None)
        | {"HF_TOKEN": "${HF_TOKEN:-}"},
        "volumes": ["huggingface:/root/.cache/huggingface"],
        "ports": [f"{port}:8000"],
        # Weights and compilation may take minutes before /health answers.
        "healthcheck": _healthcheck(["CMD", "python3", "-c", _PROBE], 900),
        "restart": "unless-stopped",
    }
    service |= _cpu_rights() if on_cpu else _gpus(deployment)
    return _compose("vllm", service, numbers, ledger_head, volumes={"huggingface": {}})


def _llamacpp_words(config: EngineConfig) -> tuple[PurePosixPath, list[str]]:
    """The model file, and llama-server's arguments after it."""
    if config.engine != "llama.cpp" or "--model" not in config.argv:
        raise AskError(f"engine {config.engine!r} has no llama.cpp command with --model")
    start = config.argv.index("--model")
    return PurePosixPath(config.argv[start + 1]), list(config.argv[start + 2 :])


def _escaped(words: Iterable[str]) -> list[str]:
    """Compose would replace $NAME from its own environment."""
    return [word.replace("$", "$$") for word in words]


def _healthcheck(test: list[str], start_period_s: int) -> dict[str, Any]:
    return {
        "test": test,
        "interval": "10s",
        "timeout": "6s",
        "retries": 3,
        "start_period": f"{start_period_s}s",
    }


def _cpu_rights() -> dict[str, Any]:
    # Binding memory to NUMA nodes: set_mempolicy and mbind.
    return {"cap_add": ["SYS_NICE"], "security_opt": ["seccomp=unconfined"], "shm_size": "4g"}


def _gpus(deployment: Deployment) -> dict[str, Any]:
    device = {
        "driver": "nvidia",
        "count": deployment.devices_per_replica,
        "capabilities": ["gpu"],
    }
    return {
        "ipc": "host",  # tensor parallel ranks share memory
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }


def _compose(
    name: str,
    service: Mapping[str, Any],
    numbers: Sequence[str],
    ledger_head: str,
    volumes: Mapping[str, Any] | None = None,
) -> str:
    import yaml

    document: dict[str, Any] = {"services": {name: {k: v for k, v in service.items() if v}}}
    if volumes:
        document["volumes"] = dict(volumes)
    return _comments(numbers, ledger_head) + yaml.safe_dump(document, sort_keys=False, width=100)


def _comments(numbers: Sequence[str], ledger_head: str) -> str:
    lines = ["Written by NeoServe.", *numbers]
    if ledger_head:
        lines.append(f"Evidence: ledger head {ledger_head}")
    # A line break inside a sentence must not end its comment.
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)
