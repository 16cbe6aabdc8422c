"""The planner's speed, as ratios and counts in one run. `make bench`.

cold    `neoserve predict` from the shell over `python -c pass`: medians of alternating runs
point   one library prediction of a new deployment, and of one that was asked about before
plan    10,240 candidates on one core
peer    AIConfigurator's search for one model on eight H200, and ours: where it is on the PATH
"""

from __future__ import annotations

import compileall
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from msgspec.structs import replace

import neoserve
from neoserve.catalog.models import find_model
from neoserve.faces.ask import answer_plan, ask_for, machine_of, scheme_model
from neoserve.predict.predictor import Ask, predict
from neoserve.schema.ask import PlanAsk, PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload

RUNS = 15
SHELL = [str(Path(sys.executable).with_name("neoserve")), "predict", "Qwen/Qwen3-32B", "--on",
         "H100-SXM", "--tp", "2", "--max-concurrency", "64", "--isl", "1000", "--json"]  # fmt: skip


def seconds(command: list[str]) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def cold() -> dict[str, float]:
    """Alternating, so that a busy moment hits both alike; compiled, as pip leaves a package."""
    compileall.compile_dir(Path(neoserve.__file__).parent, quiet=1)
    floor, ours = [], []
    for _ in range(RUNS):
        floor.append(seconds([sys.executable, "-c", "pass"]))
        ours.append(seconds(SHELL))
    floor_s, ours_s = statistics.median(floor), statistics.median(ours)
    return {"python_pass_s": floor_s, "predict_s": ours_s, "ratio": ours_s / floor_s}


def point() -> dict[str, float]:
    """One prediction in the library: of a deployment not seen before, of other loads of one."""
    request = PredictAsk(model="Qwen/Qwen3-32B", on="H100-SXM",
                         workload=Workload(concurrency=64, prompt_tokens=1000))  # fmt: skip
    model, machine = find_model(request.model), machine_of(request.on, request)
    ask = ask_for(model, machine, Deployment(tensor_parallel=2), request)
    first = [replace(ask, deployment=ask.deployment.replace(max_num_seqs=100 + i))
             for i in range(200)]  # fmt: skip
    again = [replace(ask, workload=ask.workload.replace(concurrency=1 + i)) for i in range(200)]
    predict(again[0])
    return {"first_s": _median_s(first), "same_deployment_s": _median_s(again)}


def _median_s(asks: list[Ask]) -> float:
    times = []
    for ask in asks:
        start = time.perf_counter()
        predict(ask)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def plan() -> dict[str, float]:
    """10,240 candidates: 5 machines x 4 TP x 4 weights x 2 KV x 2 eager x 2 caching x 4 x 4."""
    request = PlanAsk(
        model="Qwen/Qwen3-32B",
        on=("8xH100-SXM", "8xA100-SXM-80GB", "8xL40S", "8xH200-SXM", "8xMI300X"),
        workload=Workload(concurrency=64, prompt_tokens=1000, output_tokens=300),
        slo="ttft:mean<2s; tpot:mean<50ms",
        weight_quant=("checkpoint", "fp8", "w4a16", "w8a8"),
        tensor_parallel=(1, 2, 4, 8),
        kv_cache_dtype=("auto", "fp8"),
        enforce_eager=(False, True),
        enable_prefix_caching=(True, False),
        max_num_seqs=(64, 128, 256, 512),
        max_num_batched_tokens=(2048, 4096, 8192, 16384),
    )
    start = time.perf_counter()
    result = answer_plan(request)
    return {"plan_s": time.perf_counter() - start, "candidates": result.num_candidates}


def peer() -> dict[str, float]:
    """The same question to AIConfigurator (Apache-2.0), shell to shell."""
    program = shutil.which("aiconfigurator")
    if program is None:
        return {}
    theirs = seconds([
        program, "cli", "default", "--model-path", "Qwen/Qwen3-32B-FP8", "--total-gpus", "8",
        "--system", "h200_sxm", "--backend", "vllm", "--isl", "4000", "--osl", "500",
        "--ttft", "1000", "--tpot", "30",
    ])  # fmt: skip
    ours = seconds([
        SHELL[0], "plan", "Qwen/Qwen3-32B-FP8", "--on", "8xH200-SXM", "--isl", "4000",
        "--osl", "500", "--max-concurrency", "14", "--slo", "ttft:mean<1s; tpot:mean<30ms",
    ])  # fmt: skip
    return {"aiconfigurator_s": theirs, "neoserve_s": ours, "times_faster": theirs / ours}


if __name__ == "__main__":
    scheme_model(find_model("Qwen/Qwen3-32B"), "fp8")  # warm the catalog's files
    print(json.dumps({**cold(), **point(), **plan(), **peer()}, indent=2))
