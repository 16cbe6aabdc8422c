"""A Dockerfile on top of the engine's official image: what that lacks, and the command."""

from __future__ import annotations

import json

from .images import container, platform
from .served import Served
from .writing import heading


def dockerfile(served: Served) -> str:
    """Raises AskError where the environment names unknown files of the measured host."""
    inside = container(served)
    flag = f"--platform {platform(served)} " if served.arch else ""
    lines = [f"FROM {inside.image}"]
    if inside.packages:
        lines += [
            "USER root",
            "RUN apt-get update \\",
            f" && apt-get install --yes --no-install-recommends {' '.join(inside.packages)} \\",
            " && rm -rf /var/lib/apt/lists/*",
        ]
    lines += [f"ENV {name}={_quoted(value)}" for name, value in inside.env.items()]
    lines += [
        f"EXPOSE {inside.port}",
        f"ENTRYPOINT {json.dumps(inside.entrypoint)}",
        f"CMD {json.dumps(inside.command)}",
    ]
    how = f"docker build {flag}-t {served.name}:local ."
    return heading(served, *inside.remarks, f"Build it: {how}") + "\n".join(lines) + "\n"


def _quoted(value: str) -> str:
    """ENV replaces $NAME and reads backslashes; CMD in JSON does neither."""
    for special in "\\\"$":
        value = value.replace(special, f"\\{special}")
    return f'"{value}"'
