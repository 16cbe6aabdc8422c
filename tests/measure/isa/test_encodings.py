"""Masks against binutils (recorded, and live where it is installed) and against capstone."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neoserve.measure.isa import encodings
from neoserve.measure.isa.encodings import ENCODINGS, FORMS, macs, scan, tally

from .decoded import form_by_capstone, form_of

DATA = Path(__file__).parents[2] / "data" / "isa"
ASSEMBLER = "aarch64-linux-gnu-as"


def recorded() -> list[tuple[int, str, str]]:
    lines = (DATA / "encodings.txt").read_text().splitlines()
    rows = [[*line.split("\t"), ""][:3] for line in lines]
    return [(int(word, 16), mnemonic, operands) for word, mnemonic, operands in rows]


def forms(words: list[int]) -> list[str]:
    """The form of each word, "" where it has none."""
    hits = scan(np.array(words, dtype="<u4"))
    found = [""] * len(words)
    for place, form in zip(hits.place.tolist(), hits.form.tolist(), strict=True):
        assert found[place] == ""  # no word has two
        found[place] = FORMS[form]
    return found


def test_each_word_is_what_objdump_reads_in_it() -> None:
    rows = recorded()
    expected = [form_of(mnemonic, operands) for _, mnemonic, operands in rows]
    assert forms([word for word, _, _ in rows]) == expected
    counts = Counter(expected)
    assert {form for form in FORMS if not counts[form]} == set()
    assert counts[""] > 30  # their neighbours
    assert all(counts[form] >= 4 for form in FORMS if not form.startswith("sm"))


@pytest.mark.skipif(shutil.which(ASSEMBLER) is None, reason=f"{ASSEMBLER} is not installed")
def test_recorded_words_are_what_the_assembler_writes(tmp_path: Path) -> None:
    made = tmp_path / "encodings.o"
    subprocess.run([ASSEMBLER, "-o", made, DATA / "encodings.S"], check=True)
    raw = tmp_path / "encodings.bin"
    subprocess.run(["aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", made, raw],
                   check=True)  # fmt: skip
    words = np.frombuffer(raw.read_bytes(), "<u4").tolist()
    assert words == [word for word, _, _ in recorded()]


def near_words(seed: int, count: int) -> list[int]:
    """Words of all encodings with up to three of their bits changed."""
    random = np.random.default_rng(seed)
    words = []
    for i in range(count):
        encoding = ENCODINGS[i % len(ENCODINGS)]
        word = encoding.value | int(random.integers(0, 2**32)) & ~encoding.mask
        for bit in random.integers(0, 32, random.integers(0, 4)).tolist():
            word ^= 1 << bit
        words.append(word)
    return words


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_masks_accept_what_capstone_decodes_so(seed: int) -> None:
    words = near_words(seed, 40 * len(ENCODINGS))
    assert forms(words) == [form_by_capstone(word) for word in words]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_chunks_and_alignment_change_nothing(seed: int, cut: int) -> None:
    """Against one comparison after another, on words of which many are hits."""
    random = np.random.default_rng(seed)
    chosen = random.integers(0, len(ENCODINGS), 3000)
    noise = random.integers(0, 2**32, 3000, dtype=np.uint32)
    mask = np.array([e.mask for e in ENCODINGS], np.uint32)[chosen]
    value = np.array([e.value for e in ENCODINGS], np.uint32)[chosen]
    words = np.where(random.random(3000) < 0.5, value | (noise & ~mask), noise).astype("<u4")
    raw = b"x" * cut + words.tobytes()
    expected = [
        next((i for i, e in enumerate(ENCODINGS) if word & e.mask == e.value), -1)
        for word in words.tolist()
    ]
    before = encodings._CHUNK_WORDS
    try:
        encodings._CHUNK_WORDS = 1000
        hits = scan(np.frombuffer(raw, "<u4", 3000, cut))
    finally:
        encodings._CHUNK_WORDS = before
    found = np.full(3000, -1)
    found[hits.place] = hits.form
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x4E80A400, 2 * 8 * 2),  # smmla: 2x8 times 8x2
        (0x6E40EC00, 2 * 4 * 2),  # bfmmla: 2x4 times 4x2
        (0x4E809400, 4 * 4),  # sdot v0.4s: four sums of four
        (0x0E809400, 2 * 4),  # sdot v0.2s
        (0x4F80E000, 4 * 4), (0x0F80E000, 2 * 4),  # by element
        (0x6E40FC00, 4 * 2), (0x2E40FC00, 2 * 2),  # bfdot
        (0x2EC0FC00, 4), (0x6EC0FC00, 4),  # bfmlalb, bfmlalt: Q is not the width
        (0x44800000, 4 * 4), (0x44C00000, 2 * 4),  # sdot z0.s from bytes, z0.d from halves
        (0x64A0E400, 2 * 2 * 2),  # fmmla z0.s
        (0xA0800000, 4 * 4 * 4),  # smopa: 4x4 sums of four, at 128 bits
        (0x81800000, 4 * 4 * 2), (0x80800000, 4 * 4), (0x80C00000, 2 * 2),
        (0xD503437F, 0), (0x0EA16800, 0),
    ],
)  # fmt: skip
def test_multiply_accumulates(word: int, expected: int) -> None:
    words = np.array([word], dtype="<u4")
    hits = scan(words)
    assert macs(words, hits.form).tolist() == [expected]


def test_tally_names_what_occurs() -> None:
    hits = scan(np.array([0x4E80A400, 0xD503201F, 0x6E40EC00, 0x4E81A421], dtype="<u4"))
    assert tally(hits.form) == {"smmla.v": 2, "bfmmla.v": 1}
    assert hits.place.tolist() == [0, 2, 3]
    assert tally(scan(np.zeros(0, "<u4")).form) == {}
