"""The load client beside an aiohttp + json client on one truth server. `make bench-client`.

Both send the same constant arrivals of 100 streams x 100 tokens/s (TTFT 50 ms, ITL 10 ms), in
alternating runs. Printed: mean error of TTFT, net of the server's own lateness, chunks lost, CPU
per chunk, and the ratio of the last. The peer does what `vllm bench serve` does: iterate over
the stream, decode JSON in each chunk as it comes, and read the clock then. GuideLLM joins where
NEOSERVE_GUIDELLM names its program and NEOSERVE_VLLM_MODEL a folder with a tokenizer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neoserve.measure.selftest import Truth, selftest, serving

ROUNDS = 3
TRUTH = Truth(streams=100, ttft_s=0.05, itl_s=0.01, output_tokens=100)
_LATE = re.compile(r'"late_s":(-?[\d.]+)')


def ours(workers: int = 1) -> dict[str, float]:
    """One run of the client that `neoserve bench` uses."""
    with tempfile.TemporaryDirectory() as folder:
        found = selftest(Path(folder) / "truth.log", TRUTH, workers=workers)
    return {
        "ttft_error_ms": found.ttft_error_s.mean_s * 1e3,
        "ttft_error_p95_ms": found.ttft_error_s.p95_s * 1e3,
        "lost": found.num_lost,
        "cpu_us_per_chunk": found.client_cpu_s_per_chunk * 1e6,
    }


async def _aiohttp(url: str) -> dict[str, float]:
    import aiohttp

    errors_s: list[float] = []
    lost = 0

    async def one(session: aiohttp.ClientSession, due_s: float) -> None:
        nonlocal lost
        await asyncio.sleep(due_s - time.monotonic())
        body = {"prompt": "a " * 20, "max_tokens": TRUTH.output_tokens, "stream": True}
        stamps, late_s = [], 0.0
        async with session.post(f"{url}/v1/completions", json=body) as response:
            async for line in response.content:
                text = line.strip().decode()
                if not text.startswith("data: ") or text == "data: [DONE]":
                    continue
                event = json.loads(text[6:])
                if event["choices"][0]["text"]:
                    late_s = late_s if stamps else event["late_s"]
                    stamps.append(time.monotonic())
        errors_s.append(stamps[0] - due_s - TRUTH.ttft_s - late_s)
        lost += TRUTH.output_tokens - len(stamps)

    usage = resource.getrusage(resource.RUSAGE_SELF)
    num = max(TRUTH.streams, round(TRUTH.rate_rps * 5.0)) + TRUTH.streams
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        start_s = time.monotonic() + 0.2
        await asyncio.gather(*(one(session, start_s + i / TRUTH.rate_rps) for i in range(num)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    measured = sorted(errors_s)
    return {
        "ttft_error_ms": statistics.mean(measured) * 1e3,
        "ttft_error_p95_ms": measured[int(0.95 * len(measured))] * 1e3,
        "lost": lost,
        "cpu_us_per_chunk": cpu_s / (num * TRUTH.output_tokens) * 1e6,
    }


def peer() -> dict[str, float]:
    """One run of the aiohttp + json client."""
    with tempfile.TemporaryDirectory() as folder, serving(TRUTH, Path(folder) / "t.log") as url:
        return asyncio.run(_aiohttp(url))


def guidellm(program: str, tokenizer: str) -> dict[str, float]:
    """One run of GuideLLM 0.8 with two workers; its figure holds the server's lateness, too."""
    with tempfile.TemporaryDirectory() as folder, serving(TRUTH, Path(folder) / "t.log") as url:
        out = Path(folder) / "out.json"
        command = [
            program, "run", "--disable-console",
            "--backend",
            f"kind=openai_http,target={url},model=truth,request_format=/v1/completions",
            "--profile", f"kind=constant,rate={TRUTH.rate_rps:.2f}",
            "--constraint", "kind=max_duration,seconds=6",
            "--tokenizer", f"kind=huggingface_auto,model={tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens=20,output_tokens={TRUTH.output_tokens}",
            "--output", f"kind=json,path={out}",
        ]  # fmt: skip
        env = os.environ | {"HF_HUB_OFFLINE": "1", "GUIDELLM__MAX_WORKER_PROCESSES": "2"}
        subprocess.run(command, check=True, capture_output=True, env=env)
        found = json.loads(out.read_text())["benchmarks"][0]["metrics"]
    ttft = found["time_to_first_token_ms"]["successful"]
    return {
        "ttft_error_ms": ttft["mean"] - TRUTH.ttft_s * 1e3,
        "ttft_error_p95_ms": ttft["percentiles"]["p95"] - TRUTH.ttft_s * 1e3,
        "rate_share": found["requests_per_second"]["successful"]["mean"] / TRUTH.rate_rps,
    }


def main() -> None:
    """Alternate both, each in a process of its own; print medians and the CPU ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", choices=("ours", "peer"))
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(ours() if asked.one == "ours" else peer()))
        return
    runs: dict[str, list[dict[str, float]]] = {"ours": [], "peer": []}
    for _ in range(ROUNDS):
        for name, found in runs.items():
            out = subprocess.run([sys.executable, __file__, "--one", name],
                                 check=True, capture_output=True, text=True)  # fmt: skip
            found.append(json.loads(out.stdout))
    medians = {
        name: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for name, found in runs.items()
    }
    for name, found in medians.items():
        print(name.ljust(5), "  ".join(f"{key} {value:.3g}" for key, value in found.items()))
    if program := os.environ.get("NEOSERVE_GUIDELLM"):
        theirs = guidellm(program, os.environ["NEOSERVE_VLLM_MODEL"])
        print("guidellm", "  ".join(f"{key} {value:.3g}" for key, value in theirs.items()))
    ratio = medians["ours"]["cpu_us_per_chunk"] / medians["peer"]["cpu_us_per_chunk"]
    print(f"CPU per chunk, ours over peer: {ratio:.2f} (bar: 0.40)")


if __name__ == "__main__":
    main()
