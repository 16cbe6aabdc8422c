"""docs/accuracy.md, which a wheel carries along."""

from __future__ import annotations

from pathlib import Path

from ..errors import AskError

_SHIPPED = Path(__file__).parent / "data" / "accuracy.md"
_SOURCE = Path(__file__).parents[3] / "docs" / "accuracy.md"


def accuracy_page() -> str:
    """Raises AskError where this installation has none."""
    for path in (_SHIPPED, _SOURCE):
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise AskError("the accuracy page is not part of this installation; it is docs/accuracy.md of "
                   "the project")  # fmt: skip
