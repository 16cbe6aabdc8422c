"""The search against others on engines whose truth is known. `python benchmarks/tuning.py`

    python benchmarks/tuning.py [--seeds 50] [--rivals 4] [--jobs 2] [--json FILE] [--docs]
    python benchmarks/tuning.py --show FILE [--docs]     the table of a run before

search       neoserve.tune.halving, as `neoserve tune` runs it
full grid    every point's limit by 400-request trials, and the pick's certificate
random       so many points at random, each evaluated as in the full grid, until the pick is as good
mean         the full grid, by mean TTFT and TPOT against the limits of the 95 % quantiles
no repeats   the full grid, by one look of 40 or 150 requests at each rate

The truth is a long load of the average server (scripted_truth.py). Regret is the share of the best
point's true capacity that the pick lacks. A claim is broken where the rate that is claimed is above
the pick's true capacity; engine time is counted in the engine's own seconds.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path
from statistics import fmean, median

import msgspec
from scripted_engine import KNOBS, World, grid
from scripted_load import play
from scripted_truth import Truth
from tuning_rivals import (
    FULL,
    START_RPS,
    Point,
    by_mean,
    by_quantile,
    by_verdict,
    certified_rps,
    evaluate_grid,
)

from neoserve.schema.campaign import SearchPlan, Told
from neoserve.schema.space import Candidate
from neoserve.tune.conclude import conclude
from neoserve.tune.halving import next_job

DOC = Path(__file__).resolve().parent.parent / "docs" / "tuning.md"
BEGIN, END = "<!-- generated: scripted -->\n", "<!-- end generated -->"
CLOSE = 0.97  # of the best: as good
ADVISED = ({"allocator": "tcmalloc"}, {"threads": "12"}, {"batched_tokens": "2048"})


class Outcome(msgspec.Struct):
    """What one way chose in one world."""

    way: str
    capacity_rps: float  # true, of the pick
    claimed_rps: float | None  # null: it claims none
    spent_s: float


class Result(msgspec.Struct):
    """One world."""

    seed: int
    best_rps: float
    default_rps: float
    outcomes: list[Outcome]
    random: list[tuple[float, float]]  # after so many points: expected capacity, engine time


def plan_for(seed: int) -> SearchPlan:
    """As a campaign would list them: the defaults, what is advised, all others mixed."""
    defaults, *rest = grid()
    advised = [Candidate(knobs, "known-good") for knobs in ADVISED]
    ids = {candidate.id for candidate in advised}
    others = [candidate for candidate in rest if candidate.id not in ids]
    random.Random(f"order {seed}").shuffle(others)
    candidates = (defaults.replace(origin="default"), *advised, *others)
    guarded = [i for i, candidate in enumerate(candidates) if changes_output(candidate)]
    return SearchPlan(candidates=candidates, guarded=tuple(guarded), start_rps=START_RPS,
                      seed=seed, num_certify=800)  # fmt: skip


def changes_output(candidate: Candidate) -> bool:
    """May its answers differ from the baseline's?"""
    return any(knob.changes_output and knob.name in candidate.knobs for knob in KNOBS)


def tune(world: World, plan: SearchPlan) -> list[Told]:
    """Every job of a search, as it was told."""
    told: list[Told] = []
    while (job := next_job(plan, told)) is not None:
        told.append(Told(job, play(world, plan.candidates, told, job)))
    return told


def searched(world: World, truth: Truth, plan: SearchPlan) -> Outcome:
    """The search's pick and certificate."""
    told = tune(world, plan)
    found = conclude(plan, told)
    pick = found.standings[found.pick]
    return Outcome(
        "search",
        truth.capacity_rps(pick.candidate),
        pick.capacity.certified_rps,
        math.fsum(t.seen.spent_s for t in told),
    )


def from_grid(way: str, truth: Truth, points: Sequence[Point]) -> Outcome:
    """The point that looks best; what it looked like holding is the claim."""
    at = max(range(len(points)), key=lambda i: points[i].found_rps)
    spent_s = math.fsum(p.spent_s for p in points)
    return Outcome(way, truth.capacity_rps(grid()[at]), points[at].found_rps, spent_s)


def certified(world: World, truth: Truth, points: Sequence[Point]) -> Outcome:
    """The full grid, its pick certified as the search certifies."""
    outcome = from_grid("full grid", truth, points)
    at = max(range(len(points)), key=lambda i: points[i].found_rps)
    claimed, spent_s = certified_rps(world, grid()[at], points[at].found_rps, outcome.spent_s)
    outcome.claimed_rps, outcome.spent_s = claimed, outcome.spent_s + spent_s
    return outcome


def random_search(truth: Truth, points: Sequence[Point]) -> list[tuple[float, float]]:
    """For each budget in points: the expected true capacity of the pick, and the engine time.

    Of k out of n at random the j-th best is the best with chance C(n - j, k - 1) / C(n, k).
    """
    ranked = sorted(range(len(points)), key=lambda i: -points[i].found_rps)
    n, each_s = len(points), fmean(p.spent_s for p in points)
    candidates = grid()
    good = [candidates[i] for i in ranked]
    # far from the best a short simulation is near enough
    near = 0.85 * truth.best_rps
    capacities = [truth.capacity_rps(c) if truth.roughly_rps(c) > near else truth.roughly_rps(c)
                  for c in good]  # fmt: skip
    curve = []
    for k in range(1, n + 1):
        chances = [math.comb(n - j, k - 1) / math.comb(n, k) for j in range(1, n + 1)]
        expected = math.fsum(p * c for p, c in zip(chances, capacities, strict=True))
        curve.append((expected, k * each_s))
    return curve


def one_world(seed: int, with_rivals: bool = True) -> Result:
    """All ways in one world, or the search alone."""
    world, plan = World(seed), plan_for(seed)
    truth = Truth(world)
    outcomes = [searched(world, truth, plan)]
    if not with_rivals:
        return Result(seed, truth.best_rps, truth.capacity_rps(grid()[0]), outcomes, [])
    full = evaluate_grid(world, by_verdict, FULL)
    outcomes.append(certified(world, truth, full))
    outcomes.append(from_grid("mean", truth, evaluate_grid(world, by_mean, FULL)))
    for num in (150, 40):
        points = evaluate_grid(world, by_quantile, num)
        outcomes.append(from_grid(f"no repeats, {num}", truth, points))
    default_rps = truth.capacity_rps(grid()[0])
    return Result(seed, truth.best_rps, default_rps, outcomes, random_search(truth, full))


def table(results: Sequence[Result]) -> str:
    """Markdown."""
    both = [r for r in results if r.random]
    ways = [outcome.way for outcome in both[0].outcomes]
    grid_s = fmean(_of(r, "full grid").spent_s for r in both)
    regret = fmean(1 - _of(r, "search").capacity_rps / r.best_rps for r in both)
    num_points, random_s = _equal_random(both, regret)
    lines = [
        "| way | worlds | pick within 3 % of the best | median regret | worst | claims a rate "
        "| claim is broken | engine time | of the full grid | of random search |",
        "|---|" + "--:|" * 9,
    ]
    for way in ways:
        here = [r for r in results if any(o.way == way for o in r.outcomes)]
        found = [_of(result, way) for result in here]
        lacks = [1 - o.capacity_rps / r.best_rps for o, r in zip(found, here, strict=True)]
        claims = [o for o in found if o.claimed_rps is not None]
        broken = [o for o in claims if (o.claimed_rps or 0.0) > o.capacity_rps]
        spent_s = fmean(_of(r, way).spent_s for r in both)
        share = f"{len(broken) / len(claims):.0%}" if claims else "–"
        lines.append(
            f"| {way} | {len(here)} | {fmean(lack <= 1 - CLOSE for lack in lacks):.0%} "
            f"| {max(0.0, median(lacks)):.1%} | {max(lacks):.1%} "
            f"| {len(claims) / len(found):.0%} | {share} | {spent_s / 3600:.1f} h "
            f"| {spent_s / grid_s:.0%} | {spent_s / random_s:.0%} |"
        )
    gain = median(r.best_rps / r.default_rps for r in results)
    return "\n".join(lines) + (
        f"\n\n{len(results)} worlds of {len(grid())} points; the best holds a median of "
        f"{gain:.2f} times what the defaults do. Random search is as good as the search on "
        f"average, {regret:.1%} below the best, after {num_points} points.\n"
    )


def _of(result: Result, way: str) -> Outcome:
    return next(outcome for outcome in result.outcomes if outcome.way == way)


def _equal_random(results: Sequence[Result], regret: float) -> tuple[int, float]:
    """The fewest points whose pick is as good on average, and their mean engine time."""
    for k in range(len(results[0].random)):
        lacks = fmean(1 - r.random[k][0] / r.best_rps for r in results)
        if lacks <= regret:
            break
    return k + 1, fmean(r.random[k][1] for r in results)


def write_docs(text: str) -> None:
    """Between the markers of docs/tuning.md."""
    before, rest = DOC.read_text().split(BEGIN, 1)
    DOC.write_text(before + BEGIN + text + END + rest.split(END, 1)[1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--rivals", type=int, default=4, help="worlds that all ways are run in")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="keep what was found, after each world")
    parser.add_argument("--show", type=Path)
    parser.add_argument("--docs", action="store_true", help="write it into docs/tuning.md")
    asked = parser.parse_args()
    if asked.show:
        results = msgspec.json.decode(asked.show.read_bytes(), type=list[Result])
    else:
        seeds = range(asked.first, asked.first + asked.seeds)
        results = run(seeds, asked.jobs, asked.rivals, asked.json)
    text = table(results)
    print(text)
    if asked.docs:
        write_docs(text)


def run(
    seeds: Sequence[int], jobs: int, num_rivals: int, keep: Path | None = None
) -> list[Result]:
    """Every world, by so many processes; the first ones by all ways."""
    asks = [(seed, i < num_rivals) for i, seed in enumerate(seeds)]
    results = []
    with Pool(jobs) as pool:
        for result in pool.imap(_one, asks):
            results.append(result)
            print(f"world {result.seed}", file=sys.stderr)
            if keep:
                keep.write_bytes(msgspec.json.encode(results))
    return results


def _one(ask: tuple[int, bool]) -> Result:
    return one_world(*ask)


if __name__ == "__main__":
    main()
