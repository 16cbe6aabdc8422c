"""What a recommendation may claim, in sentences: for the top of files and the README."""

from __future__ import annotations

import re

from ..schema.campaign import Gain, Recommendation
from ..schema.quality import QualityCheck
from ..schema.trial import Summary, Trial
from ..schema.workload import Workload
from ..units import show_duration, show_usd, significant


def claims(r: Recommendation) -> tuple[str, ...]:
    """Rate, latencies, gain, quality, price: each measured, or said to be unknown."""
    return (
        certified(r),
        *((latencies(r.trial),) if r.trial else ()),
        gain(r.gain),
        quality(r.pick.quality),
        price(r),
    )


def certified(r: Recommendation) -> str:
    """The proven rate, of which load, within which SLO."""
    rate = r.pick.capacity.certified_rps
    if rate is None:
        return f"Not certified for {r.slo.show()}: {_end(r.pick.reason)}"
    # the gain's interval has four ends that may be wrong, this is one of them
    level = f"; wrong with a chance of at most {25 * r.gain.level:.2g} %" if r.trial else ""
    at = f"{significant(rate)} requests/s ({load(r.workload)})"
    return f"Certified: {at} keep {r.slo.show()}{level}."


def load(w: Workload) -> str:
    """``poisson arrivals, 512 prompt and 128 output tokens``."""
    return f"{w.arrival} arrivals, {w.prompt_tokens} prompt and {w.output_tokens} output tokens"


def latencies(trial: Trial) -> str:
    """95th percentiles at that rate, each with its interval."""
    parts = [
        f"{name} p95 {_p95(summary)}"
        for name, summary in (("TTFT", trial.ttft_s), ("TPOT", trial.tpot_s))
    ]
    return f"Measured there, over {trial.num_judged} requests: {'; '.join(parts)}."


def _p95(summary: Summary) -> str:
    p95 = summary.p95
    if p95.value is None:
        return "unknown"
    low = show_duration(p95.low) if p95.low is not None else "unbounded"
    high = show_duration(p95.high) if p95.high is not None else "unbounded"
    return f"{show_duration(p95.value)} ({low} to {high})"


def gain(g: Gain) -> str:
    """Over the engine's defaults."""
    if g.ratio is None:
        return f"Gain over the engine's defaults: not stated: {_end(g.reason)}"
    low = f"{g.low:.2f}" if g.low is not None else "unbounded"
    high = f"{g.high:.2f}" if g.high is not None else "unbounded"
    end = "" if g.is_proven else "; none is proven"
    return (
        f"Gain over the engine's defaults: {g.ratio:.2f}x ({low} to {high}, "
        f"outside of it with a chance of {g.level:.0%}){end}."
    )


def quality(check: QualityCheck | None) -> str:
    """Of answers, against the baseline's."""
    if check is None:
        return "Quality: not checked; only settings that can change answers are."
    if check.change_share is None:
        return f"Quality: {check.verdict}: {_end(check.reason)}"
    low = f"{check.low:+.1%}" if check.low is not None else "unbounded"
    high = f"{check.high:+.1%}" if check.high is not None else "unbounded"
    return (
        f"Quality: word perplexity {check.change_share:+.1%} ({low} to {high}), "
        f"budget {check.budget_share:+.1%}: {check.verdict}."
    )


def price(r: Recommendation) -> str:
    """Dollars an hour, whose and when."""
    if r.usd_per_hour is None:
        return "Price: no price is known, so no cost is stated."
    return f"Price: {show_usd(r.usd_per_hour)} an hour ({r.price_source or 'source not said'})."


def price_date(source: str) -> str:
    """The last date that a price's source names, "" for none."""
    found = re.findall(r"\b\d{4}-\d{2}(?:-\d{2})?\b", source)
    return found[-1] if found else ""


def one_line(text: str) -> str:
    """A line break must not end a comment or a table row; YAML has no control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _end(reason: str) -> str:
    sentence = one_line(reason)
    return f"{sentence.rstrip('. ') or 'no reason was recorded'}."
