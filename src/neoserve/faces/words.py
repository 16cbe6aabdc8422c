"""Named values, as pages, agents and notebooks send them, read by the command line's own options.

An option's one string serves ``--help``, the documentation, OpenAPI and the agents' tools alike.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import AskError
from ..units import parse_bytes, parse_duration_s, parse_share
from .options import Option, gib, price, reader_of, real, whole, yes_no

_KINDS: dict[Callable[[str], Any], str] = {
    whole: "integer", parse_bytes: "integer", gib: "number", real: "number", price: "number",
    parse_share: "number", parse_duration_s: "number", yes_no: "boolean",
}  # fmt: skip
_UNITS: dict[Callable[[str], Any], str] = {
    parse_bytes: "bytes, or text such as 24GiB", parse_duration_s: "seconds, or text such as 200ms",
    parse_share: "a share such as 0.6, or 60%", price: "dollars an hour",
}  # fmt: skip
_MAX_TEXT = 4096  # characters; the longest path that Linux opens


def namespace(known: Iterable[Option], given: Mapping[str, Any]) -> argparse.Namespace:
    """As the command line would have it, what is left out included. Raises AskError."""
    known = tuple(known)
    names = {name: option for option in known for name in option.names}
    unknown = sorted(set(given) - set(names))
    if unknown:
        told = ", ".join(sorted(option.names[0] for option in known))
        hint = _hint(unknown[0], names)
        raise AskError(f"unknown option {unknown[0][:80]!r}{hint}; expected one of {told}")
    values: dict[str, Any] = {option.name: option.start for option in known}
    seen: dict[str, str] = {}
    for name, value in given.items():
        option = names[name]
        if option.name in seen:
            raise AskError(f"{seen[option.name]} and {name} say the same; give one")
        seen[option.name] = name
        values[option.name] = value_of(option, name, value)
    return argparse.Namespace(**values)


def _hint(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only a miss pays for it

    near = get_close_matches(name[:80], list(known), n=1)
    return f", did you mean {near[0]}?" if near else ""


def value_of(option: Option, name: str, value: Any) -> Any:
    """Text is read as on the command line; other values have to be of the option's kind."""
    if value is None:
        if option.start is not None:
            raise AskError(
                f"{name} is None; leave it out for its usual value, {option.start!r}"
            )
        return None
    if option.many and isinstance(value, (list, tuple)):
        return tuple(_one(option, name, item) for item in value)
    if isinstance(value, str):
        return _read(option, name, value)
    plain = _plain(option, name, value)
    return (plain,) if option.many else plain


def _one(option: Option, name: str, value: Any) -> Any:
    if isinstance(value, str):
        return _told(name, option.read, value)
    return _plain(option, name, value)


def _read(option: Option, name: str, text: str) -> Any:
    if len(text) > _MAX_TEXT:
        raise AskError(f"{name} has {len(text)} characters; expected at most {_MAX_TEXT}")
    value = _told(name, yes_no if option.switch or option.both else reader_of(option), text)
    return _chosen(option, name, value)


def _told(name: str, read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except AskError as error:
        raise AskError(f"{name}: {error}") from None


def _plain(option: Option, name: str, value: Any) -> Any:
    kind = kind_of(option)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "boolean" and isinstance(value, bool):
        return value
    if kind == "integer" and is_number and (isinstance(value, int) or value.is_integer()):
        return int(value)
    if kind == "number" and is_number and math.isfinite(value):
        return _told(name, option.read, repr(value)) if option.read is gib else value
    raise AskError(f"{name} is {value!r}; expected {_article(kind)}: {option.help}")


def _chosen(option: Option, name: str, value: Any) -> Any:
    if option.choices and value not in option.choices:
        raise AskError(f"{name} is {value!r}; expected one of {', '.join(option.choices)}")
    return value


def kind_of(option: Option) -> str:
    """JSON Schema's word for one of its values."""
    return "boolean" if option.switch or option.both else _KINDS.get(option.read, "string")


def _article(kind: str) -> str:
    return {"integer": "a whole number", "number": "a finite number",
            "boolean": "true or false"}.get(kind, "text")  # fmt: skip


def json_schema(
    known: Iterable[Option], required: Iterable[str] = (), *, one_type: bool = False
) -> dict[str, Any]:
    """What `namespace` takes. Names are each option's first flag; the others are read too.

    `one_type`: each value has a single type, for clients that know no other; text such as 8k is
    read from them all the same.
    """
    return {
        "type": "object",
        "properties": {option.names[0]: _schema_of(option, one_type) for option in known},
        "required": list(required),
        "additionalProperties": False,
    }


def _schema_of(option: Option, one_type: bool) -> dict[str, Any]:
    kind = kind_of(option)
    words = "; ".join(filter(None, (option.help, _UNITS.get(option.read, ""))))
    if one_type:
        kind = "string" if option.read in (parse_bytes, parse_duration_s) else kind
    one: dict[str, Any] = {"type": kind if one_type or kind == "string" else [kind, "string"]}
    if option.choices:
        one["enum"] = list(option.choices)
    if option.many and one_type:
        return {"description": words, "type": "array", "items": one}
    if option.many:
        return {"description": words,
                "anyOf": [{"type": "array", "items": one}, one]}  # fmt: skip
    found = {"description": words, **one}
    if option.start is not None and option.start not in ("", ()):
        found["default"] = list(option.start) if isinstance(option.start, tuple) else option.start
    return found
