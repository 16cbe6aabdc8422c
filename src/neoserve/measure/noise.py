"""What repeats of one load on one engine differ by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ..errors import AskError
from ..schema.trial import NoiseFloor, Spread, Trial
from ..stats import mean

_FIGURES: dict[str, Callable[[Trial], float | None]] = {
    "ttft_p50": lambda trial: trial.ttft_s.p50.value,
    "ttft_p95": lambda trial: trial.ttft_s.p95.value,
    "tpot_p50": lambda trial: trial.tpot_s.p50.value,
    "tpot_p95": lambda trial: trial.tpot_s.p95.value,
    "output_tokens_per_s": lambda trial: trial.output_tokens_per_s,
}


def noise_floor(trials: Sequence[Trial]) -> NoiseFloor:
    """From two or more A/A trials: the same workload, SLO and engine. Raises AskError."""
    if len(trials) < 2:
        raise AskError(f"{len(trials)} trials show no noise; give two or more of the same load")
    if any(trial.verdict == "VOID" for trial in trials):
        raise AskError("a VOID trial is among the repeats; leave it out and measure again")
    if any(_what(trial) != _what(trials[0]) for trial in trials):
        raise AskError(
            "the trials differ in engine or workload, or ran on unlike hosts; give repeats that "
            "only the seed parts"
        )
    figures = {name: [figure(trial) for trial in trials] for name, figure in _FIGURES.items()}
    return NoiseFloor(
        num_trials=len(trials),
        spreads={
            name: _spread([value for value in values if value is not None])
            for name, values in figures.items()
            if None not in values
        },
    )


def _what(trial: Trial) -> object:
    return trial.engine, trial.workload.replace(seed=0), trial.host.identity


def _spread(values: Sequence[float]) -> Spread:
    centre = mean(values)
    variance = math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
    scale = centre or 1.0  # all zero: there is no spread to scale
    return Spread(
        mean=centre,
        range_share=(max(values) - min(values)) / scale,
        sd_share=math.sqrt(variance) / scale,
    )
