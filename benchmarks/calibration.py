"""Calibrate this CPU, then predict what was not measured, and measure it.

    python benchmarks/calibration.py [--out DIR] [--engines llama.cpp,vllm] [--short]

llama.cpp serves the embedded SmolLM2 in two weight formats while it is calibrated, and in a third
afterwards; vLLM (where NEOSERVE_VLLM_PYTHON and NEOSERVE_VLLM_MODEL are set) the same model in
bf16. Everything is kept: the profiles, every load's rows in a verified ledger, the table. About
twenty minutes on two cores, which nothing else should use.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from neoserve.catalog.coefficients import calibrated
from neoserve.catalog.models import find_model
from neoserve.evidence.run import Run
from neoserve.evidence.verify import verify_run
from neoserve.faces.bench import public_words, started_config
from neoserve.faces.calibrate import CalibrateAsk, serving
from neoserve.faces.calibrate import run as calibrate
from neoserve.faces.calibrate_tables import show_calibrated
from neoserve.faces.demo import variants
from neoserve.faces.simulate import drawer
from neoserve.measure.engine.llamacpp import demo_model_path
from neoserve.measure.figures import recompute
from neoserve.measure.host import host_print
from neoserve.measure.trial import TrialAsk
from neoserve.predict.predictor import predict
from neoserve.schema.profile import DeviceProfile
from neoserve.schema.workload import Slo, Workload
from neoserve.stats import mean
from neoserve.tune.calibration.loads import OUTPUT_CV, figures, num_requests
from neoserve.tune.calibration.subject import Subject, subject_of
from neoserve.tune.session import Session

BARS = {"tpot": 0.08, "ttft unloaded": 0.10, "max rate": 0.12}
TTFT_OVER_UNLOADED = 3.0  # the SLO of a highest rate, in unloaded TTFTs as they were measured
NUM_OPEN = {"llama.cpp": 70, "vllm": 45}  # requests of an open load
WARM_UP = 7  # a tenth, as the simulation has them
NUM_PROBES = 3  # loads of a highest rate, at least
BUDGET_SHARE = {"llama.cpp": 1.0, "vllm": 0.72}
AGAIN = 2  # how often the first load of a server is measured
SLOTS, CONTEXT = 4, 1024
# Warnings of its end would put paths of this machine into a log that is kept.
VLLM_ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "PYTHONWARNINGS": "ignore"}


class Held(NamedTuple):
    """Loads of one model that the calibration has not seen."""

    model: str
    name: str
    closed: tuple[tuple[int, int, int], ...]  # prompt, answer, in flight
    rates: tuple[tuple[int, int], ...] = ()  # prompt, answer of a highest rate


class Row(NamedTuple):
    """One figure: predicted without and with the profile, and measured."""

    engine: str
    model: str
    load: str
    figure: str  # tpot, ttft unloaded, ttft loaded, max rate
    before: float
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Signed, of the measured."""
        return self.predicted / self.measured - 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--models", type=Path, default=Path("runs/models"))
    parser.add_argument("--engines", default="llama.cpp,vllm")
    parser.add_argument("--budget", type=float, default=220.0, help="seconds of calibration")
    parser.add_argument("--short", action="store_true", help="a few loads, to see that it runs")
    parser.add_argument("--no-rates", action="store_true", help="no highest rates")
    args = parser.parse_args()
    rows: list[Row] = []
    noise: dict[str, dict[str, float]] = {}
    for engine in args.engines.split(","):
        if engine == "vllm" and not os.environ.get("NEOSERVE_VLLM_PYTHON"):
            note("vLLM is left out: NEOSERVE_VLLM_PYTHON is not set")
            continue
        found, floor = experiment(engine, args)
        rows += found
        noise[engine] = floor
        text = show(rows, noise)
        (args.out / "table.md").write_text(text + "\n", encoding="utf-8")
        kept = {"rows": [row._asdict() | {"error": row.error} for row in rows], "noise": noise,
                "bars": BARS, "means": means(rows)}  # fmt: skip
        (args.out / "table.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(show(rows, noise))
    return 0


def note(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def experiment(engine: str, args: argparse.Namespace) -> tuple[list[Row], dict[str, float]]:
    """Calibrate, predict, measure. Rows, and the noise floor of each figure."""
    began_s = time.monotonic()
    if engine == "llama.cpp":
        made = variants(args.models, note)
        fitted: tuple[str, ...] = (str(demo_model_path()), made["q8_0"])
        words = ("--parallel", str(SLOTS))
        held = llama_held(made, args.short)
    else:
        model = os.environ["NEOSERVE_VLLM_MODEL"]
        fitted = (model,)
        words = ("--enforce-eager", "--max-model-len", str(CONTEXT), "--max-num-seqs", str(SLOTS),
                 "--max-num-batched-tokens", str(CONTEXT))  # fmt: skip
        held = vllm_held(model, args.short)
    env = {} if engine == "llama.cpp" else VLLM_ENV
    folder = args.out / engine
    found = calibrate(
        CalibrateAsk(models=fitted, engine=engine, engine_args=words, engine_env=env,
                     context_tokens=CONTEXT, budget_s=args.budget * BUDGET_SHARE[engine],
                     out=str(folder / "profile")),
        note,
    )  # fmt: skip
    profile = found.profile
    note("\n" + show_calibrated(profile, str(found.folder), found.head))
    record = Run.create(
        folder / "heldout", "heldout", argv=public_words(sys.argv), seed=0, host=host_print(),
        versions={"neoserve": importlib.metadata.version("neoserve"), engine: profile.version},
    )  # fmt: skip
    rows: list[Row] = []
    again: list[tuple[str, list[float]]] = []
    for one in (h._replace(rates=()) if args.no_rates else h for h in held):
        config = started_config(engine, one.model, words, env, CONTEXT)
        with serving(record, config, host_print(), note, keeps_log=False) as session:
            facts = session.engine.facts()
            assert facts is not None
            assert profile.hardware is not None
            plain = subject_of(find_model(one.model), profile.hardware, config, facts, drawer())
            sharp = msgspec.structs.replace(plain, known=calibrated(plain.known, profile))
            rows += closed_rows(session, one, engine, plain, sharp, again)
            rows += rate_rows(session, one, engine, plain, sharp)
    record.record("table", {"rows": [list(row) for row in rows]})
    verify_run(folder / "heldout", recompute=recompute)
    note(f"{engine}: done in {time.monotonic() - began_s:.0f} s")
    return rows, floor_of(profile, again)


def llama_held(made: dict[str, str], short: bool) -> list[Held]:
    """The fitted formats at other lengths and numbers in flight, and a format never fitted."""
    base = Held(str(demo_model_path()), "Q4_1 (fitted)",
                ((32, 24, 1), (80, 12, 1), (200, 8, 1), (24, 24, 2), (32, 12, 3), (24, 10, 4)),
                ((16, 6),))  # fmt: skip
    eight = Held(made["q8_0"], "Q8_0 (fitted)", ((32, 24, 1), (100, 8, 1), (32, 12, 3)))
    other = Held(made["q4_0"], "Q4_0 (unseen)", ((32, 24, 1), (100, 8, 1), (32, 12, 3)), ((20, 5),))
    return [base._replace(closed=base.closed[:1])] if short else [base, eight, other]


def vllm_held(model: str, short: bool) -> list[Held]:
    """Other lengths and numbers in flight."""
    base = Held(model, "bf16", ((32, 24, 1), (100, 12, 1), (160, 8, 1), (24, 24, 2), (32, 12, 3),
                                (40, 10, 4)), ((16, 4),))  # fmt: skip
    return [base._replace(closed=base.closed[:1])] if short else [base]


def closed_rows(
    session: Session, held: Held, engine: str, plain: Subject, sharp: Subject,
    again: list[tuple[str, list[float]]],
) -> Iterator[Row]:  # fmt: skip
    """TTFT and TPOT of each closed load; the first one is measured twice for the noise floor."""
    for index, (prompt, output, in_flight) in enumerate(held.closed):
        workload = Workload(
            arrival="closed", concurrency=in_flight, prompt_tokens=prompt, output_tokens=output,
            output_tokens_cv=OUTPUT_CV if in_flight > 1 else 0.0, seed=1000 + index,
        )  # fmt: skip
        repeats = [figures_of(session, workload.replace(seed=workload.seed + 97 * number))
                   for number in range(AGAIN if index == 0 else 1)]  # fmt: skip
        if index == 0:
            again += [(name, [r[name] for r in repeats]) for name in repeats[0]]
        before, after = plain.seconds(workload, {}), sharp.seconds(workload, {})
        load = f"{in_flight} in flight, {prompt} + {output}"
        for name in repeats[0]:
            measured = mean([r[name] for r in repeats])
            figure = "tpot" if name == "tpot_s" else (
                "ttft unloaded" if in_flight == 1 else "ttft loaded")  # fmt: skip
            row = Row(engine, held.name, load, figure, before[name], after[name], measured)
            note(f"  {held.name}, {load}, {figure}: {told(row)}")
            yield row


def figures_of(session: Session, workload: Workload) -> dict[str, float]:
    """As the calibration takes them."""
    observed = session.measure(
        TrialAsk(workload=workload, num_requests=num_requests(workload),
                 num_warmup=workload.concurrency, ends_early=False)
    )  # fmt: skip
    return {n: math.exp(f.log_value) for n, f in figures(workload, observed.rows).items()}


def rate_rows(
    session: Session, held: Held, engine: str, plain: Subject, sharp: Subject
) -> Iterator[Row]:
    """The highest Poisson rate at which the mean TTFT keeps to three times the unloaded one.

    Predicted for the arrivals that are then sent: what so few requests have of luck is in both.
    """
    for prompt, output in held.rates:
        alone = Workload(concurrency=1, prompt_tokens=prompt, output_tokens=output, seed=3000)
        limit_s = TTFT_OVER_UNLOADED * figures_of(session, alone)["ttft_s"]
        slo = Slo.parse_text(f"ttft:mean<{1000 * limit_s:.1f}ms")
        workload = alone.replace(arrival="poisson", rate_rps=1.0)
        num = NUM_OPEN[engine]
        before, after = (max_rate_rps(s, workload, slo, num) for s in (plain, sharp))
        measured = measured_rate_rps(session, workload, limit_s, after, num)
        load = f"Poisson, {prompt} + {output}, mean TTFT < {limit_s * 1e3:.0f} ms"
        if measured is None:
            note(f"  {held.name}, {load}: no bracket; predicted {after:.3g}/s")
            continue
        row = Row(engine, held.name, load, "max rate", before, after, measured)
        note(f"  {held.name}, {load}: {told(row)}")
        yield row


def max_rate_rps(subject: Subject, workload: Workload, slo: Slo, num: int) -> float:
    """By the planner."""
    ask = subject.ask(workload, {})
    answer = predict(msgspec.structs.replace(ask, slo=slo, num_requests=num))
    found = answer.throughput.max_rate_rps if answer.throughput else None
    return found or 0.0


def measured_rate_rps(
    session: Session, workload: Workload, limit_s: float, start_rps: float, num: int
) -> float | None:
    """Where the mean TTFT crosses the limit: log TTFT against the rate, between two loads.

    All loads have the same arrivals, closer together or further apart.
    """
    seen: list[tuple[float, float]] = []
    rate = start_rps
    for _ in range(NUM_PROBES + 2):
        observed = session.measure(
            TrialAsk(workload=workload.replace(rate_rps=rate, same_arrivals=True),
                     num_requests=num, num_warmup=WARM_UP, ends_early=False)
        )  # fmt: skip
        ttft_s = observed.trial.ttft_s.mean
        if ttft_s is None:
            return None
        note(f"    {rate:.3g} requests/s: mean TTFT {ttft_s * 1e3:.0f} ms")
        seen.append((rate, ttft_s))
        below = [s for s in seen if s[1] <= limit_s]
        above = [s for s in seen if s[1] > limit_s]
        if below and above and len(seen) >= NUM_PROBES:
            break
        if below and above:
            rate = math.sqrt(max(below)[0] * min(above)[0])
        else:
            rate *= 1.2 if below else 1 / 1.2
    if not below or not above:
        return None
    (low, a), (high, b) = max(below), min(above)
    share = math.log(limit_s / a) / math.log(b / a)
    return low + share * (high - low)


def floor_of(profile: DeviceProfile, again: list[tuple[str, list[float]]]) -> dict[str, float]:
    """Mean difference of a load from itself, by figure; the profile's own where none was seen."""
    found: dict[str, list[float]] = {}
    for name, values in again:
        if len(values) > 1:
            found.setdefault(name, []).append(abs(values[0] / values[1] - 1.0))
    return dict(profile.noise_log_sd) | {n: mean(v) for n, v in found.items()}


def means(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Mean absolute errors by figure, of all and of each engine and model."""
    found: dict[str, dict[str, Any]] = {}
    groups = {"all": list(rows)}
    for row in rows:
        groups.setdefault(row.engine, []).append(row)
        groups.setdefault(f"{row.engine} {row.model}", []).append(row)
    for name, group in groups.items():
        for figure in dict.fromkeys(row.figure for row in group):
            ours = [row for row in group if row.figure == figure]
            found.setdefault(name, {})[figure] = {
                "n": len(ours),
                "mean_error": mean([abs(row.error) for row in ours]),
                "without": mean([abs(row.before / row.measured - 1.0) for row in ours]),
            }
    return found


def told(row: Row) -> str:
    unit, scale = ("/s", 1.0) if row.figure == "max rate" else (" ms", 1e3)
    return (
        f"predicted {row.predicted * scale:.4g}{unit}, measured {row.measured * scale:.4g}{unit} "
        f"({row.error:+.1%}; without {row.before / row.measured - 1.0:+.0%})"
    )


def show(rows: Sequence[Row], noise: dict[str, dict[str, float]]) -> str:
    """Two tables in Markdown: every figure, and their means beside the bars."""
    lines = ["| engine | weights | load | figure | predicted | measured | error | no profile |",
             "|---|---|---|---|--:|--:|--:|--:|"]  # fmt: skip
    for row in rows:
        unit, scale = ("/s", 1.0) if row.figure == "max rate" else (" ms", 1e3)
        lines.append(
            f"| {row.engine} | {row.model} | {row.load} | {row.figure} "
            f"| {row.predicted * scale:.3g}{unit} | {row.measured * scale:.3g}{unit} "
            f"| {row.error:+.1%} | {row.before / row.measured - 1.0:+.0%} |"
        )
    lines += ["", "| of | figure | n | mean error | no profile | bar |",
              "|---|---|--:|--:|--:|--:|"]  # fmt: skip
    for name, by_figure in means(rows).items():
        for figure, m in by_figure.items():
            bar = f"{BARS[figure]:.0%}" if figure in BARS else ""
            lines.append(f"| {name} | {figure} | {m['n']} | {m['mean_error']:.1%} "
                         f"| {m['without']:.0%} | {bar} |")  # fmt: skip
    for engine, floor in noise.items():
        parts = ", ".join(f"{n.removesuffix('_s')} {v:.1%}" for n, v in floor.items())
        lines += ["", f"A load measured twice, {engine}: {parts}."]
    return "\n".join(lines)



if __name__ == "__main__":
    raise SystemExit(main())
