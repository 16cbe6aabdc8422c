"""run.sh of the embedded engine, run as it is."""

import json
import os
import signal
import subprocess
import time
import urllib.request

import pytest

from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.process import free_port
from neoserve.recipe.served import served
from neoserve.recipe.shell import run_script


def wait_healthy(url, process, timeout_s=60.0):
    deadline_s = time.monotonic() + timeout_s
    while True:
        assert process.poll() is None, process.returncode
        assert time.monotonic() < deadline_s
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return


@pytest.mark.engine
def test_it_serves(tmp_path):
    config = llamacpp.config(
        llamacpp.demo_model_path(), threads=1, parallel=2, context_tokens=256,
        env={"NEOSERVE_MARK": "it's $here"},
    )  # fmt: skip
    cpu = min(os.sched_getaffinity(0))
    script = tmp_path / "run.sh"
    script.write_text(run_script(served(config)._replace(cpus=str(cpu))))
    port = free_port()
    process = subprocess.Popen(
        ["sh", script, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_healthy(url, process)
        asked = {"prompt": "One two three", "max_tokens": 4, "ignore_eos": True}
        request = urllib.request.Request(
            f"{url}/v1/completions", json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["usage"]["completion_tokens"] == 4
        with urllib.request.urlopen(f"{url}/props", timeout=60) as answer:
            props = json.load(answer)
        assert props["total_slots"] == 2
        assert props["default_generation_settings"]["n_ctx"] == 256
        # exec: the process that was started is the engine, with its environment and CPUs
        with open(f"/proc/{process.pid}/environ", encoding="utf-8") as file:
            assert "NEOSERVE_MARK=it's $here" in file.read().split("\0")
        assert os.sched_getaffinity(process.pid) == {cpu}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
