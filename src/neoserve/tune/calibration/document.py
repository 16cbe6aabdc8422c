"""The DeviceProfile of a calibration, and how sure a prediction under it is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from ...catalog.coefficients import corrected, device_class
from ...predict.memo import Memo
from ...predict.predictor import Ask, outcome
from ...schema.hardware import HardwareSpec
from ...schema.profile import (
    Compared,
    Correction,
    DeviceProfile,
    DeviceRates,
    ProfilePoint,
)
from ...schema.trial import HostPrint
from ...schema.workload import Workload
from ...stats import mean
from ...stats.linear import apply, dot, quadratic
from ..profile import trial_digest
from .fit import jacobian, spread
from .loads import num_requests
from .served import Known, Seen, company_log_sd
from .subject import METRICS, Subject

_NOTABLE_LOG_SD = 0.05
_STEP = 0.05  # of a difference quotient, in a log factor
# Where residuals are few, their spread is not yet known; it is taken for no less than this.
LEAST_RESIDUAL_LOG_SD = 0.04
# Of a profile with two factors alone: what the planner's formulas are off on the next load.
_TWO_FACTORS_LOG_SD = 0.25


def profile_of(
    known: Known,
    subjects: Sequence[Subject],
    *,
    host: HostPrint,
    version: str,
    settings: Mapping[str, str],
    rates: DeviceRates | None = None,
    run: str = "",
) -> DeviceProfile:
    """What the loads say of the device, as `predict --profile` takes it."""
    first = subjects[0]
    posterior = known.posterior
    assert posterior is not None
    sds = [math.sqrt(posterior.covariance[i][i]) for i in range(len(known.names))]
    corrections = {
        name: Correction(factor, sd, prior)
        for (name, factor), sd, prior in zip(
            known.factors.items(), sds, known.prior_log_sd, strict=True
        )
    }
    return DeviceProfile(
        host=host,
        device_class=first.known.device_class,
        engine=first.known.engine,
        version=version,
        model=", ".join(dict.fromkeys(s.model.id for s in subjects)),
        trials=tuple(trial_digest(seen.observed.trial) for seen in known.seen),
        hardware=first.hardware,
        rates=rates,
        settings=dict(settings),
        corrections=corrections,
        correlation=tuple(
            tuple(v / (sds[i] * sds[j]) for j, v in enumerate(row))
            for i, row in enumerate(posterior.covariance)
        ),
        points=tuple(_point(seen, known, subjects) for seen in known.seen),
        residual_log_sd=left_out_log_sd(known, subjects),
        noise_log_sd=noise_log_sd(known.seen),
        run=run,
        notes=tuple(_company(known.seen)),
    )


def _company(seen: Sequence[Seen]) -> Iterator[str]:
    busy = [s for s in seen if company_log_sd(s.observed) > _NOTABLE_LOG_SD]
    if busy:
        most = max(s.observed.trial.client.others_cores or 0.0 for s in busy)
        yield (
            f"other programs used up to {most:.1f} cores during {len(busy)} of {len(seen)} loads, "
            "which count less for it: on a host of its own the device may be faster"
        )


def device_profile(
    hardware: HardwareSpec, host: HostPrint, rates: DeviceRates
) -> DeviceProfile:
    """Of a device without an engine: its bandwidth as it was measured, for any engine."""
    read = rates.best_read()
    if read is not None:
        sources = hardware.sources | {"bandwidth_bytes_per_s": f"measured by {rates.backend}"}
        hardware = hardware.replace(bandwidth_bytes_per_s=read, sources=sources)
    return DeviceProfile(
        host=host,
        device_class=device_class(hardware),
        engine="",
        version="",
        model="",
        trials=(),
        hardware=hardware,
        rates=rates,
    )


def left_out_log_sd(known: Known, subjects: Sequence[Subject]) -> dict[str, float]:
    """Spread of measured over predicted for a load that was left out of the fit, by figure.

    A residual over one less its leverage is what it had been without its load (to first order).
    """
    posterior = known.posterior
    assert posterior is not None
    found: dict[str, list[float]] = defaultdict(list)
    residuals = iter(posterior.residuals)
    for seen in known.seen:

        def model(logs: Sequence[float], seen: Seen = seen) -> list[float]:
            factors = dict(zip(known.names, map(math.exp, logs), strict=True))
            subject, w = subjects[seen.subject], seen.workload
            seconds = subject.seconds(w, factors, num_requests(w))
            return [math.log(seconds[name]) for name in seen.figures]

        _, rows = jacobian(model, posterior.mean)
        for (name, figure), row in zip(seen.figures.items(), rows, strict=True):
            share = quadratic(posterior.covariance, row) / (posterior.scale * spread(figure)) ** 2
            found[name].append(next(residuals) / (1.0 - min(share, 0.8)))
    return {
        name: max(LEAST_RESIDUAL_LOG_SD, math.sqrt(math.fsum(r * r for r in values) / len(values)))
        for name, values in found.items()
    }


def noise_log_sd(seen: Sequence[Seen]) -> dict[str, float]:
    """Spread of a figure between loads that differ in their seed alone, by figure."""
    groups: dict[tuple[int, Workload, str], list[float]] = defaultdict(list)
    for one in seen:
        for name, figure in one.figures.items():
            groups[one.subject, one.workload.replace(seed=0), name].append(figure.log_value)
    sums: dict[str, list[float]] = defaultdict(list)
    for (_, _, name), values in groups.items():
        if len(values) > 1:
            centre = mean(values)
            sums[name].append(math.fsum((v - centre) ** 2 for v in values) / (len(values) - 1))
    return {name: math.sqrt(math.fsum(v) / len(v)) for name, v in sums.items()}


def spread_of(profile: DeviceProfile, gradient: Mapping[str, float], metric: str) -> float:
    """Log standard deviation of a prediction under a profile.

    `gradient`: what the logarithm of the prediction gains for a gain of the logarithm of each
    coefficient (`gradients`). `metric` is ``ttft_s``, ``tpot_s`` ..., for the spread of its
    residuals; another one gets the widest.
    """
    residuals = profile.residual_log_sd
    rest = residuals.get(metric, max(residuals.values(), default=_TWO_FACTORS_LOG_SD))
    names = list(profile.corrections)
    reach = [gradient.get(n, 0.0) * profile.corrections[n].log_sd for n in names]
    told = dot(reach, apply(profile.correlation, reach)) if names else 0.0
    return math.sqrt(max(0.0, told) + rest * rest)


def gradients(profile: DeviceProfile, ask: Ask) -> dict[str, dict[str, float]]:
    """Of each figure's logarithm by the logarithm of each coefficient that the profile corrects.

    `ask` has the corrected coefficients already. A figure that is not finite is left out.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in (*METRICS, "e2e_s", "rate_rps")}
    for name in profile.corrections:
        up, down = (_logs(ask, {name: math.exp(step)}) for step in (_STEP, -_STEP))
        for metric, by_name in found.items():
            if metric in up and metric in down:
                by_name[name] = (up[metric] - down[metric]) / (2 * _STEP)
    return found


def spreads(profile: DeviceProfile, ask: Ask) -> dict[str, float]:
    """`spread_of` each figure of one question, asked with the corrected coefficients."""
    return {
        metric: spread_of(profile, gradient, metric)
        for metric, gradient in gradients(profile, ask).items()
    }


def _logs(ask: Ask, factors: Mapping[str, float]) -> dict[str, float]:
    asked = _with(ask, factors)
    found = outcome(asked, Memo(), explain=False)
    if found.run is None:
        return {}
    point, tokens = found.run.point, found.run.server.decode_tokens
    values = {"ttft_s": point.ttft_s, "tpot_s": point.tpot_s, "rate_rps": point.rate_rps,
              "e2e_s": point.ttft_s + tokens * point.tpot_s}  # fmt: skip
    return {n: math.log(v) for n, v in values.items() if math.isfinite(v) and v > 0}


def _with(ask: Ask, factors: Mapping[str, float]) -> Ask:
    return replace(ask, coefficients=corrected(ask.coefficients, factors))


def _point(seen: Seen, known: Known, subjects: Sequence[Subject]) -> ProfilePoint:
    subject, w = subjects[seen.subject], seen.workload
    num = num_requests(w)
    before, after = subject.seconds(w, {}, num), subject.seconds(w, known.factors, num)
    return ProfilePoint(
        model=subject.model.id,
        prompt_tokens=w.prompt_tokens,
        output_tokens=w.output_tokens,
        concurrency=w.concurrency,
        num_requests=seen.observed.trial.num_ok,
        trial=trial_digest(seen.observed.trial),
        figures={
            name: Compared(math.exp(f.log_value), f.log_sd, before[name], after[name])
            for name, f in seen.figures.items()
        },
        gain_nats=seen.gain_nats,
    )
