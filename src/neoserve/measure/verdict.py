"""Does a load meet its SLO, beyond chance? Exact for percentiles of independent requests.

Requests count in due order, up to the first whose outcome is open: fast answers end first, so
those that have ended would flatter the server. Every request is a look of an exact sequential
test; what proves a target while the trial runs proves it for whoever reads the rows later.
Requests that depend on each other count as the fewer independent ones that they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..schema.trial import RequestRow, Verdict
from ..schema.workload import Slo
from .backlog import backlog
from .rules import Reading, Rule, rule_for
from .summary import MEASURES, measured

__all__ = ["LEVEL", "Judgement", "Reading", "Watch", "findings", "judge", "observed_until_s"]

LEVEL = 0.05  # chance of a wrong PASS, and of a wrong FAIL


class Judgement(NamedTuple):
    """A verdict with a sentence for each target; the counts of the target nearest its limit."""

    verdict: Verdict
    reasons: tuple[str, ...]
    dependence: float = 1.0  # requests that are worth one independent one, of all targets
    num: int = 0
    num_misses: int = 0
    share: float = 0.0  # of requests that may miss


def judge(
    rows: Sequence[RequestRow],
    slo: Slo,
    num_planned: int | None = None,
    level: float = LEVEL,
) -> Judgement:
    """PASS when every target is proven, FAIL when one is disproven; with a reason for each.

    `rows` are all of a trial, finished or cut off; `num_planned` is how many measured requests
    were planned, by default those in `rows`; `level` is the chance of either wrong verdict.
    A backlog that grows beyond chance has no steady state to prove anything of: it disproves a
    target that more requests missed than may.
    """
    if not slo.targets:
        reason = "no SLO was given: there is nothing to decide"
        return Judgement("INCONCLUSIVE", (reason,))
    return _watched(rows, slo, num_planned, level).judgement(backlog(rows).is_saturated)


def findings(
    rows: Sequence[RequestRow],
    slo: Slo,
    num_planned: int | None = None,
    level: float = LEVEL,
) -> list[tuple[Verdict, str]]:
    """What `judge` finds of each target, in their order, with its reason."""
    saturated = backlog(rows).is_saturated
    rules = _watched(rows, slo, num_planned, level).rules
    return [rule.finding(saturated) for rule in rules]


def _watched(
    rows: Sequence[RequestRow], slo: Slo, num_planned: int | None, level: float
) -> Watch:
    ours = measured(rows)
    watch = Watch(slo, num_planned or len(ours), level)
    watch.read({metric: _readings(rows, ours, metric) for metric in MEASURES})
    return watch


def _nearness(rule: Rule) -> float:
    return rule.num_misses / rule.num / rule.share if rule.num else -1.0


class Watch:
    """The same decision while the load runs."""

    def __init__(self, slo: Slo, num_planned: int, level: float = LEVEL) -> None:
        # PASS needs every test to reject, so each may take the whole level; FAIL needs one.
        fail_level = level / max(1, len(slo.targets))
        self.rules: list[Rule] = [
            rule_for(target, level, fail_level, max(1, num_planned)) for target in slo.targets
        ]

    def verdict(self, readings: Mapping[str, Sequence[Reading]]) -> Verdict | None:
        """What is proven by now, from all readings so far by metric, in due order.

        A value may be a lower bound while it is not final; inf for a failed request. Requests
        without a value (TPOT of one token) are left out. Null while nothing is proven.
        """
        self.read(readings)
        verdict = _overall([rule.verdict for rule in self.rules])
        return None if verdict == "INCONCLUSIVE" else verdict

    def read(self, readings: Mapping[str, Sequence[Reading]]) -> None:
        """Take what is new."""
        for rule in self.rules:
            rule.read(readings.get(rule.target.metric, ()))

    def judgement(self, saturated: bool) -> Judgement:
        """What the readings so far say of a load that is over."""
        findings = [rule.finding(saturated) for rule in self.rules]
        reasons = tuple(reason for _, reason in findings)
        if saturated:
            reasons += ("requests in flight grew beyond chance: the server does not keep up",)
        verdict = _overall([found for found, _ in findings])
        nearest = max(self.rules, key=_nearness)
        dependent = max(rule.dependence for rule in self.rules)
        counts = nearest.num, nearest.num_misses, nearest.share
        return Judgement(verdict, reasons, dependent, *counts)


def _overall(verdicts: Sequence[Verdict]) -> Verdict:
    if "FAIL" in verdicts:
        return "FAIL"
    return "PASS" if set(verdicts) == {"PASS"} else "INCONCLUSIVE"


def _readings(rows: Sequence[RequestRow], ours: Sequence[RequestRow], metric: str) -> list[Reading]:
    """Outcomes of the measured rows as they stood when the trial ended."""
    end_s = observed_until_s(rows)
    found = [_reading(row, metric, end_s) for row in ours]
    return [reading for reading in found if reading is not None]


def observed_until_s(rows: Sequence[RequestRow]) -> float:
    """When a trial ended, at the earliest: the last that was observed."""
    stamps = ((row.sent_s, row.first_token_s, row.last_token_s) for row in rows)
    return max((t for three in stamps for t in three if t is not None), default=0.0)


def _reading(row: RequestRow, metric: str, end_s: float) -> Reading | None:
    if row.status == "ok":
        value = MEASURES[metric](row)
        return None if value is None else (value, True)
    if row.status not in ("cancelled", "unsent"):
        return math.inf, True
    if metric == "ttft" and row.ttft_s is not None:
        return row.ttft_s, True
    if metric == "tpot" or row.status == "unsent":
        return 0.0, False
    return end_s - row.due_s, False  # it was in flight until the trial ended
