"""Fitted coefficients by device class and engine family, with what they were fitted on.

A coefficient is a root value times a factor of the device class times a factor of the engine
family. A class or family with few rows has a factor near one: it falls back to the root.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ..errors import AskError
from ..schema.coefficients import Coefficients
from ..schema.engine import V1_FROM, is_v0, release_of
from ..schema.hardware import HardwareSpec
from ..schema.profile import DeviceProfile, Factor
from .files import bundled

_BY_CAPABILITY = {
    "7.0": "nvidia-volta", "8.0": "nvidia-ampere", "9.0": "nvidia-hopper",
    "10.0": "nvidia-blackwell", "10.3": "nvidia-blackwell",
    "8.7": "nvidia-unified", "11.0": "nvidia-unified", "12.1": "nvidia-unified",
}  # fmt: skip
_ENGINE_FAMILIES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "tgi", "lmdeploy", "atom",
                    "openvino", "mlx", "transformers", "compiled")  # fmt: skip


def device_class(hardware: HardwareSpec) -> str:
    """Which devices share coefficients: memory kind and vendor, NVIDIA's data-centre parts apart.

    NVIDIA's compute capability tells HBM parts (x.0, 10.3) and those with unified memory from
    the GDDR parts, which are all others.
    """
    arch = hardware.arch.lower()
    if hardware.kind == "cpu":
        arm = "neon" in hardware.isa or "asimd" in hardware.isa or "sve" in hardware.isa
        arm = arm or hardware.vendor.lower() in ("arm", "aws", "ampere", "apple")
        return "arm-cpu" if arm else "x86-cpu"
    if hardware.vendor.lower() == "nvidia":
        return _BY_CAPABILITY.get(hardware.compute_capability, "nvidia-gddr")
    if "apple" in (arch, hardware.vendor.lower()):
        return "apple"
    if arch.startswith("cdna"):
        return "amd-cdna2" if arch in ("cdna1", "cdna2") else "amd-cdna3"
    if arch.startswith("rdna"):
        return "amd-unified" if hardware.kind == "igpu" else "amd-rdna"
    return "other"


def engine_family(engine: str, version: str = "") -> str:
    """The engine's name, vLLM by generation: V0 schedules on the critical path, V1 beside it."""
    if is_v0(engine, version):
        return "vllm-v0"
    name = engine.lower()
    return name if name in _ENGINE_FAMILIES else "other"


_ERAS = {
    "vllm": (V1_FROM, (0, 12), (0, 17)),
    "vllm-v0": ((0, 0), (0, 6)),
    "tensorrt-llm": ((0, 0), (1, 0)),
    "sglang": ((0, 0), (0, 5)),
    # Caches split by request, products of weights that are laid out for it (K-quants, too).
    "llama.cpp": ((0, 0), (2025, 8)),
}
_SPLIT_BUILD = 5913  # after b5912 caches are of one request each (llama.cpp issue 14847)


def engine_era(engine: str, version: str = "") -> str:
    """Releases of a family that are about equally fast: ``"vllm-0.12"``; no version: the newest."""
    family = engine_family(engine, version)
    if version == "ampere":
        return f"{family}-ampere"  # Ampere's own build of llama.cpp, with its own weight formats
    starts = _ERAS.get(family)
    if not starts:
        return family
    build = re.fullmatch(r"b(\d+)", version)
    early = build is not None and int(build[1]) < _SPLIT_BUILD
    at = starts[0] if early else release_of(version) or starts[-1]
    first = max((start for start in starts if start <= at), default=starts[0])
    return f"{family}-{first[0]}.{first[1]}"


def coefficients_for(hardware: HardwareSpec, engine: str, version: str = "") -> Coefficients:
    """What the catalog knows for a device and an engine."""
    return _resolved(
        device_class(hardware),
        engine_family(engine, version),
        engine_era(engine, version),
        hardware.id,
    )


def table() -> dict[str, Any]:
    """The whole of coefficients.json: values with meaning, evidence, spread and date."""
    return dict(bundled("coefficients"))


@lru_cache(maxsize=256)
def _resolved(class_name: str, family: str, era: str, device: str) -> Coefficients:
    return resolve_values(table()["coefficients"], class_name, family, era, device)


# A factor tells how much more or less of the data sheet a case gets than its base does.
_FACTORS = {
    "memory_share": ("packed_share", "expert_memory_share"),
    "kv_share": ("kv_packed_share",),
    "matrix_share": ("dtype_share.fp8", "dtype_share.int8", "dtype_share.fp4", "block_share",
                     "unpack_share", "expert_share", "expert_dtype_share.fp8",
                     "expert_dtype_share.block", "expert_dtype_share.fp4",
                     "expert_dtype_share.int8", "expert_dtype_share.unpacked"),
}  # fmt: skip
_BY_KIND = ("dtype_share", "expert_dtype_share")
_ALONE = ("attention_share", "state_share", "scan_share", "collective_share")


def of_the_sheet(share: Any) -> Any:
    """A share that cannot exceed 1, smoothly: 0.8 stays 0.785, 1 becomes 0.917. Of an array too."""
    return share / (1.0 + share**8) ** 0.125


def resolve_values(
    entries: dict[str, Any], class_name: str, family: str, era: str = "", device: str = ""
) -> Coefficients:
    """Root x device class x engine x era x class and era x device of each entry, then bounded.

    `overlap_power` is stored less one, so that any factor is sound.
    """
    keys = (
        ("by_class", class_name),
        ("by_engine", family),
        ("by_era", era),
        ("by_pair", f"{class_name}|{era}"),
        ("by_device", device),
    )
    raw = {name: float(entry["value"]) for name, entry in entries.items()}
    for name, entry in entries.items():
        for group, key in keys:
            raw[name] *= float(entry.get(group, {}).get(key, {}).get("factor", 1.0))
    found = bounded(raw)
    values = {name: value for name, value in found.items() if "." not in name}
    for name, value in found.items():
        field, _, kind = name.partition(".")
        if kind:
            values.setdefault(field, {})[kind] = value
    return Coefficients(device_class=class_name, engine=family, era=era, **values)


def bounded(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Values as the planner takes them, from the products of their factors: numbers, or arrays
    of a fit's rows."""
    found = dict(raw)
    for base, factors in _FACTORS.items():
        found[base] = of_the_sheet(raw[base])
        for name in factors:
            found[name] = of_the_sheet(raw[base] * raw[name]) / found[base]
    for name in _ALONE:
        found[name] = of_the_sheet(raw[name])
    found["overlap_power"] = 1.0 + raw["overlap_power"]
    return found


# What a measured TPOT and a measured TTFT speak of: shares grow with speed, times shrink.
_DECODE_SHARES = ("memory_share", "kv_share", "expert_memory_share", "state_share")
_DECODE_TIMES = ("layer_s", "state_layer_s", "expert_layer_s", "launch_s", "step_s",
                 "request_step_s")  # fmt: skip
_PREFILL_SHARES = ("matrix_share", "attention_share", "scan_share")
_PREFILL_TIMES = ("admission_s", "prompt_token_s")


# What a device's own measurements correct. Those without a part in the model that is measured say
# nothing and keep the catalog's value.
ADJUSTED = (
    "memory_share", "kv_share", "matrix_share", "matrix_half_tokens", "attention_share", "layer_s",
    "launch_s", "step_s", "request_step_s", "admission_s", "request_serial_s", "prompt_token_s",
    "convoy_odds",
    "expert_share", "expert_memory_share", "expert_half_tokens", "expert_layer_s", "state_share",
    "scan_share", "state_layer_s", "overlap_power",
)  # fmt: skip
# Of a weight format's own kernels, on top: how fast a few rows and many are multiplied.
FORMAT_ADJUSTED = ("matrix_share", "matrix_half_tokens")
FORMAT_LOG_SD = 0.5
_PRIOR_FLOOR, _PRIOR_CEILING = 0.7, 1.5  # log; kinds of devices differ by more than rows of one do


def adjustable(known: Coefficients) -> tuple[str, ...]:
    """The coefficients that `corrected` may change: a factor does nothing to those that are 0."""
    return tuple(name for name in ADJUSTED if getattr(known, name, 0.0) > 0.0)


@lru_cache(maxsize=64)
def prior_log_sd(name: str) -> float:
    """How far a coefficient of a device may lie from the catalog's, as a log standard deviation.

    As far as the catalog's own classes and engines lie from each other.
    """
    if "." in name:
        return FORMAT_LOG_SD
    if name.endswith("_half_tokens"):  # none to hundreds, by kernel
        return _PRIOR_CEILING
    entry = table()["coefficients"].get(name, {})
    logs = [
        math.log(float(found["factor"]))
        for group in ("by_class", "by_engine", "by_era", "by_pair")
        for found in entry.get(group, {}).values()
        if float(found["factor"]) > 0
    ]
    spread = math.sqrt(math.fsum(v * v for v in logs) / len(logs)) if logs else 0.0
    return min(max(spread, _PRIOR_FLOOR), _PRIOR_CEILING)


def format_names(scheme: str) -> tuple[str, ...]:
    """Names under which `corrected` takes the factors of one weight format."""
    return tuple(f"{name}.{scheme}" for name in FORMAT_ADJUSTED)


def corrected(known: Coefficients, factors: Mapping[str, float]) -> Coefficients:
    """Each named coefficient times its factor; ``matrix_share.q4_0`` is of that format alone.

    Raises AskError for a name that there is not.
    """
    plain = {name: factor for name, factor in factors.items() if "." not in name}
    names = [*plain, *(name.partition(".")[0] for name in factors if "." in name)]
    unknown = [name for name in names if not isinstance(getattr(known, name, None), float)]
    if unknown:
        raise AskError(
            f"the profile corrects {unknown[0]}, which this version's planner does not have; "
            "calibrate again"
        )
    values = {name: getattr(known, name) * factor for name, factor in plain.items()}
    formats = {scheme: dict(own) for scheme, own in known.formats.items()}
    for name, factor in factors.items():
        base, _, scheme = name.partition(".")
        if scheme:
            own = formats.setdefault(scheme, {})
            own[base] = own.get(base, 1.0) * factor
    if "overlap_power" in values:
        values["overlap_power"] = max(values["overlap_power"], 1.0)
    return known.replace(formats=formats, **values)


def calibrated(known: Coefficients, profile: DeviceProfile) -> Coefficients:
    """Corrected by what was measured. A share may exceed 1: the data sheet is what was wrong.

    The corrections count from the coefficients that the profile brings, whatever this catalog has.
    Raises AskError for a profile of another kind of device or another engine, and for one that
    corrects what it does not bring.
    """
    engine = profile.engine or known.engine
    if (known.device_class, known.engine) != (profile.device_class, engine):
        raise AskError(
            f"the profile was measured on {profile.host.cpu_model} ({profile.device_class}) with "
            f"{engine}; it says nothing of {known.engine} on {known.device_class}"
        )
    if profile.coefficients is not None:
        known = profile.coefficients
    elif profile.corrections or profile.decode is not None or profile.prefill is not None:
        raise AskError(
            f"the profile of {profile.host.cpu_model} with {engine} lacks the coefficients that "
            "its corrections count from, as those of earlier versions do; calibrate again"
        )
    changes: dict[str, float] = {}
    if profile.decode is not None:
        changes |= _scaled(known, profile.decode, _DECODE_SHARES, _DECODE_TIMES)
    if profile.prefill is not None:
        changes |= _scaled(known, profile.prefill, _PREFILL_SHARES, _PREFILL_TIMES)
    factors = {name: c.factor for name, c in profile.corrections.items()}
    return corrected(known.replace(calibration=profile.show(), **changes), factors)


def unhindered(known: Coefficients) -> Coefficients:
    """The data sheet alone: full bandwidth, full peak, no time between. What no engine beats."""
    values = known.to_data()
    ideal: dict[str, Any] = {n: 1.0 for n in values if n.endswith("_share") and n not in _BY_KIND}
    ideal |= {n: 0.0 for n in values if n.endswith(("_s", "_half_tokens"))}
    ideal |= {n: {kind: max(1.0, v) for kind, v in values[n].items()} for n in _BY_KIND}
    ideal |= {"convoy_odds": 0.0, "core_drag": 0.0, "overlap_power": 64.0, "expert_imbalance": 1.0}
    return known.replace(**ideal)


def _scaled(
    known: Coefficients, factor: Factor, shares: tuple[str, ...], times: tuple[str, ...]
) -> dict[str, float]:
    return {name: getattr(known, name) * factor.value for name in shares} | {
        name: getattr(known, name) / factor.value for name in times
    }
