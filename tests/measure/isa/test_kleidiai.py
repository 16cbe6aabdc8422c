"""KleidiAI's names: the grammar takes its kernels and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from neoserve.measure.isa.kleidiai import parse_name
from neoserve.measure.isa.rules import promise_of

DATA = Path(__file__).parents[2] / "data" / "isa"
I8MM = "kai_kernel_matmul_clamp_bf16_qai8dxp4x8_qsi4cxp8x8_8x8_neon_i8mm"


def test_the_parts_of_a_name() -> None:
    found = parse_name(I8MM)
    assert found is not None
    assert found._asdict() == {
        "operation": "kernel", "dst": "bf16", "lhs": "qai8dxp4x8", "rhs": "qsi4cxp8x8",
        "tile": "8x8", "engine": "neon", "technique": "i8mm", "core": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "precision", "engine", "technique"),
    [
        ("kai_run_matmul_clamp_f32_qai8dxp4x8_qsi4c32p8x8_4x8x32_neon_i8mm",
         "w4a8", "neon", "i8mm"),
        ("kai_run_matmul_clamp_f32_qsi8d32p4x8_qai4c32p4x8_8x4_neon_i8mm", "w4a8", "neon", "i8mm"),
        ("kai_run_matmul_clamp_f16_qai8dxp1x4_qsi8cxp4x4_1x4_neon_dotprod",
         "w8a8", "neon", "dotprod"),
        ("kai_run_matmul_clamp_f32_bf16p8x4_bf16p12x4b_8x12_neon_mmla", "bf16", "neon", "mmla"),
        ("kai_run_matmul_clamp_f32_qai8dxp1x4_qsi4c32p8x4_1x8_sve_dotprod",
         "w4a8", "sve", "dotprod"),
        ("kai_run_imatmul_clamp_qai8_qai8p2vlx4_qsi8cxpsb2vlx4_2vlx2vl_sme2_mopa",
         "w8a8", "sme2", "mopa"),
        ("kai_kernel_matmul_clamp_f32_qai8dxp4x8_qsi4c32p4x8_16x4x32_opt32_neon_i8mm",
         "w4a8", "neon", "i8mm"),
        ("kai_run_matmul_clamp_f32_qai8dxp1x4_qsi4cxp4vlx4_1x4vl_sme2_sdot",
         "w4a8", "sme2", "sdot"),
        ("kai_run_matmul_clamp_f32_f32_f32p16x1b_6x16_neon_mla_cortexa55", "", "neon", "mla"),
        # 4-bit weights with 16-bit activations: another precision
        ("kai_run_matmul_clamp_f32_f16p1vlx2_qsi4c32p4vlx2_1vlx4vl_sme2_mopa",
         "", "sme2", "mopa"),
    ],
)  # fmt: skip
def test_names_of_its_sources(name: str, precision: str, engine: str, technique: str) -> None:
    found = parse_name(name)
    assert found is not None
    assert (found.precision, found.engine, found.technique) == (precision, engine, technique)


@pytest.mark.parametrize(
    "name",
    [
        "kai_matmul_qai8_nt_qai4c32p48x4i_6x16x32_neon_i8mm",  # claimed elsewhere, shipped nowhere
        "kai_lhs_quant_pack_qai8dxp_f32",  # packers multiply nothing
        "kai_run_lhs_imatmul_pack_x8p2vlx4_x8p_sme",
        "kai_kernel_matmul_pack_rhs_kxn_x16p4vsx2bx16_x16_x16_sme",
        "kai_run_rhs_pack_nxk_qsi4cxp_qs4cxs1s0",
        I8MM + "_", "x" + I8MM, I8MM.upper(), "kai_run_matmul", "",
    ],
)  # fmt: skip
def test_what_is_no_kernel(name: str) -> None:
    assert parse_name(name) is None
    assert promise_of(name) is None


def shipped() -> list[str]:
    lines = (DATA / "kleidiai_torch-2.14.1.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_what_torch_ships() -> None:
    """Every name that has matmul in it, and no packer; six kernels, all of W4A8."""
    names = shipped()
    parsed = {name: parse_name(name) for name in names}
    assert len(names) == 92
    assert [
        name for name, found in parsed.items() if (found is None) != ("matmul" not in name)
    ] == []
    assert sum(found is not None for found in parsed.values()) == 70
    kernels = {promise.kernel: promise for name in names if (promise := promise_of(name))}
    assert len(kernels) == 6
    assert {promise.precision for promise in kernels.values()} == {"w4a8"}
    assert (
        sorted(promise.technique for promise in kernels.values()) == ["dotprod"] * 3 + ["i8mm"] * 3
    )


def test_questions_about_a_kernel_promise_nothing() -> None:
    name = "kai_get_m_step_matmul_clamp_f32_qai8dxp1x8_qsi4c32p4x8_1x4x32_neon_dotprod"
    assert parse_name(name) is not None
    assert promise_of(name) is None
