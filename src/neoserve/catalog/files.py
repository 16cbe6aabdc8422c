"""The bundled data files, each read once, when first asked for."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

DATA = Path(__file__).with_name("data")


@cache
def bundled(name: str) -> Any:
    """The content of catalog/data/<name>.json."""
    return msgspec.json.decode((DATA / f"{name}.json").read_bytes())


def key_of(text: str) -> str:
    """A name without case, blanks and punctuation that people forget: "H100 SXM" = "h100_sxm"."""
    plain = text.strip().lower().removeprefix("nvidia ").removeprefix("amd ")
    return "".join(c for c in plain if c.isalnum() or c in "+./")


def nearest(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Known names that look like one that is not known."""
    from difflib import get_close_matches  # only a miss pays for it

    return get_close_matches(name, list(known), n=n, cutoff=cutoff)
