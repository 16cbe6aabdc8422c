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
from .options import CATALOG, ENGINE, MANY, MONEY, OFFLINE, ONE, WORKLOAD, Option, reader_of, yes_no
from .requests import plan_ask, predict_ask


def predict(model: str, on: str, **options: Any) -> Prediction:
    """Capacity, latency, throughput and cost of one configuration. Raises AskError."""
    known = (*WORKLOAD, *ONE, *ENGINE, *MONEY, CATALOG, OFFLINE)
    asked = predict_ask(_namespace(model, on, known, options))
    return answer_predict(PredictAsk.parse(asked.to_data(), "options"))


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
    names = {name: option for option in known for name in option.names}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise AskError(f"unknown option {unknown[0]!r}; expected one of {', '.join(sorted(names))}")
    if not isinstance(model, str) or not isinstance(on, str):
        raise AskError("model and on are names; write several machines with commas between them")
    values: dict[str, Any] = {option.name: option.start for option in known}
    seen: dict[str, str] = {}
    for name, value in given.items():
        option = names[name]
        if option.name in seen:
            raise AskError(f"{seen[option.name]} and {name} say the same; give one")
        seen[option.name] = name
        values[option.name] = _value(option, name, value)
    return argparse.Namespace(model=model, on=on, **values)


def _value(option: Option, name: str, value: Any) -> Any:
    """Text is read as on the command line; the rest is checked with the whole request."""
    if isinstance(value, str):
        value = yes_no(value) if option.switch or option.both else reader_of(option)(value)
    if option.choices and value not in option.choices:
        raise AskError(f"{name} is {value!r}; expected one of {', '.join(option.choices)}")
    if value is None and option.start is not None:
        raise AskError(f"{name} is None; leave it out for its usual value, {option.start!r}")
    if option.many and not isinstance(value, tuple):
        value = tuple(value) if isinstance(value, list) else (value,)
    return value
