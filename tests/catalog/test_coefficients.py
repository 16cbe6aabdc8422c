"""Fitted coefficients: classes, families, evidence."""

from __future__ import annotations

import math

import pytest

from neoserve.catalog.coefficients import (
    coefficients_for,
    device_class,
    engine_era,
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


# Factors on another share, which may exceed one while the product does not.
FACTORS = ("packed_share", "block_share", "unpack_share", "expert_share", "expert_memory_share",
           "dtype_share", "expert_dtype_share", "kv_packed_share")  # fmt: skip


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


@pytest.mark.parametrize(
    ("engine", "version", "wanted"),
    [("vllm", "0.7.3", "vllm-v0-0.6"), ("vllm", "0.4.1", "vllm-v0-0.0"),
     ("vllm", "0.8.0", "vllm-0.8"), ("vllm", "0.16.2", "vllm-0.12"),
     ("vllm", "0.33.0", "vllm-0.17"), ("vllm", "", "vllm-0.17"),
     ("sglang", "0.4.9", "sglang-0.0"), ("tensorrt-llm", "1.2.0rc2", "tensorrt-llm-1.0"),
     ("tensorrt-llm", "", "tensorrt-llm-1.0"), ("llama.cpp", "", "llama.cpp-2025.8"),
     ("llama.cpp", "b5912", "llama.cpp-0.0"), ("llama.cpp", "b5913", "llama.cpp-2025.8"),
     ("llama.cpp", "2026.10.11549", "llama.cpp-2025.8"), ("llama.cpp", "2024.1", "llama.cpp-0.0"),
     ("llama.cpp", "ampere", "llama.cpp-ampere"), ("x", "1", "other")],
)  # fmt: skip
def test_engine_eras(engine: str, version: str, wanted: str) -> None:
    assert engine_era(engine, version) == wanted


def test_a_value_is_root_times_its_factors() -> None:
    plain = {name: {"value": 1.0} for name in table()["coefficients"]}
    plain["step_s"] = {
        "value": 2.0,
        "by_class": {"apple": {"factor": 3.0}},
        "by_engine": {"mlx": {"factor": 5.0}},
        "by_era": {"mlx-new": {"factor": 11.0}},
        "by_pair": {"apple|mlx-new": {"factor": 7.0}},
        "by_device": {"m2": {"factor": 13.0}},
    }
    assert resolve_values(plain, "apple", "mlx", "mlx-new", "m2").step_s == 2 * 3 * 5 * 11 * 7 * 13
    assert resolve_values(plain, "apple", "vllm").step_s == 6.0


def test_no_share_and_no_product_of_shares_exceeds_the_data_sheet() -> None:
    plain = {name: {"value": 1.0} for name in table()["coefficients"]}
    plain["memory_share"] = {"value": 4.0}
    plain["packed_share"] = {"value": 0.1}
    plain["matrix_share"] = {"value": 0.5}
    plain["dtype_share.fp8"] = {"value": 5.0}
    found = resolve_values(plain, "apple", "mlx")
    assert found.memory_share == pytest.approx(1.0, abs=1e-3)
    assert found.memory_share * found.packed_share == pytest.approx(0.4, rel=0.01)
    assert found.matrix_share == pytest.approx(0.5, rel=0.01)
    assert 0.95 < found.matrix_share * found.dtype_share["fp8"] <= 1.0
    assert set(found.expert_dtype_share) == {"fp8", "block", "fp4", "int8", "unpacked"}
    assert found.overlap_power == 2.0


def test_every_resolved_value_is_possible() -> None:
    entries = table()["coefficients"]
    classes = {key for entry in entries.values() for key in entry.get("by_class", {})}
    pairs = {key for entry in entries.values() for key in entry.get("by_pair", {})}
    cases = [(name, "vllm", "vllm-0.17") for name in [*classes, "never-seen"]]
    cases += [(*pair.split("|"), pair.split("|")[1]) for pair in pairs]
    for name, family, era in cases:
        found = resolve_values(entries, name, family, era)
        for field, value in found.to_data().items():
            if field.endswith("_share") and field not in FACTORS:
                assert 0 < value <= 1, field
            elif field.endswith("_s"):
                assert 0 <= value < 2, field
        for share in found.dtype_share.values():
            assert 0 < found.matrix_share * share <= 1
        assert 0 < found.memory_share * found.packed_share <= 1


def test_every_coefficient_says_what_it_was_fitted_on() -> None:
    data = table()
    assert data["date"]
    assert all(licence for licence in data["sources"].values())
    for name, entry in data["coefficients"].items():
        assert entry["meaning"], name
        assert entry["rows"] >= 0
        for group in ("by_class", "by_engine", "by_era", "by_pair", "by_device"):
            for key, factor in entry.get(group, {}).items():
                assert factor["factor"] > 0, (name, key)
                assert factor["rows"] >= 1, (name, key)


def test_the_catalog_answers_for_any_hardware() -> None:
    found = coefficients_for(device("nobody"), "unheard-of")
    assert found.device_class == "other"
    assert math.isfinite(found.layer_s)
    assert coefficients_for(device("nobody"), "unheard-of") is found
