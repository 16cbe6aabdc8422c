"""Core types by MIDR and CPUID."""

import json
from pathlib import Path

import pytest

from neoserve.errors import AskError
from neoserve.measure.pmu.cores import arm_core, core_type, named_core, x86_core

DATA = Path(__file__).parents[2] / "data" / "pmu"


def cpuinfo(vendor, family, model, stepping=1, name="CPU"):
    return (f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
            f"model name\t: {name}\nstepping\t: {stepping}\n")  # fmt: skip


def host(tmp_path, midrs=(), text=""):
    for number, midr in enumerate(midrs):
        path = tmp_path / f"sys/devices/system/cpu/cpu{number}/regs/identification/midr_el1"
        path.parent.mkdir(parents=True)
        path.write_text(f"0x{midr:016x}\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("midr", "name", "family", "slots"),
    [
        (0x413FD0C1, "Neoverse N1 r3p1", "neoverse-n1", None),
        (0x411FD402, "Neoverse V1 r1p2", "neoverse-v1", 8),
        (0x410FD490, "Neoverse N2 r0p0", "neoverse-n2-r0p0", 5),  # erratum: subtract the cycles
        (0x410FD493, "Neoverse N2 r0p3", "neoverse-n2", 5),
        (0x410FD4F1, "Neoverse V2 r0p1", "neoverse-v2", 8),
        (0x410FD840, "Neoverse V3 r0p0", "neoverse-v3", 10),
        (0x410FD8E1, "Neoverse N3 r0p1", "neoverse-n3", 5),
        (0x481FD010, "Arm core of MIDR 0x481fd010", "", None),  # another implementer
    ],
)
def test_midr(midr, name, family, slots):
    found = arm_core(midr)
    assert (found.name, found.family, found.slots) == (name, family, slots)


def test_registers_come_before_cpuinfo(tmp_path):
    found = core_type(host(tmp_path, [0x410FD4F1, 0x410FD4F1]))
    assert found.name == "Neoverse V2 r0p1"


def test_cpuinfo_of_a_kernel_that_hides_the_registers(tmp_path):
    """As Linux 6.12 printed it on an emulated Neoverse V1 r1p2."""
    text = ("processor\t: 0\nBogoMIPS\t: 125.00\nFeatures\t: fp asimd sve i8mm\n"
            "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
            "CPU part\t: 0xd40\nCPU revision\t: 2\n")  # fmt: skip
    assert core_type(host(tmp_path, text=text)).identity == "0x411fd402"


def test_unlike_cores_are_refused(tmp_path):
    with pytest.raises(AskError, match="mixes core types"):
        core_type(host(tmp_path, [0x410FD4F1, 0x410FD490]))


@pytest.mark.parametrize(
    ("words", "family"),
    [
        (("GenuineIntel", 6, 0x6A), "icelake"),
        (("GenuineIntel", 6, 0x8F), "goldencove"),
        (("GenuineIntel", 6, 0xCF), "goldencove"),
        (("GenuineIntel", 6, 0x55), ""),
        (("AuthenticAMD", 0x19, 0x01), ""),  # Milan
        (("AuthenticAMD", 0x19, 0x11), "zen4"),  # Genoa
        (("AuthenticAMD", 0x19, 0x21), ""),  # Vermeer
        (("AuthenticAMD", 0x19, 0xA0), "zen4"),  # Bergamo
        (("AuthenticAMD", 0x1A, 0x02), "zen5"),  # Turin
        (("AuthenticAMD", 0x17, 0x31), ""),
    ],
)
def test_cpuid(words, family):
    assert x86_core(cpuinfo(*words)).family == family


def test_families_are_those_for_which_perf_has_level_1():
    """perf of Linux 7.2 was asked with each CPUID; see the README beside the file."""
    for key, entry in json.loads((DATA / "perf_metrics.json").read_text()).items():
        if entry["cpuid"].startswith("0x"):
            found = arm_core(int(entry["cpuid"], 16)).family.removeprefix("neoverse-")
        else:
            vendor, family, model, _ = entry["cpuid"].split("-")
            number = int(model, 16) if vendor == "AuthenticAMD" or len(model) == 2 else int(model)
            found = x86_core(cpuinfo(vendor, int(family, 16) if vendor == "GenuineIntel"
                                     else int(family), number)).family  # fmt: skip
        assert found == key


def test_names():
    assert named_core("Neoverse-V2").slots == 8
    assert named_core("n2-r0p0").family == "neoverse-n2-r0p0"
    assert named_core("zen5").slots == 8
    with pytest.raises(AskError, match="expected one of n1, v1"):
        named_core("m4")
