"""How speed grows with threads, and llama.cpp on one core, against what was measured."""

from __future__ import annotations

import csv
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from neoserve.faces.latency import answers

ROWS = Path(__file__).parents[1] / "data" / "latency_cpu_rows.csv"


@cache
def rates() -> dict[str, dict[int, tuple[float, float]]]:
    """Source and flag -> threads -> (observed, predicted) work a second."""
    with ROWS.open(newline="") as file:
        found = answers(csv.DictReader(file))
    table: dict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    for a in found:
        assert a.predicted is not None, a.note
        pair = (a.observed, a.predicted)
        rate = pair if a.flag == "prefill_rate" else (1 / pair[0], 1 / pair[1])
        table[f"{a.case.source} {a.flag}"][a.case.threads] = rate
    return table


@pytest.mark.parametrize(
    ("series", "few", "many", "within"),
    [("llama.cpp PR 27491 prefill_rate", 4, 32, 0.06),
     ("llama.cpp PR 27470 prefill_rate", 4, 16, 0.3),
     ("llama.cpp PR 12064 single_tpot", 2, 32, 0.06),
     ("llama.cpp PR 11917 single_tpot", 2, 32, 0.37)],
)  # fmt: skip
def test_speed_grows_with_threads_as_it_does(
    series: str, few: int, many: int, within: float
) -> None:
    seen = rates()[series]
    observed, predicted = (seen[many][i] / seen[few][i] for i in (0, 1))
    assert observed < 0.95 * many / few  # each thread adds less than the first
    assert predicted == pytest.approx(observed, rel=within)
