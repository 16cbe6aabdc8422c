"""What predictions share: the candidates of a plan, and the workloads of one deployment."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from .predictor import Ask

_T = TypeVar("_T")


class Memo:
    """Intermediate results, made once."""

    def __init__(
        self,
        values: dict[Hashable, Any] | None = None,
        of_deployment: dict[Hashable, Any] | None = None,
    ) -> None:
        """`of_deployment`: where all that is asked is of one deployment, what no workload decides;
        it is added to."""
        self._values: dict[Hashable, Any] = dict(values or {})
        self._of_deployment = of_deployment

    def lasting(self) -> dict[Hashable, Any]:
        """What neither the workload nor the coefficients decide: shapes, footprints, layouts."""
        return {
            key: value for key, value in self._values.items()
            if isinstance(key, tuple) and key[0] in ("shape", "footprint", "layout", "refusal")
        }  # fmt: skip

    def get(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """The value under a key, made on first use."""
        return _kept(self._values, key, make)

    def of_deployment(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """A value that model, machine, profile, coefficients and deployment decide. In a plan,
        where few ask twice, it is made each time."""
        return make() if self._of_deployment is None else _kept(self._of_deployment, key, make)


def _kept(values: dict[Hashable, Any], key: Hashable, make: Callable[[], _T]) -> _T:
    found: _T | None = values.get(key)
    if found is None:
        found = values[key] = make()
    return found


class Setup:
    """What is asked about without its workload. Documents count as equal only where they are the
    same object: a model's layers take longer to compare than they save."""

    def __init__(self, ask: Ask) -> None:
        self.held = ask.model, ask.machine, ask.profile, ask.coefficients  # so the ids are theirs
        self.key = *map(id, self.held), ask.deployment, ask.available_kv_bytes

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setup) and self.key == other.key


@lru_cache(maxsize=32)
def known_of(_: Setup) -> dict[Hashable, Any]:
    """Where a `Memo` keeps what it finds out about a setup; of the last few."""
    return {}
