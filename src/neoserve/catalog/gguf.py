"""GGUF files -> ModelSpec: layers by way of a config.json, stored bits from the tensors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from ..errors import AskError
from ..schema.model import ModelSpec, Quantization
from .architectures import read_config
from .gguf_config import GgufKeys, hf_config
from .gguf_header import GgufHeader, GgufTensor, read_gguf
from .gguf_names import FLOATS, MIXTURES, class_of

__all__ = ["GgufHeader", "GgufTensor", "gguf_model", "read_gguf"]

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)
_MISCOUNT = 0.01  # share of parameters by which the closed form may miss the file unremarked


def gguf_model(path: str | os.PathLike[str]) -> ModelSpec:
    """The model in a GGUF file and, where it is split, in its sibling parts.

    Raises AskError for a file that is not whole, CatalogMiss for an unknown architecture.
    """
    file = Path(path)
    header = _all_parts(file)
    arch, kind = (str(header.metadata.get(f"general.{k}", "")) for k in ("architecture", "type"))
    if kind not in ("", "model"):
        raise AskError(f"{file.name}: is a GGUF {kind[:40]}; expected a model")
    class_of(arch)
    if not header.tensors:
        raise AskError(f"{file.name}: holds no tensors; expected a model with its weights")
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    keys = GgufKeys(header.metadata, shapes, file.name)
    dtype = "float16" if _dominant(header.tensors) == "f16" else "bfloat16"
    part = _PART.fullmatch(file.name)
    model = read_config(hf_config(keys, dtype), part[1] if part else file.stem)
    return model.replace(
        quantization=_quantization(header),
        safetensors_bytes=sum(tensor.num_bytes for tensor in header.tensors),
        notes=model.notes + _whole_heads(keys) + _miscount(model, header.tensors),
    )


def _all_parts(file: Path) -> GgufHeader:
    """The header of a file with the tensors of all its parts; the first has the metadata."""
    header = read_gguf(file)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    named = _PART.fullmatch(file.name)
    if named is None or int(named[3]) != count:
        raise AskError(
            f"{file.name}: is one of {count} parts; expected a name that ends in "
            f"-00001-of-{count:05}.gguf and the other parts beside it"
        )
    parts = [
        read_gguf(file.with_name(f"{named[1]}-{i:05}-of-{count:05}.gguf"))
        for i in range(1, count + 1)
    ]
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    stated = header.metadata.get("split.tensors.count", len(tensors))
    if len({tensor.name for tensor in tensors}) < len(tensors) or stated != len(tensors):
        raise AskError(
            f"{file.name}: its {count} parts hold {len(tensors)} tensors; expected {stated} "
            "different ones, so they are not parts of one file"
        )
    return parts[0]._replace(tensors=tensors)


def _role(tensor: GgufTensor) -> str:
    """The role whose linear layers a tensor belongs to; "" for norms, routers, convolutions."""
    ends = {"token_embd.weight": "embedding", "output.weight": "lm_head"}
    if tensor.name in ends:
        return ends[tensor.name]
    match = re.fullmatch(r"blk\.\d+\.(.+)\.weight", tensor.name)
    if len(tensor.shape) < 2 or match is None or re.search(r"norm|conv1d|\.conv$|_inp", match[1]):
        return ""
    stem = match[1]
    if "_exps" in stem or re.fullmatch(r"ffn_(gate|up|down)\.\d+", stem):
        return "experts"
    if "_shexp" in stem or stem.startswith("ffn_latent_"):
        return "shared_experts"
    if stem.startswith(("attn_", "ssm_", "shortconv.", "indexer.")):
        return "attention"
    return "mlp" if stem in ("ffn_gate", "ffn_up", "ffn_down") else ""


def _quantization(header: GgufHeader) -> Quantization:
    """Stored bits by role, summed from the file; ggml multiplies blocks in int8."""
    roles: dict[str, list[GgufTensor]] = {}
    for tensor in header.tensors:
        if role := _role(tensor):
            roles.setdefault(role, []).append(tensor)
    if "embedding" in roles:
        roles.setdefault("lm_head", roles["embedding"])  # tied: the same table multiplies
    sizes = {role: (_bytes(held), sum(t.params for t in held)) for role, held in roles.items()}
    return Quantization(
        scheme=_scheme(header),
        method="gguf",
        bits={role: 8 * size / params for role, (size, params) in sizes.items() if params},
        compute={r: _compute(held) for r, held in roles.items() if r != "embedding"},
    )


def _bytes(tensors: Iterable[GgufTensor]) -> int:
    return sum(tensor.num_bytes for tensor in tensors)


def _compute(tensors: list[GgufTensor]) -> str:
    """What multiplies most of the weights: blocks meet activations quantized to 8 bits."""
    return "bf16" if _dominant(tensors) in FLOATS else "int8"


def _dominant(tensors: Iterable[GgufTensor]) -> str:
    """The type of most weights of linear layers, those of the vocabulary aside where possible."""
    weights: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for tensor in tensors:
        if role := _role(tensor):
            held = weights[role not in ("embedding", "lm_head")]
            held[tensor.kind] = held.get(tensor.kind, 0) + tensor.params
    held = weights[True] or weights[False]
    return max(held, key=lambda kind: held[kind], default="bf16")


def _scheme(header: GgufHeader) -> str:
    """The name of a mixture where general.file_type states one that fits, else the main type."""
    main, stated = _dominant(header.tensors), header.metadata.get("general.file_type")
    mixture = MIXTURES.get(stated, "") if isinstance(stated, int) else ""
    if mixture.partition("_")[0] == main.partition("_")[0]:
        return mixture
    return "none" if main in FLOATS else main


def _whole_heads(keys: GgufKeys) -> tuple[str, ...]:
    """A note where llama.cpp does not cache the latents that the layers are described by."""
    if not keys.number("attention.kv_lora_rank") or keys.number("attention.key_length_mla"):
        return ()
    return ("llama.cpp caches whole heads of this file, not latents: it needs more KV memory",)


def _miscount(model: ModelSpec, tensors: Iterable[GgufTensor]) -> tuple[str, ...]:
    """A note where the closed form and the file disagree about the number of weights."""
    held = 0
    for tensor in tensors:
        block = re.match(r"blk\.(\d{1,6})\.", tensor.name)
        if block is None or int(block[1]) < len(model.layers):
            held += tensor.params
    if abs(held - model.total_params) <= _MISCOUNT * held:
        return ()
    return (f"the file holds {held:,} weights; its header gives {model.total_params:,}",)
