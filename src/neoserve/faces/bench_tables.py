"""A measured load as text: latencies with their intervals, rates, the verdict in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.bench import Bench
from ..schema.capacity import MaxRate
from ..schema.selftest import SelfTest, Spread
from ..schema.trial import NoiseFloor, Quantile, Trial
from ..units import show_count, show_duration, show_usd, significant
from .pmu_tables import show_counted
from .tables import table, wrap

_METRICS = (
    ("TTFT", "ttft_s"),
    ("TPOT", "tpot_s"),
    ("time between chunks", "itl_s"),
    ("end to end", "e2e_s"),
    ("waiting in the server", "queue_s"),
)


def show_bench(bench: Bench) -> str:
    """All that `neoserve bench` prints."""
    last = bench.trials[-1]
    blocks = [latencies(last), rates(last)]
    if bench.max_rate is not None:
        blocks.append(probes(bench.max_rate))
    elif len(bench.trials) > 1:
        blocks.append(repeats(bench.trials))
    if bench.noise is not None:
        blocks.append(noise(bench.noise))
    if last.pmu is not None:
        blocks.append(show_counted(last.pmu))
    notes = [wrap(note) for note in (*last.notes, *client_notes(last))]
    if notes:
        blocks.append("\n".join(["Notes", *notes]))
    blocks.append(wrap(conclusion(bench), ""))
    blocks.append(
        f"Run folder {bench.run}, ledger head {bench.head}\n"
        f"Check it: neoserve verify {bench.run} --head {bench.head}"
    )
    return "\n\n".join(blocks)


def conclusion(bench: Bench) -> str:
    """What was asked, answered in a sentence."""
    last = bench.trials[-1]
    if bench.max_rate is not None:
        return max_rate_sentence(bench.max_rate, last)
    if bench.pooled is not None:
        pooled = bench.pooled
        if not last.slo.targets and pooled.verdict != "VOID":
            return f"{pooled.num_trials} trials, {pooled.num_judged} requests. No SLO was given."
        return (
            f"{pooled.verdict} on {last.slo.show()}, {pooled.num_trials} trials and "
            f"{pooled.num_judged} requests pooled: {'; '.join(pooled.reasons)}."
        )
    return sentence(last)


def max_rate_sentence(found: MaxRate, last: Trial) -> str:
    """The certified rate, and the nearest that was not met."""
    notes = f" ({'; '.join(found.notes)})" if found.notes else ""
    if found.certified_rps is None:
        return f"No rate was certified within {last.slo.show()}{notes}."
    above = (
        f"; {significant(found.not_met_rps)} requests/s was not met" if found.not_met_rps else ""
    )
    return (
        f"Certified: {significant(found.certified_rps)} requests/s keep {last.slo.show()} at "
        f"{1 - found.level:.0%} confidence{above}{notes}."
    )


def latencies(trial: Trial) -> str:
    """One line a latency; those that the server did not tell are left out."""
    rows = [
        [name, _duration(found.mean), _duration(found.p50.value), *_with_interval(found.p95),
         _with_interval(found.p99)[0]]
        for name, field in _METRICS
        if (found := getattr(trial, field)).num
    ]  # fmt: skip
    header = ["measured", "mean", "p50", "p95", "95 % interval of p95", "p99"]
    return table(header, rows, [False, True, True, True, False, True])


def _with_interval(found: Quantile) -> tuple[str, str]:
    if found.value is None and found.low is None:
        return "failed", ""
    low = _duration(found.low) if found.low is not None else "unbounded"
    high = _duration(found.high) if found.high is not None else "unbounded"
    return _duration(found.value), f"{low} to {high}"


def _duration(value: float | None) -> str:
    return "unknown" if value is None else show_duration(value)


def rates(trial: Trial) -> str:
    """Rates of the steady window, and what they cost."""
    pairs = [
        ("offered", trial.offered_rps, "requests/s"),
        ("served", trial.served_rps, "requests/s"),
        ("goodput", trial.goodput_rps if trial.slo.targets else None, "requests/s within the SLO"),
        ("output", trial.output_tokens_per_s, "tokens/s"),
        ("input", trial.input_tokens_per_s, "tokens/s"),
    ]
    lines = [
        f"{name:<9}{significant(value)} {unit}" for name, value, unit in pairs if value is not None
    ]
    if trial.cost is not None:
        cost = trial.cost
        lines.append(wrap(
            f"cost     {show_usd(cost.usd_per_mtok_output)} per million output tokens, "
            f"{show_usd(cost.usd_per_mtok_input)} per million input, "
            f"{show_usd(cost.usd_per_mtok_total)} per million of both, at this load and "
            f"{show_usd(cost.usd_per_hour)} an hour ({cost.price_source})", "",
        ))  # fmt: skip
    return "\n".join(lines)


def sentence(trial: Trial) -> str:
    """What was found, in one sentence, and what may be concluded from it."""
    load = (
        f"{trial.workload.concurrency} requests in flight"
        if trial.workload.arrival == "closed"
        else f"{significant(trial.offered_rps or trial.workload.rate_rps)} requests/s "
        f"({trial.workload.arrival})"
    )
    served = f"{trial.num_ok} of {trial.num_judged} requests served at {load}"
    if trial.verdict == "VOID":
        return f"VOID: {'; '.join(trial.reasons)}. {served}, but they say nothing."
    capacity = ""
    if trial.saturated:
        growth = significant(trial.backlog_growth_rps or 0.0)
        capacity = f"; the server is saturated: its backlog grows by {growth} requests/s"
    elif trial.load_limited:
        capacity = "; the server kept up with the load, so its capacity is not known"
    cut = "; cut off by Ctrl-C, judged on what there is" if trial.stop == "interrupted" else ""
    if not trial.slo.targets:
        return f"{served}{capacity}{cut}. No SLO was given, so nothing was decided."
    why = "; ".join(trial.reasons)
    return f"{trial.verdict} on {trial.slo.show()}: {served}{capacity}{cut} ({why})."


def client_notes(trial: Trial) -> list[str]:
    """What the client itself did to the figures."""
    client = trial.client
    looked = "" if client.lag_p99_s is None else (
        f" and looked at its sockets {show_duration(client.lag_p99_s)} late at p99")  # fmt: skip
    notes = [
        f"the client sent {show_duration(trial.late_p99_s)} late at p99{looked} ({client.loop}, "
        f"{client.workers} process{'es' if client.workers > 1 else ''} on CPUs {client.cpus})"
    ]
    if client.others_cores is not None and client.others_cores > 0.1:
        notes.append(f"other programs used {client.others_cores:.1f} cores meanwhile")
    if trial.dependence > 1.2:
        notes.append(
            f"neighbouring requests resemble each other: {trial.dependence:.1f} of them say as "
            "much as one independent request, and intervals are as much wider"
        )
    return notes


def repeats(trials: Sequence[Trial]) -> str:
    """One line a trial."""
    rows = [
        [str(number), _duration(trial.ttft_s.p50.value), _duration(trial.ttft_s.p95.value),
         _duration(trial.tpot_s.p50.value), _count(trial.output_tokens_per_s),
         trial.verdict]
        for number, trial in enumerate(trials, start=1)
    ]  # fmt: skip
    header = ["trial", "TTFT p50", "TTFT p95", "TPOT p50", "out tok/s", "verdict"]
    return table(header, rows, [True, True, True, True, True, False])


def _count(value: float | None) -> str:
    return "unknown" if value is None else show_count(value)


def noise(found: NoiseFloor) -> str:
    """What repeats of the same load differ by."""
    parts = [f"{name.removesuffix('_s')} {spread.range_share:.1%}"
             for name, spread in found.spreads.items()]  # fmt: skip
    return wrap(
        f"Noise floor, highest less lowest of {found.num_trials} repeats over their mean: "
        f"{', '.join(parts)}. Smaller differences are none.", "",
    )  # fmt: skip


def probes(found: MaxRate) -> str:
    """The search, load by load."""
    rows = [
        [significant(p.rate_rps), f"{p.num_misses} of {p.num}", significant(p.dependence),
         f"{p.verdict}{', saturated' if p.saturated else ''}",
         "certifying" if p.certifies else "search"]
        for p in found.probes
    ]  # fmt: skip
    header = ["requests/s", "missed", "worth one", "verdict", "for"]
    return table(header, rows, [True, True, True, False, False])


def show_selftest(found: SelfTest) -> str:
    """The client's errors, and whether to trust it."""
    rows = [
        _spread("TTFT read too long by", found.ttft_error_s),
        _spread("time between chunks off by", found.itl_error_s),
    ]
    if found.receive_delay_s is not None:
        rows.append(_spread("from the server's write to our stamp", found.receive_delay_s))
    if found.server_late_s is not None:
        rows.append(_spread("truth server itself late by", found.server_late_s))
    text = table(["", "mean", "p95", "p99"], rows, [False, True, True, True])
    verdict = "trusted" if found.is_trusted else "not to be trusted"
    return text + "\n\n" + wrap(
        f"{found.streams} streams, {show_count(found.chunks_per_s)} chunks/s, true TTFT "
        f"{show_duration(found.true_ttft_s)}: {found.num_chunks:,} chunks received, "
        f"{found.num_lost} lost, {found.client_cpu_s_per_chunk * 1e6:.0f} µs of CPU for each "
        f"({found.loop}).", "",
    ) + "\n" + wrap(f"The client is {verdict} at this load: {found.reason}.", "")  # fmt: skip


def _spread(name: str, found: Spread) -> list[str]:
    return [name, *map(_signed, (found.mean_s, found.p95_s, found.p99_s))]


def _signed(value_s: float) -> str:
    return show_duration(value_s) if value_s >= 0 else f"-{show_duration(-value_s)}"
