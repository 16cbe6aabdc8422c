"""From a MODEL argument to a ModelSpec: bundled facts, a folder, a config.json, a GGUF, the hub."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import AskError, CatalogMiss
from ..schema.model import ModelSpec
from ..units import MIB
from .architectures import read_config
from .files import bundled, key_of, nearest

MAX_NAME = 4096  # the longest path that Linux opens
MAX_CONFIG_BYTES = 16 * MIB  # the largest published config.json, quantization lists included: 1 MiB


@cache
def _index() -> dict[str, str]:
    """Every spelling of a bundled model -> its id; a bare name works where it is unambiguous."""
    index: dict[str, str] = {}
    tails: dict[str, list[str]] = {}
    for name, entry in bundled("models")["models"].items():
        for alias in (name, *entry.get("aliases", ())):
            index.setdefault(key_of(alias), name)
        tails.setdefault(key_of(name.rsplit("/", 1)[-1]), []).append(name)
    for tail, names in tails.items():
        if len(names) == 1:
            index.setdefault(tail, names[0])
    return index


def bundled_names() -> list[str]:
    """Ids of the models that need no network."""
    return sorted(bundled("models")["models"])


def check_bundled(text: str) -> None:
    """Raises CatalogMiss for a name that needs a file or the network."""
    if len(text) > MAX_NAME or key_of(text) not in _index():
        raise _miss(text[:MAX_NAME])


def bundled_config(name: str) -> dict[str, Any]:
    """The config.json facts of a bundled model. Raises KeyError."""
    models = bundled("models")["models"]
    entry = models[name]
    config = dict(models[entry["base"]]["config"]) if "base" in entry else dict(entry["config"])
    if "quantization_config" in entry:
        config["quantization_config"] = entry["quantization_config"]
    if "hf_quant_config" in entry and "quantization_config" not in config:
        config["quantization_config"] = _modelopt(entry["hf_quant_config"])
    return config


def bundled_note(name: str) -> str:
    """What is not verbatim in a bundled model's facts, for `assumptions`."""
    entry = bundled("models")["models"][name]
    return str(entry.get("note", ""))


def find_model(text: str, online: bool = True) -> ModelSpec:
    """Resolve a folder, a file, a bundled id or a hub id. Raises AskError or CatalogMiss."""
    if not text.strip():
        raise _miss(text)
    path = Path(text).expanduser()
    if len(text) > MAX_NAME:
        raise AskError(f"the model's name has {len(text)} characters; expected at most {MAX_NAME}")
    if text.endswith(".gguf") or (path.is_file() and _magic(path) == b"GGUF"):
        from .gguf import gguf_model

        return gguf_model(path)
    if path.is_dir():
        return _from_folder(path)
    if path.is_file() or text.endswith(".json"):
        name = path.parent.name if path.stem == "config" else path.stem
        return read_config(read_json(path), name)
    known = _index().get(key_of(text))
    if known is not None:
        return _bundled(known)
    if online and text.count("/") == 1:
        return _from_hub(text)
    raise _miss(text)


@cache
def _bundled(name: str) -> ModelSpec:
    spec = read_config(bundled_config(name), name)
    note = bundled_note(name)
    return spec.replace(notes=(*spec.notes, f"{name}: {note}")) if note else spec


def _miss(text: str) -> CatalogMiss:
    names = bundled_names()
    lower = {n.lower(): n for n in names}
    tails = {n.rsplit("/", 1)[-1].lower(): n for n in names}
    near = [lower[m] for m in nearest(text.lower(), lower, n=3, cutoff=0.5)]
    near += [tails[m] for m in nearest(text.lower(), tails, n=3, cutoff=0.5)]
    return CatalogMiss(
        "model", text, list(dict.fromkeys(near))[:4],
        "give a bundled id (`neoserve catalog models`), a folder, a config.json or a GGUF file",
    )  # fmt: skip


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4)
    except OSError:
        return b""


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of sensible size. Raises AskError in one sentence."""
    try:
        size = path.stat().st_size
        if size > MAX_CONFIG_BYTES:
            raise AskError(
                f"{path} has {size / MIB:.0f} MiB; a config.json has at most "
                f"{MAX_CONFIG_BYTES // MIB} MiB"
            )
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AskError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise AskError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise AskError(f"{path} holds a {type(data).__name__}; expected a JSON object")
    return data


def _from_folder(folder: Path) -> ModelSpec:
    if not (folder / "config.json").is_file():
        ggufs = sorted(folder.glob("*.gguf"))
        if len(ggufs) == 1:
            return find_model(str(ggufs[0]))
        if ggufs:
            raise AskError(f"{folder} holds {len(ggufs)} GGUF files; name one, e.g. {ggufs[0]}")
        raise AskError(f"{folder} has no config.json; expected a Hugging Face checkpoint folder")
    raw = read_json(folder / "config.json")
    side = folder / "hf_quant_config.json"
    if side.is_file() and "quantization_config" not in raw:
        raw["quantization_config"] = _modelopt(read_json(side))
    spec = read_config(raw, folder.resolve().name)
    return spec.replace(safetensors_bytes=safetensors_bytes(folder))


def _modelopt(side: Mapping[str, Any]) -> dict[str, Any]:
    """hf_quant_config.json of a ModelOpt checkpoint, in the words of quantization_config."""
    stated = side.get("quantization")
    inner = stated if isinstance(stated, Mapping) else side
    return {
        "quant_method": "modelopt",
        "quant_algo": inner.get("quant_algo"),
        "ignore": inner.get("exclude_modules") or [],
        "kv_cache_quant_algo": inner.get("kv_cache_quant_algo"),
    }


def safetensors_bytes(folder: Path) -> int:
    """Bytes of weights: the index's total, else the files' headers. 0 where there are none."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        metadata = read_json(index).get("metadata")
        total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
        if isinstance(total, (int, float)) and 0 < total < math.inf:
            return int(total)
    return sum(_tensor_bytes(f) for f in sorted(folder.glob("*.safetensors")))


def _tensor_bytes(path: Path) -> int:
    """Bytes of the tensors that one file's header lists: 8 bytes of length, then JSON."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > path.stat().st_size:
                raise AskError(f"{path} is truncated: its header alone has {length} bytes")
            header = json.loads(file.read(length))
        spans = [t["data_offsets"] for name, t in header.items() if name != "__metadata__"]
        return sum(int(end) - int(start) for start, end in spans)
    except (OSError, ValueError, struct.error, RecursionError) as error:
        raise AskError(f"{path} is no readable safetensors file: {error}") from None
    except (AttributeError, LookupError, TypeError, OverflowError):
        raise AskError(
            f"{path} is no readable safetensors file: its header lacks tensors' data_offsets"
        ) from None


def _from_hub(model: str) -> ModelSpec:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        miss = _miss(model)
        raise AskError(f"{miss}; or install neoserve[hub] to fetch it") from None
    try:
        return read_config(read_json(Path(hf_hub_download(model, "config.json"))), model)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise AskError(f"{_miss(model)}; the hub did not answer: {reason}") from None
