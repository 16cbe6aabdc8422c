"""Variants of a GGUF model at other precisions, to tell the guard's verdicts by.

Weights are read as numbers again, so that an F16 of a 4-bit file answers as that file does, and
can be no better than it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from ...errors import AskError

Kind = Literal["f16", "q8_0", "q4_0", "damaged"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_FILE_TYPES = {"f16": "MOSTLY_F16", "q8_0": "MOSTLY_Q8_0", "q4_0": "MOSTLY_Q4_0",
               "damaged": "MOSTLY_Q8_0"}  # fmt: skip
_QUANTS = {"f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0", "damaged": "Q8_0"}
_WIDE = ("token_embd", "output")  # at 8 bits in a 4-bit file, as llama-quantize keeps them finer
_DAMAGED = ("attn_v", "ffn_down")
_NOISE = 0.25  # standard deviations of a tensor
_INSTALL = "pip install 'neoserve[demo]'"


def make_variant(source: Path, kind: Kind, out: Path) -> Path:
    """Write `source` with its matrices at another precision; returns `out`.

    "damaged" has noise of a fixed seed in some matrices of each layer. Tensors are converted one
    by one, so that memory holds the largest of them. Raises AskError.
    """
    if kind not in KINDS:
        raise AskError(f"unknown variant {kind!r}; expected one of {', '.join(KINDS)}")
    if not source.is_file():
        raise AskError(f"{source} is no file; expected a GGUF file")
    try:
        import gguf
    except ImportError:
        raise AskError(f"making variants needs the gguf package: {_INSTALL}") from None
    try:
        reader = _reader(gguf, source)
    except ValueError as error:
        raise AskError(f"{source} is no GGUF file: {error}") from None
    part = out.with_name(f"{out.name}.part")
    try:
        _write(gguf, reader, kind, part)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return out


def _write(gguf: Any, reader: Any, kind: Kind, out: Path) -> None:
    writer = gguf.GGUFWriter(out, arch=reader.fields["general.architecture"].contents())
    _copy_metadata(gguf, reader, writer)
    writer.add_file_type(gguf.LlamaFileType[_FILE_TYPES[kind]])
    types = [_type_of(gguf, tensor, kind) for tensor in reader.tensors]
    for tensor, quant in zip(reader.tensors, types, strict=True):
        shape = [int(n) for n in reversed(tensor.shape)]
        stored = gguf.quant_shape_to_byte_shape(shape, quant) if _is_packed(gguf, quant) else shape
        num_bytes = tensor.n_elements * gguf.GGML_QUANT_SIZES[quant][1] // (
            gguf.GGML_QUANT_SIZES[quant][0]
        )
        writer.add_tensor_info(tensor.name, stored, _dtype(gguf, quant), num_bytes, quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for number, (tensor, quant) in enumerate(zip(reader.tensors, types, strict=True)):
        weights = gguf.dequantize(tensor.data, tensor.tensor_type)
        if kind == "damaged" and any(part in tensor.name for part in _DAMAGED):
            weights = _noisy(weights, number)
        writer.write_tensor_data(gguf.quantize(weights, quant))
    writer.close()


def _reader(gguf: Any, source: Path) -> Any:
    import numpy as np

    class Reader(gguf.GGUFReader):  # type: ignore[misc]
        """Reads a vocabulary in half the time: slices of a memmap are slow, views of it are not."""

        data: Any

        def _get(self, *args: Any, **words: Any) -> Any:
            if isinstance(self.data, np.memmap):
                self.data = self.data.view(np.ndarray)
            return super()._get(*args, **words)

    return Reader(source)


def _copy_metadata(gguf: Any, reader: Any, writer: Any) -> None:
    """All of it as it is, but for what says how weights are stored."""
    left_out = ("general.architecture", "general.file_type")  # written by the writer, and anew
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in left_out:
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


def _type_of(gguf: Any, tensor: Any, kind: Kind) -> Any:
    """Matrices get the variant's type; vectors stay F32, as every converter leaves them."""
    types = gguf.GGMLQuantizationType
    if len(tensor.shape) < 2:
        return types.F32
    name = "Q8_0" if kind == "q4_0" and tensor.name.startswith(_WIDE) else _QUANTS[kind]
    block = gguf.GGML_QUANT_SIZES[types[name]][0]
    return types[name] if int(tensor.shape[0]) % block == 0 else types.F16


def _is_packed(gguf: Any, quant: Any) -> bool:
    types = gguf.GGMLQuantizationType
    return quant not in (types.F16, types.F32)


def _dtype(gguf: Any, quant: Any) -> Any:
    import numpy as np

    types = gguf.GGMLQuantizationType
    return np.dtype({types.F16: np.float16, types.F32: np.float32}.get(quant, np.uint8))


def _noisy(weights: Any, seed: int) -> Any:
    import numpy as np

    noise = np.random.default_rng(seed).standard_normal(weights.shape, dtype=np.float32)
    return weights + noise * np.float32(_NOISE * weights.std())
