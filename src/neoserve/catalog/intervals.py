"""Intervals fitted to residuals of public rows: catalog/data/intervals.json.

`scripts/fit_intervals.py` writes it. A width is a quantile of the metric times a factor of the
device class, of the engine, of how many benches measured the pair, and of the load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal

from ..schema.coefficients import Coefficients
from ..schema.spread import MetricSpread, Spread
from . import coefficients
from .files import bundled

Setting = Literal["new", "seen"]
_TO_DEVIATION = 1.4826  # from a median absolute deviation, of a normal law


def table() -> dict[str, Any]:
    """The whole of intervals.json."""
    return dict(bundled("intervals"))


def spread_for(known: Coefficients, setting: Setting = "new") -> Spread:
    """For what is predicted with these coefficients; corrected by a profile they are seen."""
    seen = setting == "seen" or bool(known.calibration)
    return _resolved(known.device_class, known.engine, known.era, "seen" if seen else "new")


def known_by(benches: Mapping[str, int], device_class: str, family: str) -> str:
    """What others have measured: the pair of class and engine, each of them, one, or neither."""
    if benches.get(f"{device_class}|{family}", 0):
        return "pair"
    found = [bool(benches.get(name, 0)) for name in (device_class, family)]
    return "both" if all(found) else "one" if any(found) else "neither"


def benches_of(rows: Iterable[tuple[str, str, str]]) -> dict[str, int]:
    """Benches of each pair, class and engine family, from (source, class, family) of rows."""
    seen = {(source, name) for source, c, e in rows for name in (f"{c}|{e}", c, e)}
    counts: dict[str, int] = {}
    for _, name in sorted(seen):
        counts[name] = counts.get(name, 0) + 1
    return counts


@lru_cache(maxsize=256)
def _resolved(device_class: str, family: str, era: str, setting: str) -> Spread:
    return resolve_spread(table(), device_class, family, setting, era)


def resolve_spread(
    whole: dict[str, Any], device_class: str, family: str, setting: str, era: str = ""
) -> Spread:
    """The part of the table for one device class, one engine family and its era."""
    known = known_by(whole["benches"], device_class, family)
    metrics = {
        name: _metric(entry, device_class, family, known)
        for name, entry in whole["settings"][setting].items()
    }
    return Spread(
        device_class=device_class,
        engine=family,
        setting=setting,
        num_sources=whole["benches"].get(f"{device_class}|{family}", 0),
        metrics=metrics,
        ratios=whole.get("ratios", {}),
        coefficients=coefficient_spreads(coefficients.table(), device_class, family, era),
    )


def coefficient_spreads(
    whole: Mapping[str, Any], device_class: str, family: str, era: str = ""
) -> dict[str, float]:
    """Log spread of each coefficient: that of the residuals of the narrowest group it has a
    factor for, as a standard deviation. An upper bound: rows scatter for other reasons too."""
    found = {}
    groups = (("by_pair", f"{device_class}|{era or family}"), ("by_class", device_class),
              ("by_era", era), ("by_engine", family))  # fmt: skip
    for name, entry in whole["coefficients"].items():
        narrow = [entry[g][key] for g, key in groups if key in entry.get(g, {})]
        for evidence in (*narrow, entry):
            if evidence.get("residual_log_median"):
                found[name] = round(_TO_DEVIATION * float(evidence["residual_log_median"]), 3)
                break
    return found


def _metric(entry: dict[str, Any], device_class: str, family: str, known: str) -> MetricSpread:
    scale = 1.0
    for group, key in (("by_class", device_class), ("by_engine", family), ("by_known", known)):
        scale *= entry.get(group, {}).get(key, 1.0)
    return MetricSpread(
        quantiles={level: (q[0], q[1]) for level, q in entry["quantiles"].items()},
        law=tuple((p, value) for p, value in entry["law"]),
        scale=scale,
        by_arch=entry.get("by_arch", {}),
        by_mode=entry.get("by_mode", {}),
        by_load=entry.get("by_load", {}),
        rows=entry["rows"],
        sources=entry["sources"],
    )
