"""Anybody's published table, recomputed: each claim HOLDS, is WRONG, or is UNPROVEN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...schema.claims import ClaimFacts, ClaimReport, Claims, ClaimVerdict
from .bounds import check_bounds
from .comparing import check_comparison
from .counters import check_counters
from .file import parse_csv, parse_toml, read_claims
from .loads import check_load, check_tails
from .money import check_money

__all__ = ["check_claims", "parse_csv", "parse_toml", "read_claims"]


def check_claims(
    claims: Claims,
    facts: Mapping[str, ClaimFacts] | None = None,
    notes: Sequence[str] = (),
    file: str = "",
) -> ClaimReport:
    """Every claim that can be checked, in the order of the file. Raises AskError.

    `facts`: by the name of a point, what catalog and planner know; without them price list,
    roofline and slots are left out.
    """
    known = facts or {}
    found: list[ClaimVerdict] = []
    for point in claims.points:
        beside = known.get(point.name, ClaimFacts())
        found += check_money(point, beside)
        found += check_load(point)
        found += check_tails(point)
        found += check_bounds(point, beside)
        found += check_counters(point, beside)
    points = {point.name: point for point in claims.points}
    for comparison in claims.comparisons:
        found += check_comparison(comparison, points)
    words = [verdict.verdict for verdict in found]
    return ClaimReport(
        title=claims.title, source=claims.source, file=file,
        num_holds=words.count("HOLDS"), num_wrong=words.count("WRONG"),
        num_unproven=words.count("UNPROVEN"), verdicts=tuple(found), notes=tuple(notes),
    )  # fmt: skip
