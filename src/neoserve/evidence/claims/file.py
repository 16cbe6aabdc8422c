"""A claims file: TOML with points and comparisons, or CSV with a row for each point."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path
from typing import Any

from ...errors import AskError
from ...schema.claims import ClaimedComparison, ClaimedPoint, Claims

MAX_BYTES = 4 * 2**20  # a table of some ten thousand rows
_COMPARED = ("over", "quantity", "ratio", "saved_share", "saved_usd_per_month")
_WHOLE = ("num_devices", "num_speculative_tokens")


def read_claims(path: Path) -> tuple[Claims, bytes]:
    """The claims and the bytes that were read. Raises AskError."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise AskError(f"{path} has {path.stat().st_size:,} bytes; a claims file has few")
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise AskError(f"claims file {path}: {reason}") from None
    if path.suffix == ".csv":
        return parse_csv(text, path.name), data
    if path.suffix != ".toml":
        raise AskError(f"claims file {path}: expected a name that ends in .toml or .csv")
    return parse_toml(text, path.name), data


def parse_toml(text: str, name: str = "claims file") -> Claims:
    """Raises AskError. Figures keep the digits that are printed: 0.50 is not 0.5."""
    try:
        data = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise AskError(f"{name} is not valid TOML: {error}") from None
    return checked(Claims.parse(data, name), name)


def parse_csv(text: str, name: str = "claims file") -> Claims:
    """Columns are fields of a point; ``over`` names the row that a row is compared with."""
    try:
        rows = list(csv.DictReader(io.StringIO(text), strict=True, restkey="", restval=""))
    except csv.Error as error:
        raise AskError(f"{name} is not valid CSV: {error}") from None
    points, comparisons = [], []
    for number, row in enumerate(rows, start=2):
        where = f"{name} row {number}"
        if "" in row:
            raise AskError(f"{where} has more cells than the header has names")
        cells = {key.strip(): cell.strip() for key, cell in row.items() if cell.strip()}
        compared = {key: cells.pop(key) for key in _COMPARED if key in cells}
        points.append(ClaimedPoint.parse(_typed(cells, where), where))
        if compared:
            volume = {k: v for k, v in cells.items() if k == "tokens_per_month"}
            of = {"of": points[-1].name}
            comparisons.append(ClaimedComparison.parse(of | compared | volume, where))
    return checked(Claims(title=name, points=tuple(points), comparisons=tuple(comparisons)), name)


def _typed(cells: dict[str, str], where: str) -> dict[str, Any]:
    """Cells are text; a few fields are not."""
    found: dict[str, Any] = dict(cells)
    for key in _WHOLE:
        if key in cells:
            if not cells[key].isdigit():
                raise AskError(f"{where}: {key} is {cells[key]!r}; expected a whole number")
            found[key] = int(cells[key])
    if "percentiles" in cells:
        found["percentiles"] = cells["percentiles"].split()
    if "is_capacity" in cells:
        words = {"true": True, "yes": True, "false": False, "no": False}
        if cells["is_capacity"].lower() not in words:
            raise AskError(f"{where}: is_capacity is {cells['is_capacity']!r}; expected yes or no")
        found["is_capacity"] = words[cells["is_capacity"].lower()]
    return found


def checked(claims: Claims, name: str) -> Claims:
    """Names are unique and those that are compared exist. Raises AskError."""
    if not claims.points:
        raise AskError(f"{name} has no points; write each row of the table under [[points]]")
    names = [point.name for point in claims.points]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise AskError(f"{name} has two points named {twice!r}; give each row its own name")
    for point in claims.points:
        devices, drafts = point.num_devices or 1, point.num_speculative_tokens
        if not 1 <= devices <= 10**6 or not 0 <= drafts <= 64:
            raise AskError(
                f"{name}: {point.name} has num_devices {devices} and num_speculative_tokens "
                f"{drafts}; expected 1 to 10^6, and 0 to 64"
            )
    for comparison in claims.comparisons:
        for end in (comparison.of, comparison.over):
            if end not in names:
                raise AskError(
                    f"{name} compares {end!r}, which is none of its points: {', '.join(names)}"
                )
    return claims
