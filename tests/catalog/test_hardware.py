from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

import pytest

from neoserve.catalog.files import bundled, key_of
from neoserve.catalog.hardware import all_hardware, all_instances, find_machine, spec_of
from neoserve.errors import AskError, CatalogMiss


def test_every_fact_names_a_known_source_with_a_date() -> None:
    sources = bundled("hardware")["sources"]
    for entry in all_hardware():
        for fact in ("bandwidth_bytes_per_s", "peak_flops_per_s", "memory_bytes"):
            if fact in entry:
                assert entry["sources"][fact] in sources, entry["id"]
    assert all(s["title"] and s["date"] for s in sources.values())


WANTED = """
T4 V100-SXM A10 A10G A30 A40 L4 L40S RTX-3090 RTX-4090 RTX-5090 RTX-A6000 RTX-6000-Ada RTX-
PRO-6000-Blackwell GB10 A100-SXM-40GB A100-PCIe-80GB H100-PCIe H100-SXM H100-NVL H20-96GB
H200-SXM GH200-96GB B200 B300 GB200 MI210 MI250 MI300X MI325X MI355X Gaudi2 Gaudi3
Apple-M2-Ultra graviton2 graviton3 graviton4 graviton5 altra xeon-8375c xeon-8480+
xeon-6980p epyc-9r14 epyc-9r45
"""


@pytest.mark.parametrize("name", WANTED.split())
def test_issue_list_is_covered(name: str) -> None:
    with contextlib.suppress(CatalogMiss):  # a short form of several
        assert find_machine(name).hardware.bandwidth_bytes_per_s > 1e10
        return
    assert any(key_of(name) in key_of(entry["id"]) for entry in all_hardware())


def test_the_catalog_has_at_least_45_devices() -> None:
    assert len(all_hardware()) >= 45


def test_peaks_and_bandwidths_are_dense_and_sane() -> None:
    for entry in all_hardware():
        peaks = entry.get("peak_flops_per_s") or {}
        half = peaks.get("bf16", peaks.get("fp16"))
        if half and peaks.get("fp8"):
            # dense, not sparse; Gaudi 3 multiplies fp8 no faster than bf16 (Intel's data sheet)
            assert 0.99 <= peaks["fp8"] / half <= 4.1, entry["id"]
        if half and entry["kind"] == "gpu" and entry.get("bandwidth_bytes_per_s"):
            assert 5 < half / entry["bandwidth_bytes_per_s"] < 900, entry["id"]
        reported, nominal = entry.get("reported_memory_bytes"), entry.get("memory_bytes")
        if reported and nominal:
            assert 0.9 < reported / nominal <= 1.0, entry["id"]


# Vendor data sheets, read apart from the catalog's own collection: dense 16-bit peak, bandwidth.
@pytest.mark.parametrize(
    ("name", "tflops", "gb_per_s"),
    [("H100-SXM", 989.4, 3350), ("A100-SXM-80GB", 312, 2039), ("L4", 121, 300),
     ("L40S", 362, 864), ("MI300X", 1307.4, 5325), ("H200-SXM", 989.4, 4800), ("T4", 65, 320)],
)  # fmt: skip
def test_data_sheets(name: str, tflops: float, gb_per_s: float) -> None:
    spec = find_machine(name).hardware
    half = spec.peak_flops_per_s.get("bf16") or spec.peak_flops_per_s["fp16"]
    assert half == pytest.approx(tflops * 1e12, rel=0.01)
    assert spec.bandwidth_bytes_per_s == pytest.approx(gb_per_s * 1e9, rel=0.02)


def test_prices_are_dated_and_positive() -> None:
    for instance in all_instances():
        for price in instance.prices:
            assert price.usd_per_hour > 0
            datetime.date.fromisoformat((price.date + "-01")[:10])  # a tracker's month will do
    # aws/karpenter-provider-aws generated table, 2026-07-20
    assert find_machine("c8g.4xlarge").price.usd_per_hour == 0.63808
    assert find_machine("p5.48xlarge").price.usd_per_hour == 55.04


def test_a_cpu_instance_is_a_slice_of_its_socket() -> None:
    machine = find_machine("c8g.4xlarge")
    assert machine.hardware.cores == 16
    assert machine.hardware.memory_bytes == 32 * 2**30
    assert machine.hardware.bandwidth_bytes_per_s == pytest.approx(537.6e9 * 16 / 96)
    assert "fair share" in machine.notes[0]


def test_a_whole_machine_is_not_a_slice() -> None:
    assert find_machine("c8g.24xlarge").notes == ()


@pytest.mark.parametrize("text", ["h100 sxm", "H100_SXM", "NVIDIA H100 80GB HBM3", "h100-sxm-80gb"])
def test_spellings(text: str) -> None:
    assert find_machine(text).hardware.id == "H100-SXM-80GB"


def test_counts() -> None:
    assert find_machine("4xL40S").num_devices == 4
    assert find_machine("2 x p5.48xlarge").num_devices == 16


def test_an_ambiguous_short_form_lists_what_it_may_mean() -> None:
    with pytest.raises(CatalogMiss) as caught:
        find_machine("H100")
    assert set(caught.value.nearest) == {"H100-SXM-80GB", "H100-PCIe-80GB", "H100-NVL-94GB"}


@pytest.mark.parametrize("text", ["graviton9", "", "   ", "0xH100-SXM", "🦙"])
def test_unknown_hardware(text: str) -> None:
    with pytest.raises(AskError) as caught:
        find_machine(text)
    assert "\n" not in str(caught.value)


def test_a_users_yaml_adds_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        """
hardware:
  - id: my-card
    memory_bytes: 48GiB
    bandwidth_bytes_per_s: 1.0e12
    peak_flops_per_s: {bf16: 2.0e14}
instances:
  - id: my-box
    hardware: my-card
    num_devices: 4
    prices: [{usd_per_hour: 3.5, date: "2026-11-01"}]
"""
    )
    machine = find_machine(str(file))
    assert (machine.id, machine.num_devices, machine.price.usd_per_hour) == ("my-box", 4, 3.5)
    assert machine.hardware.memory_bytes == 48 * 2**30


@pytest.mark.parametrize(
    ("content", "said"),
    [("- 1", "expected a mapping"), (":\n  - ][", "not readable YAML"), ("hardware: 3", "a list"),
     ("id: x", "bandwidth_bytes_per_s"), ("hardware: [{id: x, bandwidth_bytes_per_s: 1.0, "
      "peak_flops_per_s: {bf16: 1.0}, colour: red}]", "colour")],
)  # fmt: skip
def test_bad_yaml(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(content)
    with pytest.raises(AskError, match=said) as caught:
        find_machine(str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_yaml(tmp_path: Path) -> None:
    with pytest.raises(AskError, match="No such file"):
        find_machine(str(tmp_path / "none.yaml"))


def test_names_are_unique() -> None:
    seen: dict[str, str] = {}
    for entry in all_hardware():
        for name in {key_of(n) for n in (entry["id"], *entry["aliases"])}:
            assert seen.setdefault(name, entry["id"]) == entry["id"], name


def test_a_fact_that_is_not_public_is_asked_for() -> None:
    with pytest.raises(AskError, match="no public peak_flops_per_s"):
        spec_of({"id": "x", "kind": "gpu", "bandwidth_bytes_per_s": 1e11})
