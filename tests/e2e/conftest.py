"""Engines that take minutes: `make e2e-vllm` sets up vLLM and runs these; `make test` does not."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from neoserve.measure.engine.vllm_program import PYTHON_VARIABLE

MODEL_VARIABLE = "NEOSERVE_VLLM_MODEL"

# benchmarks/ is no package: what compares clients there is asserted here
_AGREEMENT = Path(__file__).parents[2] / "benchmarks" / "agreement.py"
_SPEC = importlib.util.spec_from_file_location("benchmarks_agreement", _AGREEMENT)
sys.modules["benchmarks_agreement"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["benchmarks_agreement"])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vllm: starts a real vLLM (make e2e-vllm)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PYTHON_VARIABLE in os.environ and MODEL_VARIABLE in os.environ:
        return
    skip = pytest.mark.skip(reason=f"needs {PYTHON_VARIABLE} and {MODEL_VARIABLE}: make e2e-vllm")
    for item in items:
        if item.get_closest_marker("vllm"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def model() -> str:
    """SmolLM2-135M in bfloat16, as scripts/make_vllm_model.py writes it."""
    return str(Path(os.environ[MODEL_VARIABLE]).resolve())
