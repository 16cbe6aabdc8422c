"""A GGUF file's header. Weights are never read, and nothing is allocated on the word of a count
before the file is known to be long enough for it.

Format: ggml docs/gguf.md. Read with plain reads instead of a memory map: a file that shrinks
meanwhile gives an error then, not a SIGBUS.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..errors import AskError
from .gguf_names import TENSOR_TYPES

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q",
            11: "<q", 12: "<d"}  # fmt: skip
_STRING, _ARRAY = 8, 9
_LEAST_KEY_BYTES = 8 + 4 + 1  # length, type, one byte of value
_LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8
_MAX_DIMS = 4  # GGML_MAX_DIMS
_MAX_KEPT = 2048  # elements of an array that is kept; no model has as many layers


class Counted(NamedTuple):
    """An array too long to be about layers (tokenizer tables): only its length is kept."""

    num_items: int


Value = int | float | str | list[Any] | Counted


class GgufTensor(NamedTuple):
    """One tensor's entry: the first dimension is the contiguous one."""

    name: str
    shape: tuple[int, ...]
    kind: str  # f32, q4_1, q6_k ...
    num_bytes: int

    @property
    def params(self) -> int:
        """Number of weights."""
        return _product(self.shape)


class GgufHeader(NamedTuple):
    """What stands before the weights. Long arrays (tokenizer tables) are only counted."""

    version: int
    metadata: Mapping[str, Value]
    tensors: tuple[GgufTensor, ...]


def read_gguf(path: str | os.PathLike[str]) -> GgufHeader:
    """The header of one file. Raises AskError where it is not a whole GGUF file, version 2 or 3."""
    file = Path(path)
    try:
        if not file.is_file():  # a pipe would block, a directory cannot be read
            what = "is not a file" if file.exists() else "does not exist"
            raise AskError(f"{file}: {what}; expected a GGUF file")
        with file.open("rb") as stream:
            return _Reader(stream, os.fstat(stream.fileno()).st_size, file.name).header()
    except OSError as error:
        raise AskError(f"{file}: cannot be read: {error.strerror}") from None


class _Reader:
    """A position in a file of known size."""

    def __init__(self, stream: BinaryIO, size: int, name: str) -> None:
        self._stream, self._size, self._name = stream, size, name
        self._at = 0

    def header(self) -> GgufHeader:
        """Everything before the weights, checked against the size of the file."""
        version = self._version()
        num_tensors, num_keys = self._number("<Q"), self._number("<Q")
        self._room(num_keys, _LEAST_KEY_BYTES, "metadata keys")
        metadata: dict[str, Value] = {}
        for _ in range(num_keys):
            key = self._string()
            if key in metadata:
                raise self._broken(f"states {key[:60]!r} twice")
            metadata[key] = self._value(self._number("<I"))
        self._room(num_tensors, _LEAST_TENSOR_BYTES, "tensors")
        entries = [self._tensor() for _ in range(num_tensors)]
        self._check_layout(entries, metadata.get("general.alignment", 32))
        return GgufHeader(version, metadata, tuple(tensor for tensor, _ in entries))

    def _version(self) -> int:
        if not self._size:
            raise self._broken("is empty")
        magic = self._take(min(4, self._size))
        if magic != b"GGUF":
            raise self._broken(f"begins with {magic!r}, not b'GGUF'")
        version = self._number("<I")
        if version and not version & 0xFFFF:
            raise self._broken("is big-endian")
        if version not in (2, 3):
            raise self._broken(f"is of GGUF version {version}")
        return version

    def _broken(self, what: str) -> AskError:
        return AskError(
            f"{self._name}: {what}; expected a complete little-endian GGUF file of version 2 or 3"
        )

    def _room(self, count: int, each: int, what: str) -> None:
        """Refuse a count that the rest of the file cannot hold."""
        if count * each > self._size - self._at:
            raise self._broken(
                f"claims {count} {what}, more than its {self._size} bytes can hold"
            )

    def _take(self, count: int) -> bytes:
        self._room(count, 1, "more bytes")
        data = self._stream.read(count)
        if len(data) < count:
            raise self._broken("became shorter while it was read")
        self._at += count
        return data

    def _skip(self, count: int) -> None:
        self._room(count, 1, "more bytes")
        self._stream.seek(count, os.SEEK_CUR)
        self._at += count

    def _number(self, code: str) -> int:
        return int(struct.unpack(code, self._take(struct.calcsize(code)))[0])

    def _string(self) -> str:
        return self._take(self._number("<Q")).decode("utf-8", "replace")

    def _scalar(self, kind: int) -> int | float | str:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALARS:
            raise self._broken(f"has a value of unknown type {kind}")
        code = _SCALARS[kind]
        value: int | float = struct.unpack(code, self._take(struct.calcsize(code)))[0]
        return value

    def _value(self, kind: int) -> Value:
        if kind != _ARRAY:
            return self._scalar(kind)
        kind, count = self._number("<I"), self._number("<Q")
        if kind != _STRING and kind not in _SCALARS:
            raise self._broken(f"has an array of unknown type {kind}")
        each = 8 if kind == _STRING else struct.calcsize(_SCALARS[kind])
        self._room(count, each, "array elements")
        if count <= _MAX_KEPT:
            return [self._scalar(kind) for _ in range(count)]
        if kind != _STRING:
            self._skip(count * each)
        else:
            self._skip_strings(count)
        return Counted(count)

    def _skip_strings(self, count: int) -> None:
        """Pass over a vocabulary: half a million short strings, so without a call for each."""
        read, seek, left = self._stream.read, self._stream.seek, self._size - self._at
        for _ in range(count):
            length = int.from_bytes(read(8), "little")
            left -= 8 + length
            if left < 0:
                raise self._broken("ends inside an array of strings")
            seek(length, os.SEEK_CUR)
        self._at = self._size - left

    def _tensor(self) -> tuple[GgufTensor, int]:
        """(entry, offset of its weights in bytes)."""
        name, num_dims = self._string(), self._number("<I")
        if num_dims > _MAX_DIMS:
            raise self._broken(f"gives tensor {name[:60]!r} {num_dims} dimensions")
        shape = tuple(self._number("<Q") for _ in range(num_dims))
        kind, offset = self._number("<I"), self._number("<Q")
        if kind not in TENSOR_TYPES:
            raise AskError(
                f"{self._name}: tensor {name[:60]!r} is of type {kind}, which NeoServe does not "
                "know; convert the file with a current llama.cpp"
            )
        label, block, block_bytes = TENSOR_TYPES[kind]
        if (shape[0] if shape else 1) % block:
            raise self._broken(f"has rows of {name[:60]!r} that do not fill {label} blocks")
        num_bytes = _product(shape) // block * block_bytes
        return GgufTensor(name, shape, label, num_bytes), offset

    def _check_layout(self, entries: list[tuple[GgufTensor, int]], alignment: Value) -> None:
        """Weights follow each other without overlap and all lie inside the file."""
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._broken(f"has alignment {str(alignment)[:20]}, not a power of two")
        if len({tensor.name for tensor, _ in entries}) < len(entries):
            raise self._broken("names a tensor twice")
        start, end = -(-self._at // alignment) * alignment, 0
        for tensor, offset in entries:
            if offset != -(-end // alignment) * alignment:
                raise self._broken(f"misplaces the weights of {tensor.name[:60]!r}")
            end = offset + tensor.num_bytes
        if entries and start + end > self._size:
            raise self._broken(f"has {self._size} of its {start + end} bytes")


def _product(shape: Iterable[int]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total
