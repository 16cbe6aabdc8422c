"""The parts of benchmarks/calibration.py that decide what is said of it."""

import math
from types import SimpleNamespace

import calibration as experiment
import pytest

from neoserve.schema.workload import Workload

ROWS = [
    experiment.Row("llama.cpp", "Q4", "a", "tpot", 0.05, 0.021, 0.020),
    experiment.Row("llama.cpp", "Q4", "b", "tpot", 0.05, 0.018, 0.020),
    experiment.Row("vllm", "bf16", "c", "max rate", 1.0, 2.2, 2.0),
]


def session(ttft_of):
    """A server whose mean TTFT is a function of the rate; it counts its loads."""
    rates = []

    def measure(ask):
        rates.append(ask.workload.rate_rps)
        assert ask.workload.same_arrivals
        ttft = SimpleNamespace(mean=ttft_of(ask.workload.rate_rps))
        return SimpleNamespace(trial=SimpleNamespace(ttft_s=ttft))

    return SimpleNamespace(measure=measure, rates=rates)


@pytest.mark.parametrize("start", [1.0, 1.9, 2.0, 2.3, 3.5])
def test_a_highest_rate_is_where_ttft_crosses_its_limit(start):
    """TTFT e^rate: the limit e² is crossed at 2."""
    server = session(math.exp)
    workload = Workload(arrival="poisson", rate_rps=1.0)
    found = experiment.measured_rate_rps(server, workload, math.exp(2.0), start, 50)
    assert found == pytest.approx(2.0, rel=1e-6)
    assert len(server.rates) <= experiment.NUM_PROBES + 2


def test_a_rate_without_a_bracket_is_not_said():
    server = session(lambda _: 1.0)
    workload = Workload(arrival="poisson", rate_rps=1.0)
    assert experiment.measured_rate_rps(server, workload, 0.5, 1.0, 50) is None


def test_errors_are_of_the_measured_and_averaged_by_figure():
    assert [round(row.error, 6) for row in ROWS] == [0.05, -0.1, 0.1]
    found = experiment.means(ROWS)
    assert found["all"]["tpot"]["mean_error"] == pytest.approx(0.075)
    assert found["all"]["tpot"]["without"] == pytest.approx(1.5)
    assert found["vllm"]["max rate"]["n"] == 1
    assert "tpot" not in found["vllm"]


def test_the_table_has_every_figure_and_the_bars():
    text = experiment.show(ROWS, {"llama.cpp": {"tpot_s": 0.011}})
    assert "| llama.cpp | Q4 | a | tpot | 21 ms | 20 ms | +5.0% | +150% |" in text
    assert "| all | tpot | 2 | 7.5% | 150% | 8% |" in text
    assert "| vllm | bf16 | c | max rate | 2.2/s | 2/s | +10.0% | -50% |" in text
    assert "measured twice, llama.cpp: tpot 1.1%" in text
