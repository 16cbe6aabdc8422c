"""Our client beside others on one llama.cpp server under one load. `make bench-agreement`.

Loads alternate: ours, aiohttp + json, and `vllm bench serve` where NEOSERVE_VLLM_PYTHON names a
Python that has vLLM and NEOSERVE_VLLM_MODEL a folder with the tokenizer. All send constant
arrivals of 32 tokens in and 16 out; what each reports as TTFT and TPOT is compared with the spread
of our own repeats, the noise floor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from neoserve.measure.cores import host_cpus, split
from neoserve.measure.engine import llamacpp
from neoserve.measure.engine.running import Engine, start
from neoserve.measure.prompts import Prompts, fresh_salt
from neoserve.measure.trial import TrialAsk, prepare, run_trial
from neoserve.schema.workload import Workload
from neoserve.stats import quantile

WORKLOAD = Workload(arrival="constant", rate_rps=1.5, prompt_tokens=32, output_tokens=16)
_VLLM = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main; "
    "p = argparse.ArgumentParser(); add_cli_args(p); main(p.parse_args())"
)
Figures = dict[str, float]


def figures(ttft_s: list[float], tpot_s: list[float]) -> Figures:
    """Milliseconds."""
    return {
        f"{name} {label}": quantile(values, p) * 1e3
        for name, values in (("TTFT", ttft_s), ("TPOT", tpot_s))
        for label, p in (("p50", 0.5), ("p95", 0.95))
    }


def ours(engine: Engine, num: int) -> Figures:
    """A trial, as `neoserve bench` runs it."""
    ask = TrialAsk(workload=WORKLOAD, num_requests=num, num_warmup=2, ends_early=False)
    rows = [r for r in run_trial(engine, prepare(engine, ask)).rows
            if r.phase == "measured" and r.status == "ok"]  # fmt: skip
    return figures([r.ttft_s or 0.0 for r in rows], [r.tpot_s or 0.0 for r in rows])


def plain(engine: Engine, num: int) -> Figures:
    """aiohttp, the clock read at each line."""
    return asyncio.run(_plain(engine.url, num))


async def _plain(url: str, num: int) -> Figures:
    import aiohttp

    ttft_s: list[float] = []
    tpot_s: list[float] = []
    prompts = Prompts(WORKLOAD, fresh_salt())

    async def one(session: aiohttp.ClientSession, index: int, due_s: float) -> None:
        await asyncio.sleep(due_s - time.monotonic())
        body = {"prompt": prompts.text(index, WORKLOAD.prompt_tokens), "stream": True,
                "max_tokens": WORKLOAD.output_tokens, "ignore_eos": True, "temperature": 0,
                "stream_options": {"include_usage": True}}  # fmt: skip
        sent_s, stamps, tokens = time.monotonic(), [], 0
        async with session.post(f"{url}/v1/completions", json=body) as response:
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if event.get("usage"):
                    tokens = event["usage"]["completion_tokens"]
                if event["choices"] and event["choices"][0]["text"]:
                    stamps.append(time.monotonic())
        ttft_s.append(stamps[0] - sent_s)
        tpot_s.append((stamps[-1] - stamps[0]) / (tokens - 1))

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        start_s = time.monotonic() + 0.2
        await asyncio.gather(
            *(one(session, i, start_s + i / WORKLOAD.rate_rps) for i in range(num))
        )
    return figures(ttft_s, tpot_s)


def vllm_bench(engine: Engine, num: int) -> Figures:
    """`vllm bench serve`, by its module: the command needs a distribution called vllm."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            os.environ["NEOSERVE_VLLM_PYTHON"], "-c", _VLLM, "--backend", "openai",
            "--base-url", engine.url, "--endpoint", "/v1/completions", "--model", engine.model,
            "--tokenizer", os.environ["NEOSERVE_VLLM_MODEL"], "--dataset-name", "random",
            "--random-input-len", str(WORKLOAD.prompt_tokens),
            "--random-output-len", str(WORKLOAD.output_tokens), "--num-prompts", str(num),
            "--request-rate", str(WORKLOAD.rate_rps), "--burstiness", "1000000", "--ignore-eos",
            "--seed", str(time.monotonic_ns() % 10**6), "--save-result", "--save-detailed",
            "--result-dir", folder, "--result-filename", "r.json",
        ]  # fmt: skip
        env = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        subprocess.run(command, check=True, capture_output=True, env=env)
        found = json.loads((Path(folder) / "r.json").read_text())
    pairs = zip(found["itls"], found["output_lens"], strict=True)
    tpot_s = [sum(gaps) / (num - 1) for gaps, num in pairs if num > 1]
    return figures(found["ttfts"], tpot_s)


def main() -> None:
    """Alternate; print medians of each client and the spread of ours."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=40)
    asked = parser.parse_args()
    clients: dict[str, Callable[[Engine, int], Figures]] = {"ours": ours, "aiohttp": plain}
    if "NEOSERVE_VLLM_PYTHON" in os.environ:
        clients["vllm bench serve"] = vllm_bench
    found: dict[str, list[Figures]] = {name: [] for name in clients}
    config = llamacpp.config(
        llamacpp.demo_model_path(), threads=1, parallel=4, context_tokens=512
    )
    cores = split(host_cpus(), 1)
    with (
        tempfile.TemporaryDirectory() as folder,
        start(config, Path(folder) / "engine.log", cpus=cores.engine_cpus) as engine,
    ):
        for _ in range(asked.rounds):
            for name, load in clients.items():
                found[name].append(load(engine, asked.requests))
    print(f"{'':18}" + "".join(f"{key + ', ms':>16}" for key in found["ours"][0]))
    for name, runs in found.items():
        medians = [statistics.median(run[key] for run in runs) for key in runs[0]]
        print(f"{name:18}" + "".join(f"{value:16.1f}" for value in medians))
    spreads = [max(run[key] for run in found["ours"]) - min(run[key] for run in found["ours"])
               for key in found["ours"][0]]  # fmt: skip
    print(f"{'our spread':18}" + "".join(f"{value:16.1f}" for value in spreads))


if __name__ == "__main__":
    main()
