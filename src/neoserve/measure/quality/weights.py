"""Which weights an engine serves, as a digest of their bytes; the key of a score."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...schema.engine import EngineConfig
from ..engine.driver import flag_value

_CHUNK_BYTES = 1 << 22
_WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")
_NAMED = ("config.json", "quantization_config.json")


def score_key(config: EngineConfig, settings: Mapping[str, str]) -> str:
    """SHA-256 of weights, engine build and `settings`: alike where answers cannot differ.

    `settings` are those that can change answers; allocator, threads and batching are not. Of a
    server that is not ours only its URL and model's name are known: its key says no more.
    """
    told = {"weights": weights_of(config), "engine": config.engine, "version": config.version,
            "settings": dict(sorted(settings.items()))}  # fmt: skip
    return hashlib.sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()


def weights_of(config: EngineConfig) -> str:
    """Digest of the model's file or folder; a hub's name with its revision where it is neither."""
    if not config.argv:
        return f"{config.url} {config.model}".strip()
    named = _model(config)
    path = Path(named).expanduser()
    if path.is_file():
        return file_digest(path)
    if path.is_dir():
        return folder_digest(path)
    return f"{named}@{flag_value(config.argv, '--revision') or 'main'}"


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes; read once for one path, size and time of change."""
    stat = path.stat()
    return _digest(str(path.resolve()), stat.st_size, stat.st_mtime_ns)


def folder_digest(path: Path) -> str:
    """SHA-256 over name, size and digest of each weights file and config in it."""
    files = sorted(f for f in path.iterdir() if f.suffix in _WEIGHTS or f.name in _NAMED)
    rows = [(file.name, file.stat().st_size, file_digest(file)) for file in files]
    return hashlib.sha256(msgspec.json.encode(rows)).hexdigest()


@functools.lru_cache(maxsize=256)
def _digest(path: str, size_bytes: int, changed_ns: int) -> str:  # noqa: ARG001
    found = hashlib.sha256()
    with Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def _model(config: EngineConfig) -> str:
    named = flag_value(config.argv, "--model", "-m", "--model-path")
    if named is not None:
        return named
    words = list(config.argv)
    return words[words.index("serve") + 1] if "serve" in words[:-1] else config.model
