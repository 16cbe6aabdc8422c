"""The table of weight schemes."""

from __future__ import annotations

import pytest

from neoserve.catalog.quantization import WEIGHT_SCHEMES, weight_scheme
from neoserve.errors import CatalogMiss


def test_no_two_schemes_share_a_name() -> None:
    names = [name for s in WEIGHT_SCHEMES for name in (s.name, *s.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


@pytest.mark.parametrize("scheme", WEIGHT_SCHEMES, ids=lambda s: s.name)
def test_every_scheme_is_possible_and_says_its_source(scheme: object) -> None:
    found = weight_scheme(scheme.name)  # type: ignore[attr-defined]
    assert found is scheme
    assert 2 <= found.bits <= 16
    assert found.compute in {"bf16", "fp8", "int8", "fp4", "mxfp8"}
    assert found.source


@pytest.mark.parametrize(
    ("name", "bits", "compute"),
    [
        ("awq", 4 + 20 / 128, "bf16"),  # fp16 scale and int4 zero per 128
        ("GPTQ", 4.125, "bf16"),
        ("fp8", 8, "fp8"),
        ("W8A8", 8, "int8"),
        ("w4a8", 4.5, "int8"),
        ("NVFP4", 4.5, "fp4"),  # fp8 scale per 16
        ("mxfp4", 4.25, "mxfp8"),  # 8-bit exponent per 32
        ("Q4_0", 4.5, "int8"),  # 18 bytes per 32
        ("q8-0", 8.5, "int8"),  # 34 bytes per 32
        ("q6_k", 6.5625, "int8"),  # 210 bytes per 256
        ("bf16", 16, "bf16"),
    ],
)
def test_bits_by_block_layout(name: str, bits: float, compute: str) -> None:
    scheme = weight_scheme(name)
    assert scheme.bits == pytest.approx(bits)
    assert scheme.compute == compute


def test_only_gguf_stores_the_head_too() -> None:
    assert weight_scheme("q4_k_m").quantizes_lm_head
    assert not weight_scheme("awq").quantizes_lm_head


def test_an_unknown_scheme_names_its_neighbours() -> None:
    with pytest.raises(CatalogMiss) as miss:
        weight_scheme("w4a61")
    assert "w4a16" in miss.value.nearest
