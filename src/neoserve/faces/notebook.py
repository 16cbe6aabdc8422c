"""`predict`, `plan` and a run's trials as functions; their documents draw themselves in a notebook.

    from neoserve.faces.notebook import plan, predict
    predict("Qwen/Qwen3-8B", on="L4", isl=1000, osl=300)
    plan("Qwen/Qwen3-8B", on="L4,L40S", rate=4, slo="tpot:mean<50ms", weight_quant="fp8,w4a16")

    trials("runs/bench")[-1]

Options are those of the commands, with underscores; text is read as on the command line.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import AskError
from ..evidence.run import Run
from ..evidence.verify import trial_of
from ..schema.ask import PlanAsk, PredictAsk
from ..schema.prediction import Plan, Prediction
from ..schema.trial import Trial
from .ask import answer_plan, answer_predict
from .options import CATALOG, ENGINE, MANY, MONEY, OFFLINE, ONE, WORKLOAD, Option
from .requests import plan_ask, predict_ask
from .words import namespace


def predict(model: str, on: str, **options: Any) -> Prediction:
    """Capacity, latency, throughput and cost of one configuration. Raises AskError."""
    return answer_predict(predict_request(model, on, **options))


def predict_request(model: str, on: str, **options: Any) -> PredictAsk:
    """What `predict` is asked, with every option. Raises AskError."""
    known = (*WORKLOAD, *ONE, *ENGINE, *MONEY, CATALOG, OFFLINE)
    asked = predict_ask(_namespace(model, on, known, options))
    return PredictAsk.parse(asked.to_data(), "options")


def plan(model: str, on: str, **options: Any) -> Plan:
    """Ranked hardware, parallelism, quantization and settings. Raises AskError."""
    known = (*WORKLOAD, *(o for o in MANY if o.name != "plot"), *ENGINE, *MONEY, CATALOG, OFFLINE)
    asked = plan_ask(_namespace(model, on, known, options))
    return answer_plan(PlanAsk.parse(asked.to_data(), "options"))


def trials(run: str) -> tuple[Trial, ...]:
    """The trials of a run folder, whose chain is checked. Raises AskError, EvidenceBroken."""
    entries = Run.open(Path(run)).entries()
    return tuple(trial_of(entry) for entry in entries if entry.kind == "trial")


def _namespace(
    model: str, on: str, known: tuple[Option, ...], given: dict[str, Any]
) -> argparse.Namespace:
    if not isinstance(model, str) or not isinstance(on, str):
        raise AskError("model and on are names; write several machines with commas between them")
    return argparse.Namespace(model=model, on=on, **vars(namespace(known, given)))
