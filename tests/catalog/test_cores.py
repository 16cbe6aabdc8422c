"""Slots a cycle, as claims are checked by and as counters are read by."""

from __future__ import annotations

import pytest

from neoserve.catalog.cores import SLOTS, slots_of
from neoserve.measure.pmu.cores import named_core


@pytest.mark.parametrize("name", [n for n in SLOTS if n.startswith(("neoverse", "zen"))])
def test_both_tables_agree(name: str) -> None:
    """Rooms are strangers: what is published and what is measured with are stated apart."""
    assert named_core(name).slots == SLOTS[name]


def test_a_name_is_forgiven_its_case_and_separators() -> None:
    assert slots_of("Neoverse V2") == slots_of("neoverse_v2") == 8
    assert slots_of("something else") is None
