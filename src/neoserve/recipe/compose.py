"""A compose.yaml that serves the measured configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .images import CACHE, container, platform
from .served import Served
from .writing import filled, heading, yaml_of


def compose(served: Served, *, port: int | None = None) -> str:
    """The same arguments and environment in a container; `port` is this host's.

    A local model is mounted where it lies, so its path stays what it was. Where the official image
    lacks a library, it is built from the Dockerfile beside this file. Raises AskError where the
    environment names other files of the measured host.
    """
    inside = container(served)
    on_cpu = served.device == "cpu"
    service: dict[str, Any] = {
        "image": f"{served.name}:local" if inside.packages else inside.image,
        "build": "." if inside.packages else "",
        "platform": platform(served),
        "entrypoint": list(inside.entrypoint),
        "command": _escaped(inside.command),
        "environment": dict(zip(inside.env, _escaped(inside.env.values()), strict=True)),
        "volumes": _volumes(served),
        # This host alone: the engine asks nobody for a password.
        "ports": [f"127.0.0.1:{port or inside.port}:{inside.port}"],
        "cpuset": served.cpus if on_cpu else "",
        "healthcheck": _healthcheck(served, inside.port),
        "restart": "unless-stopped",
    }
    if not served.is_local:
        service["environment"]["HF_TOKEN"] = "${HF_TOKEN:-}"
    service |= _rights(served) if on_cpu else _gpus(served.num_gpus)
    name = served.config.engine.replace(".", "")
    document: dict[str, Any] = {"services": {name: filled(service)}}
    if "cache:" in "".join(v for v in service["volumes"] if isinstance(v, str)):
        document["volumes"] = {"cache": {}}
    return heading(served, *inside.remarks) + yaml_of(document)


def _escaped(words: Iterable[str]) -> list[str]:
    """Compose would replace $NAME from its own environment."""
    return [word.replace("$", "$$") for word in words]


def _volumes(served: Served) -> list[Any]:
    volumes: list[Any] = []
    if served.config.engine != "llama.cpp":
        volumes.append(f"cache:{CACHE}")
    if served.is_local:
        folder = served.folder.replace("$", "$$")
        bind = {"type": "bind", "source": folder, "target": folder, "read_only": True}
        volumes.append(bind)
    return volumes


def _healthcheck(served: Served, port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/health"
    if served.config.engine == "llama.cpp":
        test = ["CMD", "curl", "-fsS", url]
    else:
        probe = f"import urllib.request as u; u.urlopen('{url}', timeout=5)"
        test = ["CMD", "python3", "-c", probe]
    # Weights and compilation may take minutes before /health answers.
    return {"test": test, "interval": "10s", "timeout": "6s", "retries": 3,
            "start_period": f"{served.start_s}s"}  # fmt: skip


def _rights(served: Served) -> dict[str, Any]:
    if served.config.engine == "llama.cpp":
        return {}
    # Binding memory to NUMA nodes: set_mempolicy and mbind.
    return {"cap_add": ["SYS_NICE"], "security_opt": ["seccomp=unconfined"], "shm_size": "4g"}


def _gpus(count: int) -> dict[str, Any]:
    device = {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
    return {
        "ipc": "host",  # tensor parallel ranks share memory
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }
