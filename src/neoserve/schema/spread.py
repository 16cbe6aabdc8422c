"""Spread: how far measured figures lie from predicted ones, by what was predicted where."""

from __future__ import annotations

from .base import Document


class MetricSpread(Document, frozen=True):
    """Of one metric. A bound is the quantile times the factors of architecture, load and size."""

    quantiles: dict[str, tuple[float, float]]  # level -> log(measured / predicted), low and high
    law: tuple[tuple[float, float], ...]  # share of measurements below, and that log ratio
    scale: float  # factor of the device class, the engine, and how well the pair is known
    by_arch: dict[str, float]
    by_mode: dict[str, float]
    by_load: dict[str, float]
    rows: int
    sources: int


class Spread(Document, frozen=True):
    """Resolved for one device class and one engine family.

    `setting` says for whom the level holds: ``new``, a bench that no coefficient was fitted on,
    or ``seen``, one that the fit or a device profile knows.
    """

    device_class: str
    engine: str
    setting: str
    num_sources: int  # public benches that measured this engine on this class
    metrics: dict[str, MetricSpread]
    ratios: dict[str, dict[str, float]] = {}  # relation of two choices -> level -> log of the ratio
    coefficients: dict[str, float] = {}  # log spread of each
