"""Why one configuration is faster than another, by what was counted under both. Pure.

A figure has moved where the 95 % intervals of repeated windows do not meet. What has not moved is
not told, and where nothing can be told, that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..schema.pmu import Counters
from ..schema.trial import Trial
from ..stats import mean_interval
from ..units import significant


class Figure(NamedTuple):
    """One that may explain a gain."""

    name: str
    words: str  # "retiring", of what: "of slots"
    of_what: str


_FIGURES = (
    Figure("retiring_share", "retiring", "of slots"),
    Figure("frontend_bound_share", "frontend bound", "of slots"),
    Figure("backend_bound_share", "backend bound", "of slots"),
    Figure("bad_speculation_share", "bad speculation", "of slots"),
    Figure("frontend_stall_share", "frontend stalls", "of cycles"),
    Figure("backend_stall_share", "backend stalls", "of cycles"),
    Figure("backend_memory_stall_share", "stalls on memory", "of cycles"),
    Figure("instructions_per_cycle", "instructions a cycle", ""),
    Figure("int8_share", "8-bit integer SIMD", "of operations"),
    Figure("simd_share", "SIMD", "of operations"),
    Figure("sve_share", "SVE", "of operations"),
    Figure("l1d_mpki", "L1 data misses", "per 1,000 instructions"),
    Figure("l2_mpki", "L2 misses", "per 1,000 instructions"),
    Figure("llc_read_mpki", "last-level read misses", "per 1,000 instructions"),
    Figure("llc_mpki", "last-level misses", "per 1,000 instructions"),
    Figure("branch_mpki", "wrong branches", "per 1,000 instructions"),
)


class Span(NamedTuple):
    """A value with the interval of its repeats."""

    value: float
    low: float
    high: float


def explain(pick: Sequence[Trial], baseline: Sequence[Trial]) -> tuple[str, ...]:
    """Sentences: what moved, by how much, from what; or why that cannot be said.

    Trials of one configuration each, repeats of about the same load.
    """
    here = [t.pmu for t in pick if t.pmu is not None]
    there = [t.pmu for t in baseline if t.pmu is not None]
    if not here or not there:
        return ("Why it is faster cannot be told: nothing was counted while both ran.",)
    cores = {c.core.identity for c in (*here, *there) if c.core}
    if len(cores) > 1:
        return ("Why it is faster cannot be told: the two ran on unlike cores.",)
    told = [*_cpu_time(pick, baseline), *_instructions(pick, baseline), *_moved(here, there)]
    if all(c.figures for c in (*here, *there)):
        if not told:
            told.append(
                "No counter moved beyond the intervals of its repeated windows: the gain is not "
                "explained by the pipeline."
            )
        return (_loads(pick, baseline), *told)
    why = next((reason for c in (*here, *there) if not c.figures for reason in c.reasons), "")
    return (
        f"No hardware counters{': ' + why if why else ''}. What the pipeline does otherwise cannot "
        "be told, only what the kernel accounts:",
        _loads(pick, baseline), *(told or _silent(pick, baseline)),
    )  # fmt: skip


def _loads(pick: Sequence[Trial], baseline: Sequence[Trial]) -> str:
    rates = [significant(max(t.workload.rate_rps for t in side)) for side in (pick, baseline)]
    return (
        f"Counted over the steady windows of {_times(len(pick))} of the pick at {rates[0]} "
        f"requests/s and {_times(len(baseline))} of the baseline at {rates[1]}; intervals are 95 %."
    )


def _times(num: int) -> str:
    return "1 trial" if num == 1 else f"{num} trials"


def _moved(here: Sequence[Counters], there: Sequence[Counters]) -> Iterator[str]:
    for figure in _FIGURES:
        new, old = _figure(here, figure.name), _figure(there, figure.name)
        if new is not None and old is not None and _are_apart(new, old):
            is_share = figure.name.endswith("_share")
            yield _sentence(figure.words, old, new, figure.of_what, is_share)


def _figure(counters: Sequence[Counters], name: str) -> Span | None:
    """Over trials where there are several; else over the windows of the one."""
    found = [c.figures[name] for c in counters if name in c.figures]
    if not found or len(found) < len(counters):
        return None
    if len(found) > 1:
        return Span(*mean_interval([one.value for one in found]))
    one = found[0]
    return None if one.low is None or one.high is None else Span(one.value, one.low, one.high)


def _cpu_time(pick: Sequence[Trial], baseline: Sequence[Trial]) -> Iterator[str]:
    """CPU time, waiting and switches that a token cost."""
    for words, of_one, scale, unit in (
        ("CPU time an output token", _cpu_s, 1e3, "ms"),
        ("waiting for a CPU, a CPU second", _waited, 1.0, "s"),
        ("times made to wait, an output token", _forced, 1.0, ""),
    ):
        new, old = _over(pick, of_one), _over(baseline, of_one)
        if new is not None and old is not None and _are_apart(new, old):
            yield _sentence(words, _scaled(old, scale), _scaled(new, scale), unit, False)


def _instructions(pick: Sequence[Trial], baseline: Sequence[Trial]) -> Iterator[str]:
    """Fewer instructions, or quicker ones: IPC alone says nothing of speed."""
    new, old = _over(pick, _instructions_of), _over(baseline, _instructions_of)
    if new is not None and old is not None and _are_apart(new, old):
        yield _sentence("instructions an output token", old, new, "", False)


def _tokens(trial: Trial) -> float | None:
    """Output tokens of the window that the kernel's figures cover."""
    counters, rate = trial.pmu, trial.output_tokens_per_s
    if counters is None or counters.kernel is None or not rate:
        return None
    return rate * counters.kernel.length_s


def _cpu_s(trial: Trial) -> float | None:
    tokens = _tokens(trial)
    if tokens is None or trial.pmu is None or trial.pmu.kernel is None:
        return None
    return trial.pmu.kernel.cpu_s / tokens


def _waited(trial: Trial) -> float | None:
    kernel = trial.pmu.kernel if trial.pmu else None
    if kernel is None or kernel.run_queue_wait_s is None or not kernel.cpu_s:
        return None
    return kernel.run_queue_wait_s / kernel.cpu_s


def _forced(trial: Trial) -> float | None:
    tokens = _tokens(trial)
    kernel = trial.pmu.kernel if trial.pmu else None
    if tokens is None or kernel is None or kernel.involuntary_switches is None:
        return None
    return kernel.involuntary_switches / tokens


def _instructions_of(trial: Trial) -> float | None:
    """IPC x cycles a CPU second x CPU seconds a token."""
    cpu_s = _cpu_s(trial)
    if cpu_s is None or trial.pmu is None:
        return None
    ipc = trial.pmu.figures.get("instructions_per_cycle")
    clocked = [w for w in trial.pmu.windows if w.clock_s and "cycles" in w.counts]
    clock_s = sum(w.clock_s or 0.0 for w in clocked)
    if ipc is None or not clock_s:
        return None
    return ipc.value * sum(w.counts["cycles"] for w in clocked) / clock_s * cpu_s


def _over(trials: Sequence[Trial], of_one: Callable[[Trial], float | None]) -> Span | None:
    """Over two trials or more: one window has no spread."""
    values = [value for trial in trials if (value := of_one(trial)) is not None]
    return Span(*mean_interval(values)) if len(values) > 1 else None


def _silent(pick: Sequence[Trial], baseline: Sequence[Trial]) -> list[str]:
    sides = (("the pick", len(pick)), ("the baseline", len(baseline)))
    single = [name for name, num in sides if num < 2]
    if single:
        whose = "Each side" if len(single) == 2 else single[0][0].upper() + single[0][1:]
        return [f"{whose} has a single trial, which has no interval: whether anything moved cannot "
                "be told."]  # fmt: skip
    return ["Nothing of it moved beyond the intervals."]


def _are_apart(one: Span, other: Span) -> bool:
    return one.low > other.high or other.low > one.high


def _scaled(span: Span, scale: float) -> Span:
    return Span(*(value * scale for value in span))


def _sentence(words: str, old: Span, new: Span, unit: str, is_share: bool) -> str:
    verb = "rose" if new.value > old.value else "fell"
    tail = f" {unit}" if unit else ""
    return (
        f"{words[0].upper()}{words[1:]} {verb} from {_show(old, is_share)} to "
        f"{_show(new, is_share)}{tail}."
    )


def _show(span: Span, is_share: bool) -> str:
    value, low, high = (f"{v:.1%}" if is_share else significant(v) for v in span)
    return f"{value} ({low} to {high})"
