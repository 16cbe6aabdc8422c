"""A plan and a prediction as rows of text: what the terminal table and a notebook both show."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..units import show_bytes, show_count, show_duration, show_usd, significant

if TYPE_CHECKING:
    from .prediction import Fleet, Interval, Percentiles, Plan, Prediction

Rows = list[tuple[str, str]]
COLUMNS = (
    ("", False), ("hardware", False), ("TP", True), ("weights", False), ("KV", False),
    ("seqs", True), ("chunk", True), ("TTFT", True), ("TTFT p95", True), ("TPOT", True),
    ("TPOT p95", True), ("out tok/s", True), ("$/Mtok out", True), ("limit", False),
    ("SLO", False),
)  # fmt: skip
TAILS = ("TTFT p95", "TPOT p95")  # shown where something was simulated, instead of:
SETTINGS = ("seqs", "chunk")


def per_mtok_output(p: Prediction) -> float:
    """Dollars per million output tokens; without a price, device-seconds per million."""
    if p.cost is not None:
        return p.cost.usd_per_mtok_output
    rate = p.throughput.output_tokens_per_s if p.throughput else 0.0
    devices = p.deployment.devices_per_replica * p.deployment.replicas
    return devices / rate * 1e6 if rate else math.inf


def _columns(plan: Plan) -> list[tuple[str, bool]]:
    """(title, whether it is of numbers)."""
    tails = any(p.latency is not None and p.latency.ttft_s.p95 for p in plan.candidates)
    return [column for column in COLUMNS if column[0] not in (SETTINGS if tails else TAILS)]


def plan_header(plan: Plan) -> list[str]:
    """Column titles; without prices the cost column counts device-seconds."""
    priced = any(p.cost is not None for p in plan.candidates)
    titles = [title for title, _ in _columns(plan)]
    return [title if priced or "$" not in title else "dev-s/Mtok" for title in titles]


def plan_right(plan: Plan) -> list[bool]:
    """Which columns are of numbers."""
    return [right for _, right in _columns(plan)]


def plan_rows(plan: Plan, limit: int) -> list[list[str]]:
    """The first `limit` candidates; * marks the Pareto set."""
    titles = [title for title, _ in _columns(plan)]
    candidates = enumerate(plan.candidates[:limit])
    found = (_cells(i, p, i in plan.pareto, i in plan.ties) for i, p in candidates)
    return [[cells[title] for title in titles] for cells in found]


def _cells(index: int, p: Prediction, on_front: bool, is_tie: bool) -> dict[str, str]:
    d = p.deployment
    assert p.latency is not None
    assert p.throughput is not None
    cost = per_mtok_output(p)
    ttft_s, tpot_s = p.latency.ttft_s, p.latency.tpot_s
    return {
        "": f"{index + 1}{'*' if on_front else ''}{'~' if is_tie else ''}",
        "hardware": f"{d.replicas}x {d.hardware}" if d.replicas > 1 else d.hardware,
        "TP": f"{d.tensor_parallel}x{d.pipeline_parallel}" if d.pipeline_parallel > 1
        else str(d.tensor_parallel),
        "weights": "as is" if d.weight_quant == "checkpoint" else d.weight_quant,
        "KV": d.kv_cache_dtype,
        "seqs": str(d.max_num_seqs),
        "chunk": str(d.max_num_batched_tokens),
        "TTFT": show_duration(ttft_s.mean),
        "TTFT p95": "-" if ttft_s.p95 is None else show_duration(ttft_s.p95),
        "TPOT": show_duration(tpot_s.mean),
        "TPOT p95": "-" if tpot_s.p95 is None else show_duration(tpot_s.p95),
        "out tok/s": show_count(p.throughput.output_tokens_per_s),
        "$/Mtok out": significant(cost) if math.isfinite(cost) else "-",
        "limit": p.bound,
        "SLO": verdict(p),
    }  # fmt: skip


def verdict(p: Prediction) -> str:
    """How sure it is that the SLO is met, where that is expected; else "misses"."""
    if p.meets_slo is None:
        return ""
    if not p.meets_slo:
        return "misses"
    return "meets" if p.slo_share is None else f"{p.slo_share:.0%}"


def within(show: Callable[[float], str], interval: Interval | None) -> str:
    """An interval in words: "17 to 27 ms"; "" where there is none."""
    if interval is None:
        return ""
    low, high = show(interval.low), show(interval.high)
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} to {high}"


def inside(text: str) -> str:
    """Behind a value, in parentheses."""
    return f" ({text})" if text else ""


def sections(p: Prediction) -> list[tuple[str, Rows]]:
    """Memory, KV cache and speed, each as name and value."""
    found = []
    if p.memory is not None:
        found.append(("Memory of each device", _memory(p)))
    if p.kv is not None:
        found.append(("KV cache", _capacity(p)))
    if p.latency is not None and p.throughput is not None:
        levels = sorted({i.level for i in p.interval.values()})
        bands = "".join(f", {level:.0%} intervals" for level in levels)
        found.append((f"Under this load (predicted{bands})", _speed(p)))
    return found


def devices(p: Prediction) -> str:
    """What one replica runs on: "2 x L40S"."""
    ranks = p.deployment.devices_per_replica
    return f"{ranks} x {p.deployment.hardware}" if ranks > 1 else p.deployment.hardware


def _memory(p: Prediction) -> Rows:
    m = p.memory
    assert m is not None
    return [
        ("usable", f"{show_bytes(m.usable_bytes)} of {show_bytes(m.total_bytes)}"),
        ("weights", show_bytes(m.weights_bytes)),
        ("activations", show_bytes(m.activation_bytes)),
        ("graphs", show_bytes(m.graph_bytes)),
        ("beside torch", show_bytes(m.non_torch_bytes)),
        ("left for KV", show_bytes(m.available_kv_bytes)),
    ]


def _capacity(p: Prediction) -> Rows:
    kv = p.kv
    assert kv is not None
    rows = [
        ("tokens", f"{kv.kv_tokens:,} in {kv.num_blocks:,} blocks of {kv.block_size_tokens}"),
        ("per token", show_bytes(kv.bytes_per_token)),
    ]
    if kv.state_bytes_per_request:
        rows.append(("state per request", show_bytes(kv.state_bytes_per_request)))
    rows += [
        ("concurrency", f"{kv.max_concurrency:.2f} requests of {kv.max_model_len:,} tokens"),
        ("longest alone", f"{kv.longest_request_tokens:,} tokens"),
    ]
    if len(kv.groups) > 1:
        rows.append(("groups", ", ".join(_groups(p))))
    return rows


def _groups(p: Prediction) -> list[str]:
    assert p.kv is not None
    counts: dict[tuple[str, int], int] = {}
    for g in p.kv.groups:
        counts[g.kind, g.num_layers] = counts.get((g.kind, g.num_layers), 0) + 1
    return [f"{n} x {layers} {kind} layers" for (kind, layers), n in counts.items()]


def _speed(p: Prediction) -> Rows:
    assert p.latency is not None
    assert p.throughput is not None
    t = p.throughput

    def told(metric: str, found: Percentiles) -> str:
        return _percentiles(found, within(show_duration, p.interval.get(metric)))

    rows = [
        ("TTFT", told("ttft_s", p.latency.ttft_s)),
        ("TPOT", told("tpot_s", p.latency.tpot_s)),
        ("end to end", told("e2e_s", p.latency.e2e_s)),
        ("throughput", f"{show_count(t.output_tokens_per_s)}"
                       f"{inside(within(show_count, p.interval.get('output_tokens_per_s')))} "
                       f"output tokens/s, {show_count(t.total_tokens_per_s)} in all"),
        ("highest rate", f"{significant(t.max_rate_rps or 0)}"
                         f"{inside(within(significant, p.interval.get('max_rate_rps')))} "
                         "requests/s"),
        ("limited by", f"{p.bound}, then {p.next_bound}"),
    ]  # fmt: skip
    if p.slo_note:
        rows.append(("SLO", p.slo_note))
    if p.cost is not None:
        c = p.cost
        rows += [
            ("cost", f"{show_usd(c.usd_per_mtok_output)} per million output tokens "
                     f"({show_usd(c.usd_per_mtok_total)} of all tokens), "
                     f"{show_usd(c.usd_per_hour)}/h"),
            ("price", c.price_basis),
        ]  # fmt: skip
    if p.fleet is not None:
        rows.append(("fleet", _fleet(p.fleet)))
    return rows


def _percentiles(found: Percentiles, span: str) -> str:
    """Mean with its interval, and where the load was simulated its percentiles."""
    text = f"{show_duration(found.mean)} (mean{span and f'; {span}'})"
    tails = (("p50", found.p50), ("p95", found.p95), ("p99", found.p99))
    return ", ".join([text, *(f"{show_duration(v)} ({n})" for n, v in tails if v is not None)])


def _fleet(fleet: Fleet) -> str:
    bill = "" if fleet.usd_per_month is None else f", {show_usd(fleet.usd_per_month)}/month"
    return (
        f"{fleet.replicas} for {significant(fleet.rate_rps)} requests/s, "
        f"{max(0.0, fleet.idle_share):.0%} idle{bill}"
    )


def plan_html(plan: Plan, limit: int = 15) -> str:
    """A plan in a notebook: the ranked table and the closing sentence."""
    return html_table(plan_header(plan), plan_rows(plan, limit)) + paragraph(plan.summary)


def prediction_html(p: Prediction) -> str:
    """A prediction in a notebook: its sections, or why it would not start."""
    text = paragraph(f"{p.model} on {devices(p)} with {p.deployment.engine}")
    if not p.starts:
        text += paragraph(f"Would not start: {p.refusal}")
    for title, rows in sections(p):
        text += html_table([title, ""], rows)
    return text


def paragraph(text: str) -> str:
    """Text as text."""
    return f"<p>{escape(text)}</p>"


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are text: whatever they hold is escaped."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
