"""What a DeviceProfile changes in an answer beside its coefficients: the machine, the intervals."""

from __future__ import annotations

import math
from pathlib import Path

from ..measure import host, machine
from ..predict.intervals import slo_note, slo_share
from ..predict.predictor import Ask
from ..schema.hardware import Machine
from ..schema.prediction import Interval, Prediction
from ..tune.calibration.document import spreads
from ..tune.profile import read_profile

_LEVEL, _NORMAL = 0.9, 1.645  # standard deviations that so many lie within


def local(profile: str) -> Machine:
    """This host: as it was when it was profiled, if that was this CPU, or as it is found now."""
    known = read_profile(Path(profile)) if profile else None
    if known is None or known.hardware is None or known.hardware.kind != "cpu":
        return machine.local_machine()
    if known.host.cpu_model != host.host_print().cpu_model:
        return machine.local_machine()
    cores = known.hardware.cores
    note = f"this host as it was when profiled: {cores} of its {known.host.physical_cores} cores"
    return Machine(id="local", hardware=known.hardware, num_devices=1, notes=(note,))


def with_measured_intervals(answer: Prediction, ask: Ask, profile: str) -> Prediction:
    """Intervals as the loads of the profile have them: its residuals, and how sure it is of each
    coefficient. A profile without loads leaves them as they are."""
    known, latency = read_profile(Path(profile)), answer.latency
    if not known.points or latency is None:
        return answer
    means = {"ttft_s": latency.ttft_s.mean, "tpot_s": latency.tpot_s.mean,
             "e2e_s": latency.e2e_s.mean}  # fmt: skip
    if "output_tokens_per_s" in answer.interval and answer.throughput is not None:
        means["rate_rps"] = answer.throughput.output_tokens_per_s
    found, widths = dict(answer.interval), spreads(known, ask)
    for name, sd in widths.items():
        value = means.get(name)
        if value is not None:
            reach = math.exp(_NORMAL * sd)
            told = "output_tokens_per_s" if name == "rate_rps" else name
            found[told] = Interval(low=value / reach, high=value * reach, level=_LEVEL)

    def share_below(metric: str, factor: float) -> float | None:
        sd = widths.get(f"{metric}_s")
        return None if not sd else (1 + math.erf(math.log(factor) / (sd * math.sqrt(2)))) / 2

    banded = answer.replace(interval=found, slo_share=slo_share(answer, share_below, ask.slo))
    return banded.replace(slo_note=slo_note(banded, ask.slo))
