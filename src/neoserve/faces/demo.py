"""`neoserve demo`: the whole way on the embedded engine, in minutes.

It plans, makes two other precisions of the bundled model, tunes under Poisson load with the quality
guard, certifies, verifies the ledger and writes the recipe.
"""

from __future__ import annotations

import importlib.resources
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import AskError
from ..measure.engine import llamacpp
from ..measure.quality.variants import make_variant
from ..schema.workload import Slo, Workload
from ..tune.forecast import forecast
from ..units import show_duration
from .bench import fresh_folder
from .tune import TuneAsk, exit_code, prepare, search, start_campaign
from .tune_tables import show_plan, show_tuned

# A median: near a limit requests depend on each other so much that a tail takes more of them than
# minutes give. `neoserve tune` proves p95.
SLO = "ttft:p50<700ms; quality<4%"
WORKLOAD = Workload(arrival="poisson", rate_rps=5.0, prompt_tokens=16, output_tokens=2, seed=1)
RUNGS, CERTIFY_REQUESTS, CERTIFY_SEEDS, FINALISTS = (16, 40, 40), 110, 1, 0
CANDIDATES, QUALITY_WORDS, TOLERANCE = 5, 10, 0.05
VARIANTS = ("q8_0", "q4_0")

Say = Callable[[str], None]


def run(minutes: float, out: str, note: Say, as_json: bool = False) -> int:
    """Exit code 0 when a rate is certified, 3 when nothing was proven."""
    if not 0 < minutes <= 600:
        raise AskError(f"--minutes {minutes:g}: expected more than 0, up to 600")
    fresh_folder(Path(out))  # refused before anything is made
    began_s = time.monotonic()
    note(f"1/4 two more precisions of the bundled model, for the quality guard: {VARIANTS}")
    checkpoints = variants(Path(out).parent / "models", note)
    note("2/4 what may be tried on this host, and what the planner says of it")
    with importlib.resources.as_file(
        importlib.resources.files("neoserve.faces") / "demo_space.toml"
    ) as space:
        ask = demo_ask(minutes * 60, out, checkpoints, str(space))
        ready = prepare(ask, note)
    note("\n" + show_plan(ready.plan, ready.campaign.rejected, forecast(ready.plan)) + "\n")
    note(f"3/4 the search, under Poisson load, for about {show_duration(minutes * 60)}")
    found = search(start_campaign(ask, ready), ready.campaign, ready.plan, [], note)
    note(f"4/4 done in {show_duration(time.monotonic() - began_s)}: ledger verified, every figure "
         "computed again from raw rows, recipe written\n")  # fmt: skip
    print(show_tuned(found.recommendation, str(found.folder), found.head, as_json))
    return exit_code(found.recommendation)


def variants(folder: Path, note: Say) -> dict[str, str]:
    """GGUF files of the bundled model, made once."""
    source = llamacpp.demo_model_path()
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for kind in VARIANTS:
        path = (folder / f"{source.name.split('.')[0]}.{kind.upper()}.gguf").absolute()
        if not path.is_file():
            note(f"    making {path.name} ...")
            make_variant(source, kind, path)  # type: ignore[arg-type]
        found[kind] = str(path)
    return found


def demo_ask(budget_s: float, out: str, checkpoints: dict[str, str], space_file: str) -> TuneAsk:
    """Short requests, no finalists, one seed: what minutes on two cores can prove."""
    return TuneAsk(
        model=str(llamacpp.demo_model_path()),
        engine="llama.cpp",
        workload=WORKLOAD,
        slo=Slo.parse_text(SLO),
        space_file=space_file,
        checkpoints=checkpoints,
        out=out,
        budget_s=budget_s,
        max_candidates=CANDIDATES,
        rungs=RUNGS,
        num_certify=CERTIFY_REQUESTS,
        num_seeds=CERTIFY_SEEDS,
        num_finalists=FINALISTS,
        tolerance=TOLERANCE,
        quality_words=QUALITY_WORDS,
    )
