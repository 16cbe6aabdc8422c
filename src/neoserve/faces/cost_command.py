"""`neoserve cost`: of a model on machines, or of a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import AskError
from ..evidence.recommended import recommended
from ..schema.answers import CostProjection
from .money import measured_cost, project_cost
from .requests import cost_asks
from .results import LEDGER


def cost(args: argparse.Namespace) -> CostProjection:
    """Raises AskError."""
    if not (Path(args.model) / LEDGER).is_file():
        return project_cost(cost_asks(args), args.against)
    if args.on:
        raise AskError("a run was measured on its own host: leave --on out")
    if args.output_tokens_per_month is None:
        raise AskError("no volume was given: say --output-tokens-per-month, for example 5e9")
    found = recommended(Path(args.model)).recommendation
    return measured_cost(
        Path(args.model).name, found, args.output_tokens_per_month, args.against, args.price
    )
