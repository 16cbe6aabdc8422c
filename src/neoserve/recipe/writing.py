"""Comments and YAML, as every recipe writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .claims import one_line
from .served import Served


def heading(served: Served, *more: str) -> str:
    """Comment lines: who wrote it, what is known, and where that was recorded."""
    lines = ["Written by NeoServe.", *served.says, *more]
    if served.head:
        lines.append(f"Evidence: ledger head {served.head}")
    return "".join(f"# {one_line(line)}\n" for line in lines)


def yaml_of(*documents: Mapping[str, Any]) -> str:
    """One YAML file."""
    import yaml

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    # A wide line: folding would put line breaks into long words.
    return yaml.dump_all(
        [dict(document) for document in documents], Dumper=Plain, sort_keys=False, width=10_000
    )


def filled(service: Mapping[str, Any]) -> dict[str, Any]:
    """Without keys that have nothing to say."""
    return {key: value for key, value in service.items() if value not in ("", None, [], {})}
