"""The fit's arrays and the product's functions say the same of every kind of row."""

from __future__ import annotations

import csv
import gzip
import math
import random
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
SCRIPTS = Path(__file__).parents[2] / "scripts"
ROWS = Path(__file__).parents[1] / "data" / "latency_rows.csv.gz"
CPU_ROWS = ROWS.with_name("latency_cpu_rows.csv")
PROFILES = Path(__file__).parents[2] / "results" / "calibration"


@pytest.fixture(scope="module")
def items(monkeypatch_module: pytest.MonkeyPatch) -> list[object]:
    monkeypatch_module.syspath_prepend(str(SCRIPTS))
    from latency_arrays import FLAGS
    from latency_items import read_items
    from run_rows import read_profiles

    with gzip.open(ROWS, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = random.Random(1).sample(rows, 600)
    chosen += [row for row in rows if row["source"].startswith(("OpenVINO", "Ampere"))]
    with CPU_ROWS.open(newline="") as file:
        chosen += csv.DictReader(file)
    return read_items(chosen, FLAGS)[0] + read_profiles(sorted(PROFILES.glob("*/profile")))


@pytest.fixture(scope="module")
def monkeypatch_module() -> object:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def test_they_agree(items: list[object]) -> None:
    from fit_coefficients import start_of
    from latency_problem import Problem, Truth, names_of

    from neoserve.catalog.coefficients import coefficients_for, table
    from neoserve.faces.latency import Resolved
    from neoserve.predict.latency_server import case_server
    from neoserve.predict.latency_truth import predictions

    truth = Truth(items)
    names = names_of(truth)
    # Every factor of the catalog, also of groups with few rows among these.
    names = list(dict.fromkeys([*names, *_written(table()["coefficients"])]))
    problem = Problem(truth, names)
    said = problem.predict(problem.raw(start_of(names, table()["coefficients"])))
    by_row: dict[int, list[float]] = {}
    for row, value in zip(truth.row, said, strict=True):
        by_row.setdefault(int(row), []).append(math.exp(value))
    for index, item in enumerate(items):
        d = item.case.deployment
        coefficients = coefficients_for(item.hardware, d.engine, d.engine_version)
        server = case_server(*Resolved(*item[:4]), coefficients, item.kv_tokens)
        product = predictions(item.case, server)
        for flag, value in zip(item.observed, by_row[index], strict=True):
            # The product looks costs up between powers of four on its way to the root.
            assert value == pytest.approx(product[flag], rel=0.01), (item.case.id, flag)


def _written(entries: dict[str, dict[str, object]]) -> list[object]:
    from latency_problem import GROUPS, Name

    return [
        Name(coefficient, group, key)
        for coefficient, entry in entries.items()
        for group in GROUPS.values()
        for key in entry.get(group, {})
    ]
