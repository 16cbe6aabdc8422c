"""`predict` and `plan` as functions; their documents draw themselves in a notebook.

    from neoserve.faces.notebook import plan, predict
    predict("Qwen/Qwen3-8B", on="L4", isl=1000, osl=300)
    plan("Qwen/Qwen3-8B", on="L4,L40S", rate=4, slo="tpot:mean<50ms", weight_quant="fp8,w4a16")

Options are those of the commands, with underscores; text is read as on the command line.
"""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import AskError
from ..schema.prediction import Plan, Prediction
from .ask import answer_plan, answer_predict
from .options import CATALOG, ENGINE, MANY, MONEY, OFFLINE, ONE, WORKLOAD, Option, reader_of
from .requests import plan_ask, predict_ask


def predict(model: str, on: str, **options: Any) -> Prediction:
    """Capacity, latency, throughput and cost of one configuration. Raises AskError."""
    known = (*WORKLOAD, *ONE, *ENGINE, *MONEY, CATALOG, OFFLINE)
    return answer_predict(predict_ask(_namespace(model, on, known, options)))


def plan(model: str, on: str, **options: Any) -> Plan:
    """Ranked hardware, parallelism, quantization and settings. Raises AskError."""
    known = (*WORKLOAD, *MANY, *ENGINE, *MONEY, CATALOG, OFFLINE)
    return answer_plan(plan_ask(_namespace(model, on, known, options)))


def _namespace(
    model: str, on: str, known: tuple[Option, ...], given: dict[str, Any]
) -> argparse.Namespace:
    names = {name: option for option in known for name in option.names}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise AskError(f"unknown option {unknown[0]!r}; expected one of {', '.join(sorted(names))}")
    values: dict[str, Any] = {option.name: option.start for option in known}
    for name, value in given.items():
        option = names[name]
        values[option.name] = reader_of(option)(value) if isinstance(value, str) else value
        if option.many and not isinstance(values[option.name], tuple):
            values[option.name] = tuple(value) if isinstance(value, list) else (value,)
    return argparse.Namespace(model=model, on=on, **values)
