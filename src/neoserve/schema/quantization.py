"""Weight and KV-cache number formats: stored bits and what multiplies them."""

from __future__ import annotations

from .base import Document
from .model import ModelSpec, Quantization

ROLES = ("attention", "mlp", "experts", "shared_experts", "lm_head", "embedding")

DTYPE_BITS = {
    "float32": 32, "bfloat16": 16, "float16": 16, "fp8": 8, "int8": 8, "fp4": 4,
}  # fmt: skip


class WeightScheme(Document, frozen=True):
    """A way to store linear layers. `bits` counts the scales: 4 bits with one fp16 scale and
    one 4-bit zero point per group of 128 are 4 + 20/128."""

    name: str
    bits: float
    compute: str  # bf16, fp8, int8, fp4: what the matrix unit multiplies
    aliases: tuple[str, ...] = ()
    quantizes_lm_head: bool = False
    note: str = ""
    source: str = ""


def quantize(model: ModelSpec, scheme: WeightScheme) -> ModelSpec:
    """The same model with its linear layers stored in another scheme.

    Embedding and, unless the scheme says otherwise, the language-model head stay as they are:
    AWQ, GPTQ and llm-compressor recipes leave both alone.
    """
    roles = [r for r in ROLES if r != "embedding" and (r != "lm_head" or scheme.quantizes_lm_head)]
    native = float(DTYPE_BITS[model.dtype])
    bits = {role: (scheme.bits if role in roles else native) for role in ROLES}
    compute = dict.fromkeys(roles, scheme.compute)
    return model.replace(
        quantization=Quantization(scheme=scheme.name, method="planned", bits=bits, compute=compute),
        safetensors_bytes=0,
    )
