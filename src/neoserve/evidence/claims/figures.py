"""A printed figure is an interval: all values that round to it. Exact, in fractions."""

from __future__ import annotations

import re
from fractions import Fraction

from msgspec import Struct

from ...errors import AskError
from ...schema.claims import Printed
from ...units import significant

_FIGURE = re.compile(
    r"(?P<about>[~≈])?\s*(?P<sign>[+-])?\s*[$€£]?\s*(?P<whole>\d[\d,_]*)?(?P<part>\.\d*)?"
    r"(?:[eE](?P<exponent>[+-]?\d{1,2}))?\s*(?P<suffix>%|[x×]|[kKMBG])?"
)
_SCALE = {"%": Fraction(1, 100), "k": Fraction(10**3), "K": Fraction(10**3), "M": Fraction(10**6),
          "B": Fraction(10**9), "G": Fraction(10**9)}  # fmt: skip
_LEAST, _MOST = Fraction(1, 10**15), Fraction(10**18)
_PLAIN_DIGITS = 3  # of a whole number that are never taken for rounding: 120 is not 100 to 140
_KEPT_DIGITS = 2  # of a longer one that ends in zeros: 3,500 may be 3,450 to 3,550


class Interval(Struct, frozen=True):
    """All values from `low` to `high`, both included."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def __truediv__(self, other: Interval) -> Interval:
        """`other` does not reach zero: `positive` sees to it."""
        return self * Interval(1 / other.high, 1 / other.low)

    def meets(self, other: Interval) -> bool:
        """Whether one value is in both."""
        return self.low <= other.high and other.low <= self.high

    @property
    def middle(self) -> float:
        """For people."""
        return float((self.low + self.high) / 2)

    def show(self) -> str:
        """``1.7753 (1.7614 to 1.7892)``; one figure where it is exact."""
        if self.low == self.high:
            return f"{self.middle:,.7g}"
        middle = significant(self.middle, 5)
        low, high = significant(float(self.low), 5), significant(float(self.high), 5)
        return middle if low == high else f"{middle} ({low} to {high})"


def exactly(value: float | Fraction) -> Interval:
    """One value alone."""
    return Interval(Fraction(value), Fraction(value))


def printed(value: Printed, where: str) -> Interval:
    """``"$0.7451"``, ``"48.5%"``, ``"1.94x"``, ``1342077``. Raises AskError.

    Half a unit of the last digit to both sides, a whole one after ``~``. A whole number of four
    digits or more that ends in zeros may have been rounded there, up to its first two digits.
    """
    middle, unit, is_about = _parts(value, where)
    reach = unit if is_about else unit / 2
    return Interval(middle - reach, middle + reach)


def positive(value: Printed, where: str) -> Interval:
    """The same for what is above zero. Raises AskError."""
    found = printed(value, where)
    middle, _, _ = _parts(value, where)
    if middle <= 0:
        raise AskError(f"{where} is {value!r}; expected a figure above 0")
    return Interval(max(found.low, middle / 2), found.high)


def setting(value: Printed, where: str) -> Interval:
    """What was chosen and not measured is exact. Raises AskError."""
    middle, _, _ = _parts(value, where)
    if middle <= 0:
        raise AskError(f"{where} is {value!r}; expected a figure above 0")
    return exactly(middle)


def share(value: Printed, where: str) -> Interval:
    """``"27.5%"`` or ``0.275``. Raises AskError for 27.5, which could be either."""
    found = printed(value, where)
    if str(value).strip() in ("0", "1"):  # nobody rounds shares to whole ones
        return exactly(int(value))
    if "%" not in str(value) and max(abs(found.low), abs(found.high)) > Fraction(3, 2):
        raise AskError(f'{where} is {value!r}; write "{value}%", or a share from 0 to 1')
    return found


def _parts(value: Printed, where: str) -> tuple[Fraction, Fraction, bool]:
    """Value, unit of the last digit, whether it says "about"."""
    match = _FIGURE.fullmatch(str(value).strip())
    whole, part = (match["whole"] or "", match["part"] or "") if match else ("", "")
    digits = whole.replace(",", "").replace("_", "")
    if match is None or not (digits + part).strip("."):
        raise AskError(
            f"{where} is {value!r}; expected a figure as it is printed, such as 0.7451 or 1.94x"
        )
    scale = _SCALE.get(match["suffix"] or "", Fraction(1)) * Fraction(10) ** int(
        match["exponent"] or 0
    )
    middle = Fraction(f"{digits or '0'}{part if len(part) > 1 else ''}") * scale
    if middle and not _LEAST <= middle <= _MOST:
        raise AskError(f"{where} is {str(value)[:40]!r}, which is no figure of a table")
    unit = scale * Fraction(1, 10 ** max(0, len(part) - 1))
    if not part and match["exponent"] is None and len(digits) > _PLAIN_DIGITS:
        zeros = len(digits) - len(digits.rstrip("0"))
        unit *= 10 ** max(0, min(zeros, len(digits) - _KEPT_DIGITS))
    return (-middle if match["sign"] == "-" else middle), unit, match["about"] is not None
