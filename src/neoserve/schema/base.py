"""The shape every document shares.

Documents are msgspec structs: frozen, strict (an unknown field is an error), tagged with a
``schema`` key. msgspec is used instead of pydantic because a cold command has to answer
within ten interpreter start-ups, and importing pydantic alone takes eight.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from ..errors import AskError


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A frozen record that crosses a room, a wire or a disk."""

    @classmethod
    def parse(cls, data: Any, what: str) -> Self:
        """Validate plain data (dicts, lists, numbers). Raises AskError naming `what`."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise AskError(f"{what}: {error}") from None

    @classmethod
    def parse_json(cls, text: bytes | str, what: str) -> Self:
        """Validate JSON text. Raises AskError naming `what`."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AskError(f"{what}: {error}") from None

    def to_data(self) -> Any:
        """Plain dicts, lists, strings and numbers."""
        return msgspec.to_builtins(self)

    def to_json(self) -> bytes:
        """Compact JSON with the fields in their declared order."""
        return msgspec.json.encode(self)

    def to_pretty_json(self) -> str:
        """The same for people: two blanks an indent, no newline at the end."""
        return msgspec.json.format(self.to_json(), indent=2).decode()

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)


class Source(Document, frozen=True):
    """Where a published number comes from."""

    title: str
    url: str = ""
    date: str = ""  # YYYY-MM-DD, YYYY-MM or YYYY, as published
    licence: str = ""
