"""`neoserve accuracy latency`: public latency measurements beside what we predict for them."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog.coefficients import coefficients_for, device_class
from ..catalog.coefficients import table as coefficient_table
from ..catalog.hardware import find_machine
from ..catalog.intervals import spread_for
from ..catalog.truth_names import stored_model
from ..errors import AskError
from ..predict.intervals import LEVEL, bounds
from ..predict.latency_rows import Case, case_of, left_out, plain_flags, series
from ..predict.latency_server import (
    case_server,
    computes_beyond_peak,
    cpu_slice,
    holds_weights,
    kv_tokens,
    stops_early,
)
from ..predict.latency_truth import Comparison, flags_of, predictions, summary
from ..predict.step import Shape, shape_of
from ..schema.hardware import HardwareSpec
from ..schema.model import ModelSpec
from ..schema.spread import Spread
from .latency_slices import Traits, names_of, order
from .simulate import drawer

WARM = "the observed rate is beyond the device's peak: prompts came from a warm cache"
EARLY = "faster than its weights can be read: the output ended before its stated length"
CROWDED = "the devices stated have no room for the weights: the row's parallelism is not what ran"
UNBOUNDED = "predicted to grow without bound: the rate is beyond saturation"
DRAW = drawer()  # equal lengths, Poisson arrivals, seed of the workload
COLUMNS = ("id", "source", "engine", "gpu_or_cpu", "model", "load_mode", "uses")


class Resolved(NamedTuple):
    """A row's case with the documents that its names stand for."""

    case: Case
    model: ModelSpec
    shape: Shape
    hardware: HardwareSpec

    @property
    def kv_tokens(self) -> float | None:
        """What the cache holds; None: it does not bind."""
        return kv_tokens(*self)


class Resolver:
    """Names of rows to documents, each looked up once."""

    def __init__(self) -> None:
        self._shapes: dict[int, Shape] = {}

    def resolve(self, case: Case) -> Resolved:
        """Raises AskError naming what the catalog does not know."""
        model = stored_model(case.model, case.scheme, case.weight_dtype, case.engine)
        hardware = cpu_slice(find_machine(case.device).hardware, case.threads)
        return Resolved(case, model, self._shapes.setdefault(id(model), shape_of(model)), hardware)


def suspicion(found: Resolved) -> str:
    """What in a row's own figures says that it did not do the work it states. "" if nothing."""
    if computes_beyond_peak(found.case, found.model, found.hardware):
        return WARM
    if not holds_weights(*found):
        return CROWDED
    return EARLY if stops_early(*found) else ""


def read_csv(truth: Path) -> list[dict[str, str]]:
    """The rows of a latency truth file. Raises AskError."""
    try:
        with truth.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise AskError(f"{truth}: {getattr(error, 'strerror', None) or error}") from None
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise AskError(f"{truth}: no column {missing[0]}; docs/accuracy.md describes the format")
    return rows


class Answer(NamedTuple):
    """One flag of one row. `predicted` is None where there is no finite answer."""

    case: Case
    flag: str
    observed: float
    predicted: float | None
    note: str
    device: str  # class
    traits: Traits | None = None  # of what the catalog knows
    factors: tuple[float, float] | None = None  # low and high over predicted

    def bound(self, index: int) -> float | None:
        """Lower (0) or upper (1) end of the interval; None without one."""
        if self.predicted is None or self.factors is None:
            return None
        return self.predicted * self.factors[index]

    @property
    def is_inside(self) -> bool | None:
        """Whether the measurement is in the interval; None without one."""
        low, high = self.bound(0), self.bound(1)
        if low is None or high is None:
            return None
        return low <= self.observed <= high

    def to_data(self) -> dict[str, Any]:
        """The row of the document."""
        return {
            "id": self.case.id, "flag": self.flag, "observed": self.observed,
            "predicted": self.predicted, "low": self.bound(0), "high": self.bound(1),
            "note": self.note,
        }  # fmt: skip


def answers(rows: Iterable[Mapping[str, str]]) -> list[Answer]:
    """Every plain flag of every row."""
    resolver, found = Resolver(), []
    for row in rows:
        if plain_flags(row):
            found += list(_row_answers(row, resolver))
    warm = {series(a.case) for a in found if a.note == WARM}
    return [a._replace(note=WARM) if series(a.case) in warm and not a.note else a for a in found]


def _row_answers(row: Mapping[str, str], resolver: Resolver) -> Iterator[Answer]:
    case = case_of(row)
    try:
        resolved = resolver.resolve(case)
    except AskError as error:
        return (yield from _unanswered(case, str(error)))
    if reason := left_out(row):
        return (yield from _unanswered(case, f"not modelled: {reason}"))
    d = case.deployment
    coefficients = coefficients_for(resolved.hardware, d.engine, d.engine_version)
    server = case_server(*resolved, coefficients, resolved.kv_tokens)
    said, note = predictions(case, server, DRAW), suspicion(resolved)
    # a bench that the coefficients were fitted on is known better than a new one
    seen = case.source in coefficient_table()["sources"]
    spread = spread_for(coefficients, "seen" if seen else "new")
    traits = Traits(
        case, resolved.hardware, device_class(resolved.hardware), resolved.model.total_params,
        row.get("model_family", ""),
    )  # fmt: skip
    for flag, value in flags_of(case):
        predicted = said.get(flag, math.inf)
        finite = math.isfinite(predicted)
        yield Answer(
            case, flag, value, predicted if finite else None, note if finite else UNBOUNDED,
            traits.device_class, traits, _factors(spread, case, flag),
        )  # fmt: skip


def _factors(spread: Spread, case: Case, flag: str) -> tuple[float, float] | None:
    metric = spread.metrics.get(flag)
    if metric is None:
        return None
    return bounds(metric, case.arch, case.load_mode, case.workload.concurrency)


def _unanswered(case: Case, note: str) -> Iterator[Answer]:
    for flag, value in flags_of(case):
        yield Answer(case, flag, value, None, note, "")


def metrics(found: Iterable[Answer]) -> dict[str, dict[str, float | None]]:
    """flag -> n, sources, devices, the errors as shares, and the share inside the intervals."""
    by_flag: dict[str, list[Answer]] = defaultdict(list)
    for a in found:
        if a.predicted is not None:
            by_flag[a.flag].append(a)
    return {
        flag: {**summary([_comparison(a) for a in group]), "coverage": coverage(group)}
        for flag, group in sorted(by_flag.items())
    }


def answered_shares(found: Iterable[Answer]) -> dict[str, float]:
    """flag -> share of its figures that have a finite prediction."""
    by_flag: dict[str, list[bool]] = defaultdict(list)
    for a in found:
        by_flag[a.flag].append(a.predicted is not None)
    return {flag: sum(said) / len(said) for flag, said in sorted(by_flag.items())}


def _comparison(a: Answer) -> Comparison:
    assert a.predicted is not None
    return Comparison(a.case, a.flag, a.observed, a.predicted)


def coverage(found: Iterable[Answer]) -> float | None:
    """Share of measurements inside their intervals; None where none has one."""
    inside = [a.is_inside for a in found if a.is_inside is not None]
    return sum(inside) / len(inside) if inside else None


def sliced(found: Sequence[Answer]) -> dict[str, dict[str, dict[str, float | None]]]:
    """The same for the slices; a figure may be in several."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for a in found:
        if a.predicted is not None and a.traits is not None:
            for name in names_of(a.traits, a.flag):
                groups[name].append(a)
    return {name: metrics(groups[name]) for name in order(groups)}


def grouped(
    found: Sequence[Answer], key: Callable[[Answer], str]
) -> dict[str, dict[str, dict[str, float | None]]]:
    """The same for each group."""
    groups: dict[str, list[Answer]] = defaultdict(list)
    for a in found:
        if a.predicted is not None:
            groups[key(a)].append(a)
    return {name: metrics(group) for name, group in sorted(groups.items())}


def latency(truth: Path) -> dict[str, Any]:
    """The document of `accuracy latency`. Raises AskError."""
    return report(truth.name, answers(read_csv(truth)))


def report(truth: str, found: Sequence[Answer]) -> dict[str, Any]:
    """The document of some answers."""
    return {
        "schema": "neoserve/accuracy/1",
        "kind": "latency",
        "truth": truth,
        "cases": len(found),
        "answered": sum(a.predicted is not None for a in found),
        "answered_share": answered_shares(found),
        "level": LEVEL,
        "metrics": metrics(found),
        "by_arch": grouped(found, lambda a: a.case.arch),
        "by_engine": grouped(found, lambda a: a.case.engine),
        "by_device": grouped(found, lambda a: a.case.device),
        "by_device_class": grouped(found, lambda a: a.device),
        "by_source": grouped(found, lambda a: a.case.source),
        "by_slice": sliced(found),
        "rows": [a.to_data() for a in found],
    }


def latency_table(document: Mapping[str, Any], group: str) -> list[list[str]]:
    """flag, group, n, sources, devices, median and mean error, ninth decile, bias, coverage."""
    return [
        [flag, name, f"{m['n']:.0f}", f"{m['sources']:.0f}", f"{m['devices']:.0f}",
         f"{m['median_ape']:.1%}", f"{m['mape']:.1%}", f"{m['p90_ape']:.0%}", f"{m['bias']:+.1%}",
         "-" if m["coverage"] is None else f"{m['coverage']:.0%}"]
        for flag in document["metrics"]
        for name, by_flag in document[group].items()
        if (m := by_flag.get(flag))
    ]  # fmt: skip


def slice_rows(document: Mapping[str, Any]) -> list[list[str]]:
    """The rows of `latency_table` for the slices, slice by slice."""
    rows = latency_table(document, "by_slice")
    names = list(document["by_slice"])
    return sorted(rows, key=lambda row: names.index(row[1]))


HEADER = ["metric", "arch", "n", "sources", "devices", "median", "mean", "p90", "bias", "inside"]


def show_latency(document: Mapping[str, Any]) -> str:
    """Errors by metric and architecture, by slice, and what was not answered."""
    from .tables import table

    right = [False, False, *[True] * 8]
    text = table(HEADER, latency_table(document, "by_arch"), right)
    header = [HEADER[0], "slice", *HEADER[2:]]
    text += "\n\n" + table(header, slice_rows(document), right)
    notes: dict[str, int] = defaultdict(int)
    for row in document["rows"]:
        if row["predicted"] is None:
            notes[row["note"].split(";")[0]] += 1
    text += (
        f"\n\n{document['answered']:,} of {document['cases']:,} figures answered. Errors are "
        f"absolute shares of the observed; inside: measurements in the {LEVEL:.0%} interval."
    )
    for note, count in sorted(notes.items(), key=lambda item: -item[1])[:8]:
        text += f"\n  {count:,} not: {note}"
    return text
