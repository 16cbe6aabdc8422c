"""Make catalog/data/published.json.gz: public points that a cost chart can carry.

Of the rows in tests/data/latency_rows.csv.gz, all with an open licence: those with a throughput,
lengths, and a time to first or per output token.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import msgspec

from neoserve.catalog.hardware import find_machine
from neoserve.errors import AskError
from neoserve.schema.answers import PublishedPoint

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "data" / "latency_rows.csv.gz"
OUT = ROOT / "src" / "neoserve" / "catalog" / "data" / "published.json.gz"


def main() -> None:
    """Write the file; the same rows give the same bytes."""
    with gzip.open(ROWS, "rt") as file:
        points = [point(row) for row in csv.DictReader(file) if fits(row)]
    OUT.write_bytes(gzip.compress(msgspec.json.encode(points), mtime=0))
    print(f"{len(points)} points, {OUT.stat().st_size:,} bytes")


def fits(row: dict[str, str]) -> bool:
    """Has what a point needs."""
    needed = (row["output_tok_s_total"], row["isl"], row["osl"])
    return all(needed) and bool(row["ttft_ms"] or row["tpot_ms"])


def point(row: dict[str, str]) -> PublishedPoint:
    """One row, in SI units."""
    return PublishedPoint(
        id=row["id"],
        model=row["model"],
        hardware=hardware(row["gpu_or_cpu"]),
        num_devices=int(float(row["num_devices"] or 1)),
        engine=row["engine"],
        engine_version=row["engine_version"],
        year=row["measured_year"],
        prompt_tokens=round(float(row["isl"])),
        output_tokens=round(float(row["osl"])),
        concurrency=number(row["concurrency"]),
        rate_rps=number(row["request_rate"]),
        ttft_s=seconds(row["ttft_ms"]),
        ttft_stat=row["ttft_stat"],
        tpot_s=seconds(row["tpot_ms"]),
        tpot_stat=row["tpot_stat"],
        output_tokens_per_s=number(row["output_tok_s_total"]),
        source=row["source"],
        licence=row["licence"],
        source_ref=row["source_ref"],
    )


def hardware(text: str) -> str:
    """The catalog's id, where it knows one."""
    try:
        return find_machine(text).hardware.id
    except AskError:
        return text


def number(text: str) -> float | None:
    """Null where there is none."""
    try:
        return float(text)
    except ValueError:
        return None


def seconds(text: str) -> float | None:
    """From milliseconds."""
    value = number(text)
    return None if value is None else round(value / 1e3, 9)


if __name__ == "__main__":
    main()
