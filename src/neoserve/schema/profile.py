"""DeviceProfile: what measuring a device has taught the planner about it."""

from __future__ import annotations

from .base import Document
from .coefficients import Coefficients
from .hardware import HardwareSpec
from .trial import HostPrint


class Factor(Document, frozen=True):
    """Measured over predicted speed. Median of the trials, and their lowest and highest."""

    value: float
    low: float
    high: float
    num: int  # trials


class Correction(Document, frozen=True):
    """What one coefficient is multiplied by. Spreads are standard deviations of its logarithm."""

    factor: float
    log_sd: float
    prior_log_sd: float  # before anything was measured


class Compared(Document, frozen=True):
    """One figure of one load, seconds: measured, and predicted without and with the profile."""

    measured: float
    log_sd: float  # standard error of the logarithm
    before: float
    after: float


class ProfilePoint(Document, frozen=True):
    """One load that the profile was fitted to."""

    model: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    num_requests: int
    trial: str  # its digest
    figures: dict[str, Compared]  # ttft_s, tpot_s
    gain_nats: float  # that it was chosen for


class ReadRate(Document, frozen=True):
    """Memory read by so many threads (of a GPU: 1)."""

    num_threads: int
    bytes_per_s: float


class MatrixRate(Document, frozen=True):
    """A product of `rows` activations with a layer's `inner` x `columns` weights."""

    dtype: str
    rows: int
    inner: int
    columns: int
    flops_per_s: float


class CollectiveRate(Document, frozen=True):
    """An all-reduce over `num_devices`."""

    num_devices: int
    num_bytes: int
    seconds: float


class DeviceRates(Document, frozen=True):
    """Micro-benchmarks of one device. What could not be measured is in `absent`, with why."""

    device: str  # as its driver or kernel names it
    backend: str  # "torch 2.13.0", "numpy 2.1.0", "libc"
    num_threads: int  # that the products ran on
    read: tuple[ReadRate, ...] = ()
    matrices: tuple[MatrixRate, ...] = ()
    launch_s: float | None = None  # one small operation, from call to call
    collectives: tuple[CollectiveRate, ...] = ()
    absent: dict[str, str] = {}

    def best_read(self) -> float | None:
        """Bytes a second by as many threads as read fastest."""
        return max((rate.bytes_per_s for rate in self.read), default=None)


# Version history: 1, two factors by the tuner's trials; 2, a correction for each coefficient with
# its spread, the device's own rates, and the points; 3, the coefficients that all of these count
# from. Earlier ones read as a 3 without, and correct nothing: a catalog's are fitted anew.
SCHEMAS = ("neoserve/device-profile/1", "neoserve/device-profile/2", "neoserve/device-profile/3")


class DeviceProfile(Document, frozen=True, kw_only=True):
    """Corrections of the planner's coefficients for one host and engine."""

    schema: str = SCHEMAS[-1]
    basis: str = "measured"
    host: HostPrint
    device_class: str  # of catalog.coefficients
    engine: str  # "": the device alone, for any engine
    version: str
    model: str
    trials: tuple[str, ...]  # digests of the trials that were used
    decode: Factor | None = None  # of `tune`: by TPOT; shares of the bandwidth, and a step's time
    prefill: Factor | None = None  # of `tune`: by TTFT; shares of the peak; null: no trial told
    hardware: HardwareSpec | None = None  # what the corrections count from
    coefficients: Coefficients | None = None  # the same, of the catalog at that time
    rates: DeviceRates | None = None
    settings: dict[str, str] = {}  # of the engine, as far as they are in the figures
    corrections: dict[str, Correction] = {}
    correlation: tuple[tuple[float, ...], ...] = ()  # of their logarithms, in the same order
    points: tuple[ProfilePoint, ...] = ()
    residual_log_sd: dict[str, float] = {}  # of a figure that was not fitted to
    noise_log_sd: dict[str, float] = {}  # of a figure between repeats of one load
    run: str = ""  # digest of the head of the ledger that holds the trials
    notes: tuple[str, ...] = ()

    def show(self) -> str:
        """One sentence."""
        if not self.engine:
            return f"the device's own speed as measured on {self.host.cpu_model}"
        trials = "1 trial" if len(self.trials) == 1 else f"{len(self.trials)} trials"
        where = f"{self.host.cpu_model} with {self.engine} and {self.model} ({trials})"
        if self.corrections:
            told = [
                f"{name} x {c.factor:.3g}"
                for name, c in self.corrections.items()
                if c.log_sd < 0.5 * c.prior_log_sd
            ]
            return f"calibrated on {where}: {', '.join(told) or 'nothing was told apart'}"
        parts = []
        if self.decode is not None:
            parts.append(f"decoding x {self.decode.value:.3g}")
        if self.prefill is not None:
            parts.append(f"prefill x {self.prefill.value:.3g}")
        return f"speed as measured on {where}: {', '.join(parts)} of what the catalog says"
