"""The settings of each engine that may be tried, and those that are known to be good."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...schema.space import WEIGHTS, Knob


class KnownGood(NamedTuple):
    """A setting that makers or experts advise, or that a measurement has shown to pay."""

    knobs: dict[str, str]
    why: str
    source: str


class Asked(NamedTuple):
    """What a space is made for, beside the host."""

    model: str
    version: tuple[int, ...]  # (): not known, taken for the newest
    context_tokens: int
    client_workers: int
    checkpoints: dict[str, str]


def since(version: tuple[int, ...], *first: int) -> bool:
    """Whether a version has what came with `first`."""
    return not version or version >= first


def words(values: Iterable[int]) -> tuple[str, ...]:
    """Distinct, ascending, as a knob holds them."""
    return tuple(str(value) for value in sorted(set(values)))


def up_to(most: int) -> list[int]:
    """Each count where there are few; else one, quarters, and the last three."""
    if most <= 6:
        return list(range(1, most + 1))
    return sorted({1, most // 4, most // 2, 3 * most // 4, most - 2, most - 1, most})


def switch(name: str, flag: str, default: str, meaning: str, source: str) -> Knob:
    """``--enable-x`` is on and ``--no-enable-x`` off."""
    return Knob(
        name, ("off", "on"), default, flag=flag, off_flag=f"--no-{flag[2:]}", meaning=meaning,
        source=source,
    )  # fmt: skip


def weights(asked: Asked, meaning: str) -> Knob | None:
    """The user's checkpoints by name; none: the model as it is."""
    if not asked.checkpoints:
        return None
    return Knob(
        WEIGHTS, tuple(asked.checkpoints), "the model as given", flag="--model",
        value_of=dict(asked.checkpoints), changes_output=True, meaning=meaning,
        source="the user's list",
    )  # fmt: skip
