import pytest
from hypothesis import given
from hypothesis import strategies as st

from neoserve import units
from neoserve.errors import AskError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("2s", 2), ("1.5", 1.5), ("3 min", 180), ("2h", 7200), ("250us", 250e-6)],
)
def test_durations(text: str, seconds: float) -> None:
    assert units.parse_duration_s(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [("24GiB", 24 * 2**30), ("24GB", 24 * 10**9), ("512", 512), ("1.5 TiB", 3 * 2**39),
     ("10_000 kb", 10**7), ("1,024B", 1024)],
)  # fmt: skip
def test_bytes(text: str, num_bytes: int) -> None:
    assert units.parse_bytes(text) == num_bytes


def test_counts_read_k_as_vllm_does() -> None:
    # vllm/utils/argparse_utils.py human_readable_int: 1k = 1000, 1K = 1024; ours forgives case
    assert units.parse_tokens("8k") == 8000
    assert units.parse_tokens("8Ki") == 8192
    assert units.parse_tokens("1m") == 10**6


@pytest.mark.parametrize("text", ["", "fast", "-3s", "1e999", "3 parsecs", "NaN", "ms"])
def test_bad_durations_are_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(AskError) as caught:
        units.parse_duration_s(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["1.2", "-1%", "120%", "half", "5 s"])
def test_bad_shares(text: str) -> None:
    with pytest.raises(AskError):
        units.parse_share(text)


def test_shares() -> None:
    assert units.parse_share("4%") == 0.04
    assert units.parse_share("0.5") == 0.5


def test_fractions_of_a_token_are_refused() -> None:
    with pytest.raises(AskError, match="whole number"):
        units.parse_tokens("0.5")


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_a_shown_duration_reads_back_within_its_three_digits(seconds: float) -> None:
    assert units.parse_duration_s(units.show_duration(seconds)) == pytest.approx(seconds, rel=6e-3)


@given(st.integers(min_value=0, max_value=2**50))
def test_shown_bytes_read_back_within_three_digits(num_bytes: int) -> None:
    assert units.parse_bytes(units.show_bytes(num_bytes)) == pytest.approx(num_bytes, rel=6e-3)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.07123, "0.0712"), (1234.5, "1,234"), (0, "0"), (9.999, "10.0"), (12.34, "12.3")],
)
def test_significant(value: float, text: str) -> None:
    assert units.significant(value) == text


@pytest.mark.parametrize(("value", "text"), [(99.96, "100"), (9.996, "10.0"), (0.9996, "1.00")])
def test_significant_digits_are_counted_after_rounding(value: float, text: str) -> None:
    assert units.significant(value) == text


def test_money_and_counts() -> None:
    assert units.show_usd(0.0712) == "$0.0712"
    assert units.show_usd(1234.5) == "$1,234"
    assert units.show_count(12345.6) == "12,346"
    assert units.show_count(3) == "3"
    assert units.show_count(3.14159) == "3.14"
    assert units.show_duration(0) == "0 s"
    assert units.show_bytes(12) == "12 B"
