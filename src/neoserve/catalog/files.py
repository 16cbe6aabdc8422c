"""The bundled data files, each read once, when first asked for."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec


@cache
def bundled(name: str) -> Any:
    """The content of catalog/data/<name>.json."""
    return msgspec.json.decode((files(__package__) / "data" / f"{name}.json").read_bytes())


def key_of(text: str) -> str:
    """A name without case, blanks and punctuation that people forget: "H100 SXM" = "h100_sxm"."""
    plain = text.strip().lower().removeprefix("nvidia ").removeprefix("amd ")
    return "".join(c for c in plain if c.isalnum() or c in "+./")
