import random

import pytest

from neoserve.measure.verdict import judge, share_verdict
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo

P95 = Slo.parse_text("ttft:p95<1s")


def row(ttft, status="ok"):
    return RequestRow(
        due_s=0.0, sent_s=0.0, first_token_s=ttft, last_token_s=ttft + 1.0, output_tokens=11,
        status=status,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num", "misses", "verdict"),
    [  # the fixed-n table of MLPerf's early stopping rule, p95 at 95 %
        (59, 0, "PASS"), (58, 0, "INCONCLUSIVE"),
        (93, 1, "PASS"), (92, 1, "INCONCLUSIVE"),
        (124, 2, "PASS"), (153, 3, "PASS"), (181, 4, "PASS"), (234, 6, "PASS"),
        (7, 2, "FAIL"), (8, 2, "INCONCLUSIVE"), (16, 3, "FAIL"), (28, 4, "FAIL"), (40, 5, "FAIL"),
        (0, 0, "INCONCLUSIVE"),
    ],
)  # fmt: skip
def test_exact_binomial_rule(num, misses, verdict):
    assert share_verdict(num, misses, 0.05) == verdict


def test_a_wrong_verdict_is_no_likelier_than_its_level():
    rng = random.Random(11)
    verdicts = [
        share_verdict(200, sum(rng.random() < 0.05 for _ in range(200)), 0.05) for _ in range(2000)
    ]
    assert verdicts.count("PASS") / 2000 <= 0.055
    assert verdicts.count("FAIL") / 2000 <= 0.055


def test_failed_requests_miss():
    rows = [row(0.5)] * 57 + [row(0.5, status="timeout")] * 2
    assert judge(rows, P95)[0] == "INCONCLUSIVE"
    assert judge([row(0.5)] * 59, P95)[0] == "PASS"
    assert judge([row(0.5, status="http")] * 5, P95)[0] == "FAIL"


def test_requests_cut_off_in_flight_count_against_both_verdicts():
    assert judge([row(0.5)] * 59 + [row(0.5, status="cancelled")], P95)[0] == "INCONCLUSIVE"
    assert judge([row(0.5)] * 93 + [row(0.5, status="cancelled")], P95)[0] == "PASS"
    assert judge([row(2.0)] * 2 + [row(0.5, status="cancelled")] * 6, P95)[0] == "INCONCLUSIVE"
    assert judge([row(2.0)] * 2 + [row(0.5, status="cancelled")], P95)[0] == "FAIL"
    assert "1 were cut off" in judge([row(0.5, status="cancelled")], P95)[1][0]


def test_all_targets_have_to_hold():
    both = Slo.parse_text("ttft:p95<1s; tpot:p95<50ms")
    verdict, reasons = judge([row(0.5)] * 100, both)
    assert verdict == "FAIL"
    assert reasons[0].endswith("0 of 100 requests missed: PASS")
    assert reasons[1].endswith("100 of 100 requests missed: FAIL")


def test_means():
    mean = Slo.parse_text("e2e<2s")
    rows = [row(0.5 + 0.001 * i) for i in range(40)]
    assert judge(rows, mean)[0] == "PASS"
    assert judge([row(3.0 + 0.001 * i) for i in range(40)], mean)[0] == "FAIL"
    assert judge([row(0.5 + 0.05 * i) for i in range(40)], Slo.parse_text("e2e<2.5s"))[0] == (
        "INCONCLUSIVE"
    )
    assert "too few" in judge(rows[:5], mean)[1][0]
    assert "1 requests gave no value" in judge([*rows, row(1.0, status="http")], mean)[1][0]


def test_what_was_not_measured_is_not_decided():
    assert judge([row(0.5)] * 100, Slo())[0] == "INCONCLUSIVE"
    verdict, reasons = judge([row(0.5)] * 100, Slo.parse_text("ttft:p95<1s; quality<4%"))
    assert verdict == "INCONCLUSIVE"
    assert "quality was not measured" in reasons[1]
