"""DeviceProfile: what measuring a device has taught the planner about it."""

from __future__ import annotations

from .base import Document
from .trial import HostPrint


class Factor(Document, frozen=True):
    """Measured over predicted speed. Median of the trials, and their lowest and highest."""

    value: float
    low: float
    high: float
    num: int  # trials


# Version history: 1, first.
class DeviceProfile(Document, frozen=True, kw_only=True):
    """Two factors on the planner's coefficients of one host, engine and model."""

    schema: str = "neoserve/device-profile/1"
    basis: str = "measured"
    host: HostPrint
    device_class: str  # of catalog.coefficients
    engine: str
    version: str
    model: str
    trials: tuple[str, ...]  # digests of the trials that were used
    decode: Factor  # by TPOT: shares of the memory's bandwidth, and what a step costs beside
    prefill: Factor | None  # by TTFT: shares of the peak; null where no trial told
    notes: tuple[str, ...] = ()

    def show(self) -> str:
        """One sentence."""
        parts = [f"decoding x {self.decode.value:.3g}"]
        if self.prefill is not None:
            parts.append(f"prefill x {self.prefill.value:.3g}")
        trials = "1 trial" if len(self.trials) == 1 else f"{len(self.trials)} trials"
        return (
            f"speed as measured on {self.host.cpu_model} with {self.engine} and {self.model} "
            f"({trials}): {', '.join(parts)} of what the catalog says"
        )
