"""Does a load meet its SLO, beyond chance? Exact for percentiles, whatever the distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..schema.trial import RequestRow, Verdict
from ..schema.workload import Slo, Target
from ..stats import binomial_cdf, mean
from .summary import e2e_s, judged, latencies_s, tpot_s, ttft_s

LEVEL = 0.05  # chance of a wrong PASS, and of a wrong FAIL

_MEASURES = {"ttft": ttft_s, "tpot": tpot_s, "e2e": e2e_s}
_MIN_FOR_MEAN = 30  # below, the normal approximation of a mean is not to be trusted
_Z = 1.6449  # one-sided 95 %


def judge(rows: Sequence[RequestRow], slo: Slo) -> tuple[Verdict, tuple[str, ...]]:
    """PASS when every target is proven, FAIL when one is disproven; with a reason for each.

    A request that was cancelled in flight might have gone either way: it counts against both.
    """
    if not slo.targets:
        return "INCONCLUSIVE", ("no SLO was given: there is nothing to decide",)
    # PASS needs every test to reject, so each may take the whole level; FAIL needs one.
    fail_level = LEVEL / len(slo.targets)
    judgements = [_judge_target(rows, target, fail_level) for target in slo.targets]
    verdicts = [verdict for verdict, _ in judgements]
    reasons = tuple(reason for _, reason in judgements)
    if "FAIL" in verdicts:
        return "FAIL", reasons
    return ("PASS" if set(verdicts) == {"PASS"} else "INCONCLUSIVE"), reasons


def share_verdict(
    num: int, num_misses: int, share: float, fail_level: float = LEVEL, num_open: int = 0
) -> Verdict:
    """Is the true share of misses at most `share`? Exact one-sided binomial tests.

    PASS with 0 misses of 59, 1 of 93, 3 of 153 for 5 %. `num_open` of the `num` are undecided.
    """
    if num and binomial_cdf(num_misses + num_open, num, share) <= LEVEL:
        return "PASS"
    at_least = 1 - binomial_cdf(num_misses - 1, num, share) if num_misses else 1.0
    return "FAIL" if at_least <= fail_level else "INCONCLUSIVE"


def _judge_target(
    rows: Sequence[RequestRow], target: Target, fail_level: float
) -> tuple[Verdict, str]:
    if target.metric == "quality":
        return "INCONCLUSIVE", f"{target.show()}: quality was not measured"
    served, num_failed = latencies_s(judged(rows), _MEASURES[target.metric])
    num_open = sum(row.status == "cancelled" for row in rows)
    if target.statistic == "mean":
        return _judge_mean(served, num_failed + num_open, target)
    share = 1 - float(target.statistic.removeprefix("p")) / 100
    misses = num_failed + sum(value >= target.limit for value in served)
    num = len(served) + num_failed + num_open
    verdict = share_verdict(num, misses, share, fail_level, num_open)
    cut = f", {num_open} were cut off" if num_open else ""
    return verdict, f"{target.show()}: {misses} of {num} requests missed{cut}: {verdict}"


def _judge_mean(served: list[float], num_missing: int, target: Target) -> tuple[Verdict, str]:
    if num_missing:
        verdict: Verdict = "INCONCLUSIVE"
        return verdict, f"{target.show()}: {num_missing} requests gave no value to average"
    if len(served) < _MIN_FOR_MEAN:
        return "INCONCLUSIVE", f"{target.show()}: {len(served)} requests are too few for a mean"
    average = mean(served)
    spread = sum((value - average) ** 2 for value in served) / (len(served) - 1)
    margin = _Z * math.sqrt(spread / len(served))
    verdict = "INCONCLUSIVE"
    if average + margin < target.limit:
        verdict = "PASS"
    elif average - margin >= target.limit:
        verdict = "FAIL"
    return verdict, f"{target.show()}: mean {average:.4g} s ± {margin:.2g} s: {verdict}"
