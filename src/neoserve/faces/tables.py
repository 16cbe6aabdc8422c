"""Text for people: plain tables that fit 100 columns, numbers with their units."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..schema.prediction import Plan, Prediction
from ..units import show_bytes, show_count, show_duration, show_usd, significant

WIDTH = 100


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Columns as wide as their content; `right` says which are numbers."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "-" * min(WIDTH, max(map(len, lines))), *lines[1:]])


def pairs(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A titled list of name and value."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join([title, *(f"  {name.ljust(width)}  {value}" for name, value in rows)])


def wrap(text: str, indent: str = "  ") -> str:
    """A paragraph within the width."""
    import textwrap

    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def show_prediction(p: Prediction) -> str:
    """One configuration, section by section."""
    d = p.deployment
    title = f"{p.model} on {_devices(p)} with {d.engine}{' ' + d.engine_version if d.engine_version else ''}"
    blocks = [title]
    if not p.starts:
        blocks.append(wrap(f"Would not start: {p.refusal}.", ""))
    if p.memory is not None:
        blocks.append(_memory(p))
    if p.kv is not None:
        blocks.append(_capacity(p))
    if p.latency is not None and p.throughput is not None:
        blocks.append(_speed(p))
    if p.advice:
        blocks.append("\n".join(["To free memory", *(wrap(a) for a in p.advice)]))
    if p.command:
        blocks.append("Run it\n  " + p.command)
    if p.assumptions:
        blocks.append("\n".join(["Assumed", *(wrap(a) for a in p.assumptions)]))
    blocks.append(closing(p))
    return "\n\n".join(blocks)


def _devices(p: Prediction) -> str:
    d = p.deployment
    ranks = d.devices_per_replica
    return f"{ranks} x {d.hardware}" if ranks > 1 else d.hardware


def _memory(p: Prediction) -> str:
    m = p.memory
    assert m is not None
    rows = [
        ("usable", f"{show_bytes(m.usable_bytes)} of {show_bytes(m.total_bytes)}"),
        ("weights", show_bytes(m.weights_bytes)),
        ("activations", show_bytes(m.activation_bytes)),
        ("graphs", show_bytes(m.graph_bytes)),
        ("beside torch", show_bytes(m.non_torch_bytes)),
        ("left for KV", show_bytes(m.available_kv_bytes)),
    ]
    return pairs("Memory of each device", rows)


def _capacity(p: Prediction) -> str:
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
    return pairs("KV cache", rows)


def _groups(p: Prediction) -> list[str]:
    assert p.kv is not None
    counts: dict[tuple[str, int], int] = {}
    for g in p.kv.groups:
        counts[g.kind, g.num_layers] = counts.get((g.kind, g.num_layers), 0) + 1
    return [f"{n} x {layers} {kind} layers" for (kind, layers), n in counts.items()]


def _speed(p: Prediction) -> str:
    assert p.latency is not None and p.throughput is not None
    t = p.throughput
    rows = [
        ("TTFT", f"{show_duration(p.latency.ttft_s.mean)} (mean)"),
        ("TPOT", f"{show_duration(p.latency.tpot_s.mean)} (mean)"),
        ("end to end", f"{show_duration(p.latency.e2e_s.mean)} (mean)"),
        ("throughput", f"{show_count(t.output_tokens_per_s)} output tokens/s, "
                       f"{show_count(t.total_tokens_per_s)} in all"),
        ("highest rate", f"{significant(t.max_rate_rps or 0)} requests/s"),
        ("limited by", f"{p.bound}, then {p.next_bound}"),
    ]  # fmt: skip
    if p.cost is not None:
        c = p.cost
        rows += [
            ("cost", f"{show_usd(c.usd_per_mtok_output)} per million output tokens "
                     f"({show_usd(c.usd_per_mtok_total)} of all tokens), {show_usd(c.usd_per_hour)}/h"),
            ("price", c.price_basis),
        ]  # fmt: skip
    return pairs("Under this load (predicted)", rows)


def closing(p: Prediction) -> str:
    """One sentence that a manager understands."""
    if not p.starts or p.latency is None or p.throughput is None:
        return wrap(f"{p.model} does not run on {_devices(p)} like this: {p.refusal}.", "")
    verdict = {True: "It meets the SLO: ", False: "It misses the SLO: ", None: ""}[p.meets_slo]
    money = ""
    if p.cost is not None:
        money = f", {show_usd(p.cost.usd_per_mtok_output)} per million output tokens"
    return wrap(
        f"{verdict}{_devices(p)} answers the first token of {p.model} after "
        f"{show_duration(p.latency.ttft_s.mean)} and then one every "
        f"{show_duration(p.latency.tpot_s.mean)}{money}.",
        "",
    )


def show_plan(result: Plan) -> str:
    """The ranked table, rejections by reason, and one closing sentence."""
    shown = result.candidates[:15]
    priced = any(p.cost is not None for p in shown)
    header = ["", "hardware", "TP", "weights", "KV", "seqs", "chunk", "TTFT", "TPOT", "out tok/s",
              "$/Mtok out" if priced else "dev-s/Mtok", "limit", "SLO"]  # fmt: skip
    rows = [_row(i, p, i in result.pareto) for i, p in enumerate(shown)]
    right = [False, False, True, False, False, True, True, True, True, True, True, False, False]
    blocks = [f"{result.model}: {result.num_candidates:,} candidates, {len(shown)} shown"]
    if rows:
        blocks.append(table(header, rows, right))
        blocks.append("* on the Pareto set of cost and time per token")
    if result.rejected:
        blocks.append(_rejections(result))
    if result.best is not None:
        blocks.append("Run it\n  " + result.best.command)
        notes = result.best.assumptions
        blocks.append("\n".join(["Assumed", *(wrap(a) for a in notes)]))
    blocks.append(wrap(result.summary, ""))
    return "\n\n".join(blocks)


def _row(index: int, p: Prediction, on_front: bool) -> list[str]:
    from ..predict.plan import money

    d = p.deployment
    assert p.latency is not None and p.throughput is not None
    copies = f"{d.replicas}x " if d.replicas > 1 else ""
    quant = d.weight_quant if d.weight_quant != "checkpoint" else "as is"
    pipeline = f"x{d.pipeline_parallel}" if d.pipeline_parallel > 1 else ""
    cost = money(p)
    slo = {True: "meets", False: "misses", None: ""}[p.meets_slo]
    return [
        f"{index + 1}{'*' if on_front else ''}",
        copies + d.hardware,
        f"{d.tensor_parallel}{pipeline}",
        quant,
        d.kv_cache_dtype,
        str(d.max_num_seqs),
        str(d.max_num_batched_tokens),
        show_duration(p.latency.ttft_s.mean),
        show_duration(p.latency.tpot_s.mean),
        show_count(p.throughput.output_tokens_per_s),
        significant(cost) if math.isfinite(cost) else "-",
        p.bound,
        slo,
    ]


def _rejections(result: Plan) -> str:
    reasons: dict[str, int] = {}
    for r in result.rejected:
        d = r.deployment
        key = f"{d.hardware} TP {d.tensor_parallel} {d.weight_quant}: {r.reason}"
        reasons[key] = reasons.get(key, 0) + 1
    lines = [wrap(f"{reason}" + (f" ({n} candidates)" if n > 1 else ""))
             for reason, n in list(reasons.items())[:6]]  # fmt: skip
    more = len(reasons) - len(lines)
    if more > 0:
        lines.append(f"  and {more} more reasons (--json lists them)")
    return "\n".join(["Would not start", *lines])
