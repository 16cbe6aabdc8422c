"""Shell scripts: run.sh, which starts the measured process, and env.sh, its environment alone."""

from __future__ import annotations

import shlex

from .images import FRONTS
from .served import Served
from .vllm_config import vllm_config
from .writing import heading


def run_script(served: Served) -> str:
    """The measured command on a host like the measured one; further arguments are appended."""
    port = FRONTS[served.config.engine].own_port
    own = ("--host 127.0.0.1", f"--port {port}")
    lines = [
        "#!/bin/sh",
        heading(served, f"Further arguments are appended: ./run.sh --port {port + 1}").rstrip(),
        "set -eu",
        *_affinity(served),  # before anything is preloaded into taskset
        *_exports(served),
        "exec " + " \\\n  ".join([*_grouped(served), *own]) + ' "$@"',
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def env_script(served: Served) -> str:
    """To be sourced before ``vllm serve --config config.yml``."""
    how = f". ./env.sh && {vllm_config(served).command}"
    return heading(served, f"Use it: {how}") + "\n".join(_exports(served)) + "\n"


def _exports(served: Served) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in served.config.env.items()]


def _affinity(served: Served) -> list[str]:
    if not served.cpus:
        return []
    return [
        "# The CPUs that it was measured on; on others its figures are others.",
        f"taskset -cp {shlex.quote(served.cpus)} $$ > /dev/null ||",
        f"  echo 'run.sh: not bound to CPUs {served.cpus}, as it was when measured' >&2",
    ]


def _grouped(served: Served) -> list[str]:
    """Shell words, a flag and its values on one line."""
    words = served.config.argv
    cut = len(served.program)
    lines = [shlex.join(words[:cut])]
    for word in words[cut:]:
        if word.startswith("-") or len(lines) == 1:
            lines.append(shlex.quote(word))
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return lines
