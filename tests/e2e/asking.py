"""One completion of a served engine."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from neoserve.measure.engine.running import Engine


def complete(engine: Engine, prompt: str, num_tokens: int) -> dict[str, Any]:
    """What the server's `usage` says of a completion of so many tokens."""
    asked = {"model": engine.model, "prompt": prompt, "max_tokens": num_tokens,
             "ignore_eos": True, "temperature": 0}  # fmt: skip
    request = urllib.request.Request(
        f"{engine.url}/v1/completions", json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["usage"]
