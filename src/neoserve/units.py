"""Text to SI numbers and back. The only module that reads or prints units."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from .errors import AskError

KIB, MIB, GIB, TIB = 1024, 1024**2, 1024**3, 1024**4

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s]\S*)?\s*")

_DURATIONS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0,
              "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}  # fmt: skip
_BYTES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
          "kib": KIB, "mib": MIB, "gib": GIB, "tib": TIB}  # fmt: skip
_COUNTS = {"": 1, "k": 1000, "m": 10**6, "g": 10**9, "b": 10**9, "ki": KIB, "mi": MIB}


def _split(text: str, kind: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise AskError(f"{kind} {text!r} is not a number with a unit, for example {example}")
    value = float(match.group(1).replace("_", "").replace(",", ""))
    if not math.isfinite(value):
        raise AskError(f"{kind} {text!r} is not finite; give a value such as {example}")
    return value, (match.group(2) or "")


def _scaled(text: str, kind: str, units: Mapping[str, float], example: str) -> float:
    value, unit = _split(text, kind, example)
    scale = units.get(unit.lower())
    if scale is None:
        known = ", ".join(u for u in units if u)
        raise AskError(f"{kind} {text!r} has unknown unit {unit!r}; known: {known}")
    if value < 0:
        raise AskError(f"{kind} {text!r} is negative; give a value such as {example}")
    return value * scale


def parse_duration_s(text: str) -> float:
    """``"300ms"`` → 0.3; a bare number is seconds. Raises AskError."""
    return _scaled(text, "duration", _DURATIONS, "300ms")


def parse_bytes(text: str) -> int:
    """``"24GiB"`` → 25769803776; 1 GB is 10^9. Raises AskError."""
    return round(_scaled(text, "size", _BYTES, "24GiB"))


def parse_tokens(text: str) -> int:
    """``"8k"`` → 8000 and ``"8Ki"`` → 8192, as vLLM reads its own flags. Raises AskError."""
    value = _scaled(text, "count", _COUNTS, "8192")
    if value != int(value):
        raise AskError(f"count {text!r} is not a whole number; give one such as 8192")
    return int(value)


def parse_share(text: str) -> float:
    """``"4%"`` or ``"0.04"`` → 0.04. Raises AskError outside 0..1."""
    value, unit = _split(text, "share", "0.5 or 50%")
    if unit not in ("", "%"):
        raise AskError(f"share {text!r} has unknown unit {unit!r}; give 0.5 or 50%")
    share = value / 100 if unit == "%" else value
    if not 0 <= share <= 1:
        raise AskError(f"share {text!r} is outside 0..1; give 0.5 or 50%")
    return share


def show_duration(seconds: float | None) -> str:
    """0.0123 → ``"12.3 ms"``; None, a queue that grows for ever → ``"unbounded"``."""
    if seconds is None or math.isinf(seconds):
        return "unbounded"
    if seconds == 0:
        return "0 s"
    for limit, scale, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"),
                               (7200.0, 1 / 60, "min"), (172800.0, 1 / 3600, "h")):  # fmt: skip
        if seconds < limit:
            return f"{significant(seconds * scale)} {unit}"
    return f"{significant(seconds / 86400)} d"


def show_bytes(num_bytes: float) -> str:
    """25769803776 → ``"24.0 GiB"``."""
    for unit, scale in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(num_bytes) >= scale:
            return f"{significant(num_bytes / scale)} {unit}"
    return f"{num_bytes:.0f} B"


def show_count(value: float) -> str:
    """12,345 with separators; fractions only below ten."""
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2f}"


def show_usd(usd: float) -> str:
    """0.0712 → ``"$0.071"``, 1234.5 → ``"$1,234"``."""
    if abs(usd) >= 100:
        return f"${usd:,.0f}"
    return f"${significant(usd)}"


def significant(value: float, digits: int = 3) -> str:
    """Three significant digits without an exponent: 0.07123 → ``"0.0712"``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    exponent = int(f"{value:.{digits - 1}e}".split("e")[1])  # after rounding: 99.96 is 100
    decimals = max(0, digits - 1 - exponent)
    return f"{value:,.{decimals}f}"


def parse_cpus(text: str) -> list[int]:
    """"0-2,5" → [0, 1, 2, 5]; "" → []. Raises AskError."""
    found: list[int] = []
    for part in text.split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise AskError(f"{text!r} is no list of CPUs; expected one such as 0-3,8")
        found += range(int(first), int(last or first) + 1)
    return found


def show_cpus(cpus: Sequence[int]) -> str:
    """[0, 1, 2, 5] → "0-2,5"; ascending input."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)
