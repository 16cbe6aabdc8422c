"""oneDNN's verbose log: real ones of vLLM, of two copies in one process, of older versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure.dispatch.onednn import dtypes, read_verbose

DATA = Path(__file__).parents[2] / "data" / "dispatch"


def lines(name: str) -> list[str]:
    return (DATA / name).read_text().splitlines(keepends=True)


def runs(said) -> dict[tuple[str, str, str], int]:
    return {(p.primitive, p.implementation, p.dtypes): p.num for p in said.primitives}


def test_vllm_decodes_by_onednn_in_float32():
    """One decoding step of 30 layers: four products a layer and the head's; four of a prompt."""
    said = read_verbose(lines("onednn-vllm-f32.txt"))
    assert runs(said) == {
        ("matmul", "brg_matmul:avx2", "f32:f32:f32"): 4 + 30 * 4 + 1,
        ("reorder", "jit:uni", "f32:f32"): 5,
    }
    assert [(c.version, c.isa, c.runtime) for c in said.copies] == [
        ("v3.13.0", "Intel AVX2", "OpenMP,nthr:1")
    ]
    assert said.copies[0].commit == "0e2a5bfeef1bfbffc3137464606540233086ce9b"
    # times by another way: the last cell of each line that was executed
    cells = [line.split(",") for line in lines("onednn-vllm-f32.txt") if ",exec,cpu," in line]
    by_hand = {
        name: sum(float(c[-1]) for c in cells if c[5] == name) / 1e3
        for name in ("matmul", "reorder")
    }
    assert {p.primitive: p.seconds for p in said.primitives} == pytest.approx(by_hand)
    assert sum(p.share for p in said.primitives) == pytest.approx(1)
    assert (said.num_exec, said.num_unread) == (130, 0)
    assert said.exec_s == pytest.approx(sum(by_hand.values()))


def test_two_copies_in_one_process():
    """torch's own oneDNN and the one that vLLM's extension carries, with what was made."""
    said = read_verbose(lines("onednn-two-copies.txt"))
    assert [(c.version, c.times) for c in said.copies] == [("v3.13.0", 1), ("v3.12.0", 1)]
    assert runs(said) == {
        ("matmul", "brg_matmul:avx2", "f32:f32:f32"): 4,
        ("inner_product", "brg_matmul:avx2", "f32:f32:f32"): 2,
        ("reorder", "jit:uni", "f32:f32"): 1,
    }
    assert (said.num_create, said.num_exec, said.num_unread) == (5, 7, 0)
    assert 0 < said.create_s < 0.1


def test_forms_of_all_versions():
    said = read_verbose(lines("onednn-forms.txt"))
    assert runs(said) == {
        ("reorder", "jit:uni", "f32:f32"): 2,
        ("reorder", "simple:any", "f32:f32"): 1,
        ("convolution", "jit:avx2", "f32:f32:f32"): 1,
        ("gemm_api", "", "f32:f32:f32"): 1,
        ("convolution", "jit:avx512_core_amx_bf16", "bf16:bf16:bf16"): 1,
        ("matmul", "brg:avx512_core_amx_int8", "s8:s8:s8"): 1,
        ("convolution", "jit:avx512_core", "f32:f32:f32"): 1,
        ("matmul", "gemm:acl", "bf16:bf16:f32"): 1,
    }
    assert [c.version for c in said.copies] == ["v0.95.0", "v2.7.3", "v3.2.0", "v3.8.0"]
    assert said.copies[0].commit == "ce116d48579332ae7e51a46219114f8d3c1e48db"
    assert said.copies[3].isa == "AArch64 SVE (256 bits)"
    # the kernel of Arm's library is within the product's time and not added to it
    assert [(k.name, k.num) for k in said.kernels] == [
        ("CpuGemmAssemblyWrapperKernel/sve_ffhybrid_bf16fp32_mmla_6x4VL", 1)
    ]
    product = next(p for p in said.primitives if p.implementation == "gemm:acl")
    assert product.seconds == pytest.approx(0.267822e-3)
    assert said.kernels[0].seconds == pytest.approx(0.242188e-3)
    # refused, started and checked primitives ran nothing; a nested one is within another's time
    assert (said.num_create, said.num_unread) == (2, 0)


def test_a_template_decides_where_fields_are():
    """A form that puts the primitive before the engine, and has a new field."""
    said = read_verbose([
        "onednn_verbose,v9,primitive,info,template:operation,primitive,engine,core,implementation,"
        "memory_descriptors,attributes,problem_desc,exec_time",
        "onednn_verbose,v9,primitive,exec,matmul,cpu,7,brg:x,src:u8:a:b wei:s8:: dst:f32::,a,b,1,2",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,gemm:acl,undef,src:bf16:: dst:f32::,,,1x1,2",
    ])  # fmt: skip
    assert runs(said) == {
        ("matmul", "brg:x", "u8:s8:f32"): 1,
        ("matmul", "gemm:acl", "bf16:f32"): 1,
    }
    assert said.exec_s == pytest.approx(4e-3)


def test_lines_that_are_joined_prefixed_or_cut():
    line = lines("onednn-vllm-f32.txt")[-1].rstrip("\n")
    joined = f"(Worker pid=7) {line}{line}\r\n"
    said = read_verbose([joined, line[: len(line) // 2] + "\n", "onednn_verbose,\n", line])
    assert (said.num_exec, said.num_unread) == (3, 1)
    assert len(said.primitives) == 1


def test_processes_that_say_the_same_are_counted():
    said = read_verbose(2 * lines("onednn-vllm-f32.txt"))
    assert [(c.version, c.times) for c in said.copies] == [("v3.13.0", 2)]
    assert said.num_exec == 260


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ("src:bf16::blocked:ab::f0 wei:bf16:a:blocked:BA8b4a::f0 dst:f32:a:blocked:ab::f0",
         "bf16:bf16:f32"),
        ("src_u8::blocked:ab:f0 wei_s8:p:blocked:BA16a64b4a:f0 dst_s8::blocked:ab:f0", "u8:s8:s8"),
        ("data_f32::blocked:abcd:f0 diff_undef::undef::f0", "f32"),
        ("src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 bia:undef::undef::: "
         "dst:f32::blocked:ab::f0", "f32:f32:f32"),
        ("src_0:f32::blocked:a::f0 src_1:bf16::blocked:a::f0 dst:f32::blocked:a::f0", "f32:f32"),
        ("src:f8_e4m3::blocked:ab::f0 wei:f8_e5m2::blocked:ab::f0 dst:bf16::blocked:ab::f0",
         "f8_e4m3:f8_e5m2:bf16"),
        ("", ""),
    ],
)  # fmt: skip
def test_number_formats(memory, expected):
    assert dtypes(memory) == expected


@settings(deadline=None)
@given(st.lists(st.text(alphabet="onednverbsi_,v1:exc.0 primtvculag\n", max_size=120), max_size=8))
def test_any_log_is_read_without_an_error(parts):
    said = read_verbose([f"onednn_verbose,{part}" for part in parts])
    assert said.num_exec >= 0
