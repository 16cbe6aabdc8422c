"""The cost card: a document, and a page of it."""

from __future__ import annotations

import math

from ..schema.campaign import Recommendation
from ..schema.recipe import CostCard, Monthly, Savings
from ..schema.trial import Trial
from ..units import show_count, show_usd, significant
from .claims import gain, load, one_line, price_date, quality
from .served import served

HOURS_PER_MONTH = 730.0  # 8,760 / 12
_SECONDS_PER_MONTH = 3600 * HOURS_PER_MONTH


def cost_card(
    r: Recommendation, head: str, *, output_tokens_per_month: float | None = None
) -> CostCard:
    """Money of the certified configuration; without a price or a trial, what is missing."""
    rate = r.pick.capacity.certified_rps
    output, prompt, total = _prices(r)
    speed = r.trial.output_tokens_per_s if r.trial and rate is not None else None
    return CostCard(
        model=served(r.config).model,
        engine=r.config.version or r.config.engine,
        settings=r.pick.candidate.show(),
        slo=r.slo.show(),
        load=load(r.workload),
        certified_rps=rate,
        output_tokens_per_s=speed,
        usd_per_hour=r.usd_per_hour,
        price_source=r.price_source,
        price_date=price_date(r.price_source),
        usd_per_mtok_output=output,
        usd_per_mtok_input=prompt,
        usd_per_mtok_total=total,
        output_tokens_per_usd=_per_usd(output),
        input_tokens_per_usd=_per_usd(prompt),
        total_tokens_per_usd=_per_usd(total),
        month_at_certified_rate=_month(r.usd_per_hour, speed),
        month_at_volume=(
            _month(r.usd_per_hour, speed, output_tokens_per_month)
            if output_tokens_per_month is not None
            else None
        ),
        savings=savings(r),
        quality=r.pick.quality,
        ledger_head=head,
        trials=tuple(_digests(r.trial, r.baseline_trial)),
        notes=tuple(_notes(r, output_tokens_per_month)),
    )


def savings(r: Recommendation) -> Savings:
    """For the same tokens, from the gain for the same money; only between certified rates."""
    g = r.gain
    reason = ""
    if r.pick.candidate == r.baseline.candidate:
        reason = "the engine's defaults are the pick"
    elif r.pick.capacity.certified_rps is None or r.baseline.capacity.certified_rps is None:
        reason = "both the pick's rate and the baseline's have to be certified"
    elif g.ratio is None:
        reason = g.reason or "no gain is stated"
    if reason:
        return Savings(share=None, low=None, high=None, level=g.level, reason=reason)
    return Savings(share=_saved(g.ratio), low=_saved(g.low), high=_saved(g.high), level=g.level)


def _saved(ratio: float | None) -> float | None:
    return None if ratio is None or ratio <= 0 else 1 - 1 / ratio


def _prices(r: Recommendation) -> tuple[float | None, float | None, float | None]:
    """Of a million output, input and all tokens, by the trial that certifies."""
    cost = r.trial.cost if r.trial and r.pick.capacity.certified_rps is not None else None
    if cost is None:
        return None, None, None
    return cost.usd_per_mtok_output, cost.usd_per_mtok_input, cost.usd_per_mtok_total


def _per_usd(usd_per_mtok: float | None) -> float | None:
    return 1e6 / usd_per_mtok if usd_per_mtok else None


def _month(
    usd_per_hour: float | None, speed: float | None, volume: float | None = None
) -> Monthly | None:
    """One replica, or as many as `volume` takes: each holds the certified rate for itself."""
    if usd_per_hour is None or not speed:
        return None
    held = speed * _SECONDS_PER_MONTH
    wanted = held if volume is None else volume
    replicas = max(1, math.ceil(wanted / held))
    return Monthly(
        replicas=replicas, usd=replicas * usd_per_hour * HOURS_PER_MONTH, output_tokens=wanted
    )


def _digests(*trials: Trial | None) -> list[str]:
    return [trial.rows for trial in trials if trial is not None]


def _notes(r: Recommendation, volume: float | None) -> list[str]:
    notes = []
    if r.usd_per_hour is None:
        notes.append("No price is known: give --price or --on to the campaign.")
    elif not price_date(r.price_source):
        notes.append("The price's source names no date.")
    if r.pick.capacity.certified_rps is None:
        notes.append("No rate is certified, so no cost of a token is stated.")
    if volume is None:
        notes.append("No volume was asked about: --output-tokens-per-month N.")
    notes.append(
        "Each price of a million tokens divides the whole hourly price: output, input and total "
        "are alternatives, not parts. All hold at the certified rate, all hours of a month."
    )
    return notes


def cost_page(card: CostCard, r: Recommendation) -> str:
    """The card in Markdown."""
    rows = [
        ("Certified rate", _number(card.certified_rps, "{} requests/s")),
        ("SLO", card.slo),
        ("Load", card.load),
        ("Price", _usd(card.usd_per_hour, " an hour")),
        ("Price's source", card.price_source or "not said"),
        ("Price's date", card.price_date or "not said"),
        ("Per million output tokens", _usd(card.usd_per_mtok_output)),
        ("Per million input tokens", _usd(card.usd_per_mtok_input)),
        ("Per million tokens, input and output", _usd(card.usd_per_mtok_total)),
        ("Output tokens per dollar", _count(card.output_tokens_per_usd)),
        ("Tokens per dollar, input and output", _count(card.total_tokens_per_usd)),
        ("A month at the certified rate", _monthly(card.month_at_certified_rate)),
        *([("A month at the given volume", _monthly(card.month_at_volume))]
          if card.month_at_volume else []),
        ("Savings over the engine's defaults", _share(card.savings)),
    ]  # fmt: skip
    lines = [f"# Cost of {_cell(card.model)}", "", f"{card.engine}, {card.settings}.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {_cell(value)} |" for name, value in rows), ""]
    lines += [gain(r.gain), "", quality(card.quality), ""]
    lines += [*(f"- {note}" for note in card.notes), ""]
    lines += [f"Evidence: ledger head `{card.ledger_head}`; raw rows "
              f"{', '.join(f'`{d}`' for d in card.trials) or 'none'}."]  # fmt: skip
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def _number(value: float | None, form: str) -> str:
    return "none" if value is None else form.format(significant(value))


def _usd(value: float | None, unit: str = "") -> str:
    return "not known" if value is None else f"{show_usd(value)}{unit}"


def _count(value: float | None) -> str:
    return "not known" if value is None else show_count(value)


def _monthly(month: Monthly | None) -> str:
    if month is None:
        return "not known"
    replicas = "1 replica" if month.replicas == 1 else f"{month.replicas} replicas"
    return f"{show_usd(month.usd)} for {show_count(month.output_tokens)} output tokens, {replicas}"


def _share(s: Savings) -> str:
    if s.share is None:
        return f"not stated: {s.reason}"
    low = f"{s.low:.0%}" if s.low is not None else "unbounded"
    high = f"{s.high:.0%}" if s.high is not None else "unbounded"
    return f"{s.share:.0%} of a token's cost ({low} to {high})"
