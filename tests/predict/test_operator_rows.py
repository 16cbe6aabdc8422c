"""Kernel times of the fit: the planner's own laws, and how near the catalog is to them."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
SCRIPTS = Path(__file__).parents[2] / "scripts"
FILE = Path(__file__).parents[1] / "data" / "operators.csv"


@pytest.fixture(scope="module", autouse=True)
def _scripts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield


def raw_of(operators: Any) -> dict[str, Any]:
    """The catalog's coefficients of each kernel."""
    from latency_problem import COEFFICIENTS

    from neoserve.catalog.coefficients import bounded, table

    raw = {}
    for name in COEFFICIENTS:
        entry = table()["coefficients"][name]
        values = [
            entry["value"]
            * np.prod([entry.get(g, {}).get(k, {}).get("factor", 1.0) for g, k in keys.items()])
            for keys in operators.keys
        ]
        raw[name] = np.array(values)
    return bounded(raw)


def test_the_experts_law_is_the_planners() -> None:
    from operator_rows import Operators

    from neoserve.catalog.coefficients import coefficients_for
    from neoserve.catalog.hardware import find_machine
    from neoserve.catalog.models import find_model
    from neoserve.predict.step import StepModel
    from neoserve.schema.engine import Deployment

    model, machine = find_model("Qwen/Qwen3-235B-A22B-FP8"), find_machine("H200-SXM-141GB")
    tokens = 16384  # every one of 128 experts is met
    row = {"op": "moe", "hardware": "H200-SXM-141GB", "engine": "vllm", "version": "0.24.0",
           "dtype": "fp8_block", "m": str(tokens), "n": "384", "k": "4096", "experts": "128",
           "chosen": "8", "heads": "", "kv_heads": "", "head_dim": "", "ranks": "",
           "latency_us": "1"}  # fmt: skip
    operators = Operators([row])
    c = raw_of(operators)
    known = coefficients_for(machine.hardware, "vllm", "0.24.0")
    deployment = Deployment(tensor_parallel=4, engine_version="0.24.0")
    step = StepModel(model, machine.hardware, deployment, known)
    parts = {p.name: p.seconds for p in step.parts(tokens, tokens / 2, 0, 0)}
    moved_s = 2 * tokens * (2 * 4096 + 3 * 384 * 8) / (4.8e12 * float(c["memory_share"][0]))
    kernel_s = float(np.exp(operators.predict(c))[0]) - moved_s - float(c["expert_layer_s"][0])
    assert kernel_s == pytest.approx(parts["experts"] / 94, rel=0.01)


def test_the_catalog_is_near_the_measured_kernels() -> None:
    """Products, experts and attention that NVIDIA measured inside three engines, by nine GPUs."""
    from operator_rows import OPS, read_operators

    operators = read_operators(FILE)
    error = np.abs(operators.predict(raw_of(operators)) - operators.observed)
    with FILE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["op"] for row in rows} == set(OPS)
    assert len(operators.keys) > 0.9 * len(rows), "few are left out for a format the device lacks"
    assert statistics.median(error) < 0.15
