"""Weight schemes: stored bits with their scales, and what multiplies them."""

from __future__ import annotations

from ..errors import CatalogMiss
from ..schema.quantization import WeightScheme
from .files import nearest

_GGML = "ggml-common.h block structs and llama.cpp tools/quantize README, 2026-09"
_CT = "compressed-tensors README and vLLM quantization docs, 2026-11"


def _gguf(
    name: str, bits: float, *aliases: str, compute: str = "int8", note: str = ""
) -> WeightScheme:
    # ggml multiplies blocks by activations quantized to 8 bits, head and embedding included.
    return WeightScheme(
        name=name,
        bits=bits,
        compute=compute,
        aliases=aliases,
        quantizes_lm_head=True,
        note=note,
        source=_GGML,
    )


# "_M" and "_L" files mix types: their bits are file bits over parameters for a Llama 8B.
WEIGHT_SCHEMES: tuple[WeightScheme, ...] = (
    WeightScheme(
        name="none", bits=16, compute="bf16",
        aliases=("bf16", "fp16", "bfloat16", "float16", "half"), source="model dtype",
    ),
    WeightScheme(
        name="fp8", bits=8, compute="fp8", aliases=("w8a8-fp8", "fp8-dynamic", "fp8-static"),
        note="one scale a tensor or channel; without FP8 units the weights are unpacked (Marlin)",
        source=_CT,
    ),
    WeightScheme(
        name="fp8-block", bits=8 + 32 / 128**2, compute="fp8", aliases=("fp8-block-128",),
        note="one fp32 scale per 128 x 128 weights, activations in groups of 128",
        source="DeepSeek-V3 report, section 3.3",
    ),
    WeightScheme(
        name="w8a8", bits=8, compute="int8", aliases=("int8", "w8a8-int8", "smoothquant"),
        note="one scale a channel, activations a token", source=_CT,
    ),
    WeightScheme(
        name="w8a16", bits=8 + 16 / 128, compute="bf16",
        aliases=("int8-weight-only", "gptq-int8", "bnb-int8"), source=_CT,
    ),
    WeightScheme(
        name="w4a16", bits=4 + 16 / 128, compute="bf16",
        aliases=("gptq", "gptq-int4", "int4", "compressed-tensors-w4a16", "marlin"),
        note="one fp16 scale per 128, symmetric", source=_CT,
    ),
    WeightScheme(
        name="awq", bits=4 + 20 / 128, compute="bf16", aliases=("awq-int4", "awq-marlin"),
        note="one fp16 scale and one 4-bit zero per 128", source="AWQ paper; AutoAWQ GEMM layout",
    ),
    WeightScheme(
        name="w4a8", bits=4 + 16 / 32, compute="int8",
        aliases=("w4a8-int", "kleidiai", "w4a8-g32"),
        note="one bf16 scale per 32; KleidiAI multiplies int4 by int8 (i8mm)",
        source="vLLM CPU docs; KleidiAI 1.30",
    ),
    WeightScheme(
        name="w4a8-channel", bits=4.0, compute="int8", aliases=("w4a8-c",),
        note="one scale a channel: its bits vanish", source="KleidiAI 1.30",
    ),
    WeightScheme(
        name="w4a8-fp8", bits=4 + 16 / 128, compute="fp8", aliases=("w4afp8",),
        note="int4 weights, fp8 activations (Hopper)", source=_CT,
    ),
    WeightScheme(
        name="nvfp4", bits=4 + 8 / 16, compute="fp4", aliases=("fp4", "w4a4", "nvfp4-w4a4"),
        note="one fp8 scale per 16; other than Blackwell unpacks to 16 bits", source=_CT,
    ),
    WeightScheme(
        name="nvfp4a16", bits=4 + 8 / 16, compute="bf16", aliases=("w4a16-nvfp4",), source=_CT,
    ),
    WeightScheme(
        name="mxfp4", bits=4 + 8 / 32, compute="mxfp8", aliases=("mxfp4-w4a16",),
        note="one 8-bit exponent per 32; gpt-oss kernels multiply in 16 bits; B200: by mxfp8",
        source="OCP Microscaling 1.0",
    ),
    WeightScheme(
        name="mxfp4-w4a4", bits=4 + 8 / 32, compute="fp4", aliases=("quark-mxfp4",),
        note="MI355X and Blackwell", source="OCP Microscaling 1.0; AMD Quark docs",
    ),
    WeightScheme(
        name="mxfp8", bits=8 + 8 / 32, compute="fp8", source="OCP Microscaling 1.0",
    ),
    WeightScheme(
        name="bnb-nf4", bits=4.127, compute="bf16", aliases=("bitsandbytes", "nf4", "qlora"),
        note="double quantization", source="QLoRA paper, section 3",
    ),
    _gguf("q8_0", 8.5),
    _gguf("q8_k_xl", 10.1, note="Unsloth dynamic: part of the tensors stay in 16 bits"),
    _gguf("q8r16", 8.5, note="Ampere's repacked Q8_0"),
    _gguf("q6_k", 6.5625),
    _gguf("q5_k_m", 5.69),
    _gguf("q5_k_s", 5.54),
    _gguf("q5_0", 5.5),
    _gguf("q5_1", 6.0),
    _gguf("q4_k_m", 4.85),
    _gguf("q4_k_s", 4.58),
    _gguf("q4_k_xl", 5.0, note="Unsloth dynamic"),
    _gguf("q4_k_4", 4.85, note="Ampere's repacked Q4_K"),
    _gguf("q4_0", 4.5),
    _gguf("q4_1", 5.0),
    _gguf("iq4_nl", 4.5),
    _gguf("iq4_xs", 4.25),
    _gguf("q3_k_m", 3.91),
    _gguf("q3_k_s", 3.5),
    _gguf("iq3_xs", 3.3),
    _gguf("q2_k", 3.0),
    _gguf("iq2_xs", 2.31),
    _gguf("gguf-mxfp4", 4.25, note="gpt-oss experts"),
    _gguf("gguf-f16", 16, "f16", compute="bf16"),
)  # fmt: skip

_BY_NAME = {
    name: scheme for scheme in WEIGHT_SCHEMES for name in (scheme.name, *scheme.aliases)
}  # fmt: skip


def weight_scheme(name: str) -> WeightScheme:
    """A scheme by name or alias, whatever its case and separators. Raises CatalogMiss."""
    key = name.strip().lower()
    found = next(
        (_BY_NAME[k] for k in (key, key.replace("_", "-"), key.replace("-", "_")) if k in _BY_NAME),
        None,
    )
    if found is None:
        near = nearest(key, _BY_NAME, n=3, cutoff=0.5)
        raise CatalogMiss("weight scheme", name, near, "see `neoserve catalog quantization`")
    return found
