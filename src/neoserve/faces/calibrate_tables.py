"""A DeviceProfile as text: the device's rates, what was corrected, how well it fits."""

from __future__ import annotations

from ..schema.profile import Compared, DeviceProfile, DeviceRates
from ..units import show_duration, significant
from .tables import table, wrap

_TOLD_SHARE = 0.7  # of the catalog's width: a coefficient that is no narrower was not told


def show_calibrated(profile: DeviceProfile, folder: str, head: str) -> str:
    """All that `neoserve calibrate` prints."""
    blocks = []
    if profile.rates is not None:
        blocks.append(show_rates(profile.rates))
    if profile.points:
        blocks += [show_points(profile), show_corrections(profile), show_spread(profile)]
    if profile.notes:
        blocks.append("\n".join(["Notes", *map(wrap, profile.notes)]))
    engine = f" --engine {profile.engine}" if profile.engine else ""
    blocks.append(
        f"Profile {folder}/profile.json, ledger head {head}\n"
        f"Use it: neoserve predict MODEL --on local{engine} --profile {folder}/profile.json"
    )
    return "\n\n".join(blocks)


def show_rates(rates: DeviceRates) -> str:
    """Memory, products, launches, reductions."""
    lines = [f"{rates.device}, by {rates.backend}, {rates.num_threads} threads"]
    if rates.read:
        told = [f"{r.bytes_per_s / 1e9:.3g} GB/s ({r.num_threads})" for r in rates.read]
        lines.append(f"memory read, by threads: {', '.join(told)}")
    if rates.launch_s is not None:
        lines.append(f"launch of an operation: {show_duration(rates.launch_s)}")
    lines += [
        f"all-reduce of {c.num_bytes} bytes over {c.num_devices}: {show_duration(c.seconds)}"
        for c in rates.collectives
    ]
    lines += [wrap(f"no {what}: {why}") for what, why in rates.absent.items()]
    rows = sorted({m.rows for m in rates.matrices})
    shapes = list(dict.fromkeys((m.dtype, m.inner, m.columns) for m in rates.matrices))
    cells = {(m.dtype, m.inner, m.columns, m.rows): m.flops_per_s for m in rates.matrices}
    if shapes:
        lines.append(
            "\n" + table(
                ("GFLOP/s", *(f"{n} rows" for n in rows)),
                [(f"{dtype} {inner} x {columns}",
                  *(_giga(cells.get((dtype, inner, columns, n))) for n in rows))
                 for dtype, inner, columns in shapes],
                (False, *(True for _ in rows)),
            )
        )  # fmt: skip
    return "\n".join(lines)


def show_points(profile: DeviceProfile) -> str:
    """Measured beside predicted, without and with the profile."""
    return table(
        ("in flight", "prompt", "answer", "figure", "measured", "without", "with", "error"),
        [
            (str(p.concurrency), str(p.prompt_tokens), str(p.output_tokens),
             name.removesuffix("_s").upper(), show_duration(c.measured), show_duration(c.before),
             show_duration(c.after), f"{error(c):+.1%}")
            for p in profile.points
            for name, c in p.figures.items()
        ],
        (True, True, True, False, True, True, True, True),
    )  # fmt: skip


def error(compared: Compared) -> float:
    """Of the prediction with the profile, as a share of the measured."""
    return compared.after / compared.measured - 1.0


def show_corrections(profile: DeviceProfile) -> str:
    """Coefficients that the loads told something of."""
    told = [
        (name, significant(c.factor), f"{c.log_sd:.0%}")
        for name, c in profile.corrections.items()
        if c.log_sd < _TOLD_SHARE * c.prior_log_sd
    ]
    if not told:
        return "The loads told no coefficient better than the catalog does."
    return table(("coefficient", "times the catalog's", "give or take"), told,
                 (False, True, True))  # fmt: skip


def show_spread(profile: DeviceProfile) -> str:
    """What a prediction with the profile is off by, and what two measurements are."""
    parts = []
    for name, sd in profile.residual_log_sd.items():
        noise = profile.noise_log_sd.get(name)
        again = f", of one load measured again by {noise:.1%}" if noise is not None else ""
        parts.append(f"{name.removesuffix('_s').upper()} by {sd:.1%}{again}")
    return wrap(
        "A load that was not fitted to differs from its prediction (one standard deviation): "
        + "; ".join(parts), "",
    )  # fmt: skip


def _giga(flops_per_s: float | None) -> str:
    return "" if flops_per_s is None else f"{flops_per_s / 1e9:.3g}"
