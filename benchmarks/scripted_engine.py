"""An engine whose latency law is known, so that what a search picks can be held against the truth.

A world is drawn from its seed: what each knob does, which points crash, whether the coarse
precision spoils answers. The engine batches continuously: a step gives each request in a slot a
token and takes in prompt tokens up to a budget. A seed draws other worlds, never other rules.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterator
from typing import NamedTuple

from neoserve.schema.quality import QualityCheck
from neoserve.schema.space import Candidate, Knob, Space
from neoserve.schema.workload import Slo, Workload

SLO = Slo.parse_text("ttft:p95<700ms; tpot:p95<130ms")
WORKLOAD = Workload(
    arrival="poisson", rate_rps=1.0, prompt_tokens=192, prompt_tokens_cv=0.4, output_tokens=16,
    output_tokens_cv=0.4,
)  # fmt: skip
KNOBS = (
    Knob("threads", ("8", "12", "16"), "16", flag="--threads"),
    Knob("slots", ("3", "6", "8"), "3", flag="--max-num-seqs"),
    Knob("batched_tokens", ("512", "2048"), "512", flag="--max-num-batched-tokens"),
    Knob("allocator", ("malloc", "tcmalloc"), "malloc", env="LD_PRELOAD"),
    Knob("kv", ("small", "large"), "small", flag="--kv-space"),
    Knob("precision", ("bf16", "int8"), "bf16", flag="--dtype", changes_output=True),
)
SPACE = Space(engine="scripted", device="cpu", model="scripted", knobs=KNOBS)
QUALITY_BUDGET = 0.04  # of perplexity
QUALITY_S = 60.0  # that a check takes

START_SD = 0.015  # of the speed of one server start beside another
DRIFT, DRIFT_PERIOD_S = 0.02, 3600.0
STEP_SD = 0.05  # of one step's time
STALL_EVERY_S, STALL_S = 400.0, (0.1, 0.5)
START_FAILS = 0.01  # of all starts, for no reason
_TOKENS = WORKLOAD.prompt_tokens + WORKLOAD.output_tokens


class Law(NamedTuple):
    """What a server does: the time of a step, and how much it takes in."""

    base_s: float  # of a step
    active_s: float  # more for each request that gets a token
    crowd_s: float  # more for the square of requests above `knee`
    knee: float
    prompt_token_s: float
    budget: int  # tokens of a step, those that decode included
    slots: int

    def decode_s(self, num: int) -> float:
        """A step without prompts."""
        over = max(0.0, num - self.knee)
        return self.base_s + self.active_s * num + self.crowd_s * over * over


def grid() -> tuple[Candidate, ...]:
    """Every point, the engine's defaults first; knobs at their default are left out."""
    points = itertools.product(*(knob.values for knob in KNOBS))
    found = [
        Candidate({k.name: v for k, v in zip(KNOBS, point, strict=True) if v != k.default})
        for point in points
    ]
    return tuple(sorted(found, key=lambda candidate: len(candidate.knobs) > 0))


def one_at_a_time() -> Iterator[Candidate]:
    """What tuning one knob after another would try from the defaults."""
    return (candidate for candidate in grid() if len(candidate.knobs) <= 1)


def settings(candidate: Candidate) -> dict[str, str]:
    """Every knob's value."""
    return {knob.name: candidate.knobs.get(knob.name, knob.default) for knob in KNOBS}


class Traits(NamedTuple):
    """What a world's seed draws. Factors are of time unless they say else."""

    bf16_s: float  # weights read once
    int8: float
    active_s: float
    knee: float
    crowd_s: float
    prompt_token_s: float  # on 8 threads
    scaling: float  # of prompts with threads, as an exponent
    decode_by_threads: dict[str, float]
    contended: float  # by the client, where every core has a thread
    malloc: float
    tcmalloc_all_cores: float
    int8_small_budget: float  # its kernel is made for long rows
    small_budget: float
    large_kv: float  # pages that are not huge; tcmalloc's are
    small_kv_requests: int
    int8_all_cores_crash: bool
    int8_spoils: bool


def traits(seed: int) -> Traits:
    """Those of one world."""
    rng = random.Random(f"world {seed}")
    draw = rng.uniform
    return Traits(
        bf16_s=draw(0.036, 0.046),
        int8=draw(0.70, 0.92),
        active_s=draw(0.003, 0.006),
        knee=draw(3, 6),
        crowd_s=draw(3e-4, 1e-3),
        prompt_token_s=draw(0.00035, 0.0005),
        scaling=draw(0.5, 0.9),
        decode_by_threads={"8": draw(1.0, 1.15), "12": 1.0, "16": draw(0.92, 1.08)},
        contended=draw(1.0, 1.12),
        malloc=draw(1.01, 1.10),
        tcmalloc_all_cores=draw(1.0, 1.08),
        int8_small_budget=draw(1.1, 1.5),
        small_budget=draw(1.0, 1.06),
        large_kv=draw(1.0, 1.08),
        small_kv_requests=rng.randint(3, 8),
        int8_all_cores_crash=rng.random() < 0.3,
        int8_spoils=rng.random() < 0.5,
    )


class World:
    """One engine on one host."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.traits = traits(seed)

    @functools.cache  # noqa: B019
    def law(self, candidate_id: str) -> Law:
        """Of a grid point, by its id; as if it started."""
        t, at = self.traits, settings(_BY_ID[candidate_id])
        threads, all_cores = int(at["threads"]), at["threads"] == "16"
        int8, small = at["precision"] == "int8", at["batched_tokens"] == "512"
        everything = t.contended if all_cores else 1.0
        if at["allocator"] == "malloc":
            everything *= 1 + (t.malloc - 1) * threads / 12
            everything *= t.large_kv if at["kv"] == "large" else 1.0
        elif all_cores:
            everything *= t.tcmalloc_all_cores
        kernel = (t.int8 * (t.int8_small_budget if small else 1.0)) if int8 else 1.0
        prompt = (8 / threads) ** t.scaling * (t.small_budget if small else 1.0)
        fits = t.small_kv_requests * (2 if int8 else 1) if at["kv"] == "small" else 128
        return Law(
            base_s=t.bf16_s * t.decode_by_threads[at["threads"]] * kernel * everything,
            active_s=t.active_s * everything,
            crowd_s=t.crowd_s * everything,
            knee=t.knee,
            prompt_token_s=t.prompt_token_s * prompt * math.sqrt(kernel) * everything,
            budget=int(at["batched_tokens"]),
            slots=min(int(at["slots"]), fits),
        )

    def crash(self, candidate: Candidate, visit: int | None = None, number: int = 0) -> str:
        """Why a start fails; "" where it does not. Without a visit: by nature, not by chance.

        `number` tells starts of one visit apart.
        """
        at = settings(candidate)
        if (at["slots"], at["kv"], at["precision"]) == ("8", "large", "bf16"):
            return "out of memory: 8 sequences and the KV cache need 71.3 GB of 64.0 GB"
        if self.traits.int8_all_cores_crash and (at["threads"], at["precision"]) == ("16", "int8"):
            return "assertion failed: int8 kernel was built for at most 12 threads"
        if visit is None:
            return ""
        if self._rng(f"start {number}", candidate, visit).random() < START_FAILS:
            return "the port was taken while the server started"
        return ""

    def start_s(self, candidate: Candidate, visit: int) -> float:
        """How long a start takes."""
        return self._rng("start time", candidate, visit).uniform(20, 60)

    def speed(self, candidate: Candidate, visit: int) -> float:
        """Of one started server: a factor of every time."""
        return self._rng("speed", candidate, visit).lognormvariate(0.0, START_SD)

    def drift(self, now_s: float) -> float:
        """Of the host: a factor of every time."""
        phase = 2 * math.pi * random.Random(f"drift {self.seed}").random()
        return 1 + DRIFT * math.sin(2 * math.pi * now_s / DRIFT_PERIOD_S + phase)

    def keeps_quality(self, candidate: Candidate) -> bool:
        """Are its answers as good as the budget asks?"""
        return not (settings(candidate)["precision"] == "int8" and self.traits.int8_spoils)

    def quality(self, candidate: Candidate) -> QualityCheck:
        """What a check finds."""
        change = 0.01 if settings(candidate)["precision"] == "int8" else 0.0
        change = change if self.keeps_quality(candidate) else 0.09
        verdict = "PASS" if change < QUALITY_BUDGET else "FAIL"
        return QualityCheck(
            baseline="sha256:" + "0" * 64, candidate="sha256:" + candidate.id * 8,
            change_share=change, low=change - 0.01, high=change + 0.01, level=0.95,
            budget_share=QUALITY_BUDGET, verdict=verdict,
            reason=f"word perplexity is {change:.0%} worse, of which {QUALITY_BUDGET:.0%} may be",
        )  # fmt: skip

    def _rng(self, what: str, candidate: Candidate, visit: int) -> random.Random:
        return random.Random(f"{what} {self.seed} {candidate.id} {visit}")


_BY_ID = {candidate.id: candidate for candidate in grid()}
