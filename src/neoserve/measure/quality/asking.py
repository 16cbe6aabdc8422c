"""What both methods share: questions to a server, and what goes wrong with them."""

from __future__ import annotations

import json
import math
import urllib.error
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import EXIT_INCONCLUSIVE, EngineFailed, Error
from ..engine.api import Api

TIMEOUT_S = 600.0  # of one document, on a slow machine


class QualityUnmeasurable(Error):
    """A configuration whose quality cannot be told, with why. It is not to be picked."""

    exit_code = EXIT_INCONCLUSIVE


class Piece(NamedTuple):
    """Tokens of one request, of which the last ones are scored."""

    tokens: tuple[int, ...]
    num_scored: int

    @property
    def context(self) -> tuple[int, ...]:
        """What comes before the scored ones."""
        return self.tokens[: len(self.tokens) - self.num_scored]

    @property
    def scored(self) -> tuple[int, ...]:
        """Those whose logprobs are wanted."""
        return self.tokens[len(self.tokens) - self.num_scored :]


def post(api: Api, route: str, asked: Any) -> Any:
    """The answer. Raises QualityUnmeasurable where it is refused, EngineFailed where none comes."""
    try:
        return api.post(route, asked, TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code >= 500:
            raise EngineFailed(f"{api.url}{route} failed: {_said(error)}") from None
        raise QualityUnmeasurable(f"{api.url}{route} refused: {_said(error)}") from None
    except ValueError as error:
        raise QualityUnmeasurable(f"{api.url}{route} answered no JSON: {error}") from None
    except OSError as error:
        raise EngineFailed(f"{api.url}{route} does not answer: {error}") from None


def finite(values: Sequence[Any], num: int, api: Api) -> list[float]:
    """The last `num` of logprobs, each a number. Raises QualityUnmeasurable."""
    found = [v for v in values[len(values) - num :] if isinstance(v, int | float)]
    if len(found) != num or not all(math.isfinite(value) for value in found):
        raise QualityUnmeasurable(
            f"{api.url} gave {len(found)} logprobs for {num} tokens, or one that is not finite"
        )
    return [float(value) for value in found]


def _said(error: urllib.error.HTTPError) -> str:
    text = error.read().decode(errors="replace")
    try:
        told = json.loads(text)
        told = told.get("error", told)
        return str(told.get("message", told) if isinstance(told, dict) else told)[:300]
    except (ValueError, AttributeError):
        return text[:300] or f"HTTP {error.code}"
