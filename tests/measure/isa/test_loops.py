"""Loops against a slow count over capstone's branch targets."""

from __future__ import annotations

import capstone
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure.isa.loops import is_code, is_reached, loops_near

NOP, HIT = 0xD503201F, 0x4E80A400
decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)


def branch(kind: str, offset: int) -> int:
    """A branch by `offset` words."""
    if kind == "b":
        return 0x14000000 | offset & 0x3FFFFFF
    if kind in ("tbz", "tbnz"):
        return {"tbz": 0x36000000, "tbnz": 0xB7000001}[kind] | (offset & 0x3FFF) << 5
    start = {"b.ne": 0x54000001, "cbz": 0xB4000003, "cbnz": 0x35000004, "bl": 0x94000000}[kind]
    return start | (offset & 0x7FFFF) << 5


def slow(words: list[int], starts: list[int]) -> list[tuple[int, int] | None]:
    """Of each word its innermost loop."""
    edges = []
    code = b"".join(word.to_bytes(4, "little") for word in words)
    for address, _, mnemonic, operands in decoder.disasm_lite(code, 0):
        is_branch = mnemonic in ("b", "cbz", "cbnz", "tbz", "tbnz") or mnemonic.startswith("b.")
        if is_branch:
            at, target = address // 4, int(operands.split("#")[-1], 16) // 4
            same = not any(target < start <= at for start in starts)
            if 0 <= target < at and at - target <= 2048 and same:
                edges.append((target, at))
    inner = [
        (t, b)
        for t, b in edges
        if not any((u, c) != (t, b) and t <= u and c <= b for u, c in edges)
    ]
    return [
        next((e for e in sorted(inner, key=lambda e: e[1]) if e[0] <= i <= e[1]), None)
        for i in range(len(words))
    ]


kinds = st.sampled_from(["b", "b.ne", "cbz", "cbnz", "tbz", "tbnz", "bl"])
lines = st.one_of(
    st.just(NOP), st.just(HIT), st.just(HIT), st.builds(branch, kinds, st.integers(-30, 10))
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, min_size=1, max_size=60), st.sets(st.integers(0, 59), max_size=3))
def test_every_hit_has_its_loop(words: list[int], starts: set[int]) -> None:
    array = np.array(words, dtype="<u4")
    hits = np.flatnonzero(array == HIT)
    found = loops_near(array, hits, np.array(sorted(starts), np.int64))
    inner = slow(words, sorted(starts))
    at = found.inner_at(hits)
    mine = [(int(found.first[i]), int(found.last[i])) if i >= 0 else None for i in at.tolist()]
    assert mine == [inner[hit] for hit in hits.tolist()]


def test_far_hits_are_read_apart() -> None:
    """Two loops a million words from each other, and a branch too far back to be one."""
    words = np.full(1_200_000, NOP, dtype="<u4")
    for start in (10, 1_000_000):
        words[start] = HIT
        words[start + 5] = branch("b.ne", -5)
    words[3000] = branch("b", -2990)
    hits = np.flatnonzero(words == HIT)
    found = loops_near(words, hits, np.zeros(0, np.int64))
    assert found.first[found.inner_at(hits)].tolist() == [10, 1_000_000]
    assert found.last[found.inner_at(hits)].tolist() == [15, 1_000_005]


@pytest.mark.parametrize(
    ("word", "goes_on"),
    [
        # as written by binutils: br, braa, braaz, ret, ret x5, retaa, brk, hlt, b, udf
        (0xD61F0060, False), (0xD71F0864, False), (0xD61F087F, False), (0xD65F03C0, False),
        (0xD65F00A0, False), (0xD65F0BFF, False), (0xD4200020, False), (0xD4400060, False),
        (0x14000000, False), (0x00000005, False),
        # blr, blraa, bl, svc, b.eq, cbz, smmla
        (0xD63F0060, True), (0xD73F0864, True), (0x94000000, True), (0xD4000001, True),
        (0x54000000, True), (0xB4000000, True), (HIT, True),
    ],
)  # fmt: skip
def test_where_execution_goes_on(word: int, goes_on: bool) -> None:
    assert is_reached(np.array([word, 0], dtype="<u4"), 1) is goes_on
    assert is_reached(np.array([word, NOP, NOP, 0], dtype="<u4"), 3) is goes_on
    assert is_reached(np.array([NOP, 0], dtype="<u4"), 1) is False


def test_a_branch_reaches_what_nothing_falls_into() -> None:
    """As after the B at the end of a loop of arm_gemm::a64_gemm_s8_8x12."""
    words = np.array([branch("cbz", 3), NOP, branch("b", -2), HIT, NOP], dtype="<u4")
    assert is_reached(words, 3) is True
    words[0] = branch("cbz", 4)
    assert is_reached(words, 3) is False


def test_what_is_no_code() -> None:
    def words(*values: int) -> np.ndarray:
        return np.array(values, dtype="<u4")

    assert is_code(words(NOP, HIT, 0x45009800, 0xA0800000))  # NEON, SVE and SME
    assert not is_code(words(NOP, 0))  # UDF, as padding
    assert not is_code(words(NOP, 7))  # a small number
    assert not is_code(words(0x02000000))
    assert not is_code(words(0x06000000))
