"""What a gate says of a load, alone and beside an earlier one. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from ..schema.gate import Check, GateVerdict
from ..schema.prediction import Prediction
from ..stats import clopper_pearson, dependence, mean, quantile
from ..stats.change import (
    NEVER,
    Bounded,
    geomean_change,
    paired_geomean_change,
    quantile_change,
    ratio,
)
from ..stats.paired import Change
from ..units import show_duration, show_usd

COMPARED = ("ttft:geomean", "tpot:geomean", "ttft:p95", "tpot:p95")
_OF_LATENCY = ("slower", "faster", "slowdown")
_OF_COST = ("dearer", "cheaper", "rise")
_FAILED_MORE = 0.01  # of requests: more failed ones than before, beyond chance and this


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of one load, in the order in which they were due."""

    latencies_s: dict[str, tuple[float | None, ...]]  # null: none; NEVER or more: failed
    num: int
    num_failed: int
    schedule: str = ""  # digest; loads of one schedule sent the same requests

    def served_s(self, metric: str) -> list[float]:
        """Of the requests that were served and have one."""
        return [v for v in self.latencies_s.get(metric, ()) if v is not None and 0 < v < NEVER]

    def all_s(self, metric: str) -> list[float]:
        """Failed ones included, as infinite."""
        return [v for v in self.latencies_s.get(metric, ()) if v is not None]


class Cost(msgspec.Struct, frozen=True):
    """Dollars per million output tokens, with its interval where one is known."""

    value: float
    low: float | None
    high: float | None
    of: str  # what it is the cost at, in words


def overall(checks: Sequence[Check]) -> GateVerdict:
    """FAIL if a check fails, else INCONCLUSIVE if one is."""
    found = {check.verdict for check in checks}
    if "FAIL" in found:
        return "FAIL"
    return "INCONCLUSIVE" if "INCONCLUSIVE" in found else "PASS"


def budget_check(cost: Cost | None, limit_usd: float) -> Check:
    """Do tokens cost at most this much?"""
    if cost is None:
        return Check(
            name="usd_per_mtok_output", kind="cost", verdict="INCONCLUSIVE", unit="usd",
            limit=limit_usd, reason="no price is known: give --price, or --on a machine that the "
            "catalog prices",
        )  # fmt: skip
    verdict: GateVerdict = "PASS" if cost.value <= limit_usd else "FAIL"
    span = ""
    if cost.low is not None and cost.high is not None:
        span = f" ({show_usd(cost.low)} to {show_usd(cost.high)})"
        if cost.low <= limit_usd < cost.high:
            verdict = "INCONCLUSIVE"
    return Check(
        name="usd_per_mtok_output", kind="cost", verdict=verdict, unit="usd", value=cost.value,
        low=cost.low, high=cost.high, limit=limit_usd,
        reason=f"{show_usd(cost.value)}{span} per million output tokens {cost.of}; the budget is "
               f"{show_usd(limit_usd)}",
    )  # fmt: skip


def prediction_checks(p: Prediction, sure: float) -> list[Check]:
    """Does the planner expect the SLO to hold, and how surely?"""
    if not p.starts:
        return [Check(name="starts", kind="slo", verdict="FAIL", reason=p.refusal)]
    if p.slo_share is None:
        verdict: GateVerdict = "PASS" if p.meets_slo else "FAIL"
        reason = f"predicted to {'hold' if p.meets_slo else 'miss'}; no interval is known of it"
    else:
        verdict = "INCONCLUSIVE"
        if p.slo_share >= sure:
            verdict = "PASS"
        elif p.slo_share <= 1 - sure:
            verdict = "FAIL"
        reason = f"predicted to hold in {p.slo_share:.0%} of benches like this; asked: {sure:.0%}"
    note = f" ({p.slo_note})" if p.slo_note else ""
    return [Check(name="predicted SLO", kind="slo", verdict=verdict, reason=reason + note,
                  unit="share", value=p.slo_share, limit=sure)]  # fmt: skip


def compare_predictions(after: Prediction, before: Prediction, tolerance: float) -> list[Check]:
    """The same planner's figures for two configurations: no chance takes part."""
    found = []
    for name, unit, old, new in _figures(before, after):
        if old is None or new is None:
            continue
        share = new / old - 1
        worse = share > tolerance
        found.append(Check(
            name=name, kind="regression", verdict="FAIL" if worse else "PASS", unit=unit,  # type: ignore[arg-type]
            value=new, baseline=old, change=share, limit=tolerance,
            reason=f"predicted {share:+.1%}, {'more' if worse else 'not more'} than the "
                   f"{tolerance:.1%} that is tolerated",
        ))  # fmt: skip
    return found


def _figures(
    before: Prediction, after: Prediction
) -> Iterator[tuple[str, str, float | None, float | None]]:
    for metric in ("ttft_s", "tpot_s"):
        for statistic in ("mean", "p95"):
            old, new = (
                getattr(getattr(p.latency, metric), statistic) if p.latency else None
                for p in (before, after)
            )
            yield f"{metric.removesuffix('_s')}:{statistic}", "s", old, new
    old, new = (p.cost.usd_per_mtok_output if p.cost else None for p in (before, after))
    yield "usd_per_mtok_output", "usd", old, new


def share_of(level: float, figures: Sequence[str]) -> float:
    """Of one comparison: beside the figures, failed requests and the cost are compared."""
    return level / (len(figures) + 2)


def compare_cost(
    after: Cost, before: Cost, *, tolerance: float, detect: float
) -> Check:
    """Did tokens become dearer? For loads that the server could not keep up with, or closed ones:
    where it served what was offered, the cost says nothing of it."""
    sides = [Bounded(c.value, c.low or 0.0, math.inf if c.high is None else c.high)
             for c in (before, after)]  # fmt: skip
    change = ratio(*sides)
    verdict, said = _regressed(change, tolerance, detect, True, _OF_COST)
    high = change.high if math.isfinite(change.high) else None
    return Check(
        name="usd_per_mtok_output", kind="regression", verdict=verdict, unit="usd",
        value=after.value, baseline=before.value, limit=tolerance, change=change.share,
        low=change.low, high=high, reason=said,
    )  # fmt: skip


def compare(
    after: Sample,
    before: Sample,
    figures: Sequence[str] = COMPARED,
    *,
    tolerance: float,
    detect: float,
    level: float,
) -> list[Check]:
    """Is it slower than before, beyond chance and tolerance?

    All comparisons together raise a false alarm with a chance of at most `level`. A geometric mean
    passes when a slowdown of `detect` is excluded; a tail fails when it is certified to be worse,
    and passes otherwise: its budget is the SLO's. A tail that is not bounded is left out.
    """
    share = share_of(level, figures)
    checks = [_failures(after, before, share)]
    for figure in figures:
        metric, _, statistic = figure.partition(":")
        if after.served_s(metric) and before.served_s(metric):
            found = _slower(figure, after, before, statistic, tolerance, detect, share)
            checks.append(found)
    return [check for check in checks if not _says_nothing(check)]


def _says_nothing(check: Check) -> bool:
    """A tail that so few requests do not bound on either side."""
    return check.low is not None and check.low <= -1 and check.high is None


def _slower(
    figure: str, after: Sample, before: Sample, statistic: str, tolerance: float, detect: float,
    level: float,
) -> Check:  # fmt: skip
    metric = figure.partition(":")[0]
    pairs = _pairs(after, before, metric) if statistic == "geomean" else []
    sides = before.served_s(metric), after.served_s(metric)
    if pairs:
        change = paired_geomean_change([a for a, _ in pairs], [b for _, b in pairs], level)
        sides = [a for a, _ in pairs], [b for _, b in pairs]
    elif statistic == "geomean":
        change = geomean_change(*sides, level)
    else:
        sides = before.all_s(metric), after.all_s(metric)
        change = quantile_change(*sides, float(statistic.removeprefix("p")) / 100, level)
    old, new = (value_of(values, statistic) for values in sides)
    if change is None or math.isnan(change.share):
        return Check(
            name=figure, kind="regression", verdict="INCONCLUSIVE", unit="s", value=new,
            baseline=old, limit=tolerance, paired=bool(pairs),
            reason=f"{min(map(len, sides))} requests that resemble their neighbours are too few "
                   "to compare; send more",
        )  # fmt: skip
    verdict, said = _regressed(change, tolerance, detect, statistic == "geomean")
    finite = {name: value if math.isfinite(value) else None
              for name, value in change._asdict().items()}  # fmt: skip
    return Check(
        name=figure, kind="regression", verdict=verdict, reason=said, unit="s", value=new,
        baseline=old, limit=tolerance, change=finite["share"], low=finite["low"],
        high=finite["high"], paired=bool(pairs),
    )  # fmt: skip


def _regressed(
    change: Change, tolerance: float, detect: float, has_to_exclude: bool,
    words: tuple[str, str, str] = _OF_LATENCY,
) -> tuple[GateVerdict, str]:  # fmt: skip
    worse, better, rise = words
    span = f"{change.share:+.1%} ({change.low:+.1%} to {change.high:+.1%})"
    if change.low > tolerance:
        return "FAIL", f"{span}: {worse} by more than the {tolerance:.1%} that is tolerated"
    if change.high < -tolerance:
        return "PASS", f"{span}: {better}"
    if not has_to_exclude or change.high <= detect:
        return "PASS", f"{span}: no {rise} beyond {tolerance:.1%} is shown"
    return "INCONCLUSIVE", (
        f"{span}: too few requests to exclude a {rise} of {detect:.0%}; send more"
    )


def value_of(values_s: Sequence[float], statistic: str) -> float | None:
    """Of one latency or more; null where a quantile lies among failed requests."""
    if statistic == "mean":
        return mean(values_s)
    if statistic == "geomean":
        return math.exp(mean([math.log(value) for value in values_s]))
    found = quantile(values_s, float(statistic.removeprefix("p")) / 100)
    return found if found < NEVER else None


def _pairs(after: Sample, before: Sample, metric: str) -> list[tuple[float, float]]:
    """Both latencies of each request of one schedule, where both were served."""
    if not after.schedule or after.schedule != before.schedule:
        return []
    both = zip(before.latencies_s[metric], after.latencies_s[metric], strict=False)
    return [(a, b) for a, b in both if a is not None and b is not None and min(a, b) > 0
            and max(a, b) < NEVER]


def _failures(after: Sample, before: Sample, level: float) -> Check:
    """More failed requests than before? Each side's share with its exact interval."""
    (old, _, old_high), (new, new_low, _) = (_failed(side, level) for side in (before, after))
    low = new - old - math.hypot(new - new_low, old_high - old)
    worse = low > _FAILED_MORE
    return Check(
        name="failed", kind="regression", verdict="FAIL" if worse else "PASS", unit="share",
        value=new, baseline=old, limit=_FAILED_MORE,
        reason=f"{after.num_failed} of {after.num} requests failed, {before.num_failed} of "
               f"{before.num} before: {'more' if worse else 'no more'} beyond chance",
    )  # fmt: skip


def _failed(side: Sample, level: float) -> tuple[float, float, float]:
    flags = [1.0 if v is not None and v >= NEVER else 0.0
             for v in side.latencies_s.get("ttft", ())]  # fmt: skip
    worth = dependence(flags) if flags else 1.0
    low, high = clopper_pearson(side.num_failed / worth, side.num / worth, 1 - 2 * level)
    return side.num_failed / max(1, side.num), low, high


def show(check: Check, value: float | None) -> str:
    """A figure of a check with its unit."""
    if value is None:
        return ""
    if check.unit == "s":
        return show_duration(value)
    if check.unit == "usd":
        return show_usd(value)
    return f"{value:.1%}" if check.unit == "share" else f"{value:g}"
