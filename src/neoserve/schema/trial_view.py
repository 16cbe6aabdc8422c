"""A trial in a notebook: its latencies with their intervals, its rates, its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..units import show_duration, show_usd, significant
from .view import html_table, paragraph

if TYPE_CHECKING:
    from .trial import Quantile, Trial

_METRICS = (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("end to end", "e2e_s"))
_RATES = (
    ("offered", "offered_rps", "requests/s"), ("served", "served_rps", "requests/s"),
    ("output", "output_tokens_per_s", "tokens/s"), ("input", "input_tokens_per_s", "tokens/s"),
)  # fmt: skip


def trial_html(trial: Trial) -> str:
    """Tables and sentences, escaped, without a script."""
    served = f"{trial.num_ok} of {trial.num_judged} requests served"
    text = paragraph(f"{trial.verdict} on {trial.slo.show()}: {served}")
    latencies = [
        [name, _value(found.mean), _value(found.p50.value), _value(found.p95.value),
         _span(found.p95), _value(found.p99.value)]
        for name, field in _METRICS
        if (found := getattr(trial, field)).num
    ]  # fmt: skip
    header = ["measured", "mean", "p50", "p95", "95 % interval of p95", "p99"]
    text += html_table(header, latencies)
    rates = [
        [name, f"{significant(value)} {unit}"]
        for name, field, unit in _RATES
        if (value := getattr(trial, field)) is not None
    ]
    if trial.cost is not None:
        usd = show_usd(trial.cost.usd_per_mtok_output)
        rates.append(["cost", f"{usd} per million output tokens ({trial.cost.price_source})"])
    text += html_table(["rate", ""], rates)
    return text + "".join(paragraph(reason) for reason in (*trial.reasons, *trial.notes))


def _value(value_s: float | None) -> str:
    return "failed" if value_s is None else show_duration(value_s)


def _span(found: Quantile) -> str:
    low, high = ("unbounded" if v is None else show_duration(v) for v in (found.low, found.high))
    return f"{low} to {high}"
