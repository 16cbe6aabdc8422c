"""How often verdicts are wrong, how often they are right, and what they cost. By simulation.

    python benchmarks/certification.py [--trials 2000] [--json FILE]
    python benchmarks/certification.py --show FILE      the tables of a run before, as Markdown

independent  requests that miss by themselves with exactly the share that is claimed
dependent    queues in steady state whose limit is the exact 95 % quantile of their waiting, so
             that 5 % miss, but in clusters
sizes        requests until a decision, for ways to spend the level, against one fixed-size test
saturation   alarms on stable and on overloaded queues, looked at after every 15th request
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from neoserve.measure.backlog import backlog
from neoserve.measure.verdict import LEVEL, Watch
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo, Target
from neoserve.stats import SequentialShare, binomial_cdf

SHARE = 0.05
Draw = Callable[[np.random.Generator, int], np.ndarray]  # latencies of so many requests in a row


def independent(rng: np.random.Generator, num: int) -> np.ndarray:
    """Latencies that know nothing of each other."""
    return rng.random(num)


def queue(kind: str, utilisation: float) -> Draw:
    """Sojourn in M/M/1 or M/D/1 with a mean service of 1, long after its start."""

    def draw(rng: np.random.Generator, num: int) -> np.ndarray:
        burn = int(30 / (1 - utilisation) ** 2)
        gaps = rng.exponential(1 / utilisation, num + burn)
        service = np.ones(num + burn) if kind == "M/D/1" else rng.exponential(1, num + burn)
        walk = np.concatenate(([0.0], np.cumsum(service[:-1] - gaps[1:])))
        return (walk - np.minimum.accumulate(walk) + service)[burn:]  # Lindley

    return draw


def batch_server(utilisation: float, slots: int = 16, tokens: int = 64) -> Draw:
    """TTFT of a continuous-batching engine: a step makes a token for each request in a slot.

    A step takes 20 ms and 1 ms more a request, and 30 ms for each prefill it takes in.
    """
    capacity_rps = slots / (tokens * (0.020 + 0.001 * slots) + slots * 0.030)

    def draw(rng: np.random.Generator, num: int) -> np.ndarray:
        burn = 300
        due = np.cumsum(rng.exponential(1 / (utilisation * capacity_rps), num + burn)).tolist()
        length = (1 + rng.poisson(tokens - 1, num + burn)).tolist()
        ttft, left, now, next_due = [], [], 0.0, 0
        while len(ttft) < num + burn:
            if not left and due[next_due] > now:
                now = due[next_due]
            taken = []
            while next_due < len(due) and due[next_due] <= now and len(left) + len(taken) < slots:
                taken.append(next_due)
                next_due += 1
            now += 0.020 + 0.001 * (len(left) + len(taken)) + 0.030 * len(taken)
            ttft += [now - due[i] for i in taken]
            left = [n - 1 for n in left if n > 1] + [length[i] - 1 for i in taken if length[i] > 1]
        return np.array(ttft[burn:])

    return draw


SOURCES: dict[str, Draw] = {
    "independent": independent,
    **{f"M/M/1 at {u:.0%}": queue("M/M/1", u) for u in (0.3, 0.5, 0.7, 0.9)},
    **{f"M/D/1 at {u:.0%}": queue("M/D/1", u) for u in (0.3, 0.5, 0.7, 0.9)},
    **{f"16 slots at {u:.0%}": batch_server(u) for u in (0.6, 0.8, 0.9)},
}


def fixed_size_passes(values: list[float], limit_s: float) -> bool:
    """The exact binomial test of all requests at the end, taken for independent."""
    return binomial_cdf(sum(v >= limit_s for v in values), len(values), SHARE) <= LEVEL


def watched(values: list[float], limit_s: float) -> tuple[str, int]:
    """Our verdict, and after how many requests."""
    slo = Slo((Target(metric="ttft", statistic="p95", limit=limit_s),))
    watch, readings = Watch(slo, len(values)), []
    for num in range(0, len(values), 5):
        readings += [(value, True) for value in values[num : num + 5]]
        if (verdict := watch.verdict({"ttft": readings})) is not None:
            return verdict, len(readings)
    return "INCONCLUSIVE", len(values)


def verdicts(name: str, draw: Draw, true: float, planned: int, num_trials: int) -> dict[str, Any]:
    """One row of a table: shares of verdicts where `true` of all requests miss."""
    rng = np.random.default_rng(20261130)
    long_run = draw(rng, 100_000 if "slots" in name else 2_000_000)
    limit_s = 1 - true if draw is independent else float(np.quantile(long_run, 1 - true))
    trials = [draw(rng, planned).tolist() for _ in range(num_trials)]
    ours = [watched(values, limit_s) for values in trials]
    found = Counter(verdict for verdict, _ in ours)
    return {
        "source": name,
        "true_share": true,
        "planned": planned,
        "trials": num_trials,
        "fixed_pass": sum(fixed_size_passes(v, limit_s) for v in trials) / num_trials,
        "pass": found["PASS"] / num_trials,
        "fail": found["FAIL"] / num_trials,
        "median_requests": median(num for _, num in ours),
    }


SPENDING: dict[str, Callable[[float], float]] = {
    "O'Brien-Fleming": lambda t: math.erfc(1.96 / math.sqrt(2 * t)) / LEVEL,
    "even": lambda t: t,
    "Pocock": lambda t: math.log(1 + (math.e - 1) * t),
    "square root": math.sqrt,
    "fifth root": lambda t: t**0.2,
    "square": lambda t: t * t,
}


def sizes(name: str, planned: int, true: float) -> dict[str, Any]:
    """Expected requests until a decision, and the chances of each, by exact recursion."""
    test = SequentialShare(SHARE, LEVEL, planned, SPENDING[name])
    alive, expected, passed, failed = np.zeros(planned + 2), 0.0, 0.0, 0.0
    alive[0] = 1.0
    for n in range(1, planned + 1):
        expected += alive.sum()
        alive = alive * (1 - true) + np.concatenate(([0.0], alive[:-1])) * true
        low, high = test.pass_bound(n) + 1, test.fail_bound(n)
        passed, failed = passed + alive[:low].sum(), failed + alive[high:].sum()
        alive[:low] = alive[high:] = 0.0
    return {"spending": name, "planned": planned, "true_share": true,
            "expected_requests": expected, "pass": passed, "fail": failed}  # fmt: skip


def alarms(utilisation: float, slots: int, num: int, num_trials: int) -> dict[str, Any]:
    """Share of trials that any look finds saturated."""
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(num_trials):
        due = np.cumsum(rng.exponential(1 / utilisation / slots, num + 20)).tolist()
        free, rows = [0.0] * slots, []
        for i, due_s in enumerate(due):
            slot = min(range(slots), key=free.__getitem__)
            free[slot] = max(free[slot], due_s) + rng.exponential()
            phase = "measured" if i >= 20 else "warmup"
            rows.append(RequestRow(due_s=due_s, sent_s=due_s, last_token_s=free[slot], phase=phase))
        found += any(_saturated_at(rows, k) for k in range(50, num + 21, 15))
    return {"utilisation": utilisation, "slots": slots, "requests": num, "trials": num_trials,
            "alarms": found / num_trials}  # fmt: skip


def _saturated_at(rows: list[RequestRow], num: int) -> bool:
    now_s = rows[num - 1].due_s
    known = [
        row.replace(last_token_s=None) if (row.last_token_s or 0.0) > now_s else row
        for row in rows[:num]
    ]
    return backlog(known, now_s).is_saturated


def tables(num_trials: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of every table, as it is made."""
    for planned, shares in ((200, (0.05, 0.01, 0.02, 0.03)), (1000, (0.05, 0.02))):
        for name, draw in SOURCES.items():
            for true in shares:
                # a wrong PASS is what has to be known best; long trials cost more time
                some = num_trials if true == SHARE and planned == 200 else num_trials // 10
                yield "verdicts", verdicts(name, draw, true, planned, some)
    for planned in (200, 1000):
        for name in SPENDING:
            for true in (0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.10, 0.15):
                yield "sizes", sizes(name, planned, true)
    for utilisation, slots, num in ((0.7, 1, 300), (0.7, 8, 300), (0.9, 1, 300), (0.9, 8, 300),
                                    (1.1, 1, 150), (1.3, 1, 150), (1.3, 8, 150)):  # fmt: skip
        yield "saturation", alarms(utilisation, slots, num, num_trials // 4)


def pivot(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Expected sizes with a column for each true share."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        key = (row["planned"], row["spending"])
        line = found.setdefault(key, {"planned": key[0], "spending": key[1]})
        decided = row["pass"] if row["true_share"] < SHARE else row["fail"]
        line[f"{row['true_share']:.0%} miss"] = f"{row['expected_requests']:.0f} ({decided:.0%})"
    return list(found.values())


def markdown(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One table."""
    yield "| " + " | ".join(name.replace("_", " ") for name in rows[0]) + " |"
    yield "|---" * len(rows[0]) + "|"
    for row in rows:
        yield "| " + " | ".join(_shown(name, value) for name, value in row.items()) + " |"


def _shown(name: str, value: Any) -> str:
    if name in ("true_share", "fixed_pass", "pass", "fail", "utilisation", "alarms"):
        return f"{100 * value:.1f} %"
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def main() -> None:
    """Print each row as it is made; write all of them as JSON, or show what was written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--show", type=Path)
    asked = parser.parse_args()
    if asked.show:
        for name, kept in json.loads(asked.show.read_text()).items():
            rows_shown = pivot(kept) if name == "sizes" else kept
            print(f"\n### {name.capitalize()}\n", *markdown(rows_shown), sep="\n")
        return
    rows: dict[str, list[dict[str, Any]]] = {}
    for table, row in tables(asked.trials):
        rows.setdefault(table, []).append(row)
        shown = (f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items())
        print(f"{table:11}", *shown, flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
