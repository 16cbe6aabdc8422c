"""Fitted coefficients: classes, families, evidence."""

from __future__ import annotations

import math

import pytest

from neoserve.catalog.coefficients import (
    coefficients_for,
    device_class,
    engine_family,
    resolve_values,
    table,
)
from neoserve.schema.hardware import HardwareSpec


def device(vendor: str, kind: str = "gpu", capability: str = "", arch: str = "",
           isa: tuple[str, ...] = ()) -> HardwareSpec:  # fmt: skip
    return HardwareSpec(
        id="x", name="x", vendor=vendor, kind=kind, memory_bytes=1, bandwidth_bytes_per_s=1.0,
        peak_flops_per_s={"bf16": 1.0}, compute_capability=capability, arch=arch, isa=isa,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("hardware", "wanted"),
    [
        (device("nvidia", capability="9.0"), "nvidia-hopper"),
        (device("nvidia", capability="10.3"), "nvidia-blackwell"),
        (device("nvidia", capability="8.0"), "nvidia-ampere"),
        (device("nvidia", capability="7.0"), "nvidia-volta"),
        (device("nvidia", capability="12.0"), "nvidia-gddr"),
        (device("nvidia", capability="8.9"), "nvidia-gddr"),
        (device("nvidia", capability="12.1"), "nvidia-unified"),
        (device("amd", arch="cdna2"), "amd-cdna2"),
        (device("amd", arch="cdna4"), "amd-cdna3"),
        (device("amd", arch="rdna4"), "amd-rdna"),
        (device("amd", kind="igpu", arch="rdna3.5"), "amd-unified"),
        (device("apple", arch="apple-gpu"), "apple"),
        (device("aws", kind="cpu", isa=("neon", "sve2")), "arm-cpu"),
        (device("ampere", kind="cpu"), "arm-cpu"),
        (device("intel", kind="cpu", isa=("avx512",)), "x86-cpu"),
        (device("amd", kind="cpu", isa=("avx2",)), "x86-cpu"),
        (device("google", kind="tpu"), "other"),
    ],
)
def test_device_classes(hardware: HardwareSpec, wanted: str) -> None:
    assert device_class(hardware) == wanted


@pytest.mark.parametrize(
    ("engine", "version", "wanted"),
    [("vllm", "0.7.3", "vllm-v0"), ("vLLM", "0.8.0", "vllm"), ("vllm", "", "vllm"),
     ("vllm", "0.33.0", "vllm"), ("sglang", "0.5", "sglang"), ("mystery", "1", "other")],
)  # fmt: skip
def test_engine_families(engine: str, version: str, wanted: str) -> None:
    assert engine_family(engine, version) == wanted


def test_a_value_is_root_times_class_times_engine_times_pair() -> None:
    plain = {name: {"value": 1.0} for name in table()["coefficients"]}
    plain["step_s"] = {
        "value": 2.0,
        "by_class": {"apple": {"factor": 3.0}},
        "by_engine": {"mlx": {"factor": 5.0}},
        "by_pair": {"apple|mlx": {"factor": 7.0}},
    }
    plain["memory_share"] = {"value": 4.0}
    plain["overlap_power"] = {"value": 0.5}
    found = resolve_values(plain, "apple", "mlx")
    assert found.step_s == 210.0
    assert resolve_values(plain, "apple", "vllm").step_s == 6.0
    assert found.memory_share == 1.0  # no share exceeds the data sheet
    assert found.overlap_power == 1.0
    assert found.dtype_share["fp8"] == 1.0


def test_every_resolved_value_is_possible() -> None:
    classes = ("nvidia-hopper", "nvidia-gddr", "apple", "arm-cpu", "never-seen")
    for name in classes:
        for family in ("vllm", "vllm-v0", "llama.cpp", "never-seen"):
            found = resolve_values(table()["coefficients"], name, family)
            for field, value in found.to_data().items():
                if field.endswith("_share"):
                    shares = value.values() if isinstance(value, dict) else [value]
                    assert all(0 <= share <= 1 for share in shares), field
                elif field.endswith("_s"):
                    assert 0 <= value < 2, field


def test_every_coefficient_says_what_it_was_fitted_on() -> None:
    data = table()
    assert data["date"]
    assert all(licence for licence in data["sources"].values())
    for name, entry in data["coefficients"].items():
        assert entry["meaning"], name
        assert entry["rows"] >= 0
        for group in ("by_class", "by_engine", "by_pair"):
            for key, factor in entry.get(group, {}).items():
                assert factor["factor"] > 0, (name, key)
                assert factor["rows"] >= 1, (name, key)


def test_the_catalog_answers_for_any_hardware() -> None:
    found = coefficients_for(device("nobody"), "unheard-of")
    assert found.device_class == "other"
    assert math.isfinite(found.layer_s)
    assert coefficients_for(device("nobody"), "unheard-of") is found
