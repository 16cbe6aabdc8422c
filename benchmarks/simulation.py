"""The simulation's speed, as ratios in one run. `make bench-simulation`.

many      10,000 requests on one core, a step model of Llama-3.1-8B on one H100
default   one simulated prediction of the default size, everything included, and one of 100
loops     the same workload by the simulation, by its scheduler's rules one step at a time (the same
          data structures, without sums and loop), by the plain reference of the tests,
          and by Vidur's simulator, where NEOSERVE_VIDUR names a checkout of it (MIT) whose
          requirements are installed: with a step time that costs it nothing. Times of completion
          are compared, too.
spread    of the percentiles over ten seeds, by the number of requests

Seconds are of the processor, so that a busy machine changes little.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from neoserve.catalog.models import find_model
from neoserve.faces.ask import answer_predict, ask_for, machine_of
from neoserve.faces.simulate import drawer
from neoserve.predict.memo import Memo
from neoserve.predict.predictor import outcome, share_of
from neoserve.predict.simulated import Setting, Simulation
from neoserve.predict.simulation.policy import vllm_v1
from neoserve.predict.simulation.replica import Replica
from neoserve.predict.simulation.requests import Requests
from neoserve.schema.ask import PredictAsk
from neoserve.schema.engine import Deployment
from neoserve.schema.workload import Workload

ROOT = Path(__file__).resolve().parent.parent
ASK = PredictAsk(
    model="meta-llama/Llama-3.1-8B", on="H100-SXM", deployment=Deployment(max_model_len=8192),
    workload=Workload(arrival="poisson", rate_rps=10.0, prompt_tokens=1000, output_tokens=200),
    simulate=True, online=False,
)  # fmt: skip
POLICY = vllm_v1(8192, 256)


class Line:
    """A step time that costs nothing, so that loops are compared and not step models."""

    bends = ()

    def step_s(self, prompt: float, _seen: float, num: float, context: float) -> float:
        return 2e-3 + num * (1e-5 + 2e-8 * context) + 2e-5 * prompt


class Stepwise(Replica):
    """The same replica, one step at a time."""

    def _run_simply(self) -> None:
        """Not at all."""

    def _decode_steps(self, at_most: int | None) -> None:  # noqa: ARG002
        super()._decode_steps(at_most=1)

    def _alike(self, *_: Any) -> int:
        return 1


def seconds(work: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """The least of some runs, and what the last one gave."""
    least, found = float("inf"), None
    for _ in range(times):
        start = time.process_time()
        found = work()
        least = min(least, time.process_time() - start)
    return least, found


def drawn(num: int, rate_rps: float, output: int, concurrency: int = 0) -> Requests:
    """Prompts of 1,000 tokens on average; Poisson arrivals, or a closed loop."""
    rng = random.Random(1)
    times = list(itertools.accumulate(rng.expovariate(rate_rps or 1.0) for _ in range(num)))
    return Requests(
        times if rate_rps else [0.0] * num, [rng.randint(500, 1500) for _ in range(num)],
        [rng.randint(output // 2, output + output // 2) for _ in range(num)], [0] * num,
        concurrency,
    )  # fmt: skip


def many() -> dict[str, Any]:
    """10,000 requests at three loads of one replica."""
    step = simulation(ASK.workload).setting.server.step
    found = {}
    for rate in (2.0, 10.0, 18.0):
        requests = drawn(10_000, rate, 200)
        took, ran = seconds(lambda r=requests: Replica(step, POLICY, r, 400_000.0).run(), 3)
        found[f"{rate:g} requests/s"] = {"seconds": took, "steps": ran.num_steps}
    return found


def simulation(workload: Workload, num: int = 400) -> Simulation:
    """What `predict` runs."""
    ask = ask_for(find_model(ASK.model, False), machine_of(ASK.on, ASK), ASK.deployment, ASK)
    found = outcome(replace(ask, workload=workload), Memo())
    assert found.run is not None
    assert found.fit is not None
    setting = Setting(found.run.server, found.deployment, found.fit.slots, 16, drawer(), num)
    assert share_of(found.run, found) == workload
    return Simulation(setting)


def default() -> dict[str, float]:
    """From a workload to percentiles, nothing remembered; and the whole `predict` around it."""
    found = {}
    for num in (400, 100):
        took, _ = seconds(lambda n=num: simulation(ASK.workload, n).run(ASK.workload), 9)
        bare, _ = seconds(lambda n=num: simulation(ASK.workload, n), 9)
        found[f"{num} requests, open, ms"] = 1e3 * (took - bare)
    plain = ASK.replace(simulate=False)
    found["predict without simulation, ms"] = 1e3 * seconds(lambda: answer_predict(plain), 9)[0]
    return found


LOADS = {
    "typical, open (4/s, 200 tokens)": (300, 4.0, 200, 0),
    "busy, open (30/s, 200 tokens)": (300, 30.0, 200, 0),
    "long answers, few at once (0.2/s, 4,000 tokens)": (60, 0.2, 4000, 0),
    "closed, 64 at once, 500 tokens": (300, 0.0, 500, 64),
    "answers of 8 tokens, open (30/s)": (300, 30.0, 8, 0),
}


def loops() -> dict[str, Any]:
    """The same requests by every loop."""
    sys.path.insert(0, str(ROOT / "tests" / "predict"))
    from simulation_reference import Reference

    found: dict[str, Any] = {}
    for name, load in LOADS.items():
        requests = drawn(*load)
        took, ran = seconds(lambda r=requests: Replica(Line(), POLICY, r).run(), 5)
        alone, steps = seconds(lambda r=requests: Stepwise(Line(), POLICY, r).run())
        plain, reference = seconds(lambda r=requests: Reference(Line(), POLICY, r).run())
        assert steps.num_steps == ran.num_steps == reference.steps
        error = max(abs(r.times_s[-1] / e - 1)
                    for r, e in zip(reference.all, ran.end_s, strict=True))  # fmt: skip
        found[name] = {
            "ms": 1e3 * took, "steps": ran.num_steps, "times_itself_stepwise": alone / took,
            "times_reference": plain / took, "largest_relative_difference": error,
        }  # fmt: skip
        if os.environ.get("NEOSERVE_VIDUR") and not load[3]:
            from simulation_rival import vidur

            theirs, ends_s = vidur(requests, Line(), Path(os.environ["NEOSERVE_VIDUR"]))
            ours_s = [e - d for e, d in zip(ran.end_s, requests.due_s, strict=True)]
            stays_s = [e - d for e, d in zip(ends_s, requests.due_s, strict=True)]
            found[name] |= {
                "times_vidur": theirs / took,
                "mean_stay_s": [statistics.mean(ours_s), statistics.mean(stays_s)],
            }
    return found


def spread() -> dict[str, Any]:
    """Standard deviation over mean of what ten seeds say, at half and at four fifths of the
    highest rate."""
    found = {}
    for rate, num in itertools.product((10.0, 16.0), (100, 400, 1600)):
        workload = ASK.workload.replace(rate_rps=rate)
        one = simulation(workload, num)
        ran = [one.run(workload.replace(seed=seed)).latency for seed in range(10)]
        found[f"{rate:g} requests/s, {num} requests"] = {
            f"{metric} {name}": statistics.stdev(values) / statistics.mean(values)
            for metric, name in itertools.product(("ttft_s", "tpot_s"), ("p50", "p95", "p99"))
            if (values := [getattr(getattr(latency, metric), name) for latency in ran])
        }
    return found


if __name__ == "__main__":
    parts = {"many": many, "default": default, "loops": loops, "spread": spread}
    chosen = sys.argv[1:] or list(parts)
    print(json.dumps({name: parts[name]() for name in chosen}, indent=2))
