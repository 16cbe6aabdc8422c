"""Public measurements that ship with the package, each with its source and licence."""

from __future__ import annotations

import gzip
from functools import cache

import msgspec

from ..catalog.files import DATA, key_of
from ..errors import AskError
from ..schema.answers import PublishedList, PublishedPoint


def published(model: str = "", hardware: str = "", limit: int = 1000) -> PublishedList:
    """Points whose model and hardware hold these words. Raises AskError."""
    if limit < 1:
        raise AskError(f"limit is {limit}; expected at least 1")
    found = [
        point
        for point in _points()
        if model.lower() in point.model.lower() and key_of(hardware) in key_of(point.hardware)
    ]
    reason = "" if _points() else "no public measurements are part of this installation"
    return PublishedList(points=tuple(found[:limit]), num_matching=len(found), reason=reason)


@cache
def _points() -> tuple[PublishedPoint, ...]:
    file = DATA / "published.json.gz"
    if not file.is_file():
        return ()
    return msgspec.json.decode(
        gzip.decompress(file.read_bytes()), type=tuple[PublishedPoint, ...]
    )
