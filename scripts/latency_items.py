"""Truth rows resolved against the catalog, and the rules that leave rows out of a fit."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from neoserve.catalog.coefficients import device_class, engine_era, engine_family
from neoserve.errors import AskError
from neoserve.faces import latency as face
from neoserve.predict import latency_rows as rows_of
from neoserve.predict.step import Shape
from neoserve.schema.hardware import HardwareSpec
from neoserve.schema.model import ModelSpec

QUIET_SHARE = 0.5  # of the highest rate that a series served


class Item(NamedTuple):
    """One row, resolved."""

    case: rows_of.Case
    model: ModelSpec
    shape: Shape
    hardware: HardwareSpec
    device_class: str
    family: str
    observed: dict[str, float]
    kv_tokens: float | None  # that the cache holds; None: it does not bind

    def keys(self) -> dict[str, str]:
        """The name of its group in each grouping."""
        d = self.case.deployment
        return keys_of(self.hardware, d.engine, d.engine_version)


def keys_of(hardware: HardwareSpec, engine: str, version: str) -> dict[str, str]:
    """Grouping -> the name of what was measured there, as coefficients.json has them."""
    kind, era = device_class(hardware), engine_era(engine, version)
    return {
        "by_class": kind,
        "by_engine": engine_family(engine, version),
        "by_era": era,
        "by_pair": f"{kind}|{era}",
        "by_device": hardware.id,
    }


class Resolver:
    """Rows to items; counts the names that the catalog does not know."""

    def __init__(self) -> None:
        self._names = face.Resolver()
        self.unnamed: Counter[str] = Counter()

    def item(self, row: dict[str, str], flags: Iterable[str]) -> Item | None:
        case = rows_of.case_of(row)
        observed = {f: v for f, v in case.observed.items() if f in flags}
        if not observed:
            return None
        try:
            found = self._names.resolve(case)
        except AskError as error:
            self.unnamed[str(error).split(";")[0]] += 1
            return None
        family = engine_family(case.deployment.engine, case.deployment.engine_version)
        return Item(
            *found, device_class(found.hardware), family, observed, found.kv_tokens
        )  # fmt: skip


def read_items(
    rows: Sequence[dict[str, str]], flags: Iterable[str]
) -> tuple[list[Item], Resolver, Counter[str]]:
    """All primary rows of modelled regimes, and what was left out, by rule.

    Of loads of a rate only quiet ones are kept: near saturation times say how near, not how fast.
    """
    resolver, ruled_out = Resolver(), Counter[str]()
    quiet = quiet_loads(rows)
    items = []
    for row in rows:
        if not rows_of.plain_flags(row):
            continue
        if reason := rows_of.left_out(row):
            ruled_out[reason] += 1
        elif (is_open := row.get("load_mode") == "open_loop") and row["id"] not in quiet:
            ruled_out["an open load near saturation"] += 1
        elif item := resolver.item(row, ("openloop_tpot",) if is_open else flags):
            items.append(item)
    doubts = [face.suspicion(face.Resolved(*item[:4])) for item in items]
    warm = {rows_of.series(i.case) for i, d in zip(items, doubts, strict=True) if d == face.WARM}
    kept = []
    for item, doubt in zip(items, doubts, strict=True):
        reason = face.WARM if rows_of.series(item.case) in warm else doubt
        if reason:
            ruled_out[reason] += 1
        else:
            kept.append(item)
    return kept, resolver, ruled_out


def quiet_loads(rows: Sequence[dict[str, str]]) -> set[str]:
    """Loads of a rate that is at most half of the highest that their series served.

    Rows without a served rate, and those of a stated number of requests, which are simulated, are
    not: an average from start to end is of no one load.
    """
    served: dict[tuple[str, ...], list[tuple[float, str]]] = defaultdict(list)
    for row in rows:
        rate = rows_of.number(row, "output_tok_s_total")
        if row.get("load_mode") == "open_loop" and rate > 0 and not row.get("num_prompts"):
            key = (row["source"], row["engine"], row["model"], row["gpu_or_cpu"], row["isl"],
                   row["weight_dtype"], row["num_devices"])  # fmt: skip
            served[key].append((rate, row["id"]))
    return {
        name for series in served.values() for rate, name in series
        if len(series) > 2 and rate <= QUIET_SHARE * max(series)[0]
    }  # fmt: skip


def thinned(items: Sequence[Item], keep: int) -> list[Item]:
    """About `keep` rows of each series: its source, engine, model, device, load and format."""
    groups: dict[Any, list[Item]] = defaultdict(list)
    for i in items:
        groups[(*rows_of.series(i.case), i.case.device, i.case.load_mode, i.case.scheme)].append(i)
    return [i for group in groups.values() for i in group[:: max(1, math.ceil(len(group) / keep))]]
