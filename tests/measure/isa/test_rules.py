"""What names promise, and when a promise is kept."""

from __future__ import annotations

import pytest

from neoserve.measure.isa.rules import Promise, judge, kernels_of, promise_of
from neoserve.schema.isa import IsaFunction, IsaLoop

SMMLA = ("smmla.v", "smmla.z", "usmmla.v", "usmmla.z", "ummla.v", "ummla.z")


def function(*loops: IsaLoop, name: str = "f") -> IsaFunction:
    return IsaFunction(name, 0, 100, "symtab", {}, loops)


def loop(num: int, length: int, form: str = "smmla.v", is_code: bool = True) -> IsaLoop:
    return IsaLoop(0, length, {form: num}, 0, is_code)


def promise(kernel: str = "k", needs: tuple[str, ...] = SMMLA) -> Promise:
    return Promise(kernel, "w4a8", "i8mm", needs)


@pytest.mark.parametrize(
    ("symbol", "kernel", "precision", "needs"),
    [
        # all of libarm_compute.so of torch 2.14.1
        ("_ZN8arm_gemm31a64_interleaved_s8s32_mmla_8x12EPKaS1_Piiii",
         "arm_gemm::a64_interleaved_s8s32_mmla_8x12", "w8a8", SMMLA),
        ("_ZN8arm_gemm31a64_interleaved_u8u32_mmla_8x12EPKhS1_Pjiii",
         "arm_gemm::a64_interleaved_u8u32_mmla_8x12", "w8a8", SMMLA),
        ("_ZN8arm_gemm33a64_interleaved_u8s8s32_mmla_8x12EPKhPKaPiiii",
         "arm_gemm::a64_interleaved_u8s8s32_mmla_8x12", "w8a8", SMMLA),
        ("_ZN8arm_gemm34a64_interleaved_bf16fp32_mmla_8x12EPKN11arm_compute8bfloat16ES3_Pfiii",
         "arm_gemm::a64_interleaved_bf16fp32_mmla_8x12", "bf16", ("bfmmla.v", "bfmmla.z")),
        ("_ZN8arm_gemm44sme_interleaved_nomerge_s8qfp32_mopa_2VLx2VLEPKaS1_PfiiiiPKiRKNS_15Dequantize"
         "FloatEPKfNS_10ActivationEbPi", "arm_gemm::sme_interleaved_nomerge_s8qfp32_mopa_2VLx2VL",
         "w8a8", ("smopa.za", "umopa.za", "usmopa.za", "sumopa.za")),
    ],
)  # fmt: skip
def test_arm_compute_library(
    symbol: str, kernel: str, precision: str, needs: tuple[str, ...]
) -> None:
    found = promise_of(symbol)
    assert found is not None
    assert (found.kernel, found.precision, found.needs) == (kernel, precision, needs)


@pytest.mark.parametrize(
    "symbol",
    [
        # float32 that is rounded on the way: no precision of a model
        "_ZN8arm_gemm35a64_ffhybrid_fp32bf16fp32_mmla_4x24EjPKjNS_16IndirectInputArgIfEEmmPKN11arm_"
        "compute8bfloat16EmNS_17IndirectOutputArgIfEEPKfNS_10ActivationEb",
        "_ZN8arm_gemm16a64_gemm_s8_8x12EPKaS1_Piiii",  # int8, but by which instruction it says not
        "_ZN8arm_gemm35cls_a64_interleaved_s8s32_mmla_8x12C2EPK7CPUInfo",  # a class about it
        "_ZN8arm_gemm31a64_interleaved_s8s32_mmla_8x12EPKaS1_Piiii.cold",
        "_ZN8arm_gemm21a64_sgemm_asimd_8x12EPKfS1_Pfiii",  # float32
        "_ZN8arm_gemm13GemmInterleavedINS_31a64_interleaved_s8s32_mmla_8x12E",
        "main",
    ],
)
def test_names_that_promise_nothing(symbol: str) -> None:
    assert promise_of(symbol) is None


@pytest.mark.parametrize(
    ("loops", "carries"),
    [
        ((loop(64, 109),), True),
        ((loop(4, 40),), True),  # a tenth
        ((loop(4, 41),), False),
        ((loop(3, 10),), False),  # fewer than four
        ((loop(64, 109, is_code=False),), False),  # data that looks like it
        ((loop(64, 109, form="sdot.v"),), False),  # another instruction than promised
        ((loop(2, 40), loop(16, 47)), True),  # one loop is enough
        ((), False),
    ],
)
def test_a_promise_is_kept_in_a_loop(loops: tuple[IsaLoop, ...], carries: bool) -> None:
    (kernel,) = kernels_of([(promise(), function(*loops))])
    assert kernel.carries is carries
    verdict = judge("w4a8", [kernel], [])
    assert verdict.verdict == ("PASS" if carries else "FAIL")
    assert verdict.kernels == (kernel,)


def test_the_function_that_calls_the_kernel_may_be_without() -> None:
    (kernel,) = kernels_of([(promise(), function()), (promise(), function(loop(32, 68)))])
    assert kernel.carries is True
    assert (kernel.found, kernel.loop_instructions) == ({"smmla.v": 32}, 68)


def test_one_that_is_without_fails_all() -> None:
    kernels = kernels_of([(promise("a"), function(loop(32, 68))), (promise("b"), function())])
    verdict = judge("w4a8", kernels, [])
    assert (verdict.verdict, "1 of 2 W4A8 kernels" in verdict.reason) == ("FAIL", True)
    assert verdict.reason.endswith("promise: b")


def test_nothing_by_that_name_is_absent_whatever_else_is_there() -> None:
    verdict = judge("w4a8", [], [function(loop(32, 68)), function(loop(1, 68))])
    assert verdict.verdict == "ABSENT"
    assert verdict.reason.endswith("that no name explains: 1")
    assert judge("bf16", [], [function(loop(32, 68))]).reason == (
        "no kernel is named as one for BF16"
    )


def test_what_has_no_encoding_here_is_not_judged() -> None:
    found = promise_of("kai_run_matmul_clamp_f32_qai8dxp1x4_qsi4cxp4vlx4_1x4vl_sme2_sdot")
    assert found is not None
    assert found.needs == ()
    kernels = kernels_of([(found, function())])
    assert kernels[0].carries is None
    verdict = judge("w4a8", kernels, [])
    assert verdict.verdict == "ABSENT"
    assert "1 more need SME2 forms" in verdict.reason
