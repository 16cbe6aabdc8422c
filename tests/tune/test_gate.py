"""What a gate decides of two loads, on queues whose truth is known."""

from __future__ import annotations

import random

import pytest

from neoserve.schema.gate import Check
from neoserve.tune.gate import Cost, Sample, budget_check, compare, compare_cost, overall

from .queues import gaps_s, sample, serve

PAIRS = 200


def compared(seed: int, num: int, load: float, slowdown: float = 1.0, *, paired: bool = False,
             tolerance: float = 0.0, detect: float = 0.5) -> list[Check]:  # fmt: skip
    rng = random.Random(seed)
    gaps = gaps_s(rng, num, load)
    before = sample(serve(rng, gaps), "one" if paired else "")
    again = gaps if paired else gaps_s(rng, num, load)
    after = sample(serve(rng, again, slowdown), "one" if paired else "")
    return compare(after, before, tolerance=tolerance, detect=detect, level=0.05)


def test_identical_code_passes() -> None:
    """A/A: neighbours depend on each other, nothing is tolerated, and still 5 % at most fail."""
    verdicts = [overall(compared(seed, 300, 0.5)) for seed in range(PAIRS)]
    assert verdicts.count("FAIL") <= 0.05 * PAIRS


def test_identical_code_passes_on_the_same_requests_too() -> None:
    verdicts = [overall(compared(seed, 300, 0.5, paired=True)) for seed in range(PAIRS)]
    assert verdicts.count("FAIL") <= 0.05 * PAIRS


def test_the_default_tolerance_lets_it_pass_nearly_always() -> None:
    found = [overall(compared(seed, 800, 0.4, tolerance=0.05)) for seed in range(20)]
    assert found.count("FAIL") == 0
    assert found.count("PASS") >= 18


@pytest.mark.parametrize("paired", [False, True])
def test_a_slowdown_of_a_fifth_is_found(paired: bool) -> None:
    found = [compared(seed, 1000, 0.4, 1.2, paired=paired, tolerance=0.05) for seed in range(20)]
    assert [overall(checks) for checks in found].count("FAIL") >= 19
    failed = {check.name: check for check in found[0] if check.verdict == "FAIL"}
    tpot = failed["tpot:geomean"]
    assert tpot.low is not None
    assert tpot.high is not None
    assert tpot.change is not None
    assert 0.05 < tpot.low < tpot.change < tpot.high < 0.5
    assert tpot.change > 0.15  # its own factor, and a longer queue's
    assert tpot.paired is paired


def test_a_slowdown_within_the_tolerance_is_none() -> None:
    found = [compared(seed, 600, 0.4, 1.05, tolerance=0.3) for seed in range(10)]
    assert "FAIL" not in [overall(checks) for checks in found]


def test_too_few_requests_decide_nothing() -> None:
    assert overall(compared(1, 12, 0.5)) == "INCONCLUSIVE"
    tight = {check.name: check for check in compared(1, 300, 0.5, detect=0.001)}
    assert "too few requests to exclude a slowdown" in tight["ttft:geomean"].reason


def test_pairs_narrow_the_interval() -> None:
    def width(paired: bool) -> float:
        check = next(c for c in compared(3, 600, 0.5, paired=paired) if c.name == "ttft:geomean")
        assert check.low is not None
        assert check.high is not None
        return check.high - check.low

    assert width(True) < 0.8 * width(False)


# failures


def failing(num: int, share: float) -> Sample:
    rng = random.Random(5)
    fails = [rng.random() < share for _ in range(num)]
    return Sample(latencies_s={"ttft": tuple(1e300 if f else 0.1 for f in fails)}, num=num,
                  num_failed=sum(fails))  # fmt: skip


def failed_check(after: Sample, before: Sample) -> Check:
    return compare(after, before, (), tolerance=0.05, detect=0.5, level=0.05)[0]


def test_requests_that_fail_are_a_regression() -> None:
    check = failed_check(failing(400, 0.1), failing(400, 0.0))
    assert (check.name, check.verdict, check.baseline) == ("failed", "FAIL", 0.0)
    assert failed_check(failing(400, 0.1), failing(400, 0.1)).verdict == "PASS"
    assert failed_check(failing(400, 0.0), failing(400, 0.1)).verdict == "PASS"
    assert failed_check(failing(20, 0.05), failing(20, 0.0)).verdict == "PASS"  # chance


def test_a_tail_among_failed_requests_is_slower_without_bound() -> None:
    slow = failing(2000, 0.3)
    before = sample(serve(random.Random(1), gaps_s(random.Random(2), 2000, 0.3)))
    check = next(c for c in compare(slow, before, ("ttft:p95",), tolerance=0.05, detect=0.5,
                                    level=0.05) if c.name == "ttft:p95")  # fmt: skip
    assert (check.verdict, check.value, check.high) == ("FAIL", None, None)


# money


@pytest.mark.parametrize(
    ("cost", "verdict"),
    [
        (Cost(1.0, 0.9, 1.1, "x"), "PASS"), (Cost(3.0, 2.5, 3.5, "x"), "FAIL"),
        (Cost(1.9, 1.5, 2.5, "x"), "INCONCLUSIVE"), (Cost(2.1, 1.5, 2.5, "x"), "INCONCLUSIVE"),
        (Cost(2.0, None, None, "x"), "PASS"), (None, "INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_a_budget(cost: Cost | None, verdict: str) -> None:
    assert budget_check(cost, 2.0).verdict == verdict


def test_tokens_that_became_dearer() -> None:
    def dearer(value: float) -> str:
        after = Cost(value, value * 0.98, value * 1.02, "x")
        return compare_cost(after, Cost(1.0, 0.98, 1.02, "x"), tolerance=0.05, detect=0.5).verdict

    assert [dearer(v) for v in (0.5, 1.0, 1.05, 1.2)] == ["PASS", "PASS", "PASS", "FAIL"]


def test_money_is_neither_fast_nor_slow() -> None:
    def said(value: float, detect: float = 0.5) -> str:
        after = Cost(value, value * 0.98, value * 1.02, "x")
        base = Cost(1.0, 0.98, 1.02, "x")
        return compare_cost(after, base, tolerance=0.05, detect=detect).reason

    assert said(0.5).endswith(": cheaper")
    assert ": dearer by more than" in said(1.2)
    assert ": no rise beyond" in said(1.0)
    assert "to exclude a rise of" in said(1.05, 0.06)
